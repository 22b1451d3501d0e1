"""Readers of small files of procfs, sysfs and control groups: texts, numbers, names, CPU lists."""

import os
import re
from functools import lru_cache
from pathlib import Path
from typing import Final

_CHUNK_BYTES: Final = 65536
_SHORT_BYTES: Final = 2048
"""The kernel gives long files in pieces of about a page (seq_file.rst); a short one is the last."""

_CPUS_MAXIMUM: Final = 65536
"""Eight times what Linux can be built for; a list with more is none."""


def read_file(path: str) -> str | None:
    """A file's text; `None` where it is not there, or not for us."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        chunk = data = os.read(handle, _CHUNK_BYTES)
        while len(chunk) > _SHORT_BYTES:
            chunk = os.read(handle, _CHUNK_BYTES)
            data += chunk
    except OSError:
        return None
    finally:
        os.close(handle)
    return data.decode("utf-8", "replace")


def read_line(path: str) -> str:
    """What a file says in one line, without the space around it; empty where it says nothing."""
    return (read_file(path) or "").strip()


def read_whole_number(path: str) -> int | None:
    """The number that a file holds; `None` where it holds something else."""
    text = read_file(path)
    try:
        return int(text) if text else None
    except ValueError:
        return None


def sorted_names(folder: str) -> list[str]:
    """What is in a folder, in order; nothing where it is not there."""
    try:
        return sorted(entry.name for entry in Path(folder).iterdir())
    except OSError:
        return []


def link_target(path: str) -> str | None:
    """What a symbolic link says; `None` where it is not there, or not for us."""
    try:
        return str(Path(path).readlink())
    except OSError:
        return None


def inode_of(path: str) -> int | None:
    """The number by which a file is the same under several names; `None` where it is not there."""
    try:
        return os.stat(path).st_ino  # noqa: PTH116 - for every process of every owner.
    except OSError:
        return None


@lru_cache(maxsize=256)
def cpu_set(text: str) -> frozenset[int]:
    """The numbers of a list such as `0-3,8`; none where it is not such a list."""
    found: set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        try:
            numbers = range(int(first), int(last or first) + 1)
        except ValueError:
            return frozenset()
        if numbers.stop > _CPUS_MAXIMUM:
            return frozenset()
        found.update(numbers)
    return frozenset(found)


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
