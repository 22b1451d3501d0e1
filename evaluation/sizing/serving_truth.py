"""Rows of `llm_serving_truth.csv`: what was served how, and how fast."""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

from rightsizer.catalogue.board import Board
from rightsizer.catalogue.catalogue import built_in
from rightsizer.sizing.load import RequestLoad
from rightsizer.sizing.models import Transformer
from rightsizer.sizing.parameters import NumberFormat
from rightsizer.sizing.requirement import Parallelism, Precisions, Requirement

FILE: Final = "llm_serving_truth.csv"
_MODELS: Final = {
    "Qwen/Qwen3-32B": Transformer(
        layers=64,
        hidden=5120,
        heads=64,
        kv_heads=8,
        head_dim=128,
        ffn=25600,
        vocab=151936,
        query_key_norm=True,
    ),
    "meta-llama/Llama-3.1-70B": Transformer(
        layers=80, hidden=8192, heads=64, kv_heads=8, ffn=28672, vocab=128256
    ),
    "nvidia/Llama-3.1-8B-Instruct-FP8": Transformer(
        layers=32, hidden=4096, heads=32, kv_heads=8, ffn=14336, vocab=128256
    ),
}
"""As published in their config.json."""
_BOARDS: Final = {
    "h100_sxm": "H100-SXM5-80GB",
    "h200_sxm": "H200-SXM-141GB",
    "b200_sxm": "B200",
    "gb200": "GB200",
    "a100_sxm": "A100-SXM4-80GB",
    "l40s": "L40S",
}
_KV_FORMATS: Final = {"nvidia/Llama-3.1-8B-Instruct-FP8": NumberFormat.FP8}
"""NVIDIA's checkpoints say so; vLLM keeps 16 bits beside any other weights."""


class Row(Struct, frozen=True):
    """One measurement."""

    id: str
    file: str
    """That the row comes from: one series of measurements by one client."""
    model_name: str
    system: str
    requirement: Requirement
    layout: Parallelism
    concurrency: float
    ttft_ms: float
    tpot_ms: float

    @property
    def board(self) -> Board:
        """Board of the measurement."""
        return built_in().boards[_BOARDS[self.system]]

    @property
    def is_quantized(self) -> bool:
        """Whether weights are below 16 bits."""
        return self.requirement.precision.weights.is_quantized


def read_rows(path: Path) -> Iterator[Row]:
    """Rows of aggregated serving with a known model and board."""
    with path.open(encoding="utf-8", newline="") as file:
        for values in csv.DictReader(file):
            known = values["model_path"] in _MODELS and values["system"] in _BOARDS
            if known and values["mode"] == "agg":
                yield _row(values)


def _row(values: dict[str, str]) -> Row:
    name = values["model_path"]
    weights = NumberFormat(values["precision"] or "bf16")  # type: ignore[call-arg]
    source = values["silicon_data_source"].partition(";")[0]
    return Row(
        id=values["id"],
        file=source.removeprefix("source_file="),
        model_name=name,
        system=values["system"],
        requirement=Requirement(
            _MODELS[name],
            precision=Precisions(weights, _KV_FORMATS.get(name, NumberFormat.BF16)),
            load=RequestLoad(float(values["isl"]), float(values["osl"])),
        ),
        layout=Parallelism(int(values["tp_size"]), int(values["pp_size"])),
        concurrency=float(values["batch_size"]),
        ttft_ms=float(values["silicon_ttft_ms"]),
        tpot_ms=float(values["silicon_tpot_ms"]),
    )
