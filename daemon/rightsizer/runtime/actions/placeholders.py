"""What an operator's words may stand for in an action's arguments, and which values they take.

Whoever starts a workload names it, so that a value is refused rather than mended: a mended name
would be somebody else's.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from rightsizer.runtime.placeholders import filled, names_in

__all__ = ["PLACEHOLDERS", "arguments", "placeholder_in_script"]

PLACEHOLDERS: Final[Mapping[str, str]] = {
    "id": "the advice's id",
    "reason": "its first reason",
    "workload": "the workload's name",
    "namespace": "the workload's namespace",
    "devices": "the uuids of its GPUs, separated by commas",
    "action": "what is advised, like scale_to_zero",
    "target": "the target of the first option: a board, a MIG profile or a count",
}
"""Each with what it stands for."""

_TAME: Final = re.compile(r"[A-Za-z0-9._:/@,+-]+")
"""What means nothing to a shell, should a program hand its words on to one."""
_SHELLS: Final = frozenset(
    {"sh", "ash", "bash", "csh", "dash", "fish", "ksh", "mksh", "rbash", "tcsh", "zsh"}
)
_RUNS_TEXT: Final = re.compile(r"-[A-Za-z]*c[A-Za-z]*")
_LONGEST: Final = 1024
_ABOVE: Final = frozenset({".", ".."})
"""Parts of a path that lead elsewhere."""


def arguments(words: Sequence[str], values: Mapping[str, str]) -> tuple[str, ...]:
    """The words with values in place of their names; one word stays one, whatever is in it.

    Raises:
        ValueError: a value is empty, too long, or something to a program that it must not be.
    """
    return tuple(_filled(word, values) for word in words)


def placeholder_in_script(words: Sequence[str]) -> str | None:
    """The first placeholder in text that a shell among the words would run, `None` without one."""
    names = [word.rpartition("/")[2] for word in words]
    begin = next((at for at, name in enumerate(names) if name in _SHELLS), len(words))
    behind = list(words[begin + 1 :])
    option = next((at for at, word in enumerate(behind) if _RUNS_TEXT.fullmatch(word)), len(behind))
    # Further options may stand between -c and its text.
    text = next((word for word in behind[option + 1 :] if word[:1] not in ("-", "+")), "")
    return next(iter(names_in(text)), None)


def _filled(word: str, values: Mapping[str, str]) -> str:
    for name in names_in(word):
        _check(name, values[name])
    (found,) = filled((word,), values)
    if found.startswith("-") and not word.startswith("-"):
        raise ValueError(f"'{word}' would be an option: what it stands for begins with -")
    return found


def _check(name: str, value: str) -> None:
    if not value:
        raise ValueError(f"{{{name}}} stands for nothing here")
    if len(value) > _LONGEST:
        raise ValueError(f"{{{name}}} stands for more than {_LONGEST} characters")
    if not _TAME.fullmatch(value):
        raise ValueError(f"{{{name}}} stands for characters beside letters, digits and ._:/@,+-")
    if not _ABOVE.isdisjoint(value.split("/")):
        raise ValueError(f"{{{name}}} stands for a path that leads elsewhere")
