"""Headers and indexes of checkpoints beside a `config.json`: bytes, types, and unknown families."""

import json
from pathlib import Path
from typing import Any

import pytest

from plan_answers import requirement_of
from rightsizer.model.errors import UsageError
from rightsizer.planner.models.checkpoint_tensors import CheckpointTensors, read_tensors
from rightsizer.planner.plan_file import plan_of_keys
from rightsizer.sizing.models import Transformer
from rightsizer.sizing.parameters import NumberFormat, count_parameters
from rightsizer.sizing.requirement import Parallelism
from rightsizer.sizing.serving_memory import ServingMemory

GIB = 2.0**30
SHAPE = {
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "torch_dtype": "bfloat16",
}
PARTLY: dict[str, Any] = {
    **SHAPE,
    "model_type": "llama",
    "hidden_size": 16384,
    "intermediate_size": 53248,
    "num_hidden_layers": 126,
    "num_attention_heads": 128,
    "quantization_config": {"quant_method": "fbgemm_fp8"},
}


def checkpoint(folder: Path, config: dict[str, Any], index: dict[str, Any] | None = None) -> Path:
    """A folder as the hub has it, with an index of its tensors."""
    (folder / "config.json").write_text(json.dumps(config))
    if index is not None:
        text = json.dumps({"metadata": index, "weight_map": {}})
        (folder / "model.safetensors.index.json").write_text(text)
    return folder


def header(file: Path, tensors: dict[str, tuple[str, list[int], int]]) -> None:
    """A file of tensors without their values: name, then type, shape and bytes."""
    place = 0
    entries: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    for name, (kind, shape, size) in tensors.items():
        entries[name] = {"dtype": kind, "shape": shape, "data_offsets": [place, place + size]}
        place += size
    text = json.dumps(entries).encode()
    file.write_bytes(len(text).to_bytes(8, "little") + text)


def test_headers_say_what_is_stored(tmp_path: Path) -> None:
    """Attention in 16 bits beside the rest in 8, over two files."""
    header(
        tmp_path / "model-00001-of-00002.safetensors",
        {
            "model.layers.0.self_attn.q_proj.weight": ("BF16", [8, 8], 128),
            "model.layers.0.mlp.up_proj.weight": ("F8_E4M3", [8, 8], 64),
        },
    )
    header(
        tmp_path / "model-00002-of-00002.safetensors",
        {"model.layers.0.mlp.down_proj.weight": ("F8_E4M3", [8, 8], 64)},
    )
    assert read_tensors(tmp_path) == CheckpointTensors(256.0, 192.0, has_wide_attention=True)


@pytest.mark.parametrize(
    "content", [b"", b"version https://git-lfs.github.com/spec/v1\n", b"\0" * 9]
)
def test_files_without_a_header_say_nothing(tmp_path: Path, content: bytes) -> None:
    """Such as pointers of Git LFS."""
    (tmp_path / "model.safetensors").write_bytes(content)
    assert read_tensors(tmp_path) is None


def test_copies_and_half_downloads_are_not_counted(tmp_path: Path) -> None:
    """The index has the whole where a file is missing; Mistral's own file holds the same again."""
    weights = {"model.layers.0.mlp.up_proj.weight": ("BF16", [8, 8], 128)}
    header(tmp_path / "model-00001-of-00002.safetensors", weights)
    header(tmp_path / "consolidated.safetensors", weights)
    assert read_tensors(tmp_path) is None

    checkpoint(tmp_path, SHAPE, {"total_size": 256})
    assert read_tensors(tmp_path) == CheckpointTensors(256.0)

    header(tmp_path / "model-00002-of-00002.safetensors", weights)
    assert read_tensors(tmp_path) == CheckpointTensors(256.0, 128.0)


def test_partly_quantized_weights_are_as_large_as_they_are_stored(tmp_path: Path) -> None:
    """Llama 3.1 405B in fp8 with attention in 16 bits: 57.8 GiB a GPU of eight."""
    folder = checkpoint(tmp_path, PARTLY, {"total_size": 8 * 57.8 * GIB})
    requirement = requirement_of(model=str(folder))
    memory = ServingMemory(requirement, Parallelism(tensor=8))

    assert requirement.precision.weights is NumberFormat.FP8
    assert memory.weights_bytes / GIB == pytest.approx(57.8, rel=0.001)


def test_another_format_is_not_what_is_stored(tmp_path: Path) -> None:
    """Quantized otherwise, the shape says how much it takes."""
    folder = checkpoint(tmp_path, PARTLY, {"total_size": 8 * 57.8 * GIB})
    model = requirement_of(model=str(folder), precision="bf16").model

    assert isinstance(model, Transformer)
    assert model.stored_bytes is None


def test_an_unknown_family_with_an_index_is_a_decoder(tmp_path: Path) -> None:
    """With a note, and the parameters of its checkpoint."""
    config = {**SHAPE, "model_type": "llama-of-tomorrow"}
    folder = checkpoint(tmp_path, config, {"total_size": 16.5e9})
    (item,) = plan_of_keys({"model": {"config": str(folder)}}).items
    assert item.requirement is not None
    model = item.requirement.model

    assert isinstance(model, Transformer)
    assert (model.layers, model.kv_heads) == (32, 8)
    assert count_parameters(model).total == pytest.approx(8.25e9, rel=1e-6)
    assert any("'llama-of-tomorrow' is not known: taken as a decoder" in n for n in item.notes)


def test_an_unknown_mixture_with_an_index_keeps_its_experts(tmp_path: Path) -> None:
    """Inside of a part for texts too."""
    text = {**SHAPE, "num_experts": 64, "num_experts_per_tok": 4, "moe_intermediate_size": 1024}
    config = {"model_type": "seer", "text_config": {**text, "model_type": "seer_text"}}
    folder = checkpoint(tmp_path, config, {"total_size": 60e9, "total_parameters": 30e9})
    model = requirement_of(model=str(folder)).model

    assert isinstance(model, Transformer)
    assert (model.experts, model.experts_per_token) == (64, 4)
    assert count_parameters(model).total == pytest.approx(30e9)


def test_an_unknown_family_alone_is_still_refused(tmp_path: Path) -> None:
    """Nothing says how large it is."""
    folder = checkpoint(tmp_path, {**SHAPE, "model_type": "llama-of-tomorrow"})
    with pytest.raises(UsageError, match="'llama-of-tomorrow' is not known"):
        requirement_of(model=str(folder))
