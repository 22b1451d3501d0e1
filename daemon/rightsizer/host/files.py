"""Readers of small files in procfs, sysfs and cgroups: text, numbers, names, CPU lists."""

import os
import re
from functools import lru_cache
from pathlib import Path
from typing import Final

_CHUNK_BYTES: Final = 65536
_SHORT_BYTES: Final = 2048
"""The kernel returns long files in chunks of about a page (seq_file.rst); a short one is last."""
_CPUS_MAXIMUM: Final = 65536
"""Eight times the maximum of Linux; longer lists are invalid."""
_RANGE: Final = re.compile(r"([0-9]{1,6})(?:-([0-9]{1,6}))?")
_DIGITS: Final = re.compile(r"([0-9]+)")


def read_file(path: str | Path, limit_bytes: int = 2**30) -> str | None:
    """Text of a file, up to a limit; `None` if missing or unreadable."""
    # Takes half the time of pathlib and io, which matters for hundreds of processes.
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        chunk = data = os.read(handle, _CHUNK_BYTES)
        while len(chunk) > _SHORT_BYTES and len(data) < limit_bytes:
            chunk = os.read(handle, _CHUNK_BYTES)
            data += chunk
    except OSError:
        return None
    finally:
        os.close(handle)
    return data.decode("utf-8", "replace")


def read_line(path: str | Path) -> str:
    """Text of a file without surrounding white space; empty if missing."""
    return (read_file(path) or "").strip()


def boot_id(procfs: str | Path) -> str:
    """Kernel's id of this boot; empty if unreadable."""
    return read_line(f"{procfs}/sys/kernel/random/boot_id")


def read_integer(path: str | Path) -> int | None:
    """Number in a file, decimal or with a prefix such as `0x10de`; `None` if missing."""
    try:
        return int(read_line(path), 0)
    except ValueError:
        return None


def read_names(folder: str | Path) -> tuple[str, ...]:
    """Names in a directory, `nvme2` before `nvme10`."""
    try:
        return tuple(sorted(os.listdir(folder), key=natural_order))  # noqa: PTH208 - text paths too.
    except OSError:
        return ()


def natural_order(name: str) -> tuple[tuple[str, int], ...]:
    """Sort key that compares numbers within names."""
    words = _DIGITS.split(name)
    # Words and digits alternate, and no digits follow the last word.
    numbers = [int(digits[:18]) for digits in words[1::2]]
    return tuple(zip(words[::2], [*numbers, 0], strict=True))


def link_name(path: str | Path) -> str | None:
    """Last part of a symbolic link's target; `None` if there is no such link."""
    try:
        return Path(path).readlink().name or None
    except OSError:
        return None


def inode_of(path: str) -> int | None:
    """Inode number of a file; `None` if missing."""
    try:
        return os.stat(path).st_ino  # noqa: PTH116 - for every process of every owner.
    except OSError:
        return None


def parse_cpus(text: str | None) -> tuple[int, ...]:
    """Parse a CPU list such as `0-55,112-167`; empty if invalid."""
    cpus: set[int] = set()
    for part in (text or "").split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            return ()
        first = int(match[1])
        last = first if match[2] is None else int(match[2])
        if not first <= last < _CPUS_MAXIMUM:
            return ()
        cpus.update(range(first, last + 1))
    return tuple(sorted(cpus))


@lru_cache(maxsize=256)
def cpu_set(text: str) -> frozenset[int]:
    """CPUs of a list, cached by its text."""
    return frozenset(parse_cpus(text))
