"""Learned power range of a device, and its energy by counter or by integrated power."""

from typing import NamedTuple

from msgspec import Struct

from rightsizer.accounting.settings import EnergySettings, PowerSettings
from rightsizer.model.members import members
from rightsizer.model.values import (
    NANOSECONDS_PER_SECOND,
    EnergySource,
    Nanoseconds,
    State,
    nanoseconds,
    seconds,
)

_State = members(State)
_EnergySource = members(EnergySource)


class LearnedPower(Struct, frozen=True):
    """Power range of a device as stored in the history, so that it survives a restart."""

    lowest_watts: float
    highest_watts: float
    idle_watts: float | None = None
    """Idle power learned from empty seconds; `None` before there are enough of them."""
    empty_seconds: float = 0.0
    """Recent empty seconds."""


class PowerRange:
    """Learned power range of one device, bounded in memory by counting whole watts."""

    def __init__(self, settings: PowerSettings) -> None:
        self._settings = settings
        self._idle_memory = nanoseconds(settings.idle_memory_seconds)
        self._idle_minimum = nanoseconds(settings.idle_minimum_seconds)
        self._lowest: float | None = None
        self._highest: float | None = None
        self._empty: dict[int, Nanoseconds] = {}
        self._empty_total: Nanoseconds = 0
        self._idle: float | None = None
        """Cached quantile of `_empty`, or `None`."""

    def observe(self, watts: float) -> None:
        """Update the range with a reading in any state; ignore 0, as of a board that is off."""
        if watts > 0.0:
            if self._lowest is None or watts < self._lowest:
                self._lowest = watts
            if self._highest is None or watts > self._highest:
                self._highest = watts

    def account(self, watts: float, state: State, duration: Nanoseconds) -> None:
        """Learn the idle power from an interval with a known state."""
        if state is _State.IDLE_EMPTY:
            self._remember(watts, duration)

    def learned(self) -> LearnedPower | None:
        """Range learned so far, or `None` before the first reading."""
        if self._lowest is None or self._highest is None:
            return None
        seconds_seen = self._empty_total / NANOSECONDS_PER_SECOND
        idle = self._learned_idle_watts()
        return LearnedPower(self._lowest, self._highest, idle, round(seconds_seen))

    def restore(self, learned: LearnedPower) -> None:
        """Restore what an earlier process learned."""
        self.observe(learned.lowest_watts)
        self.observe(learned.highest_watts)
        if learned.idle_watts is not None:
            self._remember(learned.idle_watts, nanoseconds(learned.empty_seconds))

    def idle_watts(self, default_limit_watts: float | None) -> float | None:
        """Idle power; before it is learned, the lowest draw or a part of the limit."""
        if (idle := self._learned_idle_watts()) is not None or self._lowest is None:
            return idle
        if default_limit_watts is None:
            return self._lowest
        return min(self._lowest, self._settings.idle_limit_ratio * default_limit_watts)

    def _remember(self, watts: float, duration: Nanoseconds) -> None:
        key = round(watts)
        self._empty[key] = self._empty.get(key, 0) + duration
        self._empty_total += duration
        self._idle = None
        if self._empty_total >= 2 * self._idle_memory:
            halves = ((level, time // 2) for level, time in self._empty.items())
            self._empty = {level: time for level, time in halves if time}
            self._empty_total = sum(self._empty.values())

    def _learned_idle_watts(self) -> float | None:
        """Learned idle power; `None` after too few empty seconds."""
        if self._empty_total < self._idle_minimum:
            return None
        if self._idle is None:
            target = self._settings.idle_quantile_ratio * self._empty_total
            reached = 0
            for watts in sorted(self._empty):
                self._idle = float(watts)
                reached = reached + self._empty[watts]
                if reached >= target:
                    break
        return self._idle or 0.0


class MeasuredEnergy(NamedTuple):
    """Energy of an interval, and its source."""

    joules: float
    source: EnergySource


class EnergyMeter:
    """Meter of one device's energy, interval by interval.

    A counter updated less often than it is read stands still and then jumps. While it stands, the
    meter integrates power, and then deducts that energy from the jump, so that the total equals
    the counter's.
    """

    def __init__(self, settings: EnergySettings | None = None) -> None:
        self._settings = settings or EnergySettings()
        self._counter_joules: float | None = None
        self._stale_joules: float | None = None
        """Counter before a gap; a slow reader may repeat it afterwards."""
        self._still: Nanoseconds = 0
        self._ahead_joules = 0.0
        """Energy reported in excess of the counter."""
        self._owed_joules = 0.0
        """Part of that excess that even the last counter step did not confirm."""
        self._has_counter = False
        self._integral_joules: float | None = None

    @property
    def integral_joules(self) -> float | None:
        """Power over time since the first call, of a device that has power and no counter.

        One that stands at 0 is none. Once there was a counter, the two never take turns: each would
        look like a reset of the other.
        """
        return None if self._has_counter else self._integral_joules

    def restart(self, counter_joules: float | None) -> None:
        """Restart from a counter value, excluding any energy before it."""
        self._counter_joules = counter_joules
        self._still = 0
        self._stale_joules = None
        self._ahead_joules = self._owed_joules = 0.0

    def interrupt(self) -> None:
        """Exclude the energy of a gap, during which the counter kept running."""
        last = self._stale_joules if self._counter_joules is None else self._counter_joules
        self.restart(None)
        self._stale_joules = last

    def measure(
        self,
        elapsed: Nanoseconds,
        watts: float | None,
        counter_joules: float | None,
        limit_watts: float | None,
    ) -> MeasuredEnergy | None:
        """Energy since the last call, by the power and counter at its end; `None` without both.

        Without a limit every counter step is plausible.
        """
        drawn = None if watts is None else watts * seconds(elapsed)
        if counter_joules:
            self._has_counter = True
        elif drawn is not None:
            self._integral_joules = (self._integral_joules or 0.0) + drawn
        if counter_joules is not None and counter_joules == self._stale_joules:
            return _by_power(drawn)
        before = self._counter_joules
        if counter_joules is None or before is None or counter_joules < before:
            self.restart(counter_joules)
            return _by_power(drawn)
        self._still += elapsed
        if (moved := counter_joules - before) == 0:
            if drawn is not None:
                paid = min(self._owed_joules, drawn)
                self._owed_joules -= paid
                drawn -= paid
                self._ahead_joules += drawn
            return _by_power(drawn)
        if limit_watts is not None:
            joules_maximum = (
                self._settings.plausible_limit_ratio * limit_watts * seconds(self._still)
            )
            if moved > joules_maximum:
                self.restart(counter_joules)
                return _by_power(drawn)
        rest = moved - self._ahead_joules
        self.restart(counter_joules)
        self._ahead_joules = self._owed_joules = max(0.0, -rest)
        return MeasuredEnergy(max(0.0, rest), _EnergySource.COUNTER)


def _by_power(joules: float | None) -> MeasuredEnergy | None:
    return None if joules is None else MeasuredEnergy(joules, _EnergySource.POWER)
