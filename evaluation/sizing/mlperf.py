"""MLPerf results as cells: what several GPUs reached at one benchmark of one round.

Ratios of per-accelerator figures are derived from MLCommons results and not verified by MLCommons.
"""

import csv
import gzip
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.sizing.workload_family import (
    WORKLOADS,
    ComparedWorkload,
    ModelKind,
    WorkloadActivity,
    parse_workload,
)

FILE: Final = "mlperf.csv.gz"
_SCENARIOS: Final = {
    WorkloadActivity.INFERENCE: frozenset({"Offline", "Server"}),
    WorkloadActivity.TRAINING: frozenset({"train"}),
}
_TRAINED: Final = {
    "time_to_train_min": "time to train",
    "throughput_logged": "samples a second",
    "samples/s": "samples a second",
}
"""How fast a training was, by the name of its metric; the latter two agree where a run has both."""
_FAMILIES: Final = {
    "resnet50": ModelKind.CNN,
    "resnet": ModelKind.CNN,
    "retinanet": ModelKind.DETECTION,
    "bert": ModelKind.TRANSFORMER_ENCODER,
    "gptj": ModelKind.LLM,
    "llama2-70b": ModelKind.LLM,
    "llama2_70b_lora": ModelKind.LLM,
    "dlrm-v2": ModelKind.RECOMMENDER,
    "dlrm_dcnv2": ModelKind.RECOMMENDER,
}
Row = Mapping[str, str]


class Cell(Struct, frozen=True):
    """One round, benchmark, scenario and metric; training at one count of accelerators.

    Runs differ in the samples that they need for the same accuracy, by their batches: the samples
    of a second tell of the GPUs alone, the time to train is what is published.
    """

    round: str
    benchmark: str
    """Without the accuracy target."""
    scenario: str
    """Of trainings, what was measured of them."""
    workload: ComparedWorkload
    logs: Mapping[str, float]
    """Logarithms of throughput by GPU, medians over systems."""

    def without(self, gpu: str) -> "Cell":
        """The same where one GPU was never measured."""
        return replace(self, logs={key: log for key, log in self.logs.items() if key != gpu})


class Pair(Struct, frozen=True):
    """Two GPUs in one cell."""

    cell: Cell
    gpu: str
    other: str

    @property
    def log_ratio(self) -> float:
        """The throughput of the other over that of the first."""
        return self.cell.logs[self.other] - self.cell.logs[self.gpu]


def read_cells(file: Path, activity: WorkloadActivity) -> tuple[Cell, ...]:
    """The closed division's cells with two GPUs or more."""
    values: dict[tuple[str, ...], dict[str, list[float]]] = {}
    with gzip.open(file, "rt", encoding="utf-8", newline="") as opened:
        for row in csv.DictReader(opened):
            if row["scenario"] not in _SCENARIOS[activity] or not _counts(row, activity):
                continue
            scenario = row["scenario"]
            last = row["metric"]
            if activity is WorkloadActivity.TRAINING:
                scenario = _TRAINED[row["metric"]]
                last = row["count"]
            key = (row["round"], row["benchmark"], scenario, last)
            found = values.setdefault(key, {}).setdefault(row["gpu_key"], [])
            found.append(_log_throughput(row, activity))
    return tuple(
        _cell(key, {gpu: median(logs) for gpu, logs in found.items()}, activity)
        for key, found in sorted(values.items())
        if len(found) > 1
    )


def pairs(cells: Iterable[Cell]) -> Iterator[Pair]:
    """Every unordered pair of GPUs of every cell."""
    for cell in cells:
        gpus = sorted(cell.logs)
        for at, gpu in enumerate(gpus):
            yield from (Pair(cell, gpu, other) for other in gpus[at + 1 :])


def _counts(row: Row, activity: WorkloadActivity) -> bool:
    if not row["gpu_key"] or row["division"] != "closed" or _plain(row["benchmark"]) is None:
        return False
    if activity is WorkloadActivity.TRAINING:
        return row["metric"] in _TRAINED
    return bool(row["per_accelerator"])


def _log_throughput(row: Row, activity: WorkloadActivity) -> float:
    if activity is WorkloadActivity.INFERENCE:
        return math.log(float(row["per_accelerator"]))
    log = math.log(float(row["value"]))
    return -log if _TRAINED[row["metric"]] == "time to train" else log


def _cell(key: tuple[str, ...], logs: Mapping[str, float], activity: WorkloadActivity) -> Cell:
    benchmark = _plain(key[1])
    assert benchmark is not None, key
    name = f"{activity}-{_FAMILIES[benchmark]}"
    workload = WORKLOADS.get(f"{name}-{key[2].lower()}") or parse_workload(name)
    if activity is WorkloadActivity.TRAINING:
        workload = replace(workload, gpus=int(key[3]))
    return Cell(key[0], benchmark, key[2], workload, logs)


def _plain(benchmark: str) -> str | None:
    """The benchmark without its accuracy target; `None` for one that is not compared."""
    plain = benchmark.removesuffix("-99").removesuffix("-99.9")
    return plain if plain in _FAMILIES else None
