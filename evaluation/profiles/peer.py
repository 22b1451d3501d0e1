"""PyTorch's traces as HolisticTraceAnalysis breaks them down, beside ours."""

import json
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from math import isnan
from pathlib import Path
from typing import Any, Final

from measured import as_rows, table
from profiler_environment import Absent, environment
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.registry import open_profile

_PROGRAM: Final = Path(__file__).parents[2] / "tests" / "profilers" / "hta_breakdown.py"
_MARK: Final = "TOLD "
_HEADINGS: Final = (
    "trace",
    "busy, ours",
    "busy, HTA",
    "ratio",
    "idle, ours",
    "idle, HTA",
    "waits for the host, of idle, ours",
    "the same, HTA",
    "collectives beside other kernels, ours",
    "the same, HTA",
)
_RATIO: Final = _HEADINGS.index("ratio")
_NEAR: Final = (0.01, 0.05)
_WHY: Final = (
    "\nBeside HolisticTraceAnalysis, in milliseconds; busy is with a kernel or a copy. It rounds "
    "times to microseconds, begins at the first copy or fill instead of the first kernel, and sums "
    "causes over streams instead of the device.\n"
)


def beside_peer(folder: Path) -> Iterable[str]:
    """A table of every trace with a timeline, or why there is none."""
    paths = sorted(folder.rglob("*.json.gz"))
    if not paths:
        return []
    try:
        python = environment("peers")
    except Absent as reason:
        return [f"\nNot beside HolisticTraceAnalysis: {reason}.\n"]
    done = subprocess.run(
        [python, _PROGRAM, *paths], capture_output=True, text=True, timeout=1800, check=True
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith(_MARK)]
    answers = [json.loads(line.removeprefix(_MARK)) for line in lines]
    rows = [row for path, answer in zip(paths, answers, strict=True) for row in _rows(path, answer)]
    return [_summary(rows), as_rows("\n".join((_WHY, table(rows, _HEADINGS), "")))]


def _summary(rows: Sequence[Sequence[str]]) -> str:
    ratios = [float(row[_RATIO]) for row in rows if row[_RATIO] != "-"]
    near = [sum(abs(ratio - 1.0) <= part for ratio in ratios) for part in _NEAR]
    return (
        f"\nBusy time beside HolisticTraceAnalysis, which reads {len(ratios)} of {len(rows)} "
        f"traces: within 1% in {near[0]}, within 5% in {near[1]}. It begins at the first copy or "
        "fill and rounds to microseconds; ours equals the raw events above. CPU and memory: "
        "[benchmarks](../benchmarks/RESULTS.md#profiles).\n"
    )


def _rows(path: Path, peer: dict[str, Any]) -> Iterator[Sequence[str]]:
    times = [device.time for device in open_profile(path, ReadLimits()).devices if device.time]
    if not times:
        return
    time = times[0]
    busy = time.kernel_seconds + time.exposed_copy_seconds
    idle = time.idle_seconds - time.exposed_copy_seconds
    hidden = (
        f"{1 - time.exposed_collective_seconds / time.collective_seconds:.1%}"
        if time.collective_seconds
        else "-"
    )
    name = str(path.relative_to(path.parents[1]))
    ours = (_milliseconds(busy * 1e6), _milliseconds(idle * 1e6))
    waits = time.host_wait_seconds / time.idle_seconds if time.idle_seconds else 0.0
    if "error" in peer:
        yield name, ours[0], peer["error"], "-", ours[1], "-", f"{waits:.1%}", "-", hidden, "-"
        return
    theirs = peer["compute_time(us)"] + peer["non_compute_time(us)"]
    causes = [peer.get(cause, 0.0) for cause in ("host_wait", "kernel_wait", "other")]
    yield (
        name,
        ours[0],
        _milliseconds(theirs),
        f"{busy * 1e6 / theirs:.3f}" if theirs else "-",
        ours[1],
        _milliseconds(peer["idle_time(us)"]),
        f"{waits:.1%}",
        f"{causes[0] / sum(causes):.1%}" if sum(causes) else "-",
        hidden,
        "-" if isnan(peer["overlap_percent"]) else f"{peer['overlap_percent'] / 100:.1%}",
    )


def _milliseconds(microseconds: float) -> str:
    return f"{microseconds / 1e3:,.2f}"
