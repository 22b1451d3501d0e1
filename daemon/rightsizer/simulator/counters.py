"""Monotonic counters of a board: integrals of its rates, independent of earlier reads."""

import threading
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from msgspec import Struct
from msgspec.structs import astuple

from rightsizer.model.values import NANOSECONDS_PER_SECOND, Nanoseconds

STEP: Final[Nanoseconds] = 10 * NANOSECONDS_PER_SECOND
"""Default distance of two grid points."""


class GpuCounters(Struct, frozen=True):
    """Totals of a board since the driver was loaded."""

    energy_joules: float = 0.0
    pcie_receive_bytes: float = 0.0
    pcie_transmit_bytes: float = 0.0
    nvlink_receive_bytes: float = 0.0
    nvlink_transmit_bytes: float = 0.0
    power_violation_seconds: float = 0.0
    """Time that the power limit held the clocks down."""
    thermal_violation_seconds: float = 0.0
    """Time that heat did, through software or hardware."""

    def since(self, earlier: "GpuCounters") -> "GpuCounters":
        """Return the increase since an earlier reading."""
        pairs = zip(astuple(self), astuple(earlier), strict=True)
        return GpuCounters(*(later - before for later, before in pairs))


Rates = tuple[float, ...]
"""Increase of each counter a second, in field order; missing ones are 0."""
_NOTHING: Final[Rates] = (0.0,) * len(GpuCounters.__struct_fields__)
_CHECKPOINT_STEPS: Final = 360
_KEPT_ANSWERS: Final = 4


class RateIntegral:
    """Integral of rates by trapezoids on a fixed grid.

    Evaluation continues from the last time asked for; earlier times restart from a checkpoint, so
    that little is kept, and results never depend on the order of calls.
    """

    def __init__(
        self, rates: Callable[[Nanoseconds], Rates], start: Nanoseconds, step: Nanoseconds = STEP
    ) -> None:
        self._rates = rates
        self._start = start
        self._step = step
        self._last = 0
        self._sums: Rates = _NOTHING
        self._checkpoints: list[Rates] = [_NOTHING]
        # Cached: the present and the load of the driver are asked for repeatedly.
        self.at = lru_cache(maxsize=_KEPT_ANSWERS)(self._at)
        """Returns the counters at a time; all 0 before the start."""
        self._right: tuple[int, Rates] | None = None
        self._lock = threading.Lock()

    def _at(self, time: Nanoseconds) -> GpuCounters:
        step, rest = divmod(max(0, time - self._start), self._step)
        with self._lock:
            sums = self._sum(step)
        if rest == 0:
            return GpuCounters(*sums)
        left = self._rates_at(step)
        right = self._rates_at(step + 1)
        part = rest / self._step
        width = rest / NANOSECONDS_PER_SECOND
        # Rates are linear between two grid points.
        return GpuCounters(
            *(
                total + width * (first + 0.5 * part * (second - first))
                for total, first, second in zip(sums, left, right, strict=True)
            )
        )

    def _sum(self, step: int) -> Rates:
        if step < self._last:
            checkpoint = step // _CHECKPOINT_STEPS
            sums = self._checkpoints[checkpoint]
            for done in range(checkpoint * _CHECKPOINT_STEPS, step):
                sums = self._added(sums, done)
            return sums
        while self._last < step:
            self._sums = self._added(self._sums, self._last)
            self._last += 1
            if self._last % _CHECKPOINT_STEPS == 0:
                self._checkpoints.append(self._sums)
        return self._sums

    def _added(self, sums: Rates, step: int) -> Rates:
        width = 0.5 * self._step / NANOSECONDS_PER_SECOND
        before = self._right
        right = self._rates_at(step + 1)
        # The end of one step is the beginning of the next.
        left = before[1] if before and before[0] == step else self._rates_at(step)
        self._right = step + 1, right
        parts = zip(sums, left, right, strict=True)
        return tuple(total + width * (first + second) for total, first, second in parts)

    def _rates_at(self, step: int) -> Rates:
        return self._rates(self._start + step * self._step)
