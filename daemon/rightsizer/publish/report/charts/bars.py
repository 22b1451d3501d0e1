"""Bars within tables: a part of a whole, and a need against what there is."""

from typing import Final

from rightsizer.publish.report.charts.svg import box, figure

__all__ = ["bar", "fit_bar"]

_WIDEST: Final = 1.25
"""Of what there is; a need beyond is cut off, its figure stands beside."""


def bar(name: str, share: float, kind: str) -> str:
    """A part of a whole."""
    drawn = [f'<path class="{kind}" d="{box(0, 0, 100 * min(1.0, share), 10)}"/>']
    return figure((100, 10), name, f"{share:.0%}", drawn, "split")


def fit_bar(name: str, demand: float | None, need: float | None) -> str:
    """Demand, the need above it, and the line of what there is."""
    scale = 100 / _WIDEST
    parts = []
    if need is not None:
        parts.append(f'<path class="need" d="{box(0, 2, scale * min(need, _WIDEST), 6)}"/>')
    if demand is not None:
        parts.append(f'<path class="demand" d="{box(0, 2, scale * min(demand, _WIDEST), 6)}"/>')
    parts.append(f'<path class="capacity" d="M{scale:g} 0V10"/>')
    told = "not known" if need is None else f"needs {need:.0%} of what there is"
    return figure((100, 10), name, told, parts, "split fit")
