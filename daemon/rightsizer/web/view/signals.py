"""View of a past time range: a chart per signal, and links to other ranges."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.model.values import (
    BLOCK_SPAN,
    NANOSECONDS_PER_SECOND,
    Advice,
    Block,
    Blocks,
    Measure,
    Nanoseconds,
    Span,
    TimeRange,
    percent_text,
)
from rightsizer.report.labels import action_label, uncapitalized
from rightsizer.web.page_query import PageQuery
from rightsizer.web.view.strip import STRIP_WIDTH, StripSegment, clock_range, clock_text, ticks_of

CHART_HEIGHT: Final = 40
_MOST_SLOTS: Final = 96
"""Number that can be pointed at; each is a multiple of the stored five minutes."""
_FLAT_BELOW: Final = 0.02
"""Peak of a signal that needs no height. Source: assumed."""
_SHOWN: Final = {
    Measure.BUSY: ("Busy", "Share of time with a kernel resident: what GPU_UTIL shows"),
    Measure.COMPUTE: ("Compute", "SM activity times clock"),
    Measure.MEMORY_BANDWIDTH: ("Memory bandwidth", "Share of time that memory moved data"),
    Measure.MEMORY: ("Memory", "Framebuffer used of total"),
    Measure.PCIE: ("PCIe", "The busier direction, of the link's rate"),
    Measure.NVLINK: ("NVLink", "The busier direction, of the links' rate"),
}


class SignalChart(Struct, frozen=True):
    """A signal over time; ratios of the device from bottom to top."""

    name: str
    meaning: str
    mean: str
    """SVG path of steps."""
    peak: str
    """Area below the peaks."""
    segments: tuple[StripSegment, ...]
    text: str
    """Mean and peak over the whole range, in words."""
    size: str
    """Height by importance: `tall` for the busiest, `flat` for what is hardly used, or none."""


def signal_charts(parts: Sequence[Blocks], shown: TimeRange) -> tuple[SignalChart, ...]:
    """Return a chart for each signal with known values; for several devices, of their mean."""
    step = max(1, math.ceil((shown.end - shown.start) / BLOCK_SPAN / _MOST_SLOTS)) * BLOCK_SPAN
    slots_of = {
        measure: _slots((block for part in parts for block in part.each(measure)), step)
        for measure in _SHOWN
    }
    means = {measure: _mean(slots) for measure, slots in slots_of.items() if slots}
    busiest = max(means, key=means.__getitem__, default=None)
    return tuple(
        _chart(measure, slots_of[measure], shown, is_tall=measure is busiest) for measure in means
    )


def _mean(slots: Sequence["_Slot"]) -> float:
    known_seconds = sum(slot.known_seconds for slot in slots)
    return sum(slot.mean * slot.known_seconds for slot in slots) / known_seconds


class _Slot(Struct, frozen=True):
    start: Nanoseconds
    end: Nanoseconds
    known_seconds: float
    mean: float
    peak: float


def _slots(blocks: Iterable[Block], step: Nanoseconds) -> list[_Slot]:
    by_start: dict[Nanoseconds, list[Block]] = {}
    for block in blocks:
        if block.known_seconds > 0:
            by_start.setdefault(block.start - block.start % step, []).append(block)
    slots = []
    for start, inside in sorted(by_start.items()):
        known_seconds = sum(block.known_seconds for block in inside)
        mean = sum(block.mean * block.known_seconds for block in inside) / known_seconds
        peak = max(block.peak for block in inside)
        slots.append(_Slot(start, start + step, known_seconds, mean, peak))
    return slots


def _chart(
    measure: Measure, slots: Sequence[_Slot], shown: TimeRange, *, is_tall: bool
) -> SignalChart:
    name, meaning = _SHOWN[measure]
    peak = max(slot.peak for slot in slots)
    runs = _runs(slots)
    means = (_steps(run, _y(run[0].mean), [slot.mean for slot in run], shown) for run in runs)
    peaks = (_steps(run, CHART_HEIGHT, [slot.peak for slot in run], shown) for run in runs)
    return SignalChart(
        name=name,
        meaning=meaning,
        mean="".join(means),
        peak="".join(f"{steps}V{CHART_HEIGHT}Z" for steps in peaks),
        segments=tuple(_segment(slot, shown) for slot in slots),
        text=f"mean {percent_text(_mean(slots))}, peak {percent_text(peak)}",
        size="flat" if peak < _FLAT_BELOW else "tall" if is_tall else "",
    )


def _runs(slots: Sequence[_Slot]) -> list[list[_Slot]]:
    """Group adjacent slots; unobserved time separates two runs."""
    runs: list[list[_Slot]] = []
    for slot in slots:
        if runs and runs[-1][-1].end == slot.start:
            runs[-1].append(slot)
        else:
            runs.append([slot])
    return runs


def _steps(run: Sequence[_Slot], top: float, ratios: Sequence[float], shown: TimeRange) -> str:
    """Return a path from a height, with a step per slot."""
    steps = zip(run, ratios, strict=True)
    parts = (f"V{_y(ratio):g}H{_x(slot.end, shown):g}" for slot, ratio in steps)
    return "".join((f"M{_x(run[0].start, shown):g} {top:g}", *parts))


def _x(time: Nanoseconds, shown: TimeRange) -> float:
    share = (time - shown.start) / (shown.end - shown.start)
    return round(min(1.0, max(0.0, share)) * STRIP_WIDTH, 1)


def _y(ratio: float) -> float:
    return round(CHART_HEIGHT * (1.0 - min(1.0, max(0.0, ratio))), 1)


def _segment(slot: _Slot, shown: TimeRange) -> StripSegment:
    start = max(slot.start, shown.start)
    end = min(slot.end, shown.end)
    times = clock_range(start, end, shown.end - shown.start)
    title = f"{times}: mean {percent_text(slot.mean)}, peak {percent_text(slot.peak)}"
    x = _x(slot.start, shown)
    return StripSegment(x, round(_x(slot.end, shown) - x, 1), title)


class PastMark(Struct, frozen=True):
    """Time at which a recommendation opened or ended."""

    share: float
    """From the start of the range to its end."""
    text: str


def marks_of(advice: Iterable[Advice], shown: TimeRange) -> tuple[PastMark, ...]:
    """Return when recommendations opened and ended within a range, in order."""
    marks = []
    length = shown.end - shown.start
    for piece in advice:
        action = uncapitalized(action_label(piece.finding.action, piece.finding.kind))
        for time, word in ((piece.opened, "opened"), (piece.closed, str(piece.state))):
            if time is not None and shown.start <= time <= shown.end:
                text = f"{clock_text(time, length)} {word}: {action}"
                marks.append(PastMark((time - shown.start) / length, text))
    return tuple(sorted(marks, key=lambda mark: mark.share))


class DrawnPast(Struct, frozen=True):
    """Past time range of the charts."""

    words: str
    """In a sentence."""
    start_seconds: int
    end_seconds: int
    ways: Mapping[str, str]
    """Links to adjacent ranges: label and query."""
    whole: str
    """Link to the whole span, empty if it is shown."""
    ticks: tuple[tuple[float, str], ...]
    """Round times: position, and label."""
    marks: tuple[PastMark, ...]


def drawn_past(
    query: PageQuery,
    shown: TimeRange,
    now: Nanoseconds,
    span: Span,
    advice: Sequence[Advice] | None,
) -> DrawnPast:
    """Return the range of the charts; with links and marks of `advice` unless that is `None`."""
    is_alone = advice is not None
    start = shown.start
    end = shown.end
    length = shown.end - shown.start
    ways = {
        "earlier": (start - length // 2, end - length // 2),
        "closer": (start + length // 4, end - length // 4),
        "wider": (start - length // 2, end + length // 2),
        "later": (start + length // 2, end + length // 2),
    }
    if end >= now:
        del ways["later"]
    return DrawnPast(
        words=span.words,
        start_seconds=start // NANOSECONDS_PER_SECOND,
        end_seconds=end // NANOSECONDS_PER_SECOND,
        ways={name: query.zoomed(*ends, now).address for name, ends in ways.items() if is_alone},
        whole=replace(query, zoom=None).address if query.zoom and is_alone else "",
        ticks=ticks_of(span, end),
        marks=marks_of(advice or (), shown),
    )
