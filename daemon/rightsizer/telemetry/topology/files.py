"""Small files of the kernel: what is missing, unreadable or no number is `None`."""

import re
from pathlib import Path
from typing import Final

__all__ = ["natural_order", "parse_cpus", "read_integer", "read_names", "read_text"]

_MOST_BYTES: Final = 65536
_MOST_CPUS: Final = 65536
"""More than any kernel is built for; a list that goes beyond is garbage."""
_RANGE: Final = re.compile(r"([0-9]{1,6})(?:-([0-9]{1,6}))?")
_DIGITS: Final = re.compile(r"([0-9]+)")


def read_text(path: Path) -> str | None:
    """What a file says, without the white space around it."""
    try:
        with path.open("rb") as file:
            return file.read(_MOST_BYTES).decode("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None


def read_integer(path: Path) -> int | None:
    """The number in a file, decimal or with a prefix as in `0x10de`."""
    text = read_text(path)
    try:
        return None if text is None else int(text, 0)
    except ValueError:
        return None


def read_names(folder: Path) -> tuple[str, ...]:
    """What is in a folder, `nvme2` before `nvme10`."""
    try:
        return tuple(sorted((entry.name for entry in folder.iterdir()), key=natural_order))
    except OSError:
        return ()


def natural_order(name: str) -> tuple[tuple[str, int], ...]:
    """A key that sorts names by the numbers in them."""
    words = _DIGITS.split(name)
    # Words and digits take turns, and the last word has no digits behind it.
    numbers = [int(digits[:18]) for digits in words[1::2]]
    return tuple(zip(words[::2], [*numbers, 0], strict=True))


def parse_cpus(text: str | None) -> tuple[int, ...]:
    """The CPUs of a list as in `0-55,112-167`; none where it is anything else."""
    cpus: set[int] = set()
    for part in (text or "").split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            return ()
        first = int(match[1])
        last = first if match[2] is None else int(match[2])
        if not first <= last < _MOST_CPUS:
            return ()
        cpus.update(range(first, last + 1))
    return tuple(sorted(cpus))
