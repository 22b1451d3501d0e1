"""Known words similar to a misspelled one."""

from collections.abc import Iterable
from typing import Final

_LIKENESS: Final = 0.6
"""Default of difflib."""


def near_words(
    word: str, candidates: Iterable[str], maximum: int = 1, likeness: float = _LIKENESS
) -> list[str]:
    """Most similar known words, at or above a likeness from 0 to 1, best first.

    Of words that are as similar, that with the nearest digits and letters: H800 for H900.
    """
    # Imported on use, since a running agent never needs it.
    import difflib  # noqa: PLC0415

    def rank(candidate: str) -> tuple[float, int]:
        signs = zip(word, candidate, strict=False)
        ratio = difflib.SequenceMatcher(None, candidate, word).ratio()
        return -ratio, sum(abs(ord(sign) - ord(other)) for sign, other in signs)

    names = list(candidates)
    near = difflib.get_close_matches(word, names, len(names) or 1, likeness)
    return sorted(near, key=rank)[:maximum]
