"""View of a device's past as a strip of states over a span."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, TypeAlias

from msgspec import Struct

from rightsizer.model.values import (
    NANOSECONDS_PER_SECOND,
    DeviceSpan,
    Nanoseconds,
    Report,
    Span,
    State,
    StripCell,
    percent_text,
    seconds,
)
from rightsizer.report.labels import STATE_ORDER, display_name

STRIP_WIDTH: Final = 1440
STRIP_HEIGHT: Final = 100
_MINUTE: Final = 60 * NANOSECONDS_PER_SECOND
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_NAMED_SHARES: Final = 4
_SEGMENT_PARTS: Final = 3


class Grain(Struct, frozen=True):
    """Resolution of a strip, to limit the size of pages with many devices."""

    slots: int
    """From left to right."""
    step: int
    """Of the height, which is 100."""
    has_segments: bool


FINE: Final = Grain(144, 1, has_segments=True)
COARSE: Final = Grain(48, 10, has_segments=False)


class _Axis(Struct, frozen=True):
    """Labels of a span's time axis, and the length of its hover intervals."""

    tick: Nanoseconds
    segment: Nanoseconds
    time_format: str


_AXES: Final = {
    _HOUR: _Axis(10 * _MINUTE, 5 * _MINUTE, "%H:%M"),
    6 * _HOUR: _Axis(_HOUR, 15 * _MINUTE, "%H:%M"),
    _DAY: _Axis(4 * _HOUR, _HOUR, "%H:%M"),
    7 * _DAY: _Axis(_DAY, 6 * _HOUR, "%a %-d"),
    30 * _DAY: _Axis(5 * _DAY, _DAY, "%-d %b"),
}
"""By the longest span of each, shortest first."""


def _axis(length: Nanoseconds) -> _Axis:
    return next((axis for longest, axis in _AXES.items() if length <= longest), _AXES[30 * _DAY])


class Share(Struct, frozen=True):
    """Part of a whole, with its name in the style sheet and in words."""

    key: str
    name: str
    text: str
    ratio: float


class StripSegment(Struct, frozen=True):
    """Hover interval and its text."""

    x: float
    width: float
    title: str


class StripView(Struct, frozen=True):
    """Values for the template."""

    areas: Mapping[str, str]
    """SVG path by state, covering all that is in it or in one below it."""
    segments: tuple[StripSegment, ...]
    shares: tuple[Share, ...]
    """The span's states, largest first."""
    label: str


def strip_view(past: DeviceSpan, now: Nanoseconds, span: Span, grain: Grain = FINE) -> StripView:
    """Return the strip of the span that ends now; time before the first cell is blank."""
    start = now - span.length
    shown = [cell for cell in past.cells if cell.end > start and cell.start < now]
    shares = shares_of(past.states)
    named = ", ".join(f"{share.name} {share.text}" for share in shares[:_NAMED_SHARES])
    frame = _Frame(start, span, grain)
    return StripView(
        frame.areas(frame.merged(shown)),
        frame.segments(shown) if grain.has_segments else (),
        shares,
        named or f"nothing known of {span.words}",
    )


def state_times(cells: Iterable[StripCell]) -> dict[State, Nanoseconds]:
    """Return the time of these cells by state."""
    times: Counter[State] = Counter()
    for cell in cells:
        times.update(cell.states)
    return times


def shares_of(times: Mapping[State, float]) -> tuple[Share, ...]:
    """Return the shares of states, largest first."""
    total = sum(times.values())
    ordered = sorted(times, key=lambda state: (-times[state], STATE_ORDER.index(state)))
    return tuple(
        Share(state, display_name(state), percent_text(times[state] / total), times[state] / total)
        for state in ordered
        if times[state] > 0
    )


def ticks_of(span: Span, now: Nanoseconds) -> tuple[tuple[float, str], ...]:
    """Return the round times of a span."""
    axis = _axis(span.length)
    start = now - span.length
    first = -(-start // axis.tick) * axis.tick
    return tuple(
        ((time - start) / span.length, _clock(time, axis.time_format))
        for time in range(first, now + 1, axis.tick)
    )


_Level: TypeAlias = tuple[float, float, Sequence[int]]
"""Start and end of a cell, and the height of each state."""


class _Frame(Struct, frozen=True):
    start: Nanoseconds
    span: Span
    grain: Grain

    def merged(self, cells: Sequence[StripCell]) -> list[StripCell]:
        """Merge cells that are too narrow to be visible."""
        merged: list[StripCell] = []
        last_slot = None
        for cell in cells:
            slot = (cell.start - self.start) * self.grain.slots // self.span.length
            if merged and slot == last_slot and cell.start == merged[-1].end:
                states = state_times([merged[-1], cell])
                merged[-1] = StripCell(merged[-1].start, cell.end, states)
            else:
                merged.append(cell)
            last_slot = slot
        return merged

    def areas(self, cells: Sequence[StripCell]) -> dict[str, str]:
        """Return an outline of each state with all below it: each is drawn over the one before.

        A third of the size of as many rectangles.
        """
        levels = [self._levels(cell) for cell in cells]
        present = {state for cell in cells for state, time in cell.states.items() if time}
        ordered = [state for state in reversed(STATE_ORDER) if state in present]
        return {state: _outline(levels, STATE_ORDER.index(state)) for state in ordered}

    def segments(self, cells: Sequence[StripCell]) -> tuple[StripSegment, ...]:
        axis = _axis(self.span.length)
        segments: dict[int, list[StripCell]] = {}
        for cell in cells:
            segments.setdefault(cell.start // axis.segment, []).append(cell)
        return tuple(self._segment(inside) for inside in segments.values())

    def _segment(self, inside: Sequence[StripCell]) -> StripSegment:
        begin = max(inside[0].start, self.start)
        end = inside[-1].end
        shares = shares_of(state_times(inside))[:_SEGMENT_PARTS]
        parts = ", ".join(f"{share.name} {share.text}" for share in shares)
        title = f"{clock_range(begin, end, self.span.length)}: {parts}"
        x = self._x(begin)
        return StripSegment(x, round(self._x(end) - x, 1), title)

    def _levels(self, cell: StripCell) -> _Level:
        """Return the height of each state including those below it, in whole steps."""
        total = sum(cell.states.values()) or 1
        steps = STRIP_HEIGHT // self.grain.step
        tops = []
        reached = 0
        for state in STATE_ORDER:
            reached += cell.states.get(state, 0)
            tops.append(STRIP_HEIGHT - round(reached / total * steps) * self.grain.step)
        return self._x(max(cell.start, self.start)), self._x(cell.end), tops

    def _x(self, time: Nanoseconds) -> float:
        share = min(1.0, (time - self.start) / self.span.length)
        return round(share * STRIP_WIDTH, 1)


def _outline(levels: Sequence[_Level], index: int) -> str:
    parts: list[str] = []
    x = -1.0
    y = STRIP_HEIGHT
    for left, right, tops in levels:
        top = tops[index]
        if not parts:
            parts.append(f"M{left:g} {STRIP_HEIGHT}")
        elif left > x:  # The time between is unknown.
            parts.append(f"H{x:g}V{STRIP_HEIGHT}H{left:g}")
            y = STRIP_HEIGHT
        elif top != y:
            parts.append(f"H{x:g}")
        if top != y:
            parts.append(f"V{top}")
        x = right
        y = top
    return "".join([*parts, f"H{x:g}V{STRIP_HEIGHT}z"]) if parts else ""


def clock_range(start: Nanoseconds, end: Nanoseconds, length: Nanoseconds) -> str:
    """Return a time range in words, with the day if it exceeds one."""
    return f"{clock_text(start, length)} to {clock_text(end, length)}"


def clock_text(time: Nanoseconds, length: Nanoseconds) -> str:
    """Return a time within a range of some length, with the day if it exceeds one."""
    return _clock(time, "%H:%M" if length <= _DAY else "%-d %b %H:%M")


def _clock(time: Nanoseconds, time_format: str) -> str:
    return datetime.fromtimestamp(seconds(time), UTC).strftime(time_format)


def spans_of_report(report: Report, span: Span) -> dict[str, DeviceSpan]:
    """Return the cells of the report's own strips within a span."""
    since = report.wall_time - span.length
    spans = {}
    for device in report.devices:
        if not device.device.has_mig_instances:
            cells = tuple(cell for cell in device.strip if cell.end > since)
            spans[device.device.uuid] = DeviceSpan(cells, state_times(cells))
    return spans
