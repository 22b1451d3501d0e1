"""Memory of a real agent over an hour, with owners that change and recommendations that open.

`python benchmarks/soak_owners.py` runs an agent with defaults on eight simulated H100, but for a
recommender that runs each minute. Four GPUs get another owner each minute, two an idle one each
twenty, and each five minutes another GPU reports an Xid. Scrapes come as from Prometheus, and the
page is opened each five minutes. The exit status is 1 if memory has grown too much.
"""

import argparse
import itertools
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

from msgspec import Struct

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
sys.path.insert(0, str(Path(__file__).parents[1]))

import yaml

from agent_process import AgentProcess, agent_process
from benchmarks.process import cpu_seconds, memory_mebibytes

_SCRAPE_SECONDS: Final = 15.0
_PAGE_EVERY_SCRAPES: Final = 20
_MINUTE: Final = 60
_DAY_MINUTES: Final = 1440
_CHANGING_GPUS: Final = (0, 1, 2, 3)
_IDLE_GPUS: Final = (4, 5)
_IDLE_MINUTES: Final = 20
"""An idle batch job is given ten minutes at least."""
_FAULT_MINUTES: Final = 5
_FIRST_FAULT_SECONDS: Final = 90
_CODES: Final = (48, 63, 74, 79, 95)
_GPUS: Final = 8
_LAST: Final = 5
"""Readings at the end of which the median counts."""
_KINDS: Final = ("slurm", "kubernetes", "container", "systemd")
_ACTIVITIES: Final = (
    ("matrix_training", "compute_bound"),
    ("token_decoding", "memory_bandwidth_bound"),
    ("launch_storm", "launch_bound"),
    ("nothing", "idle_held"),
)
_GROWTH_MAXIMUM_MEBIBYTES: Final = 3.0


class MemoryReading(Struct, frozen=True):
    """Memory of the agent at a time, and what it had to hold."""

    minutes: float
    """Since the agent's start."""
    mebibytes: float
    advice_open: float
    advice_closed: float
    history_mebibytes: float


def main(arguments: Sequence[str]) -> int:
    """Run, print the curve, and compare with the maximum."""
    options = _parse(arguments)
    with tempfile.TemporaryDirectory(prefix="soak-") as name:
        readings = list(soak(Path(name), options.minutes))
    growth = growth_mebibytes(readings)
    if growth is None:
        print("no recommendation opened", file=sys.stderr)
        return 1
    print(f"growth since the first recommendation: {growth:.2f} MiB")
    return 1 if growth > _GROWTH_MAXIMUM_MEBIBYTES else 0


def growth_mebibytes(readings: Sequence[MemoryReading]) -> float | None:
    """Memory at the end above that at the first recommendation; `None` without one.

    The end is the median of the last readings: one that follows a page has the page, too.
    """
    since = [reading for reading in readings if reading.advice_open + reading.advice_closed]
    if not since:
        return None
    return median(reading.mebibytes for reading in since[-_LAST:]) - since[0].mebibytes


def soak(folder: Path, minutes: float) -> Iterator[MemoryReading]:
    """Readings, one a minute, printed as they come."""
    scenario = json.dumps(changing_owners(time.time(), int(minutes) + 2))
    (folder / "scenario.yaml").write_text(scenario, "utf-8")
    config: dict[str, Any] = {
        "path": {"api_socket": "agent.sock"},
        "history": {"path": "history.db"},
        "sources": {"simulated": {"scenario": "scenario.yaml"}},
        "recommender": {"interval": "1m", "jitter": "0s", "rules": {"idle": {"batch": "10m"}}},
        "web": {"listen_addresses": ["127.0.0.1:0"]},
    }
    with agent_process(folder, config=yaml.safe_dump(config), is_measured=True) as agent:
        yield from _readings(agent, folder, minutes)


def changing_owners(now_seconds: float, minutes: int) -> dict[str, Any]:
    """A scenario of a node for some minutes from a time."""
    first_minute = int(now_seconds) // _MINUTE
    numbers = itertools.count()
    workloads = [
        _job(next(numbers), gpu, first_minute + minute, 1)
        for minute in range(minutes)
        for gpu in _CHANGING_GPUS
    ]
    workloads += [
        _job(next(numbers), gpu, first_minute + minute, _IDLE_MINUTES, is_idle=True)
        for minute in range(0, minutes, _IDLE_MINUTES)
        for gpu in _IDLE_GPUS
    ]
    return {
        "name": "soak",
        "boards": [{"board": "H100-SXM5-80GB", "count": _GPUS}],
        "workloads": workloads,
        "faults": [
            {
                "kind": "xid",
                "code": _CODES[number % len(_CODES)],
                "gpus": [number % _GPUS],
                "after": f"{_FIRST_FAULT_SECONDS + number * _FAULT_MINUTES * _MINUTE}s",
                "for": "10s",
            }
            for number in range(minutes // _FAULT_MINUTES + 1)
        ],
    }


def _job(
    number: int, gpu: int, start_minute: int, minutes: int, *, is_idle: bool = False
) -> dict[str, Any]:
    activity, state = _ACTIVITIES[number % len(_ACTIVITIES)]
    if is_idle:
        activity, state = "nothing", "idle_held"
    return {
        "name": f"job-{number}",
        "kind": _KINDS[number % len(_KINDS)],
        "class": "batch",
        "gpus": [gpu],
        "memory_gib": 20,
        "start": _time_of_day(start_minute),
        "stop": _time_of_day(start_minute + minutes),
        "phases": [{"activity": activity, "state": state}],
    }


def _time_of_day(minute: int) -> str:
    hours, minutes = divmod(minute % _DAY_MINUTES, _MINUTE)
    return f"{hours:02}:{minutes:02}"


def _readings(agent: AgentProcess, folder: Path, minutes: float) -> Iterator[MemoryReading]:
    pid = agent.process.pid
    started = time.monotonic()
    next_minute = 1
    for scrapes in itertools.count():
        elapsed_minutes = (time.monotonic() - started) / _MINUTE
        agent.get("/metrics")
        # Not at the start, when it has no GPUs yet, and most of it is not loaded.
        if scrapes % _PAGE_EVERY_SCRAPES == 1:
            agent.get("/")
        if elapsed_minutes >= next_minute:
            next_minute += 1
            reading = MemoryReading(
                minutes=elapsed_minutes,
                mebibytes=memory_mebibytes(pid),
                advice_open=agent.metric("rightsizer_advice_open"),
                advice_closed=agent.metric("rightsizer_advice_outcomes_total"),
                history_mebibytes=_size_mebibytes(folder),
            )
            print(
                f"{reading.minutes:5.1f} min: {reading.mebibytes:.2f} MiB,"
                f" {reading.advice_open:.0f} open, {reading.advice_closed:.0f} closed,"
                f" history {reading.history_mebibytes:.2f} MiB, {cpu_seconds(pid):.1f} CPU s",
                flush=True,
            )
            yield reading
        if elapsed_minutes >= minutes:
            return
        time.sleep(_SCRAPE_SECONDS)


def _size_mebibytes(folder: Path) -> float:
    return sum(file.stat().st_size for file in folder.glob("history.db*")) / 2**20


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="how long it runs")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
