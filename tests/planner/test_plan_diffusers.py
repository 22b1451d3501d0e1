"""`rightsizer plan` over the folder of a diffusion pipeline."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from plan_answers import answer, refusal, requirement_of
from published_diffusion import CLIP_L, DECODERS, DENOISERS, T5_XXL
from published_models import PUBLISHED
from rightsizer.sizing.models import Diffusion

FLUX = {
    "model_index.json": {
        "_class_name": "FluxPipeline",
        "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"],
        "text_encoder": ["transformers", "CLIPTextModel"],
        "text_encoder_2": ["transformers", "T5EncoderModel"],
        "tokenizer": ["transformers", "CLIPTokenizer"],
        "transformer": ["diffusers", "FluxTransformer2DModel"],
        "vae": ["diffusers", "AutoencoderKL"],
    },
    "text_encoder/config.json": CLIP_L,
    "text_encoder_2/config.json": T5_XXL,
    "transformer/config.json": DENOISERS["FLUX.1 dev"].config,
    "vae/config.json": DECODERS["FLUX.1"][0],
}
PARAMETERS = 11_901_408_320 + 123_060_480 + 4_762_310_656 + 83_819_683


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    """FLUX.1 dev as written by diffusers, without weights."""
    for name, values in FLUX.items():
        file = tmp_path / "flux" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(values, indent=2), encoding="utf-8")
    return tmp_path / "flux"


def plan_document(config: str, **more: Any) -> str:
    """A plan of a model on two kinds of GPU."""
    gpus = ["H100-SXM5-80GB", "L4"]
    return json.dumps({"model": {"config": config, **more}, "gpus": gpus})


@pytest.mark.parametrize("name", DENOISERS)
def test_the_file_of_a_denoiser_alone_is_planned(name: str, tmp_path: Path) -> None:
    """Whatever its keys, which may be those of other makers' files."""
    file = tmp_path / "config.json"
    file.write_text(json.dumps(DENOISERS[name].config))
    model = requirement_of(model=str(file)).model

    assert isinstance(model, Diffusion)
    assert model.parameters == pytest.approx(DENOISERS[name].parameters, rel=0.01)


@pytest.mark.parametrize("config", ["flux", "flux/model_index.json"])
def test_a_pipeline_is_planned_whole(
    config: str, pipeline: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All its parts are in memory; FLUX fits one H100 in 16 bits, but no L4."""
    text = plan_document(config, image=1024, steps=28, guided=False)
    plan = answer(pipeline.parent / "plan.yaml", text, capsys)

    best, *_ = plan["candidates"]
    assert (best["gpu"], best["count"]) == ("H100-SXM5-80GB", 1)
    assert best["memory"]["weights_bytes"] == pytest.approx(2 * PARAMETERS, rel=1e-4)
    # 28 steps of 74 TFLOP, at half to all of 989 TFLOP/s.
    assert 2.1 < 1 / best["tokens_per_second"] < 6.0
    assert plan["notes"] == []


def test_more_pixels_and_steps_take_longer(
    pipeline: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Default values are noted."""
    file = pipeline.parent / "plan.yaml"
    plans = [
        answer(file, plan_document("flux", **more), capsys)
        for more in ({"image": 2048}, {}, {"image": 512}, {"image": 512, "steps": 4})
    ]
    rates = [plan["candidates"][0]["tokens_per_second"] for plan in plans]

    assert rates == sorted(set(rates))
    (note,) = plans[1]["notes"]
    assert note.startswith(
        "assumed, as usual for this model: images of 1024 by 1024 pixels, 30 steps"
    )


@pytest.mark.parametrize("config", ["flux/transformer", "flux/transformer/config.json"])
def test_a_denoiser_alone_is_read_and_said(
    config: str, pipeline: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its text encoders are elsewhere."""
    text = plan_document(config, image=1024, steps=28, guided=False)
    plan = answer(pipeline.parent / "plan.yaml", text, capsys)

    assert plan["candidates"][0]["memory"]["weights_bytes"] == 2 * (11_901_408_320 + 8.4e7)
    (note,) = plan["notes"]
    assert note.startswith("the denoiser alone is read: text encoders are not counted")


def test_weights_are_those_of_a_quantized_denoiser(
    pipeline: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The other parts stay in 16 bits."""
    quantized = {"quant_method": "bitsandbytes", "load_in_8bit": True}
    config = {**DENOISERS["FLUX.1 dev"].config, "quantization_config": quantized}
    (pipeline / "transformer" / "config.json").write_text(json.dumps(config))
    plan = answer(pipeline.parent / "plan.yaml", plan_document("flux"), capsys)

    beside = 2 * (PARAMETERS - 11_901_408_320)
    weights = plan["candidates"][0]["memory"]["weights_bytes"]
    assert weights - beside == pytest.approx(11_901_408_320, rel=0.05)


def test_uncounted_component_is_named(pipeline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By the folder's name."""
    index = {**FLUX["model_index.json"], "image_encoder": ["transformers", "CLIPVisionModel"]}
    (pipeline / "model_index.json").write_text(json.dumps(index))
    plan = answer(pipeline.parent / "plan.yaml", plan_document("flux", guided=False), capsys)

    assert plan["notes"][-1] == "not counted of the pipeline: image_encoder"


@pytest.mark.parametrize("part", ["text_encoder_2", "transformer", "vae"])
def test_a_part_that_is_missing_is_one_error(
    part: str, pipeline: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It names the file and the remedy."""
    (pipeline / part / "config.json").unlink()
    message = refusal(pipeline.parent / "plan.yaml", plan_document("flux"), capsys)

    assert len(message.splitlines()) == 1
    assert f"{pipeline}/{part}/config.json: no such file" in message
    assert "download those too" in message


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("vae/config.json", "{", "vae/config.json: is no JSON"),
        ("vae/config.json", '{"_class_name": "AutoencoderTiny"}', "'AutoencoderTiny' is no"),
        ("transformer/config.json", "[]", "transformer/config.json: is no JSON object"),
        (
            "transformer/config.json",
            '{"_class_name": "FluxTransformer2DModel"}',
            "transformer/config.json: config.json: in_channels: is missing",
        ),
        (
            "transformer/config.json",
            '{"_class_name": "LTXVideoTransformer3DModel"}',
            "LTXVideoTransformer3DModel makes videos, which are not read; name",
        ),
        (
            "text_encoder/config.json",
            '{"model_type": "nobodys"}',
            "text_encoder/config.json: config.json: model_type: 'nobodys' is not known",
        ),
        ("model_index.json", "{}", "names neither a transformer nor a unet"),
        ("model_index.json", '{"unet": 5, "vae": []}', "names neither a transformer nor a unet"),
    ],
)
def test_a_part_that_is_broken_is_one_error(
    file: str, text: str, message: str, pipeline: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It names the file and its fault."""
    (pipeline / file).write_text(text, encoding="utf-8")
    error = refusal(pipeline.parent / "plan.yaml", plan_document("flux"), capsys)

    assert len(error.splitlines()) == 1
    assert message in error
    assert re.search("kind: diffusion|name the|take the file", error)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"image": 8}, "model.image: 8 pixels are fewer than the 16 of one token"),
        ({"image": 0}, "model.image: 0 pixels are fewer"),
        ({"steps": 0}, "model.steps: 0 is not above 0"),
        ({"guided": "no"}, "model.guided: must be true or false"),
        ({"pixels": 8}, "model.pixels: "),
    ],
)
def test_an_image_that_cannot_be_is_told_of_the_plan(
    more: dict[str, Any], message: str, pipeline: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With its place in the plan, not in the model's files."""
    error = refusal(pipeline.parent / "plan.yaml", plan_document("flux", **more), capsys)

    assert len(error.splitlines()) == 1
    assert message in error
    assert "config.json" not in error


@pytest.mark.parametrize("key", ["image", "steps", "guided"])
def test_a_language_model_makes_no_images(
    key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The key is an error."""
    (tmp_path / "config.json").write_text(json.dumps(PUBLISHED["gpt2"][0]))
    value = False if key == "guided" else 512
    error = refusal(tmp_path / "plan.yaml", plan_document(".", **{key: value}), capsys)

    assert f"model.{key}: is said beside the config of a diffusion model alone" in error
