"""How the page says things: states, causes, actions, shares and times in a person's words."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from rightsizer.domain.finding import Severity
from rightsizer.domain.state import State
from rightsizer.domain.units import Nanoseconds, format_duration, seconds

__all__ = [
    "ABSENT",
    "SEVERITY_COLORS",
    "STATE_MEANINGS",
    "STATE_ORDER",
    "TIMES",
    "Moment",
    "moment",
    "percent",
    "spoken",
]

STATE_ORDER: Final = (
    State.COMPUTE_BOUND,
    State.MEMORY_BANDWIDTH_BOUND,
    State.PRODUCTIVE,
    State.LAUNCH_BOUND,
    State.HOST_BOUND,
    State.STORAGE_BOUND,
    State.PCIE_BOUND,
    State.HIDDEN_STALL,
    State.IDLE_HELD,
    State.IDLE_EMPTY,
    State.UNKNOWN,
)
"""From work over waiting to idleness; strips stack and legends list in this order."""

STATE_MEANINGS: Final[Mapping[State, str]] = {
    State.COMPUTE_BOUND: "limited by arithmetic: well used",
    State.MEMORY_BANDWIDTH_BOUND: "limited by memory bandwidth: well used",
    State.PRODUCTIVE: "working, with room left",
    State.LAUNCH_BOUND: "kernels too small to fill it",
    State.HOST_BOUND: "waiting for the CPU",
    State.STORAGE_BOUND: "waiting for storage",
    State.PCIE_BOUND: "waiting for transfers",
    State.HIDDEN_STALL: "looks busy, computes nothing",
    State.IDLE_HELD: "held by someone, unused",
    State.IDLE_EMPTY: "free",
    State.UNKNOWN: "no telemetry: nobody knows",
}

SEVERITY_COLORS: Final[Mapping[Severity, str]] = {
    Severity.CRITICAL: "act",
    Severity.HIGH: "act",
    Severity.MEDIUM: "tight",
    Severity.LOW: "headroom",
}
"""Most urgent first; each has its word beside it, so that none is told by color alone."""

ABSENT: Final = "\u2013"
"""Stands for what is not known: a dash."""

TIMES: Final = "\u00d7"
"""The multiplication sign."""

_SPOKEN: Final = {
    "pcie": "PCIe",
    "nvlink": "NVLink",
    "numa": "NUMA",
    "gpu": "GPU",
    "mig": "MIG",
    "cuda": "CUDA",
    "sm": "SM",
    "nvml": "NVML",
    "dram": "DRAM",
    "mps": "MPS",
}


@dataclass(frozen=True, slots=True)
class Moment:
    """A point in time, for people and for `<time datetime>`."""

    text: str
    machine: str
    age: str


def spoken(word: str) -> str:
    """A word of the vocabulary as a person writes it: `pcie_bound` is `PCIe bound`."""
    text = " ".join(_SPOKEN.get(part, part) for part in word.split("_"))
    return text[:1].upper() + text[1:]


def percent(share: float) -> str:
    """A share in whole percent; a little is never shown as nothing, nor nearly all as all."""
    if 0 < share < 0.005:  # noqa: PLR2004 - what would round to 0.
        return "<1\u00a0%"
    if 0.995 <= share < 1:  # noqa: PLR2004 - what would round to 100.
        return ">99\u00a0%"
    return f"{share:.0%}".replace("%", "\u00a0%")


def moment(time: Nanoseconds, now: Nanoseconds) -> Moment:
    """A wall time in UTC, and how long ago it was."""
    utc = datetime.fromtimestamp(seconds(time), UTC)
    age = format_duration(max(0.0, seconds(now - time)))
    return Moment(utc.strftime("%Y-%m-%d %H:%M UTC"), utc.strftime("%Y-%m-%dT%H:%M:%SZ"), age)
