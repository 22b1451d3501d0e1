"""Garbage collections of a command that makes much and leaves few cycles."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_ALLOCATIONS_BETWEEN_COLLECTIONS: Final = 100_000
"""The interpreter's 700 is reached every few polls of a replay in vain, and takes a fifth of
a batch of plans. Source: 1.23 of 6.06 s of a batch, 2026-11-30; the number itself is assumed."""


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Collect garbage seldom meanwhile, and as before afterwards."""
    former = gc.get_threshold()
    gc.set_threshold(_ALLOCATIONS_BETWEEN_COLLECTIONS)
    try:
        yield
    finally:
        gc.set_threshold(*former)
