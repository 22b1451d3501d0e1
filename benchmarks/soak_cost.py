"""Memory and CPU of a whole agent over an hour and over a week of its life, in fast motion.

Everything is on: history, recommender, scrapes and someone who looks at the page. Jobs run at
times of the agent's own clock.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from benchmarks.options import Options
from benchmarks.simulator_cost import simulator_cost
from measured import Figure

_PROGRAM: Final = Path(__file__).parent / "soak_alone.py"
_TIMEOUT_SECONDS: Final = 300.0
_HOUR_SECONDS: Final = 3600.0
_DAY_HOURS: Final = 24.0
_MOST_MEBIBYTES: Final = 50.0
_MOST_CPU_PERCENT: Final = 2.0
_MOST_GROWTH_MEBIBYTES: Final = 6.0
"""The week's windows, packed, and what an allocator does not give back."""


def measure(options: Options) -> Iterator[Figure]:
    """An hour at one reading a second, then a week at one a minute."""
    simulator = simulator_cost(options)
    hour = _live("hour")
    inside = simulator.cpu_seconds_per_tick * hour["samples"]
    cpu = 100 * (hour["cpu_seconds"] - inside) / _HOUR_SECONDS
    did = "{samples} readings, {scrapes} scrapes, {pages} pages, {recommended} runs of the rules"
    yield Figure(
        "an hour at 1 Hz: CPU of one core", cpu, "%", _MOST_CPU_PERCENT, did.format(**hour)
    )
    resident = hour["sizes"][-1][1] - simulator.mebibytes
    yield Figure("the same: memory (RSS)", resident, "MiB", _MOST_MEBIBYTES)
    yield from _week()


def _week() -> Iterator[Figure]:
    week = _live("week")
    second = _day(week, 2)
    seventh = _day(week, 7)
    did = "{samples} readings, {scrapes} scrapes, {pages} pages, {recommended} runs of the rules"
    yield Figure("a week at one reading a minute: memory on day 2", second, "MiB")
    yield Figure("the same on day 7, with the model of the node", seventh, "MiB")
    yield Figure(
        "growth from day 2 to day 7",
        seventh - second,
        "MiB",
        _MOST_GROWTH_MEBIBYTES,
        did.format(**week),
    )


def _day(life: dict[str, Any], day: int) -> float:
    """The most there was on a day, from 1."""
    return max(
        size for hours, size in life["sizes"] if (day - 1) * _DAY_HOURS <= hours < day * _DAY_HOURS
    )


def _live(span: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(_PROGRAM), span],
        cwd=_PROGRAM.parent,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_SECONDS,
        check=True,
    )
    life: dict[str, Any] = json.loads(done.stdout)
    return life
