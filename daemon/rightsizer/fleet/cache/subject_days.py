"""SubjectDays: cached days of a device or workload, and any span of them as a window."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import cached_property, lru_cache
from math import isnan
from operator import add
from typing import Final, NamedTuple, TypeVar

from rightsizer.fleet.cache.blocks import BlockColumns, CachedBlocks
from rightsizer.fleet.cache.day_frame import (
    COARSE_STEP,
    DEVICES_TEXT,
    ColumnKind,
    DayFrame,
    FrameLayout,
)
from rightsizer.fleet.cache.demands import DayDemands, Demands
from rightsizer.fleet.settings import DemandSettings
from rightsizer.model.block import Blocks
from rightsizer.model.state import Cause, Condition, Resource, State, Tier
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.model.window import Window

_WORDS: Final[Mapping[ColumnKind, type[StrEnum]]] = {
    ColumnKind.STATE: State,
    ColumnKind.CONDITION: Condition,
    ColumnKind.TIER: Tier,
    ColumnKind.SATURATED: Resource,
    ColumnKind.PRESSED: Resource,
    ColumnKind.WASTE: Cause,
    ColumnKind.WASTE_JOULES: Cause,
}
_JOULES: Final = "joules"
_SECONDS: Final = "seconds"
_Word = TypeVar("_Word", bound=StrEnum)
_Places = Mapping[str, int]


class WindowSums:
    """What adds up, column by column; days of one layout are added at once."""

    def __init__(self) -> None:
        self._found: dict[FrameLayout, list[float]] = {}

    def add(self, layout: FrameLayout, sums: Sequence[float]) -> None:
        """Add those of some stretches."""
        mine = self._found.get(layout)
        self._found[layout] = list(sums) if mine is None else list(map(add, mine, sums))

    def window(  # noqa: PLR0913 # What a window is made of.
        self,
        subject: str,
        start: Nanoseconds,
        end: Nanoseconds,
        span: Nanoseconds,
        *,
        demands: Demands,
        blocks: Blocks,
    ) -> Window:
        """The window.

        Args:
            subject: Whose it is.
            start: Where it begins.
            end: Where it ends.
            span: All its time; what has no state of it is unknown.
            demands: What was used over it.
            blocks: Its five minutes.
        """
        states = self._states(span)
        known = sum(states.values()) - states.get(State.UNKNOWN, 0)
        found = demands.found(states, known)
        return Window(
            uuid=subject,
            start=start,
            end=end,
            states=states,
            conditions=self._times(ColumnKind.CONDITION, Condition),
            tiers=self._times(ColumnKind.TIER, Tier),
            saturated=self._times(ColumnKind.SATURATED, Resource),
            pressed=self._times(ColumnKind.PRESSED, Resource),
            waste_seconds=self._of(ColumnKind.WASTE, Cause),
            waste_joules=self._of(ColumnKind.WASTE_JOULES, Cause),
            used_seconds=self._one(ColumnKind.USED, _SECONDS),
            used_joules=self._one(ColumnKind.USED, _JOULES),
            energy_joules=self._one(ColumnKind.ENERGY, _JOULES),
            demands=found.demands,
            compute_at_least=found.compute_at_least,
            blocks=blocks,
        )

    def _states(self, span: Nanoseconds) -> dict[State, Nanoseconds]:
        found = self._times(ColumnKind.STATE, State)
        found.pop(State.UNKNOWN, None)
        beyond = sum(found.values()) - span
        if beyond > 0:  # By what rounding made of it.
            largest = max(found, key=lambda state: found[state])
            found[largest] -= beyond
        elif beyond < 0:
            found[State.UNKNOWN] = -beyond
        return found

    def _times(self, kind: ColumnKind, words: Callable[[str], _Word]) -> dict[_Word, Nanoseconds]:
        found = self._of(kind, words)
        return {word: round(each * NANOSECONDS_PER_SECOND) for word, each in found.items()}

    def _of(self, kind: ColumnKind, words: Callable[[str], _Word]) -> dict[_Word, float]:
        found: dict[_Word, float] = {}
        for layout, sums in self._found.items():
            for name, place in _places(layout)[kind].items():
                if sums[place] > 0:
                    word = words(name)
                    found[word] = found.get(word, 0.0) + sums[place]
        return found

    def _one(self, kind: ColumnKind, name: str) -> float:
        return sum(
            sums[place]
            for layout, sums in self._found.items()
            if (place := _places(layout)[kind].get(name)) is not None
        )


@lru_cache(maxsize=256)
def _places(layout: FrameLayout) -> Mapping[ColumnKind, _Places]:
    """By kind and name, where a column stands; names that nobody knows are left out."""
    found: dict[ColumnKind, dict[str, int]] = {kind: {} for kind in ColumnKind}
    for place, column in enumerate(layout.columns):
        words = _WORDS.get(column.kind)
        if words is None or column.name in set(words):
            found[column.kind][column.name] = place
    return found


_SECOND: Final = NANOSECONDS_PER_SECOND
_UNKNOWN: Final = f"state:{State.UNKNOWN}"
_MORE_THAN_ALL: Final = 1.0 + 1e-3
"""What is kept is rounded; beyond that it cannot be true."""


class _DaysSpan(NamedTuple):
    """Stretches of one day."""

    first: int
    last: int
    """The first that is not in it."""


class SummedDay:
    """A sheet with what is asked of it again and again."""

    def __init__(self, sheet: DayFrame, settings: DemandSettings) -> None:
        self.known = sheet.known_seconds()
        """Of each stretch, all its devices together."""
        self.sheet = _bounded(sheet, self.known)
        self._used = DayDemands(self.sheet, self.known, settings)
        self._sums: dict[_DaysSpan, list[float]] = {}
        self._demands: dict[_DaysSpan, Demands] = {}

    @cached_property
    def heard(self) -> list[float]:
        """Seconds of each stretch in which it was there, its state known or not."""
        unknown = self.sheet.named(_UNKNOWN)
        if unknown is None or not any(unknown):
            return self.known
        return [
            known + (0.0 if isnan(more) else more)
            for known, more in zip(self.known, unknown, strict=True)
        ]

    @cached_property
    def known_parts(self) -> list[float]:
        """Of each stretch, 0 to 1."""
        step = self.sheet.grid.step / _SECOND
        devices = self.sheet.named(DEVICES_TEXT)
        if devices is None:
            if min(self.known) >= step:
                return [1.0] * len(self.known)
            return [min(1.0, each / step) for each in self.known]
        return [
            min(1.0, each / (step * number)) if number else 0.0
            for each, number in zip(self.known, devices, strict=True)
        ]

    def sums_of(self, span: _DaysSpan) -> list[float]:
        """Of what adds up, over some stretches."""
        if span not in self._sums:
            self._sums[span] = _sums(self.sheet, span.first, span.last)
        return self._sums[span]

    def demands_in(self, span: _DaysSpan) -> Demands:
        """What was used of each resource over some stretches."""
        if span not in self._demands:
            self._demands[span] = self._used.over(span.first, span.last)
        return self._demands[span]

    def span(self, start: Nanoseconds, end: Nanoseconds) -> _DaysSpan | None:
        """The stretches that begin in a span of time; `None` for none."""
        grid = self.sheet.grid
        first = max(0, -(-(start - grid.start) // grid.step))
        last = min(grid.count, -(-(end - grid.start) // grid.step))
        return _DaysSpan(first, last) if first < last else None

    def first_known(self, span: _DaysSpan) -> Nanoseconds | None:
        """When the first stretch of some begins of which anything is known."""
        for place, known in enumerate(self.known[span.first : span.last], start=span.first):
            if known > 0:
                return self.sheet.grid.start + place * self.sheet.grid.step
        return None


class SubjectDays:
    """Days in the order of time; two subjects that did the same may share them."""

    def __init__(self, days: Iterable[SummedDay]) -> None:
        self.days = tuple(days)
        self._blocks: dict[tuple[Nanoseconds, Nanoseconds], Blocks] = {}

    @cached_property
    def _columns(self) -> BlockColumns:
        return BlockColumns([(day.sheet, day.known_parts) for day in self.days])

    @property
    def fine_since(self) -> Nanoseconds:
        """From when on all of them are by five minutes; 0 where none is by the hour."""
        coarse = [day.sheet.grid.end for day in self.days if day.sheet.grid.step == COARSE_STEP]
        return max(coarse, default=0)

    def over(self, span: Nanoseconds | None, now: Nanoseconds) -> tuple[Nanoseconds, Nanoseconds]:
        """A span of time that ends now, as whole stretches that are over; `None` for all.

        Where the newest day is by the hour, ten minutes are answered by the last whole hour: what
        held over all of it held at its end, and nothing is known of the hour that runs.
        """
        step = self.days[-1].sheet.grid.step if self.days else 0
        if step != COARSE_STEP:
            return (0 if span is None else now - span), now
        end = now // step * step
        return (0 if span is None else end - -(-span // step) * step), end

    @cached_property
    def last_heard(self) -> Nanoseconds | None:
        """When the last stretch ends in which it was there."""
        for day in reversed(self.days):
            for place in range(day.sheet.grid.count - 1, -1, -1):
                if day.heard[place] > 0:
                    return day.sheet.grid.start + (place + 1) * day.sheet.grid.step
        return None

    def blocks(self, start: Nanoseconds, end: Nanoseconds) -> Blocks:
        """The blocks that begin in a span of time."""
        if end <= start:
            return Blocks()
        if (start, end) not in self._blocks:
            self._blocks[start, end] = CachedBlocks(self._columns, start, end)
        return self._blocks[start, end]

    def known_in(self, start: Nanoseconds, end: Nanoseconds) -> float:
        """Seconds that are known of a span of time."""
        return sum(sum(day.known[span.first : span.last]) for day, span in self._in(start, end))

    def window(
        self, subject: str, start: Nanoseconds, end: Nanoseconds, *, of_workload: bool = False
    ) -> Window:
        """What is known of a span of time: all stretches that begin in it.

        It begins with the first stretch of which anything is known; all of it that has no state
        is unknown, days that are not kept included. A workload's time is that of the devices
        that it had.
        """
        parts = list(self._in(start, end))
        began = next((at for day, span in parts if (at := day.first_known(span)) is not None), None)
        if began is None:
            return Window(subject, start, max(start, end), states=_states_of_nothing(start, end))
        sums = WindowSums()
        demands = Demands()
        for day, span in parts:
            sums.add(day.sheet.layout, day.sums_of(span))
            demands.add(day.demands_in(span))
        time = self._device_time(parts) if of_workload else end - began
        blocks = self.blocks(start, end)
        return sums.window(subject, began, end, time, demands=demands, blocks=blocks)

    def _in(self, start: Nanoseconds, end: Nanoseconds) -> Iterator[tuple[SummedDay, _DaysSpan]]:
        for day in self.days:
            grid = day.sheet.grid
            if grid.start < end and start < grid.end:
                span = day.span(start, end)
                if span is not None:
                    yield day, span

    @staticmethod
    def _device_time(parts: Sequence[tuple[SummedDay, _DaysSpan]]) -> Nanoseconds:
        total = 0
        for day, span in parts:
            devices = day.sheet.named(DEVICES_TEXT)
            step = day.sheet.grid.step
            if devices is None:
                total += (span.last - span.first) * step
            else:
                total += round(sum(devices[span.first : span.last]) * step)
        return total


def _states_of_nothing(start: Nanoseconds, end: Nanoseconds) -> Mapping[State, Nanoseconds]:
    return {State.UNKNOWN: end - start} if end > start else {}


def _sums(sheet: DayFrame, first: int, last: int) -> list[float]:
    values, count = sheet.values, sheet.grid.count
    found = [
        sum(values[place + first : place + last])
        for place in range(0, sheet.layout.additive * count, count)
    ]
    for at, total in enumerate(found):
        if isnan(total):  # Something in it is unknown.
            part = values[at * count + first : at * count + last]
            found[at] = sum(value for value in part if not isnan(value))
    return found


def _bounded(sheet: DayFrame, known: list[float]) -> DayFrame:
    """A sheet no stretch of which is longer than it can be: `increase` extrapolates.

    What is known of its stretches is cut with it.
    """
    step = sheet.grid.step / _SECOND
    devices = sheet.named(DEVICES_TEXT)
    if devices is None and max(known, default=0.0) <= step * _MORE_THAN_ALL:
        return sheet
    limits = [step * each for each in devices] if devices else [step] * sheet.grid.count
    long = [
        (place, limit)
        for place, (each, limit) in enumerate(zip(known, limits, strict=True))
        if each > limit * _MORE_THAN_ALL
    ]
    if not long:
        return sheet
    values = sheet.values[:]
    for place, limit in long:
        for column in sheet.layout.states:
            values[column * sheet.grid.count + place] *= limit / known[place]
        known[place] = limit
    return replace(sheet, values=values)
