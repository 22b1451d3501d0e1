"""Known words similar to a misspelled one."""

from collections.abc import Iterable
from typing import Final

_LIKENESS: Final = 0.6
"""Default of difflib."""


def near_words(
    word: str, candidates: Iterable[str], maximum: int = 1, likeness: float = _LIKENESS
) -> list[str]:
    """Most similar known words, at or above a likeness from 0 to 1, best first."""
    # Imported on use, since a running agent never needs it.
    import difflib  # noqa: PLC0415

    return difflib.get_close_matches(word, list(candidates), maximum, likeness)
