"""Texts of others, cut down to what may be shown: words, and no paths, values, keys or hosts."""

import re
from typing import Final

__all__ = ["excerpt", "plain_words"]

_WORD: Final = re.compile(r"^[\"'(\[]?[A-Za-z][A-Za-z'-]{0,13}[\"')\].,:;!]*$")
_NUMBER: Final = re.compile(r"^\d{1,4}[.,:;%]?$")
_LONGEST: Final = 160
_ELLIPSIS: Final = "…"
_SECRET: Final = re.compile(
    r"\S*[/\\]\S*|[A-Za-z]{21,}|(?=[\w+/=@.~-]*\d)[\w+/=@.~-]{9,}|(?<=[=:@])\s*[\w./+~@%-]+"
)
"""What is a path, is as long as a key, or stands where a value does."""


def plain_words(text: str, longest: int = _LONGEST) -> str:
    """The words of a sentence; whatever may be a path, a key or a name becomes an ellipsis."""
    words: list[str] = []
    for part in text.split():
        if _WORD.match(part) or _NUMBER.match(part):
            words.append(part)
        elif words[-1:] != [_ELLIPSIS]:
            words.append(_ELLIPSIS)
    shown = " ".join(words)
    return shown if len(shown) <= longest else shown[: longest - 1] + _ELLIPSIS


def excerpt(data: bytes, longest: int = 40) -> str:
    """How a file begins, printable and without what may be a secret."""
    text = data[: 8 * longest].decode("utf-8", "replace")
    text = _SECRET.sub("..", " ".join(text.split()))
    return "".join(each if each.isascii() and each.isprintable() else "." for each in text)[
        :longest
    ]
