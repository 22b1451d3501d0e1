"""Serving predictions against MLPerf's llama2-70b Offline: other GPUs, engines, large batches.

No constant but the time a request adds is read off these rows. Ratios for one accelerator are
derived from results of systems; they are not verified by MLCommons.
"""

import csv
import gzip
import math
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.catalogue.board import Board, Precision
from rightsizer.catalogue.catalogue import built_in
from rightsizer.sizing.engine import ServingEngine
from rightsizer.sizing.estimate import EstimateInterval
from rightsizer.sizing.load import RequestLoad
from rightsizer.sizing.memory import available_bytes
from rightsizer.sizing.models import Transformer
from rightsizer.sizing.parameters import NumberFormat
from rightsizer.sizing.requirement import Parallelism, Precisions, Requirement
from rightsizer.sizing.serving import Server, best_concurrency
from rightsizer.sizing.serving_memory import ServingMemory
from rightsizer.sizing.serving_settings import ServingModelSettings

OFFLINE_FILE: Final = "mlperf.csv.gz"
_MODEL: Final = Transformer(
    layers=80, hidden=8192, heads=64, kv_heads=8, ffn=28672, vocab=32000, name="Llama-2-70B"
)
_LOAD: Final = RequestLoad(294.0, 294.0)
"""Mean tokens of the benchmark's prompts and answers (OpenOrca; MLPerf inference rules)."""
_REQUESTS: Final = 2048
_GROUPS: Final = (1, 2, 4, 8)


class Offline(Struct, frozen=True):
    """Throughput of one accelerator in one round, the median over systems."""

    board: Board
    round: str
    tokens_per_second: float


def offline_rows(path: Path) -> list[Offline]:
    """Of boards that are in the catalogue."""
    found: dict[tuple[str, str], list[float]] = {}
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        for values in csv.DictReader(file):
            if _is_offline(values):
                cell = (values["gpu_key"], values["round"])
                found.setdefault(cell, []).append(float(values["per_accelerator"]))
    boards = built_in().boards
    return [
        Offline(boards[key], which, median(each)) for (key, which), each in sorted(found.items())
    ]


def best_rate(board: Board, settings: ServingModelSettings) -> EstimateInterval:
    """Tokens a second of one GPU, in the layout that is best for it and fp4 or fp8; 0 for none."""
    rates = _rates(board, replace(settings, requests_maximum=_REQUESTS))
    return max(rates, key=lambda rate: rate.value)


def predicted(board: Board, settings: ServingModelSettings) -> float:
    """The same without its interval."""
    return best_rate(board, settings).value


def distance(rows: list[Offline], settings: ServingModelSettings) -> float:
    """The median of |ln(predicted / measured)|."""
    return median(
        abs(math.log(predicted(row.board, settings) / row.tokens_per_second)) for row in rows
    )


def _rates(board: Board, settings: ServingModelSettings) -> Iterator[EstimateInterval]:
    has_fp4 = board.peak(Precision.FP4) is not None
    weights = NumberFormat.NVFP4 if has_fp4 else NumberFormat.FP8
    requirement = Requirement(
        _MODEL,
        precision=Precisions(weights, NumberFormat.FP8),
        load=_LOAD,
        engine=ServingEngine.TENSORRT_LLM,
    )
    room = available_bytes(requirement, board.memory_bytes)
    for gpus in _GROUPS:
        memory = ServingMemory(requirement, Parallelism(tensor=gpus))
        server = Server(memory, board, room, settings)
        best = best_concurrency(server)
        rate = server.at(best).tokens_per_second if best else EstimateInterval.exactly(0.0)
        yield rate.scaled(1.0 / gpus)


def _is_offline(values: dict[str, str]) -> bool:
    return (
        values["benchmark"].startswith("llama2-70b-99")
        and (values["scenario"], values["division"]) == ("Offline", "closed")
        and "token" in values["metric"].lower()
        and bool(values["per_accelerator"])
        and values["gpu_key"] in built_in().boards
    )
