"""Keeps the C library's heap from growing with the threads of a process that runs for months."""

import ctypes
from typing import Any, Final

_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_ARENA_MAX: Final = -8
"""Names of glibc's mallopt(3), as its malloc.h numbers them."""
_LARGE_BYTES: Final = 65536


def keep_compact(library: Any = None) -> bool:
    """Let all threads share one arena, and give large blocks back as they are freed.

    glibc would give each thread an arena of its own, and each keeps what its busiest moment took:
    threads that render, judge and write in turn held 7 MiB of a full agent so. Arenas spare
    threads a lock, but those of an interpreter allocate one at a time anyway. Blocks
    above a size that is set, and so no longer grows with what is freed, are mapped apart.

    Args:
        library: The C library, the process's own unless told otherwise.

    Returns:
        Whether the C library has such settings; musl has none, and needs none.
    """
    library = library or ctypes.CDLL(None)
    try:
        mallopt = library.mallopt
    except AttributeError:
        return False
    wanted = {_ARENA_MAX: 1, _MMAP_THRESHOLD: _LARGE_BYTES, _TRIM_THRESHOLD: _LARGE_BYTES}
    taken = [mallopt(name, value) for name, value in wanted.items()]
    return all(taken)
