"""Rows of serving as NVIDIA's aiconfigurator predicts them."""

import json
import os
import subprocess
from pathlib import Path
from typing import Final

from msgspec import Struct

from profiler_environment import environment

_PROGRAM: Final = Path(__file__).parents[2] / "tests" / "profilers" / "aiconfigurator_estimate.py"
_MARK: Final = "TOLD "
_SECONDS_AT_MOST: Final = 1800.0


class PeerTimes(Struct, frozen=True):
    """Its prediction for one row."""

    ttft_ms: float
    tpot_ms: float


def peer_times(path: Path) -> dict[str, PeerTimes]:
    """Its predictions by the ids of a table's rows; rows without one are absent.

    Raises:
        Absent: it cannot be had here.
    """
    done = subprocess.run(
        [environment("planners"), _PROGRAM, path],
        capture_output=True,
        text=True,
        timeout=_SECONDS_AT_MOST,
        check=True,
        # It has the shapes of these models; nothing is asked of a hub.
        env=os.environ | {"HF_HUB_OFFLINE": "1"},
    )
    lines = (line for line in done.stdout.splitlines() if line.startswith(_MARK))
    answers = [json.loads(line.removeprefix(_MARK)) for line in lines]
    return {
        answer["id"]: PeerTimes(answer["ttft_ms"], answer["tpot_ms"])
        for answer in answers
        if "error" not in answer
    }
