"""A reading in the making: collectors put answers in, what cannot be true stays out."""

import math
from typing import Any, Final

from rightsizer.domain.reading import Missing, Process, Reading
from rightsizer.domain.signal import Signal
from rightsizer.domain.units import Nanoseconds
from rightsizer.telemetry.nvml.failure import Failure

__all__ = ["Draft"]

# NVML's words for "no value", 32 and 64 bits wide, and DCGM's, which leak through.
_BLANKS: Final = frozenset({2**32 - 1, 2**64 - 1, *range(0x7FFFFFFFFFFFFFF0, 0x7FFFFFFFFFFFFFF8)})
_BENIGN: Final = frozenset({Missing.NOT_SUPPORTED, Missing.NO_SAMPLE})


class Draft:
    """What the collectors found of one device; the first value of a signal stays."""

    __slots__ = ("failures", "lost", "processes", "troubled", "values")

    def __init__(self) -> None:
        """An empty draft."""
        self.values: dict[Signal, float] = {}
        self.failures: dict[Signal, Failure] = {}
        self.processes: tuple[Process, ...] | None = None
        self.lost: Failure | None = None
        """The answer that says that the device is gone; nothing more need be asked."""
        self.troubled = False
        """Whether an answer was a failure that is nobody's normal case."""

    def put(self, signal: Signal, answer: Any, scale: float = 1.0) -> None:
        """Take a number in the driver's unit, or a failure."""
        if isinstance(answer, Failure):
            self.fail(signal, answer)
        elif signal not in self.values:
            if answer in _BLANKS or answer < 0 or not math.isfinite(answer):
                self.fail(signal, _invalid(signal, answer))
            else:
                self.values[signal] = answer * scale

    def put_percent(self, signal: Signal, answer: Any, overshoot_ratio: float = 0.0) -> None:
        """Take a percentage of capacity, or a failure; 1 at most."""
        if isinstance(answer, Failure):
            self.fail(signal, answer)
        elif signal not in self.values:
            if not 0 <= answer <= 100 * (1 + overshoot_ratio):
                self.fail(signal, _invalid(signal, answer))
            else:
                self.values[signal] = min(1.0, answer / 100)

    def fail(self, signal: Signal, failure: Failure) -> None:
        """Note why a signal is missing; a second way that failed says more than an absent one."""
        known = self.failures.get(signal)
        if known is None or known.reason is Missing.NOT_SUPPORTED:
            self.failures[signal] = failure
        if failure.reason is Missing.LOST:
            self.lost = failure
        if failure.reason not in _BENIGN:
            self.troubled = True

    def reading(self, uuid: str, time: Nanoseconds) -> Reading:
        """The finished reading."""
        missing = {
            signal: failure.reason
            for signal, failure in self.failures.items()
            if signal not in self.values
        }
        return Reading(uuid, time, self.values, missing, self.processes)


def _invalid(signal: Signal, answer: float) -> Failure:
    return Failure(Missing.INVALID, signal, f"the driver answered {answer}")
