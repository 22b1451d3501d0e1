"""A device's day as a strip: time from left to right, each moment divided into its states."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from rightsizer.domain.report import StripCell
from rightsizer.domain.state import State
from rightsizer.domain.units import NANOSECONDS_PER_SECOND, Nanoseconds, seconds
from rightsizer.publish.web.view.words import STATE_ORDER, percent, spoken

__all__ = [
    "STRIP_HEIGHT",
    "STRIP_WIDTH",
    "Share",
    "StripView",
    "shares_of",
    "state_times",
    "strip_view",
]

STRIP_WIDTH: Final = 1440
STRIP_HEIGHT: Final = 100
_DAY: Final = 24 * 3600 * NANOSECONDS_PER_SECOND
_HOUR: Final = 3600 * NANOSECONDS_PER_SECOND
_TICK_HOURS: Final = 4
_SLOTS: Final = 144
_NAMED_SHARES: Final = 4


@dataclass(frozen=True, slots=True)
class Share:
    """A part of a whole, by its name in the style sheet and in words."""

    key: str
    name: str
    text: str
    ratio: float


@dataclass(frozen=True, slots=True)
class Area:
    """All of a strip that is in one state, as an SVG path."""

    key: str
    path: str


@dataclass(frozen=True, slots=True)
class Spell:
    """A stretch to point at, and what it says."""

    x: float
    width: float
    title: str


@dataclass(frozen=True, slots=True)
class Tick:
    """A full hour on the time axis."""

    x_ratio: float
    text: str


@dataclass(frozen=True, slots=True)
class StripView:
    """What the template draws."""

    areas: tuple[Area, ...]
    spells: tuple[Spell, ...]
    ticks: tuple[Tick, ...]
    shares: tuple[Share, ...]
    """The day's states, largest first."""
    label: str
    """The strip in words."""


def strip_view(cells: Sequence[StripCell], now: Nanoseconds) -> StripView:
    """A strip of the 24 hours that end now; time before the first cell stays blank."""
    start = now - _DAY
    shown = _merged([cell for cell in cells if cell.end > start and cell.start < now], start)
    shares = shares_of(state_times(shown))
    named = ", ".join(f"{share.name} {share.text}" for share in shares[:_NAMED_SHARES])
    return StripView(
        _areas(shown, start),
        _spells(shown, start),
        _ticks(start),
        shares,
        named or "nothing known of the last 24 hours",
    )


def state_times(cells: Sequence[StripCell]) -> dict[State, Nanoseconds]:
    """The time of these cells by state."""
    times: dict[State, Nanoseconds] = {}
    for cell in cells:
        for state, time in cell.states.items():
            times[state] = times.get(state, 0) + time
    return times


def shares_of(times: Mapping[State, float]) -> tuple[Share, ...]:
    """How time divides into states, largest part first."""
    total = sum(times.values())
    ordered = sorted(times, key=lambda state: (-times[state], STATE_ORDER.index(state)))
    return tuple(
        Share(state, spoken(state), percent(times[state] / total), times[state] / total)
        for state in ordered
        if times[state] > 0
    )


def _merged(cells: Sequence[StripCell], start: Nanoseconds) -> list[StripCell]:
    """Cells no finer than can be seen, so that a page of many devices stays small."""
    merged: list[StripCell] = []
    last_slot = None
    for cell in cells:
        slot = (cell.start - start) * _SLOTS // _DAY
        if merged and slot == last_slot and cell.start == merged[-1].end:
            states = state_times([merged[-1], cell])
            merged[-1] = StripCell(merged[-1].start, cell.end, states)
        else:
            merged.append(cell)
        last_slot = slot
    return merged


def _areas(cells: Sequence[StripCell], start: Nanoseconds) -> tuple[Area, ...]:
    """One path for each state; equal neighbors are drawn as one, which keeps pages small."""
    paths: dict[State, list[str]] = {state: [] for state in STATE_ORDER}
    for left, right, bands in _runs(cells, start):
        for state, top, bottom in bands:
            width, height = right - left, bottom - top
            paths[state].append(f"M{left:g} {top}h{width:g}v{height}h-{width:g}z")
    return tuple(Area(state, "".join(parts)) for state, parts in paths.items() if parts)


def _runs(
    cells: Sequence[StripCell], start: Nanoseconds
) -> list[tuple[float, float, tuple[tuple[State, int, int], ...]]]:
    runs: list[tuple[float, float, tuple[tuple[State, int, int], ...]]] = []
    for cell in cells:
        bands = _bands(cell)
        left, right = _x(max(cell.start, start), start), _x(cell.end, start)
        if runs and runs[-1][1] == left and runs[-1][2] == bands:
            runs[-1] = (runs[-1][0], right, bands)
        else:
            runs.append((left, right, bands))
    return runs


def _bands(cell: StripCell) -> tuple[tuple[State, int, int], ...]:
    """The cell's states from the bottom up, work lowest, in whole percent."""
    total = sum(cell.states.values())
    bands, reached = [], 0
    for state in STATE_ORDER:
        if total and (time := cell.states.get(state, 0)):
            before = round(reached / total * STRIP_HEIGHT)
            reached += time
            after = round(reached / total * STRIP_HEIGHT)
            if after > before:
                bands.append((state, STRIP_HEIGHT - after, STRIP_HEIGHT - before))
    return tuple(bands)


def _spells(cells: Sequence[StripCell], start: Nanoseconds) -> tuple[Spell, ...]:
    hours: dict[int, list[StripCell]] = {}
    for cell in cells:
        hours.setdefault(cell.start // _HOUR, []).append(cell)
    spells = []
    for inside in hours.values():
        begin, end = max(inside[0].start, start), inside[-1].end
        parts = ", ".join(
            f"{share.name} {share.text}" for share in shares_of(state_times(inside))[:3]
        )
        title = f"{_clock(begin)} to {_clock(end)}: {parts}"
        spells.append(Spell(_x(begin, start), _x(end, start) - _x(begin, start), title))
    return tuple(spells)


def _ticks(start: Nanoseconds) -> tuple[Tick, ...]:
    step = _TICK_HOURS * _HOUR
    first = -(-start // step) * step
    times = range(first, start + _DAY + 1, step)
    return tuple(Tick((time - start) / _DAY, _clock(time)) for time in times)


def _x(time: Nanoseconds, start: Nanoseconds) -> float:
    return round((time - start) / _DAY * STRIP_WIDTH, 1)


def _clock(time: Nanoseconds) -> str:
    return datetime.fromtimestamp(seconds(time), UTC).strftime("%H:%M")
