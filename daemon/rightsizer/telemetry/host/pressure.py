"""Pressure stall information: for which share of the time some task waited."""

import re
from typing import Final

from rightsizer.domain.signal import Signal
from rightsizer.domain.units import Nanoseconds
from rightsizer.telemetry.host.counter import Counter
from rightsizer.telemetry.host.text import read

__all__ = ["group_pressures", "node_pressures"]

_KINDS: Final = (
    (Signal.CPU_PRESSURE, "cpu"),
    (Signal.IO_PRESSURE, "io"),
    (Signal.MEMORY_PRESSURE, "memory"),
)
_SOME: Final = re.compile(r"some avg10=(\d+(?:\.\d+)?) .*?total=(\d+)")
_MICROSECOND: Final = 1000


def node_pressures(procfs: str, now: Nanoseconds) -> dict[Signal, Counter]:
    """Of the whole node; empty where the kernel does not keep them."""
    return _pressures(f"{procfs}/pressure/", "", now)


def group_pressures(folder: str, now: Nanoseconds) -> dict[Signal, Counter]:
    """Of a control group of version 2."""
    return _pressures(f"{folder}/", ".pressure", now)


def _pressures(prefix: str, suffix: str, now: Nanoseconds) -> dict[Signal, Counter]:
    counters: dict[Signal, Counter] = {}
    for signal, name in _KINDS:
        found = _SOME.match(read(f"{prefix}{name}{suffix}") or "")
        if found is not None:
            recent, waited = found.groups()
            counters[signal] = Counter(int(waited) * _MICROSECOND, now, float(recent) / 100)
    return counters
