"""Any files of diffusers give a valid model, or an error with the reason."""

import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as some

from published_diffusion import CLIP_L, DECODERS, DENOISERS, T5_XXL
from rightsizer.model.errors import RequirementError
from rightsizer.planner.models.diffusers import (
    RequestedImage,
    pipeline_parts,
    read_decoder,
    read_denoiser,
    read_text_encoder,
)

MODELS = tuple(denoiser.config for denoiser in DENOISERS.values())
AUTOENCODERS = tuple(config for config, *_ in DECODERS.values())
TEXTS = ((CLIP_L, "CLIPTextModelWithProjection"), (T5_XXL, "T5EncoderModel"))
NAMES = some.sampled_from(
    ["CrossAttnDownBlock2D", "DownBlock2D", "AutoencoderKL", "text_time", "ResBlock", "rms_norm"]
)
ONE = some.one_of(
    some.none(), some.booleans(), some.integers(-2, 10**13), some.floats(), some.text(), NAMES
)
MORE = [
    "only_cross_attention",
    "mid_block_type",
    "quantization_config",
    "guidance_embeds",
    "time_cond_proj_dim",
    "encoder_hid_dim",
    "in_channels",
    "out_channels",
]
VALUES = some.one_of(ONE, some.lists(some.one_of(ONE, some.lists(ONE, max_size=2)), max_size=6))


@some.composite
def changed(draw: some.DrawFn, configs: tuple[dict[str, Any], ...]) -> dict[str, Any]:
    """One of some files, with up to three of its values missing or changed."""
    config = dict(draw(some.sampled_from(configs)))
    for key in draw(some.lists(some.sampled_from([*sorted(config), *MORE]), max_size=3)):
        config[key] = draw(VALUES)
    return config


@given(changed(MODELS), some.one_of(some.none(), some.integers(-1, 10**6)))
def test_a_denoiser_makes_sense_or_is_refused(config: dict[str, Any], image: int | None) -> None:
    """Values are finite and above 0."""
    try:
        model = read_denoiser(config, RequestedImage(image), "").model
    except RequirementError as error:
        assert str(error)  # noqa: PT017 - either outcome will do.
        return
    for figure in (model.parameters, model.forward_flops or 0.0):
        assert math.isfinite(figure)
        assert figure > 0


@given(changed(AUTOENCODERS))
def test_a_decoder_makes_sense_or_is_refused(config: dict[str, Any]) -> None:
    """Values are finite and above 0."""
    try:
        decoder = read_decoder(config)
    except RequirementError:
        return
    assert math.isfinite(decoder.parameters)
    assert decoder.parameters > 0
    assert decoder.scale >= 1


@given(some.sampled_from(TEXTS), some.data())
def test_a_text_encoder_makes_sense_or_is_refused(
    known: tuple[dict[str, Any], str], data: some.DataObject
) -> None:
    """Values are finite and above 0."""
    config, loaded_as = known
    try:
        parameters = read_text_encoder(data.draw(changed((config,))), loaded_as)[0]
    except RequirementError:
        return
    assert math.isfinite(parameters)
    assert parameters > 0


@given(
    some.dictionaries(
        some.one_of(some.sampled_from(["unet", "vae", "text_encoder", "scheduler"]), some.text()),
        VALUES,
    )
)
def test_an_index_makes_sense_or_is_refused(index: dict[str, Any]) -> None:
    """Omitted entries are no parts."""
    try:
        parts = pipeline_parts(index)
    except RequirementError:
        return
    assert {parts.denoiser, *parts.text_encoders, *parts.others} <= index.keys()
