"""Rows of `memory_truth.csv`: what was measured, and which estimate answers it.

`component` says what a figure is. What a row does not tell of the run (recomputation, loss,
optimizer) is what its source's recipe uses; rows whose recipe cannot be told are left out.
"""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.planner.transformer_shape import TransformerDescription, completed_shape
from rightsizer.sizing.load import RequestLoad
from rightsizer.sizing.memory_estimate import MemoryEstimate
from rightsizer.sizing.parameters import NumberFormat
from rightsizer.sizing.requirement import (
    Lora,
    ModelTask,
    Optimizer,
    Parallelism,
    Precisions,
    Recompute,
    Requirement,
    Training,
)
from rightsizer.sizing.settings import MemorySettings
from sized import estimate_memory

GIB: Final = 2.0**30
_ALLOCATED: Final = MemorySettings(
    context_bytes=0.0,
    communication_pair_bytes=0.0,
    communication_group_bytes=0.0,
    fragmentation_ratio=0.0,
)
"""What an allocator counts as in use: neither context nor fragments."""
_RESERVED: Final = replace(_ALLOCATED, fragmentation_ratio=MemorySettings().fragmentation_ratio)
_FORMATS: Final = {
    "bf16": NumberFormat.BF16,
    "fp16": NumberFormat.FP16,
    "F16": NumberFormat.FP16,
    "fp8 weights bf16 kv": NumberFormat.FP8,
    "fp16 mixed Adam": NumberFormat.FP16,
    "bf16 mixed, fp32 master": NumberFormat.BF16,
    "bnb.nf4": NumberFormat.NF4,
    "bnb.nf4-dq": NumberFormat.NF4_DOUBLE_QUANTIZED,
    "bnb.int8": NumberFormat.INT8,
}
_LATENT_RANK: Final = 512
_LATENT_ROTATED: Final = 64
"""DeepSeek-V3's, which the file tells in a note."""
_PARTS: Final = {
    "weights": lambda estimate: estimate.weights_bytes,
    "model_states": lambda estimate: (
        estimate.weights_bytes + estimate.gradients_bytes + estimate.optimizer_bytes
    ),
    "kv_cache_per_1k_tokens": lambda estimate: estimate.kv_cache_bytes,
    "kv_cache_for_367404_tokens_per_gpu": lambda estimate: estimate.kv_cache_bytes,
}
_BOUNDS: Final = frozenset({"OOM_label_over", "OOM_total_gb", "fits_total_gb"})
_RECIPES: Final = {
    "Adapter": None,
    "Adapter v2": None,
    "full (CPU offload)": None,
    "generate": ModelTask.INFERENCE,
    "LoRA": ModelTask.FINETUNE_LORA,
    "QLoRA": ModelTask.FINETUNE_QLORA,
    "FSDP selective-AC eager": ModelTask.TRAINING,
    "FSDP selective-AC compile": ModelTask.TRAINING,
}


class Row(Struct, frozen=True):
    """One figure."""

    values: dict[str, str]

    @property
    def gib(self) -> float:
        """As measured or published."""
        return float(self.values["gib"])

    @property
    def closed_form_gib(self) -> float | None:
        """Prediction of the reference's closed form."""
        text = self.values["closed_form_gib"]
        return float(text) if text else None

    @property
    def is_derived(self) -> bool:
        """Arithmetic, not a measurement."""
        return self.values["kind"] == "derived"

    @property
    def is_bound(self) -> bool:
        """Whether the row states a fit or an out-of-memory."""
        return self.values["component"] in _BOUNDS

    @property
    def name(self) -> str:
        """Model and method."""
        return " ".join(filter(None, map(self.values.get, ("model", "dtype", "method"))))

    def number(self, key: str) -> int | None:
        """A column; `None` where it is empty or 0."""
        return int(float(self.values[key] or 0)) or None


def read_rows(path: Path) -> list[Row]:
    """All rows of the file."""
    with path.open(encoding="utf-8", newline="") as lines:
        return [Row(values) for values in csv.DictReader(lines)]


def predicted_gib(row: Row) -> float | None:
    """Prediction for a row; `None` if its run is not described."""
    found = setting_of(row)
    if found is None:
        return None
    requirement, layout = found
    component = row.values["component"]
    if component == "sharded_state_delta_8_to_128_gpus":
        few, many = (_states(requirement, ranks) for ranks in (8, 128))
        return (few - many) / GIB
    settings = _RESERVED if component == "peak_reserved" else _ALLOCATED
    estimate = estimate_memory(requirement, layout, None, settings)
    part = _PARTS.get(component, lambda whole: whole.total_bytes)
    return float(part(estimate)) / GIB


def _states(requirement: Requirement, ranks: int) -> float:
    estimate = estimate_memory(requirement, Parallelism(data=ranks))
    return float(_PARTS["model_states"](estimate))


def setting_of(row: Row) -> tuple[Requirement, Parallelism] | None:
    """The requirement that a row's run had, and its layout."""
    number_format = _FORMATS.get(row.values["dtype"])
    if number_format is None or row.number("params") is None:
        return None
    method = row.values["method"]
    component = row.values["component"]
    is_states = component in {"model_states", "sharded_state_delta_8_to_128_gpus"}
    task = ModelTask.TRAINING if is_states else _RECIPES.get(method, ModelTask.INFERENCE)
    if component in {"activations", "activation_peak", "peak", "training_vram_total"}:
        return None
    if task is None or (row.values["mode"] == "train") != task.trains:
        return None
    if _tells_another_recipe(row):
        return None
    gpus = row.number("n_gpus") or 1
    layout = Parallelism(data=gpus) if task.trains else Parallelism(tensor=gpus)
    keys = ["layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab"]
    sizes: dict[str, Any] = {key: row.number(key) for key in keys}
    is_latent = "DeepSeek" in row.values["model"]
    described = TransformerDescription(
        name=row.values["model"],
        parameters=float(row.values["params"]),
        kv_lora_rank=_LATENT_RANK if is_latent else None,
        rope_head_dim=_LATENT_ROTATED if is_latent else None,
        **sizes,
    )
    requirement = Requirement(
        model=completed_shape(described),
        task=task,
        precision=Precisions(weights=number_format, kv_cache=NumberFormat.BF16),
        load=RequestLoad(float(row.number("context") or 1), 0.0, float(row.number("batch") or 1)),
        training=_training(row),
        lora=Lora(targets=("q", "v")),
    )
    return requirement, layout


def _tells_another_recipe(row: Row) -> bool:
    """Whether a source has recipes that a row does not distinguish.

    Those of torchtune differ by what the card beside them allows; litgpt's runs on several GPUs
    split the batch in a way that is not told.
    """
    is_torchtune = "torchtune" in row.values["source"]
    is_small_card = "4090" in row.values["notes"] or row.number("n_gpus") == 8
    if is_torchtune:
        return not is_small_card or row.values["method"] == "full"
    return "litgpt" in row.values["source"] and (row.number("n_gpus") or 1) > 1


def _training(row: Row) -> Training:
    method = row.values["method"]
    source = row.values["source"]
    stage = next((int(text) for text in "123" if f"ZeRO-{text}" in method), 0)
    if "FSDP" in method or "torchtune" in source:
        stage = 3
    recompute = Recompute.FULL if "torchtune" in source else Recompute.NONE
    return Training(
        micro_batch=row.number("batch") or 1,
        sequence=row.number("context") or 1,
        recompute=Recompute.SELECTIVE if "selective" in method else recompute,
        zero_stage=stage,
        # Both compute the loss in chunks.
        fused_loss="torchtune" in source or "litgpt" in source,
        optimizer=Optimizer.ADAMW,
    )


def bounds(rows: list[Row]) -> Iterator[tuple[Row, MemoryEstimate, bool]]:
    """Rows of fits, with the prediction and whether it agrees."""
    for row in rows:
        found = setting_of(row) if row.is_bound else None
        if found is None:
            continue
        estimate = estimate_memory(*found)
        fits = row.values["component"] == "fits_total_gb"
        is_total = row.values["component"].endswith("_gb")
        limit = row.gib * (1e9 if is_total else GIB)
        total = estimate.total
        yield row, estimate, total.low <= limit if fits else total.high >= limit
