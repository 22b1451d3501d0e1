"""One GPU over time: what its scenario's faults make of its slot."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, TypeVar

from rightsizer.domain.units import Nanoseconds
from rightsizer.telemetry.simulated.fault import (
    Absence,
    Answer,
    DeadCounters,
    Effect,
    Hang,
    Loss,
    NvlinkTrouble,
    PcieTrouble,
    Recut,
    Throttle,
)
from rightsizer.telemetry.simulated.nvlinks import link_count
from rightsizer.telemetry.simulated.outlook import HEALTHY, Health, Outlook
from rightsizer.telemetry.simulated.physics import Surroundings
from rightsizer.telemetry.simulated.plan import Slot, Spot

__all__ = ["Course", "Start"]

_Kind = TypeVar("_Kind", bound=Effect)

_OF_SURROUNDINGS: Final = (Throttle, PcieTrouble, NvlinkTrouble)


class Start:
    """When the simulation started: as it was told, or when it was first asked for."""

    def __init__(self, time: Nanoseconds | None) -> None:
        """A start that is known, or `None`."""
        self._time = time

    def at(self, now: Nanoseconds) -> Nanoseconds:
        """The start; now where nobody has asked before."""
        if self._time is None:
            self._time = now
        return self._time


class Course:
    """What is the case with a GPU at any time, its load apart."""

    def __init__(self, slot: Slot, around: Surroundings, outlook: Outlook, start: Start) -> None:
        """The GPU in a slot, in good health but for the faults."""
        self._slot = slot
        self._around = around
        self._outlook = outlook
        self._start = start
        self._varies = outlook.has(slot.index, *_OF_SURROUNDINGS)
        self._is_recut = outlook.has(slot.index, Recut)
        self._usual = tuple(Spot(slot.index, number) for number in range(len(slot.profiles)))

    @property
    def is_uneventful(self) -> bool:
        """Whether nothing ever happens to it."""
        return not self._outlook

    def around(self, time: Nanoseconds) -> Surroundings:
        """The slot's power, cooling and links."""
        if not self._varies:
            return self._around
        around = self._around
        for throttle in self._effects(Throttle, time):
            around = _throttled(around, throttle)
        for trouble in self._effects(PcieTrouble, time):
            around = replace(
                around,
                pcie_generation=min(
                    around.pcie_generation, trouble.generation or around.pcie_generation
                ),
                pcie_width=min(around.pcie_width, trouble.width or around.pcie_width),
                idle_pcie_generation=trouble.idle_generation or around.idle_pcie_generation,
            )
        links = link_count(around.board)
        down = sum(link < links for link in self.health(time).links_down)
        return replace(around, nvlinks_up_ratio=1.0 - down / links) if down else around

    def spots(self, time: Nanoseconds) -> tuple[Spot, ...]:
        """The instances that it is cut into; none where it is whole."""
        recut = self._effect(Recut, time) if self._is_recut else None
        if recut is None:
            return self._usual
        return tuple(
            Spot(self._slot.index, recut.first_instance + number)
            for number in range(len(recut.profiles))
        )

    def holds(self, spot: Spot, time: Nanoseconds) -> bool:
        """Whether workloads can be on the GPU or an instance of it."""
        if not self._is_recut:
            return True
        spots = self.spots(time)
        return spot in spots if spots else spot.instance is None

    def health(self, time: Nanoseconds) -> Health:
        """Its errors since the start."""
        if not self._outlook:
            return HEALTHY
        return self._outlook.health(self._slot.index, time, self._start.at(time))

    def is_absent(self, time: Nanoseconds) -> bool:
        """Whether it is not in its slot."""
        return self._effect(Absence, time) is not None

    def is_lost(self, time: Nanoseconds) -> bool:
        """Whether it has fallen off the bus."""
        return self._effect(Loss, time) is not None

    def hangs(self, time: Nanoseconds) -> tuple[Hang, ...]:
        """Which calls on it do not come back."""
        return tuple(self._effects(Hang, time))

    def answers(self, time: Nanoseconds) -> tuple[Answer, ...]:
        """Which calls on it answer with a code."""
        return tuple(self._effects(Answer, time))

    def is_silent(self, time: Nanoseconds) -> bool:
        """Whether nothing can be read of it."""
        if not self._outlook:
            return False
        return (
            self.is_absent(time)
            or self.is_lost(time)
            or bool(self.hangs(time))
            or any(not answer.function for answer in self.answers(time))
        )

    def has_dead_counters(self, time: Nanoseconds) -> bool:
        """Whether its profiling counters read 0."""
        return self._effect(DeadCounters, time) is not None

    def xids(self, after: Nanoseconds, until: Nanoseconds) -> list[tuple[Nanoseconds, int]]:
        """Its Xids between two times, the second included."""
        return self._outlook.xids(self._slot.index, after, until, self._start.at(until))

    def _effects(self, kind: type[_Kind], time: Nanoseconds) -> Iterator[_Kind]:
        return self._outlook.effects(self._slot.index, kind, time, self._start.at(time))

    def _effect(self, kind: type[_Kind], time: Nanoseconds) -> _Kind | None:
        return next(self._effects(kind, time), None)


def _throttled(around: Surroundings, throttle: Throttle) -> Surroundings:
    return replace(
        around,
        power_limit_watts=min(
            around.power_limit_watts, throttle.power_limit_watts or around.power_limit_watts
        ),
        ambient_celsius=throttle.ambient_celsius or around.ambient_celsius,
        clock_ceiling_ratio=min(around.clock_ceiling_ratio, throttle.clock_ratio or 1.0),
        ceiling_reasons=around.ceiling_reasons | throttle.reasons,
    )
