"""Cost of one fleet run: on real stores, and by the size of the fleet."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from msgspec import Struct

from benchmarks.options import Options
from estate.command import Answer, ask_fleet
from estate.layout import LARGE
from estate.life import live
from estate.truth import Metrics
from evaluation.fleet.estate import DAYS, START, STORES, sources_of
from measured import Figure

_SIZES: Final = (2_000, 10_000)
"""Of as many processes, so that the slope between them is that of the GPUs alone."""
_PODS: Final = ("--gpus-a-job", "1")
"""Cost goes by workload, too: jobs of four GPUs alone would flatter it."""
_POD_MILLISECONDS: Final = (2.0, 1.0)
"""At most for each GPU, in the first look and in a later one."""
_HUGE: Final = 100_000
"""Too many to be read within a benchmark; what they would take follows from the slope."""


class _Kind(Struct, frozen=True):
    """Whose metrics there are."""

    flags: tuple[str, ...] = ()
    """Of the store."""
    most_milliseconds: tuple[float | None, float | None] = (None, None)
    """Of processor time for a GPU of the largest fleet, in its first look and in a later one."""
    is_huge: bool = False
    """Whether the goals of a hundred thousand GPUs are for it."""


KINDS: Final = {
    "our agents": _Kind(most_milliseconds=(2.0, 0.5)),
    "dcgm-exporter": _Kind(("--dcgm",), (10.0, 2.0)),
    "dcgm-exporter, recorded by rules": _Kind(("--dcgm", "--recorded"), is_huge=True),
}
_MOST_SECONDS: Final = 60.0
"""Apart from the store's own work; of the largest."""
_MOST_HUGE_MEBIBYTES: Final = 2048.0
_MOST_MEBIBYTES: Final = 500.0
_TIMEOUT_SECONDS: Final = 900.0
_CORES: Final = 2
NOON: Final = START + DAYS * 86400 - 43200
"""Half of the last day is over, as it is on average."""


@dataclass
class _Loopback:
    url: str
    cpu_seconds: float = 0.0
    """Once it has ended."""


def measure(_: Options) -> Iterator[Figure]:
    """A hundred GPUs on both stores, then more and more on one that keeps nothing."""
    yield from _real()
    for metrics, kind in KINDS.items():
        first: dict[int, _FleetRun] = {}
        pods = _looks(_SIZES[0], (*kind.flags, *_PODS))
        what = f"{_SIZES[0]:,} GPUs of a pod each by {metrics}"
        yield from _by_gpu(what, _SIZES[0], pods, _POD_MILLISECONDS, is_row=False)
        for gpus in _SIZES:
            looks = _looks(gpus, kind.flags)
            first[gpus] = looks[0]
            is_largest = gpus == _SIZES[-1]
            most = kind.most_milliseconds if is_largest else (None, None)
            what = f"{gpus:,} GPUs by {metrics}"
            yield from _figures(what, gpus, looks, most, is_largest=is_largest)
        few, many = _SIZES
        slope = (first[many].seconds - first[few].seconds) / (many - few)
        yield Figure(f"for each further GPU by {metrics}", 1e3 * slope, "ms", is_row=True)
        if kind.is_huge:
            yield from _huge(metrics, first)


def _looks(gpus: int, flags: Sequence[str]) -> list[_FleetRun]:
    """Look for the first time, and an hour later."""
    with tempfile.TemporaryDirectory(prefix="fleet-cost-") as folder:
        return [run_fleet(gpus, flags, at, Path(folder)) for at in (NOON - 3600, NOON)]


def _huge(metrics: str, first: Mapping[int, _FleetRun]) -> Iterator[Figure]:
    """Cost of a first run over a huge fleet, extrapolated by the slope between the sizes."""
    few, many = _SIZES

    def at_slope(of: Callable[[_FleetRun], float]) -> float:
        each = (of(first[many]) - of(first[few])) / (many - few)
        return of(first[many]) + each * (_HUGE - many)

    what = f"{_HUGE:,} GPUs by {metrics}, by that slope"
    seconds = at_slope(lambda run: run.seconds)
    # Reading and judging, or the answer: the sizes that are measured may peak in the other.
    mebibytes = max(map(at_slope, (_peak_mebibytes, _main_peak_mebibytes)))
    yield Figure(f"{what}: apart from the store's work", seconds, "s", _MOST_SECONDS)
    yield Figure(f"{what}: memory, all processes", mebibytes, "MiB", _MOST_HUGE_MEBIBYTES)


class _FleetRun(Struct, frozen=True):
    answer: Answer
    store_cpu_seconds: float

    @property
    def seconds(self) -> float:
        """Without what the store took: they share the cores."""
        return self.answer.wall_seconds - self.store_cpu_seconds / _CORES


def run_fleet(gpus: int, flags: Sequence[str], at: float, folder: Path) -> _FleetRun:
    """Run the command once over a store that keeps nothing."""
    with _loopback(gpus, flags) as store:
        answer = ask_fleet(store.url, at, folder, timeout_seconds=_TIMEOUT_SECONDS)
    return _FleetRun(answer, store.cpu_seconds)


def _peak_mebibytes(run: _FleetRun) -> float:
    return run.answer.peak_mebibytes


def _main_peak_mebibytes(run: _FleetRun) -> float:
    return run.answer.main_peak_mebibytes


def _figures(
    what: str,
    gpus: int,
    looks: Sequence[_FleetRun],
    most_milliseconds: Sequence[float | None],
    *,
    is_largest: bool,
) -> Iterator[Figure]:
    first = looks[0]
    yield Figure(
        f"{what}: {DAYS} days, apart from the store's work",
        first.seconds,
        "s",
        _MOST_SECONDS if is_largest else None,
        f"{first.answer.wall_seconds:.1f} s with it; {_asked(first.answer)}",
        is_row=not is_largest,
    )
    yield from _by_gpu(what, gpus, looks, most_milliseconds, is_row=not is_largest)
    most = _MOST_MEBIBYTES if is_largest else None
    title = f"{what}: memory, all processes"
    peak = first.answer.peak_mebibytes
    yield Figure(title, peak, "MiB", most, is_row=not is_largest)


def _by_gpu(
    what: str,
    gpus: int,
    looks: Sequence[_FleetRun],
    most_milliseconds: Sequence[float | None],
    *,
    is_row: bool,
) -> Iterator[Figure]:
    """Processor time for each GPU, and what was asked for it."""
    for name, look, limit in zip(("first", "later"), looks, most_milliseconds, strict=True):
        each = 1e3 * look.answer.cpu_seconds / gpus
        title = f"{what}: processor time for each, {name} look"
        yield Figure(title, each, "ms", limit, _asked(look.answer), is_row=is_row)


def _real() -> Iterator[Figure]:
    life = live(LARGE, DAYS, START)
    for name, filled in STORES.items():
        with filled(life, *sources_of(life, Metrics.OWN)) as server:
            answer = ask_fleet(server.url, life.end)
        yield Figure(
            f"{LARGE.size} GPUs over {DAYS} days, the store's work too: on {name}",
            answer.wall_seconds,
            "s",
            note=f"{_asked(answer)}; {answer.peak_mebibytes:.0f} MiB",
        )


def _asked(answer: Answer) -> str:
    use = answer.document["use"]
    return f"{use['queries']} queries, {use['received_bytes'] / 2**20:.1f} MiB"


@contextmanager
def _loopback(gpus: int, flags: Sequence[str]) -> Iterator[_Loopback]:
    script = Path(__file__).with_name("fleet_store.py")
    process = subprocess.Popen(
        [sys.executable, str(script), str(gpus), "--until", str(NOON), *flags],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    store = _Loopback(process.stdout.readline().strip())
    try:
        yield store
    finally:
        process.stdin.close()
        store.cpu_seconds = float(process.stdout.read())
        process.stdout.close()
        process.wait()
