"""What the accounts say of one GPU around the time of a profile."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from rightsizer.domain.block import Measure
from rightsizer.domain.state import ACTIVE_STATES, Condition, Resource, State, Tier
from rightsizer.domain.units import Nanoseconds, seconds
from rightsizer.domain.window import Window

__all__ = ["Telemetry", "TelemetryOf"]

_WHOLE_RATIO: Final = 0.9


@dataclass(frozen=True, slots=True)
class Telemetry:
    """All windows of a device that overlap a span of time; shares are of the active time."""

    window: Window
    workload: str | None = None
    """The key of who held it then; `None` where nobody is known to."""
    memory_total_bytes: float | None = None
    unseen_seconds: float = 0.0
    """Of the time that was asked for, what is before or after all windows."""

    @property
    def span_seconds(self) -> float:
        """From where the first window begins to where the last one ends."""
        return seconds(self.window.end - self.window.start)

    @property
    def active_seconds(self) -> float:
        """Neither idle nor unknown."""
        return seconds(self.window.active)

    @property
    def unknown_seconds(self) -> float:
        """That nobody saw."""
        lost = self.window.end - self.window.start - self.window.accounted
        unknown = max(0, lost) + self.window.states.get(State.UNKNOWN, 0)
        return seconds(unknown) + self.unseen_seconds

    @property
    def has_profiling(self) -> bool:
        """Whether it was read with the counters of pipes."""
        return self.window.tier is Tier.PROFILING

    @property
    def main_state(self) -> State:
        """The active state that took most of the time."""
        return max(ACTIVE_STATES, key=lambda state: (self.share(state), state))

    @property
    def busy_ratio(self) -> float | None:
        """Part of the active time with a kernel resident; `None` where that was not read."""
        series = self.window.blocks.series(Measure.BUSY)
        busy = sum(
            known * mean for known, mean in zip(series.known_seconds, series.means, strict=True)
        )
        # A running window has no block yet, so that its time would count as idle.
        is_whole = sum(series.known_seconds) >= _WHOLE_RATIO * self.window.known_seconds
        if not is_whole or self.active_seconds <= 0:
            return None
        return min(1.0, busy / self.active_seconds)

    @property
    def memory_peak_bytes(self) -> float | None:
        """The most that was in use; `None` where that was not read."""
        held = self.window.demands.get(Resource.MEMORY)
        highest = None if held is None else held.maximum()
        if highest is None or self.memory_total_bytes is None:
            return None
        return highest * self.memory_total_bytes

    def share(self, *states: State) -> float:
        """The part of the active time in any of these states; 0 where there was none."""
        active = self.window.active
        held = sum(self.window.states.get(state, 0) for state in states)
        return held / active if active > 0 else 0.0

    def condition_share(self, condition: Condition) -> float:
        """The part of the active time during which a condition held, at most 1."""
        active = self.window.active
        return min(1.0, self.window.conditions.get(condition, 0) / active) if active > 0 else 0.0


TelemetryOf = Callable[[str, Nanoseconds, Nanoseconds], Telemetry | None]
"""What is known of a device (uuid) from a wall time to another; `None` where nothing is."""
