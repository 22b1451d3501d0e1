"""Vision and audio parts of a model: counted, in memory, and not read for generated tokens."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from plan_answers import answer, refusal, requirement_of
from published_multimodal import MULTIMODAL
from rightsizer.catalogue.catalogue import built_in
from rightsizer.model.errors import RequirementError
from rightsizer.planner.models.family import FAMILIES
from rightsizer.planner.models.formulas import formula_rows
from rightsizer.planner.models.hugging_face import read_config
from rightsizer.sizing.forward_pass import ForwardPass
from rightsizer.sizing.models import Transformer, UnreadParameters
from rightsizer.sizing.parameters import NumberFormat, count_parameters
from rightsizer.sizing.requirement import Parallelism, Precisions
from rightsizer.sizing.serving_memory import ServingMemory, weight_bytes
from rightsizer.sizing.serving_settings import ServingModelSettings

GEMMA = MULTIMODAL["gemma-3-4b"].config
TOWER = 419_816_304
"""SigLIP without its head, and Gemma 3's projector."""


def read(name: str) -> Transformer:
    """The model of a published configuration."""
    model = read_config(MULTIMODAL[name].config).model
    assert isinstance(model, Transformer)
    return model


def test_the_whole_model_has_its_published_parameters() -> None:
    """Exact, except for rounded cards (four of them, to three digits)."""
    for name in MULTIMODAL:
        known = MULTIMODAL[name]
        is_rounded = known.parameters % 1e7 == 0
        total = count_parameters(read_config(known.config).model).total

        assert total == pytest.approx(known.parameters, rel=2e-3 if is_rounded else 1e-12), name


def test_all_parts_of_a_known_model_are_counted_and_said() -> None:
    """One sentence has the count, and the part that makes an image's tokens."""
    for name in MULTIMODAL:
        found = read_config(MULTIMODAL[name].config)
        assert isinstance(found.model, Transformer), name
        (note,) = found.notes

        assert f"{found.model.unread.towers:,.0f} parameters" in note, name
        assert "load.input_tokens" in note, name


@pytest.mark.parametrize("name", ["paligemma-3b", "qwen2-audio-7b", "smolvlm2-2.2b"])
def test_a_text_part_that_does_not_name_itself_is_the_usual_one(name: str) -> None:
    """The default is that of the whole's class."""
    config = MULTIMODAL[name].config
    text = {key: value for key, value in config["text_config"].items() if key != "model_type"}

    assert read_config({**config, "text_config": text}) == read_config(config)


def test_layers_of_their_own_are_those_of_families_that_are_known() -> None:
    """Every registered one is reachable from a file."""
    assert set(formula_rows("shapes")) - {"linear_attention"} <= set(FAMILIES)


def test_a_named_network_counts_where_it_is_known() -> None:
    """Gemma 3n's vision part is one of timm's; for another the note says that it is left out."""
    config = MULTIMODAL["gemma-3n-E2B"].config
    other = {**config, "vision_config": {**config["vision_config"], "architecture": "resnet50"}}
    found = read_config(other)

    assert found.notes[1:] == ("vision_config of gemma3n is not counted",)
    assert count_parameters(found.model).total < count_parameters(read("gemma-3n-E2B")).total


@pytest.mark.parametrize(
    "part",
    [{}, {"vision_config": {"vt_hidden_size": 1152, "model_type": "moonvit"}}],
)
def test_a_part_that_is_not_understood_is_said(part: dict[str, Any]) -> None:
    """It counts as nothing, as where a file has no details of it."""
    found = read_config({"model_type": "kimi_vl", "text_config": GEMMA["text_config"], **part})

    assert found.notes == ("only the text part of kimi_vl is counted, without vision and audio",)
    assert count_parameters(found.model).unread == 0


@pytest.mark.parametrize(("key", "value"), [("hidden_size", "wide"), ("patch_size", 0)])
def test_a_value_of_a_tower_that_cannot_be_is_an_error(key: str, value: object) -> None:
    """The error names the key."""
    part = {**GEMMA["vision_config"], key: value}

    with pytest.raises(RequirementError, match=key):
        read_config({**GEMMA, "vision_config": part})


def test_a_tower_takes_memory_and_no_time_of_a_token() -> None:
    """A decode step is that of the text alone; the tower is divided like weights."""
    model = read("gemma-3-4b")
    blind = replace(model, unread=UnreadParameters())
    board = built_in().get("L4")
    seeing, reading = (
        ForwardPass(each, Precisions(), board, Parallelism(), ServingModelSettings()).decode(
            1, 1000
        )
        for each in (model, blind)
    )
    halves = [
        weight_bytes(each, count_parameters(each), NumberFormat.BF16, Parallelism(tensor=2))
        for each in (model, blind)
    ]

    assert seeing == reading
    assert halves[0] - halves[1] == TOWER * 2 / 2


def test_the_first_stage_of_a_pipeline_has_the_tower() -> None:
    """It also has the embedding."""
    model = read("qwen2-vl-7b")
    blind = replace(model, unread=UnreadParameters())
    two = Parallelism(pipeline=2)
    found, without = (
        weight_bytes(each, count_parameters(each), NumberFormat.BF16, two)
        for each in (model, blind)
    )

    assert found - without == pytest.approx(2 * model.unread.towers)


@pytest.mark.parametrize(
    ("quantization", "element"),
    [
        ({"quant_method": "awq", "bits": 4}, 2.0),
        ({"quant_method": "fp8", "modules_to_not_convert": ["vision_tower"]}, 2.0),
        ({"quant_method": "fp8", "modules_to_not_convert": ["lm_head"]}, 1.0),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, 0.5625),
    ],
)
def test_a_tower_stays_in_16_bits_where_it_is_left_out(
    quantization: dict[str, Any], element: float
) -> None:
    """AWQ quantizes the text's layers; other methods all matrices that they do not exclude."""
    found = read_config({**GEMMA, "quantization_config": quantization})
    assert isinstance(found.model, Transformer)
    assert found.weights is not None
    blind = replace(found.model, unread=UnreadParameters())
    whole, text = (
        weight_bytes(each, count_parameters(each), found.weights) for each in (found.model, blind)
    )

    assert whole - text == pytest.approx(TOWER * element)


def test_tables_stay_in_16_bits_beside_quantized_weights() -> None:
    """So does an embedding: Gemma 3n has one for each layer, and a token reads one row."""
    model = read("gemma-3n-E4B")
    tables = 262_144 * 35 * 256
    lean = replace(model, unread=replace(model.unread, tables=0.0))
    whole, without = (
        weight_bytes(each, count_parameters(each), NumberFormat.INT4) for each in (model, lean)
    )

    assert model.unread.tables == tables
    assert whole - without == 2 * tables


def test_parameters_that_are_given_are_those_of_the_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They include the tower; fewer than the tower's own are rejected."""
    (tmp_path / "config.json").write_text(json.dumps(GEMMA))
    asked: dict[str, Any] = {
        "model": {"config": ".", "parameters": 4.4e9},
        "gpus": ["L4"],
        "parallel": {},
    }
    plan = answer(tmp_path / "plan.yaml", json.dumps(asked), capsys)

    assert plan["memory"]["weights_bytes"] == pytest.approx(2 * 4.4e9)

    asked["model"] = {"config": ".", "parameters": 4e8}
    message = refusal(tmp_path / "plan.yaml", json.dumps(asked), capsys)

    assert "vision, audio and tables" in message


def test_weights_in_another_format_leave_the_tower_in_16_bits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Quantized parts are known for the checkpoint's own format only."""
    quantization = {"quant_method": "bitsandbytes", "load_in_4bit": True}
    (tmp_path / "config.json").write_text(
        json.dumps({**GEMMA, "quantization_config": quantization})
    )
    asked = {
        "model": {"config": "."},
        "gpus": ["L4"],
        "parallel": {},
        "precision": {"weights": "fp8"},
    }
    plan = answer(tmp_path / "plan.yaml", json.dumps(asked), capsys)
    text = count_parameters(replace(read("gemma-3-4b"), unread=UnreadParameters()))

    assert plan["memory"]["weights_bytes"] == pytest.approx(
        text.layers + 2 * text.embedding + 2 * TOWER
    )


def test_a_text_encoder_beside_an_unknown_part_is_not_the_model() -> None:
    """Grounding DINO has BERT beside what finds objects."""
    text = {"model_type": "bert", "hidden_size": 768, "intermediate_size": 3072}
    text |= {"num_hidden_layers": 12, "num_attention_heads": 12, "vocab_size": 30522}

    with pytest.raises(RequirementError, match="'grounding-dino' is not known"):
        read_config({"model_type": "grounding-dino", "text_config": text})


@pytest.mark.parametrize(
    ("name", "gibibytes"), [("qwen2.5-vl-72b", 2.5), ("qwen2-vl-72b", 2.5), ("qwen2.5-vl-7b", 2.5)]
)
def test_an_engine_tries_the_largest_image_at_start(name: str, gibibytes: float) -> None:
    """With what the encoder needs for 65,536 patches; one of a fixed size takes little."""
    memory = ServingMemory(requirement_of(model=name, concurrency="1"), Parallelism(tensor=4))
    fixed = ServingMemory(requirement_of(model="gemma-3-27b", concurrency="1"), Parallelism())

    assert memory.at(1.0).activations_bytes / 2**30 == pytest.approx(gibibytes, rel=0.2)
    assert fixed.at(1.0).activations_bytes / 2**30 < 1.5
