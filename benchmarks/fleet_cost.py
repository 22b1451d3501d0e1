"""What one look at an estate costs: on real stores, and by the size of the estate."""

import subprocess
import sys
from collections.abc import Iterator
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
    took: dict[int, float] = {}
    for gpus in _SIZES:
        with _loopback(gpus) as store:
            answer = ask_fleet(store.url, _NOON, timeout_seconds=_TIMEOUT_SECONDS)
        # Client and store share the cores: what the store used is what it took from the client,
        # spread over all of them.
        took[gpus] = answer.wall_seconds - store.cpu_seconds / _CORES
        is_largest = gpus == _SIZES[-1]
        yield Figure(
            f"{gpus:,} GPUs over {DAYS} days, apart from the store's work",
            took[gpus],
            "s",
            _MOST_SECONDS if is_largest else None,
            f"{answer.wall_seconds:.1f} s in all, the store's {store.cpu_seconds:.1f} s of CPU; "
            f"{answer.cpu_seconds:.1f} s of CPU of its own; {_asked(answer)}",
        )
        yield Figure(
            f"processor time for a GPU of {gpus:,}, without the store's",
            1e3 * answer.cpu_seconds / gpus,
            "ms",
        )
        yield Figure(
            f"memory for {gpus:,} GPUs, all processes",
            answer.peak_mebibytes,
            "MiB",
            _MOST_MEBIBYTES if is_largest else None,
        )
    few, many = _SIZES
    slope = (took[many] - took[few]) / (many - few)
    yield Figure("for each further GPU", 1e3 * slope, "ms")


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
    use = answer.form["use"]
    return (
        f"{use['queries']} queries, {use['received_bytes'] / 2**20:.1f} MiB, "
        f"{use['samples'] / 1e6:.2f} million samples"
    )


@contextmanager
def _loopback(gpus: int) -> Iterator[_Loopback]:
    script = Path(__file__).with_name("fleet_store.py")
    process = subprocess.Popen(
        [sys.executable, str(script), str(gpus), "--until", str(_NOON)],
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
