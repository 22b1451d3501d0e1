"""Cost of one fleet run: on real stores, and by the size of the fleet."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.options import Options
from estate.command import Answer, ask_fleet
from estate.layout import LARGE
from estate.life import live
from estate.truth import Metrics
from evaluation.fleet import DAYS, START, STORES, sources_of
from measured import Figure

__all__ = ["measure"]

_SIZES: Final = (1_000, 10_000)
_KINDS: Final = {
    "our agents": (),
    "dcgm-exporter": ("--dcgm",),
    "dcgm-exporter, recorded by rules": ("--dcgm", "--recorded"),
}
"""By whose metrics there are, the store's flags."""
_MOST_SECONDS: Final = 60.0
"""Apart from the store's own work; of the largest."""
_MOST_MEBIBYTES: Final = 500.0
_TIMEOUT_SECONDS: Final = 900.0
_CORES: Final = 2
_NOON: Final = START + DAYS * 86400 - 43200
"""Half of the last day is over, as it is on average."""


@dataclass
class _Loopback:
    url: str
    cpu_seconds: float = 0.0
    """Once it has ended."""


def measure(_: Options) -> Iterator[Figure]:
    """A hundred GPUs on both stores, then more and more on one that keeps nothing."""
    yield from _real()
    for metrics, flags in _KINDS.items():
        took: dict[int, float] = {}
        for gpus in _SIZES:
            with tempfile.TemporaryDirectory(prefix="fleet-cost-") as folder:
                looks = [_run_fleet(gpus, flags, at, Path(folder)) for at in (_NOON - 3600, _NOON)]
            took[gpus] = looks[0].seconds
            is_largest = gpus == _SIZES[-1]
            yield from _figures(f"{gpus:,} GPUs by {metrics}", gpus, looks, is_largest=is_largest)
        few, many = _SIZES
        slope = (took[many] - took[few]) / (many - few)
        yield Figure(f"for each further GPU by {metrics}", 1e3 * slope, "ms")


@dataclass(frozen=True, slots=True)
class _FleetRun:
    answer: Answer
    store_cpu_seconds: float

    @property
    def seconds(self) -> float:
        """Without what the store took: they share the cores."""
        return self.answer.wall_seconds - self.store_cpu_seconds / _CORES


def _run_fleet(gpus: int, flags: Sequence[str], at: float, folder: Path) -> _FleetRun:
    with _loopback(gpus, flags) as store:
        answer = ask_fleet(store.url, at, folder, timeout_seconds=_TIMEOUT_SECONDS)
    return _FleetRun(answer, store.cpu_seconds)


def _figures(
    what: str, gpus: int, looks: Sequence[_FleetRun], *, is_largest: bool
) -> Iterator[Figure]:
    first, later = looks
    yield Figure(
        f"{what} over {DAYS} days, apart from the store's work",
        first.seconds,
        "s",
        _MOST_SECONDS if is_largest else None,
        f"{first.answer.wall_seconds:.1f} s in all, the store's {first.store_cpu_seconds:.1f} s "
        f"of CPU; {first.answer.cpu_seconds:.1f} s of CPU of its own; {_asked(first.answer)}",
    )
    for name, look in (("first", first), ("later", later)):
        each = 1e3 * look.answer.cpu_seconds / gpus
        yield Figure(f"{what}: processor time for each, {name} look", each, "ms")
    most = _MOST_MEBIBYTES if is_largest else None
    yield Figure(f"{what}: memory, all processes", first.answer.peak_mebibytes, "MiB", most)


def _real() -> Iterator[Figure]:
    life = live(LARGE, DAYS, START)
    for name, filled in STORES.items():
        with filled(life, *sources_of(life, Metrics.OWN)) as server:
            answer = ask_fleet(server.url, life.end)
        yield Figure(
            f"{LARGE.size} GPUs over {DAYS} days on {name}, the store's work too",
            answer.wall_seconds,
            "s",
            note=f"{_asked(answer)}; {answer.peak_mebibytes:.0f} MiB",
        )


def _asked(answer: Answer) -> str:
    use = answer.document["use"]
    return (
        f"{use['queries']} queries, {use['received_bytes'] / 2**20:.1f} MiB, "
        f"{use['samples'] / 1e6:.2f} million samples"
    )


@contextmanager
def _loopback(gpus: int, flags: Sequence[str]) -> Iterator[_Loopback]:
    script = Path(__file__).with_name("fleet_store.py")
    process = subprocess.Popen(
        [sys.executable, str(script), str(gpus), "--until", str(_NOON), *flags],
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
