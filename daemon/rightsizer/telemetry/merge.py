"""Two readings of one device made into one: of each signal, the better source's value."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Final

from rightsizer.domain.reading import Missing, Reading
from rightsizer.domain.signal import Signal

__all__ = ["DCGM", "PREFERENCES", "Way", "merge"]

DCGM: Final = "dcgm"
"""The origin of what came through DCGM."""
_GPM: Final = "gpm"


class Way(StrEnum):
    """How a value reached us."""

    GPM = "gpm"
    DCGM_PROFILING = "dcgm profiling"
    NVML = "nvml"
    DCGM_NVML = "dcgm nvml"
    """What DCGM itself asks NVML for, and gives on later."""


_USUAL: Final = (Way.GPM, Way.NVML, Way.DCGM_PROFILING, Way.DCGM_NVML)
"""NVML is asked every tick, an exporter collects twice a minute."""

PREFERENCES: Final[Mapping[Signal, tuple[Way, ...]]] = {
    # A share of engine time against a share of time with any kernel resident.
    Signal.GPU_BUSY: (Way.GPM, Way.DCGM_PROFILING, Way.NVML, Way.DCGM_NVML),
}
"""The ways of a signal, the best first, where they are not the usual ones."""

_UNSAID: Final = frozenset({Missing.NOT_SUPPORTED, Missing.NOT_READ})
_EMPTY: Final[Mapping[Signal, Missing]] = {}


def merge(
    reading: Reading,
    values: Mapping[Signal, float],
    *,
    profiled: Collection[Signal] = (),
    missing: Mapping[Signal, Missing] = _EMPTY,
) -> Reading:
    """The reading with what DCGM has of the same device, where that is missing or better.

    Args:
        reading: Ours.
        values: DCGM's.
        profiled: Signals whose value DCGM took from the hardware's own counters.
        missing: Why DCGM has no value of others.
    """
    taken = {
        signal: value
        for signal, value in values.items()
        if _is_better(reading, signal, value, is_profiled=signal in profiled)
    }
    reasons = {
        signal: reason
        for signal, reason in missing.items()
        if reading.why_missing(signal) in _UNSAID and signal not in taken
    }
    if not taken and all(reading.missing.get(signal) == reasons[signal] for signal in reasons):
        return reading
    still_missing = {**reading.missing, **reasons}
    for signal in taken:
        still_missing.pop(signal, None)
    return replace(
        reading,
        values={**reading.values, **taken},
        missing=still_missing,
        origins={**reading.origins, **dict.fromkeys(taken, DCGM)},
    )


def _is_better(reading: Reading, signal: Signal, value: float, *, is_profiled: bool) -> bool:
    ours = reading.values.get(signal)
    if ours is None:
        return True
    origin = reading.origins.get(signal)
    if origin == DCGM:
        return value != ours
    if value == 0 < ours:
        return False  # Profiling counters that have died read 0 (dcgm-exporter#662).
    our_way = Way.GPM if origin == _GPM else Way.NVML
    way = Way.DCGM_PROFILING if is_profiled else Way.DCGM_NVML
    order = PREFERENCES.get(signal, _USUAL)
    return order.index(way) < order.index(our_way)
