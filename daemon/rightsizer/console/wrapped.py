"""Sentences in lines that a terminal shows whole."""

import textwrap
from typing import Final

WIDTH: Final = 100


def wrapped(text: str, indent: int = 0, hanging: int = 2) -> list[str]:
    """Lines of a text.

    Args:
        text: What to break.
        indent: Blanks before the first line.
        hanging: So many more before the others.
    """
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent + hanging),
        break_long_words=False,
        break_on_hyphens=False,
    )
