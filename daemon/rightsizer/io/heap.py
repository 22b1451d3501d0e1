"""Memory of a long-lived process: fewer arenas, shorter collections, pages given back."""

import ctypes
import gc
from typing import Any, Final

_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_ARENA_MAX: Final = -8
"""Parameters of glibc's mallopt(3), as malloc.h numbers them."""
_LARGE_BYTES: Final = 65536


def keep_compact(library: Any = None) -> bool:
    """Make glibc share one arena among all threads, and return large freed blocks to the system.

    By default each thread gets an arena, which keeps the peak of that thread: in a full agent
    the threads that render, judge and write held 7 MiB so. Arenas avoid lock contention, but the
    threads of an interpreter allocate one at a time anyway. A fixed mmap threshold no longer
    grows with freed sizes, so blocks above it are mapped separately.

    Returns whether the C library has these parameters; musl has none, and needs none.
    """
    mallopt = getattr(library or ctypes.CDLL(None), "mallopt", None)
    wanted = {_ARENA_MAX: 1, _MMAP_THRESHOLD: _LARGE_BYTES, _TRIM_THRESHOLD: _LARGE_BYTES}
    taken = [mallopt(name, value) for name, value in wanted.items()] if mallopt else [False]
    return all(taken)


def trim(library: Any = None) -> bool:
    """Collect garbage, and return free pages inside the heap to the system, by malloc_trim(3).

    A page and the rules leave reference cycles, which take 3 MiB until the interpreter looks at
    old objects. glibc itself returns free pages at the heap's end only; below it, the same leave
    up to 1.7 MiB. Returns whether any memory was released.
    """
    gc.collect()
    malloc_trim = getattr(library or ctypes.CDLL(None), "malloc_trim", None)
    return bool(malloc_trim and malloc_trim(0))


def freeze() -> None:
    """Exclude all present objects from garbage collections, which would slow some scrapes."""
    gc.collect()
    gc.freeze()
