"""Small made-up traces, in the form of the recorded one."""

import gzip
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from evaluation.traces.fleet_trace import DUTY, Pod
from rightsizer.model.units import nanoseconds

START: Final = 1_662_854_400
"""Midnight, UTC."""
STEP_SECONDS: Final = 60


def pod(
    percents: Iterable[float], name: str = "a", start: int = START, step: int = STEP_SECONDS
) -> Pod:
    """A pod with a row each minute."""
    duties = tuple(percent / 100 for percent in percents)
    times = tuple(nanoseconds(float(start + step * place)) for place in range(len(duties)))
    return Pod(name, times, duties)


def wave(
    hours: Sequence[tuple[float, float]], step_seconds: int = STEP_SECONDS
) -> tuple[float, ...]:
    """Percents for some hours each: hours and percent."""
    return tuple(
        percent for length, percent in hours for _ in range(round(length * 3600 / step_seconds))
    )


def write_trace(
    folder: Path,
    fleet: Mapping[str, Sequence[float]],
    start: int = START,
    step_seconds: int = STEP_SECONDS,
) -> Path:
    """The file of a fleet: percents by pod, all from the same time on."""
    rows = ["timestamp_s,pod,value"] + [
        f"{start + step_seconds * place},{name},{percent:g}"
        for name, percents in sorted(fleet.items())
        for place, percent in enumerate(percents)
    ]
    with gzip.open(folder / DUTY, "wt", encoding="utf-8") as file:
        file.write("\n".join(rows) + "\n")
    return folder
