"""Known words that are like a misspelled one."""

from collections.abc import Iterable
from typing import Final

_LIKENESS: Final = 0.6
"""difflib's own measure of what is close."""


def near_words(
    word: str, known: Iterable[str], most: int = 1, likeness: float = _LIKENESS
) -> list[str]:
    """The known words that are most like it, at least so alike from 0 to 1, best first."""
    # An agent that runs for months has no misspelled words, and never loads it.
    import difflib  # noqa: PLC0415

    return difflib.get_close_matches(word, list(known), most, likeness)


def hint(word: str, known: Iterable[str]) -> str:
    """What to write in place of a word that is not known."""
    words = list(known)
    near = near_words(word, words)
    return f"did you mean '{near[0]}'?" if near else f"known: {', '.join(words)}"
