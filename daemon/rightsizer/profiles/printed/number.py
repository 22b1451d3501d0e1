"""Numbers as programs print them, in the manner of the locale that they ran in."""

import re
from collections.abc import Iterable
from typing import Final, Literal

__all__ = ["LARGEST", "DecimalMark", "decimal_mark", "printed_number"]

DecimalMark = Literal[".", ","]

_NUMBER: Final = re.compile(r"[+-]?\d[\d.,' \u00a0\u202f\u2019]*(?:[eE][+-]?\d+)?")
LARGEST: Final = 1e24
"""Nothing that is measured is more, and what is made of it still is a finite number."""
_GROUP: Final = 3
"""Digits between two marks that group thousands."""
_SPACES: Final = str.maketrans("", "", "' \u00a0\u202f\u2019")


def printed_number(text: str, mark: DecimalMark = ".") -> float | None:
    """The value of a printed number; `None` for `n/a`, nothing, words and what cannot be."""
    text = text.strip()
    if not _NUMBER.fullmatch(text):
        return None
    plain = text.translate(_SPACES).replace("," if mark == "." else ".", "")
    try:
        value = float(plain.replace(",", "."))
    except ValueError:
        return None
    return value if abs(value) <= LARGEST else None


def decimal_mark(texts: Iterable[str]) -> DecimalMark:
    """Which of the two marks begins the decimals, by the first number that tells; else a point."""
    for text in texts:
        if mark := _told_by(text.strip()):
            return mark
    return "."


def _told_by(text: str) -> DecimalMark | None:
    if not _NUMBER.fullmatch(text):
        return None
    points, commas = text.count("."), text.count(",")
    if points and commas:
        return "." if text.rindex(".") > text.rindex(",") else ","
    if points + commas != 1:
        # A mark that is there twice groups thousands.
        return None if points == commas else "," if points else "."
    mark: DecimalMark = "." if points else ","
    before, after = text.lstrip("+-").split(mark)
    groups_thousands = len(after) == _GROUP and 1 <= len(before) <= _GROUP and before[0] != "0"
    return None if groups_thousands else mark
