"""What all charts share: the frame with its title and description, and the shortest numbers."""

from collections.abc import Iterable
from html import escape
from typing import Final

__all__ = ["box", "figure", "text"]

_STRETCHED: Final = ' preserveAspectRatio="none"'


def figure(
    size: tuple[float, float], name: str, description: str, parts: Iterable[str], kind: str
) -> str:
    """A drawing that says what it shows to whoever cannot see it.

    Args:
        size: Width and height, in the drawing's own units.
        name: One line.
        description: What the drawing tells, in words.
        parts: SVG, escaped.
        kind: A class of the style sheet.
    """
    width, height = size
    return (
        f'<svg class="{kind}" viewBox="0 0 {width:g} {height:g}" role="img" '
        f'aria-label="{escape(f"{name}. {description}")}"{_STRETCHED if kind != "chart" else ""}>'
        f"<title>{escape(name)}</title><desc>{escape(description)}</desc>{''.join(parts)}</svg>"
    )


def box(x: float, y: float, width: float, height: float) -> str:
    """A rectangle as a part of a path."""
    return f"M{_short(x)} {_short(y)}h{_short(width)}v{_short(height)}h-{_short(width)}z"


def text(x: float, y: float, words: str, anchor: str = "start") -> str:
    """A label."""
    return f'<text x="{_short(x)}" y="{_short(y)}" text-anchor="{anchor}">{escape(words)}</text>'


def _short(value: float) -> str:
    return f"{round(value, 2):g}"
