"""Small files of procfs, sysfs and control groups, read with few system calls and as few words."""

import os
from functools import lru_cache
from pathlib import Path
from typing import Final

__all__ = ["cpu_list", "identity", "links_to", "names_in", "read", "whole_number", "words"]

_CHUNK_BYTES: Final = 65536
_SHORT_BYTES: Final = 2048
"""The kernel gives long files in pieces of about a page (seq_file.rst); a short one is the last."""

_CPUS_MAXIMUM: Final = 65536
"""Eight times what Linux can be built for; a list with more is none."""


def read(path: str) -> str | None:
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


def words(path: str) -> str:
    """What a file says in one line, without the space around it; empty where it says nothing."""
    return (read(path) or "").strip()


def whole_number(path: str) -> int | None:
    """The number that a file holds; `None` where it holds something else."""
    text = read(path)
    try:
        return int(text) if text else None
    except ValueError:
        return None


def names_in(folder: str) -> list[str]:
    """What is in a folder, in order; nothing where it is not there."""
    try:
        return sorted(entry.name for entry in Path(folder).iterdir())
    except OSError:
        return []


def links_to(path: str) -> str | None:
    """What a symbolic link says; `None` where it is not there, or not for us."""
    try:
        return str(Path(path).readlink())
    except OSError:
        return None


def identity(path: str) -> int | None:
    """The number by which a file is the same under several names; `None` where it is not there."""
    try:
        return os.stat(path).st_ino  # noqa: PTH116 - for every process of every owner.
    except OSError:
        return None


@lru_cache(maxsize=256)
def cpu_list(text: str) -> frozenset[int]:
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
