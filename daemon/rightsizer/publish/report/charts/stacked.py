"""Bars that are divided: days side by side, or one bar from left to right."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from rightsizer.publish.report.charts.svg import box, figure, text

__all__ = ["Column", "shares", "stacked_columns"]

_WIDTH: Final = 720.0
_HEIGHT: Final = 190.0
_LEFT, _TOP, _BOTTOM = 40.0, 8.0, 24.0
_GAP: Final = 0.14
_MOST_LABELS: Final = 10
_LINES: Final = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True, slots=True)
class Column:
    """One bar: what it is called, and its parts in the order in which they are stacked."""

    label: str
    parts: Mapping[str, float]
    tip: str


def stacked_columns(name: str, description: str, columns: Sequence[Column]) -> str:
    """Bars from the ground up, each divided into its parts of a whole."""
    height, step = _HEIGHT - _TOP - _BOTTOM, (_WIDTH - _LEFT) / max(1, len(columns))
    gap = step * _GAP if len(columns) <= 100 else 0.0  # noqa: PLR2004 - narrower is invisible.
    paths: dict[str, list[str]] = {}
    hovers = []
    for place, column in enumerate(columns):
        x, whole, reached = _LEFT + place * step, sum(column.parts.values()), 0.0
        for part, value in column.parts.items():
            if whole and value:
                tall = value / whole * height
                y = _TOP + height - reached - tall
                paths.setdefault(part, []).append(box(x + gap / 2, y, step - gap, tall))
                reached += tall
        hovers.append(
            f'<path class="hover" d="{box(x, _TOP, step, height)}">'
            f"<title>{escape(column.tip)}</title></path>"
        )
    drawn = [f'<path class="g-{part}" d="{"".join(d)}"/>' for part, d in paths.items()]
    return figure(
        (_WIDTH, _HEIGHT),
        name,
        description,
        [*_axis(height), *drawn, *_labels(columns), *hovers],
        "chart",
    )


def shares(name: str, parts: Mapping[str, float], words: Mapping[str, str]) -> str:
    """One bar from left to right."""
    whole = sum(parts.values())
    told = ", ".join(f"{words[part]} {value / whole:.0%}" for part, value in parts.items() if value)
    drawn, reached = [], 0.0
    for part, value in parts.items():
        if value:
            width = value / whole * 100
            drawn.append(f'<path class="g-{part}" d="{box(reached, 0, width, 10)}"/>')
            reached += width
    return figure((100, 10), name, told, drawn, "split")


def _axis(height: float) -> list[str]:
    found = []
    for share in _LINES:
        y = _TOP + height * (1 - share)
        found += [
            f'<path class="line" d="M{_LEFT:g} {y:g}H{_WIDTH:g}"/>',
            text(_LEFT - 6, y + 4, f"{share:.0%}", "end"),
        ]
    return found


def _labels(columns: Sequence[Column]) -> list[str]:
    step, every = (_WIDTH - _LEFT) / max(1, len(columns)), -(-len(columns) // _MOST_LABELS)
    return [
        text(_LEFT + (place + 0.5) * step, _HEIGHT - 6, column.label, "middle")
        for place, column in enumerate(columns)
        if place % every == 0
    ]
