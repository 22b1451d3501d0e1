"""Files of diffusers: counted values, and rejected ones."""

from typing import Any

import pytest
from msgspec.structs import replace

from published_diffusion import CLIP_L, DECODERS, DENOISERS, T5_XXL
from rightsizer.model.errors import RequirementError
from rightsizer.planner.models.diffusers import (
    LatentDecoder,
    RequestedImage,
    pipeline_parts,
    read_decoder,
    read_denoiser,
    read_text_encoder,
)
from rightsizer.sizing.parameters import NumberFormat

UNET = DENOISERS["Stable Diffusion 1.5"].config
ANY = RequestedImage()


@pytest.mark.parametrize("name", DENOISERS)
def test_a_denoiser_has_its_published_parameters(name: str) -> None:
    """The count is exact for diffusers, and within 2% of rounded model cards."""
    known = DENOISERS[name]
    model = read_denoiser(known.config, ANY, "").model

    assert model.parameters == known.parameters
    assert model.parameters == pytest.approx(known.card, rel=0.02)


def test_tables_that_a_library_repeats_are_counted_as_often() -> None:
    """DiT-XL/2 has 675 million in its paper, where all blocks share classes and times."""
    parameters = read_denoiser(DENOISERS["DiT-XL/2"].config, ANY, "").model.parameters
    width = 1152
    classes = 1001
    times = 256
    repeated = 27 * width * (classes + times + 1 + width + 1)

    assert parameters - repeated == pytest.approx(675e6, rel=0.001)


@pytest.mark.parametrize("name", DENOISERS)
def test_a_step_takes_what_was_counted_while_it_ran(name: str) -> None:
    """The image size is the one that the model was made for."""
    known = DENOISERS[name]
    model = read_denoiser(known.config, ANY, "").model

    assert model.image == known.image
    assert model.forward_flops == pytest.approx(known.flops, rel=1e-4)


@pytest.mark.parametrize(
    ("name", "multiply_adds"), [("Stable Diffusion 1.5", 0.4e12), ("DiT-XL/2", 118.6e9)]
)
def test_a_step_takes_what_was_published(name: str, multiply_adds: float) -> None:
    """Papers count a multiply-add as one."""
    flops = read_denoiser(DENOISERS[name].config, ANY, "").model.forward_flops or 0.0

    assert flops / 2 == pytest.approx(multiply_adds, rel=0.01)


@pytest.mark.parametrize("name", DENOISERS)
def test_a_larger_image_takes_more_than_its_pixels(name: str) -> None:
    """Convolutions and matrices scale with pixels, attention with their square, text not at all."""
    known = DENOISERS[name]
    small = read_denoiser(known.config, RequestedImage(image=512), "").model
    large = read_denoiser(known.config, RequestedImage(image=1024), "").model

    assert large.parameters == small.parameters
    assert 2.0 < (large.forward_flops or 0.0) / (small.forward_flops or 1.0) < 16.0


def test_odd_sizes_round_up_on_the_way_down() -> None:
    """Strided convolutions do so: the estimate is never too low."""
    flops = [
        read_denoiser(UNET, RequestedImage(image=pixels), "").model.forward_flops or 0.0
        for pixels in (512, 520, 576)
    ]

    assert flops == sorted(set(flops))


@pytest.mark.parametrize("name", DECODERS)
def test_a_decoder_has_its_published_parameters(name: str) -> None:
    """It includes the encoder, as pipelines load it."""
    config, parameters, scale = DECODERS[name]

    found = read_decoder(config)

    assert found.scale == scale
    assert found.parameters == pytest.approx(parameters, rel=0.01)


@pytest.mark.parametrize(
    ("config", "loaded_as", "parameters"),
    [
        (CLIP_L, "CLIPTextModel", 123_060_480),
        (
            {
                **CLIP_L,
                "hidden_size": 1280,
                "intermediate_size": 5120,
                "num_hidden_layers": 32,
                "num_attention_heads": 20,
                "projection_dim": 1280,
            },
            "CLIPTextModelWithProjection",
            694_659_840,
        ),
        (T5_XXL, "T5EncoderModel", 4_762_310_656),
        (
            {**T5_XXL, "model_type": "umt5", "d_model": 2048, "d_ff": 5120, "num_heads": 32},
            "UMT5EncoderModel",
            1_223_550_976,
        ),
    ],
)
def test_a_text_encoder_counts_as_far_as_it_is_loaded(
    config: dict[str, Any], loaded_as: str, parameters: int
) -> None:
    """T5 counts without its decoder, CLIP with its class's projection: transformers 5."""
    assert read_text_encoder(config, loaded_as)[0] == parameters


def test_a_head_that_is_not_loaded_is_not_counted() -> None:
    """The pipeline's class decides: LlamaModel has none."""
    llama = {
        "model_type": "llama",
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
    }
    whole = read_text_encoder(llama, "LlamaForCausalLM")[0]

    assert whole == 8_030_261_248
    assert read_text_encoder(llama, "LlamaModel")[0] == whole - 128256 * 4096


@pytest.mark.parametrize(
    ("name", "more", "guided"),
    [
        ("Stable Diffusion 1.5", {}, True),
        ("Stable Diffusion 1.5", {"time_cond_proj_dim": 256}, False),
        ("FLUX.1 dev", {"guidance_embeds": False}, False),
        ("Sana 1.6B", {"guidance_embeds": True}, False),
        ("Qwen-Image", {}, True),
    ],
)
def test_guidance_is_twice_the_work_unless_it_was_taught(
    name: str, more: dict[str, Any], *, guided: bool
) -> None:
    """Latent consistency models, FLUX and Sana-Sprint include it in one pass."""
    config = {**DENOISERS[name].config, **more}

    assert read_denoiser(config, ANY, "").model.guided is guided


def test_stated_values_of_a_plan_take_precedence() -> None:
    """No note is left."""
    read = read_denoiser(UNET, RequestedImage(768, 4, guided=False), "painter")

    assert (read.model.image, read.model.steps, read.model.guided) == (768, 4, False)
    assert (read.model.name, read.notes) == ("painter", ())


def test_defaults_of_a_plan_are_reported() -> None:
    """The note has the assumed value, and the key that changes it."""
    (note,) = read_denoiser(UNET, RequestedImage(steps=4), "").notes

    assert note == (
        "assumed, as usual for this model: images of 512 by 512 pixels, each step run twice, with"
        " and without the prompt; give image, guided beside config where it is otherwise"
    )


@pytest.mark.parametrize(
    ("new", "norm_type"),
    [("PixArt Alpha", "ada_norm_single"), ("DiT-XL/2", "ada_norm_zero")],
)
def test_files_older_than_their_class_are_read(new: str, norm_type: str) -> None:
    """They name the class that both came from."""
    known = DENOISERS[new]
    old = {**known.config, "_class_name": "Transformer2DModel", "norm_type": norm_type}

    assert read_denoiser(old, ANY, "").model.parameters == known.parameters


def test_the_scale_of_the_decoder_counts() -> None:
    """Twice the scale gives a quarter of the latents."""
    near = read_denoiser(UNET, RequestedImage(512), "", LatentDecoder(1e8, 8)).model
    far = read_denoiser(UNET, RequestedImage(1024), "", LatentDecoder(1e8, 16)).model

    assert replace(far, image=512, latent_scale=8) == near


def test_a_quantized_denoiser_is_read_as_one() -> None:
    """The file is the one that bitsandbytes writes."""
    config = {**UNET, "quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True}}

    assert read_denoiser(config, ANY, "").weights is NumberFormat.NF4


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"_class_name": "AutoencoderKL"}, r"'AutoencoderKL' is no denoiser.*whole pipeline"),
        ({"_class_name": "WanTransformer3DModel"}, r"WanTransformer3DModel makes videos.*kind:"),
        ({"_class_name": "HunyuanVideoTransformer3DModel"}, "makes videos"),
        ({"_class_name": "UNetSpatioTemporalConditionModel"}, "makes videos"),
        ({"down_block_types": ["AttnDownBlock2D"] * 4}, "down_block_types: .*not counted.*kind:"),
        ({"up_block_types": ["UpBlock2D"]}, "up_block_types: .*one for each"),
        (
            {"mid_block_type": "UNetMidBlock2DSimpleCrossAttn"},
            "mid_block_type: .*not counted.*kind:",
        ),
        (
            {"only_cross_attention": [True, True, True, False]},
            "only_cross_attention: .*not counted",
        ),
        ({"encoder_hid_dim_type": "image_proj"}, "encoder_hid_dim_type: 'image_proj'"),
        ({"block_out_channels": []}, "block_out_channels: has 0 entries"),
        ({"block_out_channels": [320, "640", 1280, 1280]}, "block_out_channels: '640'"),
        ({"block_out_channels": None}, "block_out_channels: is no list"),
        ({"layers_per_block": [2, 2]}, "layers_per_block: has 2 entries, not 4"),
        ({"sample_size": "64"}, "sample_size: '64' is not a whole number"),
    ],
)
def test_uncountable_value_is_refused_by_its_key(more: dict[str, Any], message: str) -> None:
    """It is never counted as something else."""
    with pytest.raises(RequirementError, match=message):
        read_denoiser({**UNET, **more}, ANY, "")


@pytest.mark.parametrize("name", DENOISERS)
def test_a_file_without_its_keys_is_refused(name: str) -> None:
    """The error names the missing key."""
    kind = DENOISERS[name].config["_class_name"]

    with pytest.raises(RequirementError, match=r"^config\.json: [a-z_]+: is "):
        read_denoiser({"_class_name": kind}, ANY, "")


def test_an_unknown_decoder_is_refused_with_the_known_ones() -> None:
    """The error says what to give instead."""
    with pytest.raises(RequirementError, match=r"'AutoencoderTiny'.*decoder_parameters.*KL"):
        read_decoder({"_class_name": "AutoencoderTiny"})


def test_parts_are_reported_by_their_names() -> None:
    """Entries without weights, and omitted ones, are no parts."""
    parts = pipeline_parts(
        {
            "_class_name": "StableDiffusion3Pipeline",
            "requires_safety_checker": True,
            "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"],
            "tokenizer_2": ["transformers", "CLIPTokenizer"],
            "feature_extractor": ["transformers", "CLIPImageProcessor"],
            "safety_checker": ["stable_diffusion", "StableDiffusionSafetyChecker"],
            "text_encoder": ["transformers", "CLIPTextModelWithProjection"],
            "text_encoder_3": [None, None],
            "transformer": ["diffusers", "SD3Transformer2DModel"],
            "vae": ["diffusers", "AutoencoderKL"],
        }
    )

    assert parts.denoiser == "transformer"
    assert parts.text_encoders == {"text_encoder": "CLIPTextModelWithProjection"}
    assert parts.others == ("safety_checker",)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ({"prior": ["diffusers", "PriorTransformer"]}, "neither a transformer nor a unet"),
        ({"unet": ["diffusers", "UNet2DConditionModel"]}, "vae: is missing"),
        ({"unet": [None, None], "vae": ["diffusers", "AutoencoderKL"]}, "neither"),
    ],
)
def test_a_pipeline_of_another_kind_is_refused(index: dict[str, Any], message: str) -> None:
    """The error says what to give instead."""
    with pytest.raises(RequirementError, match=f"{message}.*kind: diffusion"):
        pipeline_parts(index)
