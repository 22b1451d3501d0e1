"""What a store said, as a part of one line that harms no terminal."""

from typing import Final

__all__ = ["plain"]

_LENGTH: Final = 400


def plain(text: str) -> str:
    """The text on one line, without what a terminal would obey, and not longer than two or so."""
    # Twice as much as is shown, as spaces go.
    words = " ".join(text[: 2 * _LENGTH].split())
    return "".join(letter if letter.isprintable() else "?" for letter in words)[:_LENGTH]
