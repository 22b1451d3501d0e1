"""Charts as inline SVG, colored by the style sheet."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import groupby
from typing import Final, TypeVar

from msgspec import Struct

from rightsizer.io.codec import encode
from rightsizer.model.values import percent_text
from rightsizer.report.blocks import Bar

_T = TypeVar("_T")
_STRETCHED: Final = ' preserveAspectRatio="none"'


def figure(
    size: tuple[float, float], name: str, description: str, parts: Iterable[str], kind: str
) -> str:
    """Return a drawing of escaped SVG parts, with name and description for screen readers."""
    width, height = size
    return (
        f'<svg class="{kind}" viewBox="0 0 {width:g} {height:g}" role="img" '
        f'aria-label="{escape(f"{name}. {description}")}"{_STRETCHED if kind != "chart" else ""}>'
        f"<title>{escape(name)}</title><desc>{escape(description)}</desc>{''.join(parts)}</svg>"
    )


def box(x: float, y: float, width: float, height: float) -> str:
    """Return a rectangle as path data."""
    return f"M{_short(x)} {_short(y)}h{_short(width)}v{_short(height)}h-{_short(width)}z"


def text(x: float, y: float, words: str, anchor: str = "start") -> str:
    """Return a text label."""
    return f'<text x="{_short(x)}" y="{_short(y)}" text-anchor="{anchor}">{escape(words)}</text>'


def _stretches(values: Iterable[_T]) -> Iterator[tuple[_T, int, int]]:
    """Yield runs of equal values with position and length."""
    at = 0
    for value, same in groupby(values):
        length = len(list(same))
        yield value, at, length
        at += length


def _short(value: float) -> str:
    return f"{round(value, 2):g}"


def stacked_bar(drawn: Bar) -> str:
    """Return a bar of parts from left to right, with its limit and its interval."""
    texts = []
    paths = []
    reached = 0.0
    for part in drawn.parts:
        if part.share:
            texts.append(f"{part.name} {percent_text(part.share)}")
            end = min(1.0, reached + part.share)
            area = box(100 * reached, 0, 100 * (end - reached), 10)
            paths.append(f'<path class="{part.color}" d="{area}"/>')
            reached = end
    if drawn.ends is not None:
        low, high = (100 * min(1.0, end) for end in drawn.ends)
        paths.append(f'<path class="whisker" d="{box(low, 4, high - low, 2)}"/>')
    if drawn.limit is not None:
        paths.append(f'<path class="capacity" d="M{100 * drawn.limit:g} 0V10"/>')
    description = ", ".join(texts) or drawn.text or "not known"
    return figure((100, 10), drawn.name, description, paths, "split")


_WIDTH: Final = 720.0
_HEIGHT: Final = 190.0
_LEFT = 40.0
_TOP = 8.0
_BOTTOM = 24.0
_GAP: Final = 0.14
_MOST_LABELS: Final = 10
_LINES: Final = (0.0, 0.25, 0.5, 0.75, 1.0)


class ChartColumn(Struct, frozen=True):
    """A bar: label, and parts in stacking order."""

    label: str
    parts: Mapping[str, float]
    tip: str


def stacked_columns(name: str, description: str, columns: Sequence[ChartColumn]) -> str:
    """Return bars stacked from parts of a whole."""
    height = _HEIGHT - _TOP - _BOTTOM
    step = (_WIDTH - _LEFT) / max(1, len(columns))
    gap = step * _GAP if len(columns) <= 100 else 0.0  # noqa: PLR2004 - narrower is invisible.
    every = -(-len(columns) // _MOST_LABELS)
    paths: dict[str, list[str]] = {}
    axis = []
    labels = []
    hovers = []
    for share in _LINES:
        y = _TOP + height * (1 - share)
        axis.append(f'<path class="line" d="M{_LEFT:g} {y:g}H{_WIDTH:g}"/>')
        axis.append(text(_LEFT - 6, y + 4, f"{share:.0%}", "end"))
    for place, column in enumerate(columns):
        x = _LEFT + place * step
        whole = sum(column.parts.values())
        reached = 0.0
        for part, value in column.parts.items():
            if whole and value:
                tall = value / whole * height
                y = _TOP + height - reached - tall
                paths.setdefault(part, []).append(box(x + gap / 2, y, step - gap, tall))
                reached += tall
        if place % every == 0:
            middle = _LEFT + (place + 0.5) * step
            labels.append(text(middle, _HEIGHT - 6, column.label, "middle"))
        area = box(x, _TOP, step, height)
        hovers.append(f'<path class="hover" d="{area}"><title>{escape(column.tip)}</title></path>')
    drawn = _drawn(paths)
    return figure((_WIDTH, _HEIGHT), name, description, [*axis, *drawn, *labels, *hovers], "chart")


_LANE_HEIGHT: Final = 18.0
_LANE_LEFT: Final = 150.0
_LEVELS: Final = 5
_MOST_CELLS: Final = 200
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


class ChartLane(Struct, frozen=True):
    """A row of a timeline."""

    words: str
    part: str
    shares: Sequence[float]
    """For each moment, 0 to 1."""
    is_curve: bool = False
    """Whether a share is drawn as height instead of strength."""


def lanes(
    name: str, description: str, rows: Sequence[ChartLane], ends: Sequence[str], seconds: float
) -> str:
    """Return a timeline of lanes; stronger color means a larger share of a moment.

    `ends` are labels spread evenly over the width. A script draws zoomed parts from the shares of
    all moments, encoded as base-36 digits, and the length of a moment.
    """
    every = max((len(row.shares) for row in rows), default=0)
    count = min(every, _MOST_CELLS)
    step = (_WIDTH - _LANE_LEFT) / max(1, count)
    height = _LANE_HEIGHT * len(rows)
    words = []
    cells = []
    axis = []
    for place, row in enumerate(rows):
        top = place * _LANE_HEIGHT
        words.append(text(_LANE_LEFT - 8, top + 13, row.words, "end"))
        drawn: dict[int, list[str]] = {}
        for level, at, length in _stretches(_levels(row, count)):
            if level:
                tall = (_LANE_HEIGHT - 4) * (level / _LEVELS if row.is_curve else 1)
                cell = (at, top + _LANE_HEIGHT - 2 - tall, length, tall)
                drawn.setdefault(_LEVELS if row.is_curve else level, []).append(box(*cell))
        cells += [
            f'<path class="g-{row.part}" opacity="{level / _LEVELS:g}" d="{"".join(boxes)}"/>'
            for level, boxes in sorted(drawn.items())
        ]
    for place, end in enumerate(ends):
        x = _LANE_LEFT + (_WIDTH - _LANE_LEFT) * place / max(1, len(ends) - 1)
        axis.append(f'<path class="line" d="M{_short(x)} 0V{_short(height)}"/>')
        anchor = "end" if place == len(ends) - 1 else "middle" if place else "start"
        axis.append(text(x, height + 14, end, anchor))
    cells_json = [[row.words, row.part, row.is_curve, _digits(row.shares)] for row in rows]
    data = escape(encode(cells_json).decode())
    # Cells of width 1, the shortest to write.
    scaled = f"translate({_LANE_LEFT:g}) scale({_short(step)} 1)"
    parts = [*words, f'<g transform="{scaled}">{"".join(cells)}</g>', f"<g>{''.join(axis)}</g>"]
    chart = figure((_WIDTH, height + 20), name, description, parts, "chart")
    return f'<div class="lanes" data-moment="{seconds:g}" data-lanes="{data}">{chart}</div>'


def _levels(row: ChartLane, count: int) -> Iterator[int]:
    """Yield a level for each cell: mean of its moments, or maximum for a curve."""
    every = len(row.shares)
    for at in range(count):
        within = row.shares[every * at // count : every * (at + 1) // count]
        share = max(within) if row.is_curve else sum(within) / len(within)
        yield math.ceil(_LEVELS * share)


def _digits(shares: Iterable[float]) -> str:
    """Encode shares as digits: 0 for exactly nothing, the last digit for 1."""
    last = len(_DIGITS) - 1
    return "".join(_DIGITS[min(last, math.ceil(last * share))] for share in shares)


class ChartRoof(Struct, frozen=True):
    """Limits of a board: bandwidth below the ridge, peak beyond."""

    words: str
    bandwidth: float
    peak: float


class ChartPoint(Struct, frozen=True):
    """Operations per byte and per second, and share of time, 0 to 1."""

    intensity: float
    rate: float
    share: float
    tip: str


_ROOFLINE_HEIGHT: Final = 300.0
_LARGEST_POINT: Final = 14.0
_SLOPE: Final = 10.0
"""Minimum intensity range shown below the ridge."""
_PREFIXES: Final = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def roofline(name: str, roofs: Sequence[ChartRoof], points: Sequence[ChartPoint]) -> str:
    """Return a roofline chart with logarithmic axes."""
    ridges = [roof.peak / roof.bandwidth for roof in roofs]
    slope = min(ridges) / _SLOPE, max(ridges) * 2
    across = _decades([*slope, *(point.intensity for point in points)])
    # Slower points are clipped here.
    peaks = [roof.peak for roof in roofs]
    least = max(peaks) / 1e5
    rates = (max(least, point.rate) for point in points)
    upward = _decades([min(peaks) / _SLOPE, *peaks, *rates])
    left = 84.0
    right = _WIDTH - 16
    top = 22.0
    bottom = _ROOFLINE_HEIGHT - 34

    def place(intensity: float, rate: float) -> tuple[float, float]:
        x = (math.log10(intensity) - across[0]) / (across[1] - across[0])
        y = (math.log10(max(least, rate)) - upward[0]) / (upward[1] - upward[0])
        return left + x * (right - left), bottom - y * (bottom - top)

    drawn = []
    for power in range(upward[0], upward[1] + 1):
        y = place(1.0, 10.0**power)[1]
        drawn.append(f'<path class="line" d="M{left:g} {_short(y)}H{right:g}"/>')
        drawn.append(text(left - 6, y + 4, rate_text(10.0**power), "end"))
    for power in range(across[0], across[1] + 1):
        x = place(10.0**power, 1.0)[0]
        drawn.append(f'<path class="line" d="M{_short(x)} {top:g}V{bottom:g}"/>')
        drawn.append(text(x, bottom + 14, f"{10.0**power:,g}", "middle"))
    drawn.append(text((left + right) / 2, bottom + 29, "FLOP a byte of memory", "middle"))
    for roof, ridge in zip(roofs, ridges, strict=True):
        start = max(10.0 ** across[0], 10.0 ** upward[0] / roof.bandwidth)
        ends = ((start, start * roof.bandwidth), (ridge, roof.peak), (10.0 ** across[1], roof.peak))
        corners = "L".join(f"{_short(x)} {_short(y)}" for x, y in (place(*end) for end in ends))
        drawn.append(f'<path class="roof" d="M{corners}"/>')
        drawn.append(text(right, place(ridge, roof.peak)[1] - 4, roof.words, "end"))
    for point in points:
        x, y = place(point.intensity, point.rate)
        radius = max(3.0, _LARGEST_POINT * math.sqrt(point.share))
        drawn.append(
            f'<circle class="point" cx="{_short(x)}" cy="{_short(y)}" r="{_short(radius)}">'
            f"<title>{escape(point.tip)}</title></circle>"
        )
    description = f"{len(points)} points; the table below has the longest."
    return figure((_WIDTH, _ROOFLINE_HEIGHT), name, description, drawn, "chart")


def _decades(values: Iterable[float]) -> tuple[int, int]:
    every = [math.log10(value) for value in values]
    low = math.floor(min(every))
    return low, max(low + 1, math.ceil(max(every)))


def rate_text(rate: float) -> str:
    """Format a rate, as in `617 TFLOP/s`."""
    unit = next(((scale, prefix) for scale, prefix in _PREFIXES if rate >= scale), (1.0, ""))
    return f"{rate / unit[0]:,.3g} {unit[1]}FLOP/s"


_FRAME_HEIGHT: Final = 18


class ChartFrame(Struct, frozen=True):
    """A box of a flame graph: row from the top, start and share of the width, 0 to 1."""

    name: str
    tip: str
    row: int
    start: float
    share: float


def flame(name: str, frames: Sequence[ChartFrame]) -> str:
    """Return a flame graph; each frame precedes those within it, and a script zooms."""
    height = _FRAME_HEIGHT * (1 + max((frame.row for frame in frames), default=0))
    drawn = (
        f'<svg role="treeitem" aria-level="{frame.row + 1}" x="{_percent(frame.start)}"'
        f' y="{frame.row * _FRAME_HEIGHT}" width="{_percent(frame.share)}"'
        f' height="{_FRAME_HEIGHT - 1}"><title>{escape(frame.tip)}</title>'
        f'<rect width="100%" height="100%"/><text x="4" y="13">{escape(frame.name)}</text></svg>'
        for frame in frames
    )
    return (
        f'<svg class="flame" role="tree" aria-label="{escape(name)}" height="{height}">'
        f"{''.join(drawn)}</svg>"
    )


def _percent(share: float) -> str:
    return f"{round(100 * share, 3):g}%"


def _drawn(paths: Mapping[str, Sequence[str]]) -> list[str]:
    return [f'<path class="g-{part}" d="{"".join(d)}"/>' for part, d in paths.items()]


def strip(name: str, cells: Sequence[str], words: Mapping[str, str]) -> str:
    """Return a strip of equal cells; runs of the same group are drawn as one."""
    paths: dict[str, list[str]] = {}
    for group, place, length in _stretches(cells):
        paths.setdefault(group, []).append(box(place, 0, length, 10))
    description = ", ".join(
        f"mostly {words[group]} in {cells.count(group)} of {len(cells)}" for group in paths
    )
    return figure((max(1, len(cells)), 10), name, description, _drawn(paths), "strip")
