"""Counters that only grow: integrals of a board's rates, the same whatever was asked before."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from rightsizer.domain.units import NANOSECONDS_PER_SECOND, Nanoseconds

__all__ = ["STEP", "Counters", "Integral", "Rates"]

STEP: Final[Nanoseconds] = 10 * NANOSECONDS_PER_SECOND
"""The usual distance of two points of the grid."""


@dataclass(frozen=True, slots=True)
class Counters:
    """What a board has used and moved since the driver was loaded."""

    energy_joules: float = 0.0
    pcie_receive_bytes: float = 0.0
    pcie_transmit_bytes: float = 0.0
    nvlink_receive_bytes: float = 0.0
    nvlink_transmit_bytes: float = 0.0


Rates = tuple[float, float, float, float, float]


class Integral:
    """The trapezoids under rates on a fixed grid, added up as far as anybody has asked."""

    def __init__(
        self,
        rates: Callable[[Nanoseconds], Rates],
        start: Nanoseconds,
        step: Nanoseconds = STEP,
    ) -> None:
        """An integral that is 0 at `start`.

        Args:
            rates: What is added up, per second.
            start: Where the sum begins.
            step: The distance of two points of the grid.
        """
        self._rates = rates
        self._start = start
        self._step = step
        self._sums: list[Rates] = [(0.0, 0.0, 0.0, 0.0, 0.0)]
        self._last = rates(start)
        self._lock = threading.Lock()

    def at(self, time: Nanoseconds) -> Counters:
        """The counters at a time; all 0 before the start."""
        step, rest = divmod(max(0, time - self._start), self._step)
        with self._lock:
            while len(self._sums) <= step:
                self._extend()
            sums = self._sums[step]
        if rest == 0:
            return Counters(*sums)
        left = self._rates(self._start + step * self._step)
        right = self._rates(self._start + (step + 1) * self._step)
        part = rest / self._step
        width = rest / NANOSECONDS_PER_SECOND
        # The rate is a straight line between two points of the grid.
        return Counters(
            *(
                total + width * (first + 0.5 * part * (second - first))
                for total, first, second in zip(sums, left, right, strict=True)
            )
        )

    def _extend(self) -> None:
        right = self._rates(self._start + len(self._sums) * self._step)
        width = 0.5 * self._step / NANOSECONDS_PER_SECOND
        self._sums.append(
            tuple(  # type: ignore[arg-type]
                total + width * (first + second)
                for total, first, second in zip(self._sums[-1], self._last, right, strict=True)
            )
        )
        self._last = right
