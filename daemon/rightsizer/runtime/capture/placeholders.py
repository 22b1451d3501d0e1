"""What an operator's words may stand for in the arguments of a command."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

__all__ = ["PLACEHOLDERS", "filled", "is_asked_for", "unknown_placeholders"]

PLACEHOLDERS: Final[Mapping[str, str]] = {
    "pid": "a process of the workload on the GPU",
    "pids": "all of them, separated by commas",
    "gpu_uuid": "the GPU that the finding is about most",
    "gpu_index": "its index",
    "seconds": "how long to record",
    "folder": "where the profile goes, made for this capture",
    "workload": "the workload's key, without characters that mean something to programs",
}
"""Each with what it stands for."""

_WORD: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


def unknown_placeholders(
    words: Sequence[str], known: Mapping[str, str] = PLACEHOLDERS
) -> tuple[str, ...]:
    """Those that stand for nothing, each once; `known` has all that stand for something."""
    found = dict.fromkeys(name for word in words for name in _WORD.findall(word))
    return tuple(name for name in found if name not in known)


def is_asked_for(name: str, words: Sequence[str]) -> bool:
    """Whether a placeholder is among the words."""
    return any(name in _WORD.findall(word) for word in words)


def filled(words: Sequence[str], values: Mapping[str, str]) -> tuple[str, ...]:
    """The words with values in place of their names; one word stays one, whatever is in it."""
    return tuple(_WORD.sub(lambda found: values[found[1]], word) for word in words)
