"""Models by name: a table of published configurations, found by common names."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from plan_answers import requirement_of
from rightsizer.model.errors import UsageError
from rightsizer.model.table import table_rows
from rightsizer.planner.models import known_models
from rightsizer.planner.models.known_models import (
    find_model,
    known_names,
    near_models,
    question_around,
)
from rightsizer.planner.plan_file import plan_of_flags
from rightsizer.sizing.parameters import NumberFormat, count_parameters
from rightsizer.sizing.requirement import Recompute

ROWS: Final = table_rows(known_models.__file__, "known_models.csv")


def rounding(count: float) -> float:
    """Tolerance for two digits on a card, and for omitted modules."""
    is_round = count >= 1e9 and count % 1e8 == 0
    return 0.7 * (1e9 if count % 1e9 == 0 else 1e8) if is_round else 0.0


def test_known_model_has_its_published_parameters() -> None:
    """Within 4 in 1000 of its card or weight index, or within its rounding."""
    assert list(filter(None, map(parameters_fault, ROWS))) == []


def parameters_fault(row: Mapping[str, str]) -> str:
    """What differs from a published model, or is not read of it; empty if it is as published."""
    name = row["name"]
    published = float(row["parameters"])
    known = find_model(name)
    if known is None or known.name != name or not row["source"]:
        return f"{name}: is read as {known and known.name}, of source '{row['source']}'"
    try:
        model = requirement_of(model=name).model
    except UsageError as error:
        return f"{name}: {error}"
    if model.name != name:
        return f"{name}: is planned as {model.name}"
    if known.config.get("model_type") == "clip":
        return ""
    share = 0.02 if "model_index.json" in known.config else 0.004
    near = max(published * share, rounding(published))
    counted = count_parameters(model).total
    is_near = abs(counted - published) <= near
    return "" if is_near else f"{name}: {counted:.0f} are counted, {published:.0f} published"


def read_name(spelled: str) -> tuple[str, str]:
    """Model and weights that a name means; empty if it means none."""
    known = find_model(spelled)
    return (known.name, str(known.weights or "")) if known else ("", "")


def test_model_is_known_by_its_name_on_the_hub() -> None:
    """The organization does not matter, whatever words it has in common with the model."""
    on_hub = [row for row in ROWS if re.fullmatch(r"[\w-]+/[\w.-]+", row["source"])]
    assert len(on_hub) > 100
    models = [(row["source"], row["name"], read_name(row["source"])[0]) for row in on_hub]
    assert [model for model in models if model[1] != model[2]] == []


@pytest.mark.parametrize(
    ("spelled", "name", "weights"),
    [
        ("meta-llama/Llama-3.1-70B-Instruct", "Llama-3.1-70B", None),
        ("meta-llama/Meta-Llama-3.1-70B", "Llama-3.1-70B", None),
        ("llama3.1:70b", "Llama-3.1-70B", None),
        ("Llama 3.1 70B", "Llama-3.1-70B", None),
        ("Qwen/Qwen2.5-7B-Instruct-AWQ", "Qwen2.5-7B", NumberFormat.INT4),
        ("RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8-dynamic", "Llama-3.1-8B", NumberFormat.FP8),
        ("Llama-3.1-8B-Instruct-quantized.w8a8", "Llama-3.1-8B", NumberFormat.INT8),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", "Mixtral-8x7B", None),
        ("google/gemma-3-27b-it", "Gemma-3-27B", None),
        ("openai/gpt-oss-20b", "gpt-oss-20b", None),
        ("bert-base-uncased", "BERT-base", None),
        ("BAAI/bge-large-en-v1.5", "bge-large-en-v1.5", None),
        ("stabilityai/stable-diffusion-xl-base-1.0", "SDXL", None),
        ("ViT-B/16", "ViT-B-16", None),
        ("resnet50", "ResNet-50", None),
        ("yolov8n", "YOLOv8n", None),
        ("Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf", "Llama-3.1-8B", NumberFormat.Q4_K_M),
        ("llama3.1:8b-instruct-q5_K_M", "Llama-3.1-8B", NumberFormat.Q5_K_M),
        ("google/gemma-3-12b-it-qat-q4_0-gguf", "Gemma-3-12B", NumberFormat.Q4_K_M),
        ("llama-3.1-8b-instruct-q8_0", "Llama-3.1-8B", NumberFormat.Q8_0),
        ("cyankiwi/Qwen3-30B-A3B-AWQ-4bit", "Qwen3-30B-A3B", NumberFormat.INT4),
        ("NousResearch/Hermes-3-Llama-3.1-8B", "Llama-3.1-8B", None),
        ("deepseek-ai/DeepSeek-R1-0528-Qwen3-8B", "Qwen3-8B", None),
        ("deepseek-ai/DeepSeek-V3.1-Terminus", "DeepSeek-V3", None),
        ("Systran/faster-whisper-large-v3", "whisper-large-v3", None),
        ("microsoft/Phi-4-reasoning-plus", "Phi-4", None),
        ("Qwen/Qwen3-Embedding-8B", "Qwen3-8B", None),
    ],
)
def test_model_is_found_by_any_of_its_spellings(
    spelled: str, name: str, weights: NumberFormat | None
) -> None:
    """Organization, case and punctuation do not matter, and a suffix sets the format."""
    known = find_model(spelled)

    assert known is not None
    assert (known.name, known.weights) == (name, weights)


def test_a_name_is_read_as_a_reader_of_model_cards_would() -> None:
    """Tags of Ollama, hosts and checkpoints, finetunes, and names that nothing may be read into."""
    rows = table_rows(__file__, "model_names.csv")
    models = [(row["spelled"], (row["model"], row["weights"])) for row in rows]
    names = [(spelled, model, read_name(spelled)) for spelled, model in models]
    assert [name for name in names if name[1] != name[2]] == []


def test_another_size_or_version_is_another_model() -> None:
    """Each number of a name that states a size, the parameters at work or a version, changed."""
    stated_numbers = re.compile(r"(?<=-)([AV]?)(\d+)([bm.])", re.IGNORECASE)
    pairs = ((name, stated) for name in known_names() for stated in stated_numbers.finditer(name))
    others = [
        (name, f"{name[: stated.start(2)]}{int(stated[2]) + 1000}{name[stated.end(2) :]}")
        for name, stated in pairs
        if stated[1].lower() == "v" or stated[3].lower() in {"b", "m"}
    ]
    assert len(others) > 100
    assert [other for name, other in others if read_name(other)[0] == name] == []


@pytest.mark.parametrize(
    "spelled", ["resnet-1001", "resnet-101001", "Qwen3-30B-A4B", "Mistral Large 2001"]
)
def test_a_number_that_is_no_date_is_not_dropped(spelled: str) -> None:
    """It may be a size."""
    assert find_model(spelled) is None


@pytest.mark.parametrize(
    ("asked", "question"),
    [
        ("Llama 3 8B on 4 H100", "on 4 H100"),
        ("Mistral 7B with int8", "with int8"),
        ("qwen3-8b at 10 requests/s", "at 10 requests/s"),
        ("qwen3-8b 10 requests/s", "10 requests/s"),
        ("whisper-large-v3 100 streams", "100 streams"),
        ("gpt-oss-120b 2x H200", "2x H200"),
        ("llama-3-70b lora 1B tokens by friday", "lora 1B tokens by friday"),
        ("fine-tune llama-3-70b", "fine-tune"),
        ("8xh100 llama-3.1-70b", "8xh100"),
        ("8 x h100 llama-3.1-70b", "8 x h100"),
        ("h100 llama-3.1-70b", "h100"),
        ("serve on 4 a100-80gb llama-3.1-70b", "serve on 4 a100-80gb"),
        ("100 users llama-3.1-70b", "100 users"),
        ("10 rps  llama-3.1-8b", "10 rps"),
        ("10 requests/s llama-3.1-8b", "10 requests/s"),
        ("llama-3.1-8b h100", "h100"),
        ("llama-3.1-8b fp8 2 x l40s", "2 x l40s"),
        ("llama-3.1-8b 128k context", "128k context"),
        ("llama-3.1-8b batch 32", "batch 32"),
        ("llama-3.1-8b and qwen2.5-7b", "and qwen2.5-7b"),
        ("llama-3.1-8b vs qwen2.5-7b", "vs qwen2.5-7b"),
    ],
)
def test_words_of_a_question_are_never_dropped(asked: str, question: str) -> None:
    """They are named, with the flags that say the same."""
    with pytest.raises(UsageError, match=f"'{question}' is no part of the name.*--gpus"):
        plan_of_flags({"model": asked})


@pytest.mark.parametrize(
    "name",
    [
        "Llama 3.1 8B Instruct",
        "llama 2 7b chat",
        "phi 3 mini",
        "stable diffusion 3 medium",
        "command r plus",
        "mixtral 8x7b int4",
        "yolo 11 s",
        "Qwen3 30B A3B",
    ],
)
def test_a_name_with_spaces_is_a_name(name: str) -> None:
    """Its numbers are of no board and of no load."""
    assert question_around(name) == ""
    assert find_model(name) is not None


def test_no_name_of_the_table_has_words_of_a_question() -> None:
    """However it is typed."""
    spaced = [re.sub(r"[-_ :/]", " ", name) for name in known_names()]
    assert [name for name in spaced if question_around(name)] == []


def test_weights_of_an_unsaid_format_are_told() -> None:
    """EXL2 or MLX may be of any width."""
    for spelled in ("Llama-3.1-70B-exl2", "Llama-3.1-70B-GGUF", "Llama-3.1-70B-3bit"):
        known = find_model(spelled)
        assert known is not None
        (note,) = known.notes

        assert "give precision" in note


def test_a_name_that_embeds_reads_alone() -> None:
    """Wherever the word stands, and also where the row has an encoder."""
    embedding = ("Qwen3-Embedding-8B", "stella-en-1.5b-embedding", "nvidia/llama-embed-8b")
    for spelled in (*embedding, "NovaSearch/stella_en_1.5B_v5", "vidore/colqwen2.5-v0.2"):
        known = find_model(spelled)
        assert known is not None
        assert known.is_reader, spelled


@pytest.mark.parametrize(
    "spelled", ["llama-3.1-71b", "gpt-5", "deepseek-v9", "yolo-v3", "nosuch", "", "70B"]
)
def test_name_of_no_known_model_is_none(spelled: str) -> None:
    """An unknown size of a family is not taken for a known one."""
    assert find_model(spelled) is None


@pytest.mark.parametrize(
    ("name", "is_of_its_maker_alone"),
    [
        ("claude-sonnet-4-5", True),
        ("gemini-1.5-flash-8b", True),
        ("sonar-pro", True),
        ("qwen-vl-max", True),
        ("mistral-medium-3", True),
        ("copilot", True),
        ("copilot-llama-8b", False),
        ("sonar-llama", False),
        ("claude-distill-qwen3-8b", False),
        ("gemini-flash-gemma3-12b", False),
    ],
)
def test_an_open_model_tuned_on_a_closed_one_is_open(
    name: str, *, is_of_its_maker_alone: bool
) -> None:
    """A later word names its family."""
    assert known_models.is_closed(name) is is_of_its_maker_alone


def test_name_of_nothing_alike_has_no_neighbor() -> None:
    """A shared last word does not make a text model similar to a vision model."""
    assert near_models("sam2-hiera-large") == []
    assert near_models("starcoder2-8b")[0].startswith("StarCoder2")
    known = find_model("bge-large")
    assert known is not None
    assert known.notes == ()


@pytest.mark.parametrize(
    ("algorithm", "weights"),
    [
        ("NVFP4", NumberFormat.NVFP4),
        ("FP8", NumberFormat.FP8),
        ("MIXED_PRECISION", NumberFormat.NVFP4),
    ],
)
def test_format_is_read_from_the_file_beside_a_configuration(
    algorithm: str, weights: NumberFormat, tmp_path: Path
) -> None:
    """As written by NVIDIA's Model Optimizer; the folder's name is the model's."""
    shape = {"hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 36}
    heads = {"num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 151936}
    folder = tmp_path / f"Qwen3-8B-{algorithm}"
    folder.mkdir()
    written = {"model_type": "qwen3", **shape, **heads, "torch_dtype": "bfloat16"}
    (folder / "config.json").write_text(json.dumps(written), encoding="utf-8")
    layers = {
        "model.layers.0.self_attn.q_proj": {"quant_algo": "FP8"},
        "model.layers.0.mlp.up_proj": {"quant_algo": "W4A16_NVFP4"},
        "lm_head": {"quant_algo": "FP8"},
    }
    beside = {"quant_algo": algorithm, "quantized_layers": layers, "exclude_modules": ["mtp"]}
    quantized = json.dumps({"producer": {"name": "modelopt"}, "quantization": beside})
    (folder / "hf_quant_config.json").write_text(quantized, encoding="utf-8")
    requirement = requirement_of(model=str(folder))

    assert requirement.precision.weights is weights
    assert requirement.model.name == folder.name


def test_the_file_of_an_adapter_means_its_base(tmp_path: Path) -> None:
    """As a folder; a base that no name is known of is an error that names it."""
    file = tmp_path / "adapter_config.json"
    file.write_text(json.dumps({"base_model_name_or_path": "meta-llama/Llama-3.1-8B", "r": 16}))
    assert requirement_of(model=str(tmp_path)).model.name == "Llama-3.1-8B"

    file.write_text(json.dumps({"base_model_name_or_path": "someone/unheard-of"}))
    with pytest.raises(UsageError, match="adapts 'someone/unheard-of'"):
        requirement_of(model=str(tmp_path))


def test_parameters_of_mistral_are_read_by_their_own_keys(tmp_path: Path) -> None:
    """Mistral 7B and Mixtral 8x7B, as their makers publish them."""
    shape = {"dim": 4096, "n_layers": 32, "head_dim": 128, "hidden_dim": 14336, "n_heads": 32}
    dense = {**shape, "n_kv_heads": 8, "norm_eps": 1e-05, "vocab_size": 32000}
    file = tmp_path / "params.json"
    file.write_text(json.dumps(dense))
    assert count_parameters(requirement_of(model=str(tmp_path)).model).total == 7_241_732_096

    mixture = {**dense, "moe": {"num_experts": 8, "num_experts_per_tok": 2}}
    file.write_text(json.dumps(mixture))
    assert count_parameters(requirement_of(model=str(file)).model).total == 46_702_792_704


def test_a_file_of_weights_is_read_by_its_name(tmp_path: Path) -> None:
    """GGUF has the shape too, but the name tells it, and the format."""
    file = tmp_path / "Llama-3.2-3B-Instruct-Q4_K_M.gguf"
    file.write_bytes(b"GGUF\3")
    requirement = requirement_of(model=str(file))

    assert requirement.model.name == "Llama-3.2-3B"
    assert requirement.precision.weights is NumberFormat.Q4_K_M


def test_training_takes_what_is_usual_for_the_model() -> None:
    """Its own length, images enough to fill a GPU, and QLoRA's library defaults."""
    bert = plan_of_flags({"model": "bert-base", "train": "full"}).items[0]
    assert bert.requirement is not None
    training = bert.requirement.training
    assert (training.sequence, training.micro_batch) == (512, 4)
    assert any("sequences of 512 tokens are assumed" in note for note in bert.notes)
    assert requirement_of(model="resnet-50", train="full").training.micro_batch == 32
    assert requirement_of(model="llama-3.1-8b", train="full").training.micro_batch == 1
    assert requirement_of(model="llama-3.1-8b", train="qlora").training.recompute is Recompute.FULL
    assert requirement_of(model="llama-3.1-8b", train="full").training.recompute is Recompute.NONE
