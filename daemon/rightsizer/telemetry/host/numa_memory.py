"""On which NUMA nodes memory is: of a control group, or of one process."""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from rightsizer.domain.units import Nanoseconds
from rightsizer.telemetry.host.control_group import ControlGroup
from rightsizer.telemetry.host.text import read

__all__ = ["ByNode", "group_memory", "process_memory", "resident_bytes"]

ByNode = Counter[int]
"""Bytes by NUMA node."""

_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_NODE: Final = re.compile(r"\bN(\d+)=(\d+)")
_PAGE_KIBIBYTES: Final = re.compile(r"\bkernelpagesize_kB=(\d+)")
_CHUNK_BYTES: Final = 16384
_RESIDENT: Final = 1

_UNIFIED_LINES: Final = ("anon ", "shmem ")
_VERSION_1_LINES: Final = ("hierarchical_anon=", "hierarchical_unevictable=")
"""What a group's processes hold; the page cache is whoever's and goes by itself."""

_SHARED_FILES: Final = ("/dev/shm/", "/memfd:", "/SYSV", "/dev/zero")  # noqa: S108 - to recognize.
"""Files in name only: memory that processes share."""


def group_memory(group: ControlGroup) -> ByNode | None:
    """Of all processes of a group; `None` where the group does not account for memory."""
    text = read(f"{group.folder}/memory.numa_stat")
    if text is None:
        return None
    starts, unit = (_UNIFIED_LINES, 1) if group.is_unified else (_VERSION_1_LINES, _PAGE_BYTES)
    return _added((line, unit) for line in text.splitlines() if line.startswith(starts))


def process_memory(
    procfs: str, pid: int, clock: Callable[[], Nanoseconds], patience: Nanoseconds
) -> ByNode | None:
    """Of one process, by its `numa_maps`; `None` without permission and past the patience.

    The kernel walks the process's page tables meanwhile, one mapping at a time: between two of
    them we can give up, not within one.
    """
    text = _patient_text(f"{procfs}/{pid}/numa_maps", clock, patience)
    if text is None:
        return None
    return _added(
        (line, 1024 * int(size.group(1)))
        for line in text.splitlines()
        if _is_own(line) and (size := _PAGE_KIBIBYTES.search(line))
    )


def resident_bytes(procfs: str, pid: int) -> int | None:
    """Memory that a process has; `None` where it is gone."""
    fields = (read(f"{procfs}/{pid}/statm") or "").split()
    try:
        return int(fields[_RESIDENT]) * _PAGE_BYTES
    except (IndexError, ValueError):
        return None


def _is_own(line: str) -> bool:
    _, is_file, name = line.partition(" file=")
    return not is_file or name.startswith(_SHARED_FILES)


def _added(lines: Iterable[tuple[str, int]]) -> ByNode:
    total: ByNode = Counter()
    for line, unit in lines:
        for node, count in _NODE.findall(line):
            total[int(node)] += int(count) * unit
    return total


def _patient_text(path: str, clock: Callable[[], Nanoseconds], patience: Nanoseconds) -> str | None:
    started = clock()
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        pieces = []
        for piece in _pieces(handle):
            pieces.append(piece)
            if clock() - started > patience:
                return None
    except OSError:
        return None
    finally:
        os.close(handle)
    return b"".join(pieces).decode("utf-8", "replace")


def _pieces(handle: int) -> Iterator[bytes]:
    return iter(lambda: os.read(handle, _CHUNK_BYTES), b"")
