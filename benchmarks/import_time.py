"""Start time of the command, compared with an idle interpreter."""

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Final

from agent_process import RIGHTSIZER
from benchmarks.options import Options
from measured import Figure, quantile

_RUNS: Final = 9


def measure(_: Options) -> Iterator[Figure]:
    """Medians of fresh processes."""
    nothing = _median_seconds([sys.executable, "-c", "pass"])
    command = _median_seconds([*RIGHTSIZER, "version"])
    package = _median_seconds([sys.executable, "-c", "import rightsizer"])
    yield Figure("an interpreter that does nothing", 1e3 * nothing, "ms")
    yield Figure("`import rightsizer`, beyond that", 1e3 * (package - nothing), "ms")
    yield Figure("`rightsizer version`, beyond that", 1e3 * (command - nothing), "ms")


def _median_seconds(command: Sequence[str]) -> float:
    times = []
    for _ in range(_RUNS):
        started = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - started)
    return quantile(times, 0.5)
