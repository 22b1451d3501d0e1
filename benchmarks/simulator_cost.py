"""Simulator's part of an agent's cost: its memory alone, and its CPU inside an agent."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from benchmarks.options import Options

_FOLDER: Final = Path(__file__).parent


class SimulatorCost(Struct, frozen=True):
    """Means over a run."""

    mebibytes: float
    cpu_seconds_per_tick: float
    calls_per_tick: float


def simulator_cost(options: Options) -> SimulatorCost:
    """Measured in processes of their own."""
    alone = _run("simulator_alone.py")
    without = _run("bindings_alone.py")
    inside = _run("timed_agent.py", str(options.seconds))
    return SimulatorCost(
        mebibytes=alone["mebibytes"] - without["mebibytes"],
        cpu_seconds_per_tick=inside["cpu_seconds"] / inside["ticks"],
        calls_per_tick=inside["calls"] / inside["ticks"],
    )


def _run(script: str, *arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(_FOLDER / script), *arguments],
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
