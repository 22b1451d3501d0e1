"""Placeholders in braces in an operator's arguments, and their values."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

_WORD: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


def names_in(word: str) -> list[str]:
    """The placeholders in one word, in its order."""
    return _WORD.findall(word)


def unknown_placeholders(words: Sequence[str], known: Mapping[str, str]) -> tuple[str, ...]:
    """Those that stand for nothing, each once; `known` has all that stand for something."""
    found = dict.fromkeys(name for word in words for name in names_in(word))
    return tuple(name for name in found if name not in known)


def is_asked_for(name: str, words: Sequence[str]) -> bool:
    """Whether a placeholder is among the words."""
    return any(name in names_in(word) for word in words)


def filled(words: Sequence[str], values: Mapping[str, str]) -> tuple[str, ...]:
    """The words with values in place of their names; one word stays one, whatever is in it."""
    return tuple(_WORD.sub(lambda found: values[found[1]], word) for word in words)
