"""Throughput of MIG slices against MLPerf's, beside their plain shares."""

import csv
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from evaluation.options import Options
from measured import quantile, summarized
from rightsizer.catalogue.board import MigProfile
from rightsizer.catalogue.catalogue import built_in
from rightsizer.sizing.estimate import EstimateInterval
from rightsizer.sizing.mig import slice_rate
from rightsizer.sizing.workload_family import (
    ComparedWorkload,
    ModelKind,
    WorkloadActivity,
    parse_workload,
)

FILE: Final = "mig_truth.csv"
_LEVEL: Final = 0.9
MEDIAN_FLOOR: Final = 1.04
TAIL_FLOOR: Final = 1.14
_HELD: Final = "one slice alone, Offline"
_GAIN: Final = 1.05
"""Of the best of the baselines: a slice is so much faster than its share of the SMs."""
Row = Mapping[str, str]
_FAMILIES: Final = {
    "3d-unet": ModelKind.SEGMENTATION,
    "bert": ModelKind.TRANSFORMER_ENCODER,
    "dlrm": ModelKind.RECOMMENDER,
    "resnet50": ModelKind.CNN,
    "rnnt": ModelKind.SPEECH,
    "ssd": ModelKind.DETECTION,
}
_GROUPS: Final[Mapping[str, Callable[[Row], bool]]] = {
    "one slice alone": lambda row: not _busy(row),
    _HELD: lambda row: not _busy(row) and not _in_time(row),
    "same server, alone": lambda row: not _busy(row) and not _other_server(row),
    "same server, alone, Offline": lambda row: (
        not _busy(row) and not _in_time(row) and not _other_server(row)
    ),
    "neighbors busy, Offline": lambda row: bool(_busy(row)) and not _in_time(row),
    "neighbors busy, Server": lambda row: bool(_busy(row)) and _in_time(row),
    "all": lambda _: True,
}


def evaluate(options: Options) -> Iterator[str]:
    """Errors by what the neighbors do."""
    if options.truth is None or not (options.truth / FILE).is_file():
        yield f"Skipped: RIGHTSIZER_TRUTH does not name a folder with `{FILE}`.\n"
        return
    rows = _read(options.truth / FILE)
    baselines = ("SM share", "p90", f"x {_GAIN:g}", "p90")
    headings = ("slices", "rows", "ours", "p90", *baselines, "covered", "")
    yield summarized(_lines(rows), headings, sums_up=_is_shown)
    yield (
        "\nFloors, x1.04 and x1.14, are what the share of the SMs times 1.05 reaches on 55 cells "
        f"of one slice alone; {_missed(rows)} rows of the first line miss x1.14 by it. They hold "
        "for Offline rows; under a latency bound a slice loses more, and intervals are wider.\n"
    )


def _is_shown(line: Sequence[str]) -> bool:
    return "Offline" in line[0] or line[0] == "all"


def _missed(rows: Sequence[Row]) -> int:
    """Rows of one slice alone that the best of the baselines predicts worse than its own p90."""
    alone = [row for row in rows if not _busy(row)]
    return sum(abs(_apart_from_gained(row)) > math.log(TAIL_FLOOR) for row in alone)


def _apart_from_gained(row: Row) -> float:
    return math.log(_GAIN * float(row["sm_share"]) / float(row["ratio_per_slice"]))


def _lines(rows: Sequence[Row]) -> Iterator[tuple[str, ...]]:
    for name, belongs in _GROUPS.items():
        group = [row for row in rows if belongs(row)]
        rates = [_rate(row) for row in group]
        truths = [float(row["ratio_per_slice"]) for row in group]
        ours = [abs(math.log(r.value / t)) for r, t in zip(rates, truths, strict=True)]
        plain, gained = (
            [
                abs(math.log(gain * float(row["sm_share"]) / t))
                for row, t in zip(group, truths, strict=True)
            ]
            for gain in (1.0, _GAIN)
        )
        covered = sum(r.low <= t <= r.high for r, t in zip(rates, truths, strict=True))
        figures = [
            quantile(each, share) for each in (ours, plain, gained) for share in (0.5, _LEVEL)
        ]
        spelled = [f"x{math.exp(figure):.3f}" for figure in figures]
        verdict = _verdict(ours) if name == _HELD else ""
        yield (name, str(len(group)), *spelled, f"{covered / len(group):.0%}", verdict)


def _verdict(apart: Sequence[float]) -> str:
    kept = quantile(apart, 0.5) <= math.log(MEDIAN_FLOOR)
    return "pass" if kept and quantile(apart, _LEVEL) <= math.log(TAIL_FLOOR) else "FAIL"


def _rate(row: Row) -> EstimateInterval:
    board = built_in().get(row["gpu_key"])
    asked = board, _profile(row), workload_of(row).compute_share, _busy(row)
    return slice_rate(*asked, is_latency_bound=_in_time(row))


def workload_of(row: Row) -> ComparedWorkload:
    """Workload of a row, as `compare` names it."""
    benchmark = row["workload"].split()[2]
    family = next(each for name, each in _FAMILIES.items() if benchmark.startswith(name))
    return parse_workload(f"{WorkloadActivity.INFERENCE}-{family}")


def _profile(row: Row) -> MigProfile:
    profiles = built_in().get(row["gpu_key"]).mig_profiles
    return next(profile for profile in profiles if profile.name == row["profile"])


def _busy(row: Row) -> float:
    return 1.0 if "[hetero]" in row["workload"] or int(row["instances"]) > 1 else 0.0


def _in_time(row: Row) -> bool:
    return " Server" in row["workload"]


def _other_server(row: Row) -> bool:
    """The slice was measured through another program than the whole GPU."""
    return "[triton]" in row["workload"]


def _read(file: Path) -> list[Row]:
    with file.open(encoding="utf-8", newline="") as opened:
        return list(csv.DictReader(opened))
