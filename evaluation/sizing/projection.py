"""Projections against themselves and against slices of an A30; no measured profiles are at hand."""

import csv
import itertools
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from evaluation.options import Options
from evaluation.sizing.mig import FILE, MEDIAN_FLOOR, TAIL_FLOOR, Row, workload_of
from measured import quantile, table
from rightsizer.catalogue.board import Precision
from rightsizer.catalogue.catalogue import built_in
from rightsizer.sizing.place import GpuPlace, find_place
from rightsizer.sizing.projection import project
from rightsizer.sizing.workload_profile import UsageShares, WorkloadProfile

_COMPUTE_SHARES: Final = (0.0, 0.3, 0.6, 1.0)
_BOARDS: Final = ("A100-SXM4-80GB", "H100-SXM5-80GB", "H200-SXM-141GB", "B200", "L40S", "A30", "T4")


def evaluate(options: Options) -> Iterator[str]:
    """Identity, there and back, and slices."""
    yield table(list(_consistency()), ("check", "cases", "median", "worst", "in the interval"))
    yield ""
    if options.truth is None or not (options.truth / FILE).is_file():
        yield f"Slices skipped: RIGHTSIZER_TRUTH does not name a folder with `{FILE}`.\n"
        return
    yield table(list(_slices(options.truth / FILE)), ("one slice", "rows", "median", "p90", ""))
    yield _gain(options.truth / FILE)


def _gain(file: Path) -> str:
    """Fit of the one constant that is from these rows."""
    by_workload: dict[str, list[float]] = {}
    for row in _rows(file):
        if "[" not in row["workload"]:
            gain = float(row["ratio_per_slice"]) / float(row["sm_share"])
            by_workload.setdefault(row["workload"].split()[2], []).append(gain)
    without = [
        quantile(
            [gain for name, gains in by_workload.items() if name != out for gain in gains], 0.5
        )
        for out in by_workload
    ]
    return (
        "\nA slice alone is faster than its part of the SMs by a median of "
        f"x{quantile([each for gains in by_workload.values() for each in gains], 0.5):.3f}, from "
        f"{min(without):.3f} to {max(without):.3f} without one benchmark. 'Own' are rows of the "
        f"same software on slice and board; floors are x{MEDIAN_FLOOR} and x{TAIL_FLOOR}.\n"
    )


def _rows(file: Path) -> list[dict[str, str]]:
    """One slice at work for itself."""
    with file.open(encoding="utf-8", newline="") as lines:
        return [row for row in csv.DictReader(lines) if row["instances"] == "1"]


def _profile(place: GpuPlace, compute: float, bandwidth: float) -> WorkloadProfile:
    """A profile by parts of what is achievable; the rest of the time is latency."""
    board = place.board
    eta = (place.achieved(Precision.BF16) or 0.0) / (place.peak(Precision.BF16) or 1.0)
    return WorkloadProfile(
        place,
        UsageShares(
            sm_active=0.9,
            gpu_busy=1.0,
            tensor_active=compute * eta,
            dram_active=bandwidth * board.achievable_bandwidth_ratio,
            sm_clock_ratio=1.0,
        ),
    )


def _of_row(row: Row, place: GpuPlace) -> WorkloadProfile:
    """Profile of an unmeasured run: time split between matrix products and reading."""
    compute = workload_of(row).compute_share
    return _profile(place, compute, 1.0 - compute)


def _consistency() -> Iterator[Sequence[str]]:
    places = [find_place(built_in(), key) for key in _BOARDS]
    mixes = [
        (compute, (1.0 - compute) * part) for compute in _COMPUTE_SHARES for part in (0.0, 0.5, 1.0)
    ]
    same = []
    back = []
    inside = 0
    for place, mix in itertools.product(places, mixes):
        profile = _profile(place, *mix)
        same.append(abs(math.log(project(profile, place).time_ratio.value)))
        for other in places:
            there = project(profile, other)
            again = project(replace(profile, place=other, shares=there.shares), place)
            product = there.time_ratio.value * again.time_ratio.value
            back.append(abs(math.log(product)))
            inside += again.time_ratio.low <= 1.0 / there.time_ratio.value <= again.time_ratio.high
    yield ("same board", str(len(same)), _factor(quantile(same, 0.5)), _factor(max(same)), "")
    yield (
        "there and back",
        str(len(back)),
        _factor(quantile(back, 0.5)),
        _factor(max(back)),
        f"{inside / len(back):.1%}",
    )


def _slices(file: Path) -> Iterator[Sequence[str]]:
    rows = _rows(file)
    own = [row for row in rows if "[" not in row["workload"]]
    beside = [row for row in rows if "[hetero]" in row["workload"]]
    for name, chosen in (
        ("own, alone", own),
        ("own, alone, Offline", [row for row in own if "Offline" in row["workload"]]),
        ("all", rows),
        ("beside others", beside),
    ):
        if not chosen:
            continue
        errors = []
        covered = 0
        for row in chosen:
            place = find_place(built_in(), row["gpu_key"])
            target = find_place(built_in(), f"{row['gpu_key']}:{row['profile']}")
            ratio = project(_of_row(row, place), target).time_ratio
            measured = 1.0 / float(row["ratio_per_slice"])
            errors.append(abs(math.log(ratio.value / measured)))
            covered += ratio.low <= measured <= ratio.high
        yield (
            name,
            str(len(chosen)),
            _factor(quantile(errors, 0.5)),
            _factor(quantile(errors, 0.9)),
            f"{covered / len(chosen):.0%} in the interval",
        )

    plain = [abs(math.log(float(row["ratio_per_slice"]) / float(row["sm_share"]))) for row in own]
    median, tail = (_factor(quantile(plain, share)) for share in (0.5, 0.9))
    yield ("own, by the share of the SMs alone", str(len(own)), median, tail, "")


def _factor(error: float) -> str:
    return f"x{math.exp(error):.3f}"
