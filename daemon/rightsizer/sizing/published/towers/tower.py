"""How one kind of a part that sees or hears is counted."""

from collections.abc import Callable, Mapping

from rightsizer.sizing.published.configuration import Configuration

__all__ = ["Tower"]

Tower = tuple[Callable[[Configuration], int | None], Mapping[str, int]]
"""What counts its parameters, `None` where its shape is not known, and values left out."""
