"""A process that may have no more threads."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_more_threads() -> Iterator[None]:
    """Make every start of a thread fail as at a limit of threads: no stack is that large."""
    before = threading.stack_size(1 << 47)
    try:
        yield
    finally:
        threading.stack_size(before)
