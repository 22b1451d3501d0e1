"""Cycles are looked for after much was made, and not while it is."""

import gc
from collections.abc import Callable
from functools import partial
from operator import mul

import pytest

from rightsizer.fleet.process_pool import paused_collection, pooled


def test_collection_goes_on_however_it_ends() -> None:
    """And not before the outermost pause ends."""
    with pytest.raises(LookupError):
        interrupted()
    assert gc.isenabled()


def interrupted() -> None:
    """Paused twice, and then there is an error."""
    with paused_collection():
        with paused_collection():
            assert not gc.isenabled()
        assert not gc.isenabled()
        raise LookupError


def test_whoever_hands_out_work_collects_again_when_it_is_done() -> None:
    """And where no one waits for the rest of it."""
    results = pooled(_begin, [1, 2, 3, 4], 2)
    assert next(results) in (2, 4, 6, 8)
    assert not gc.isenabled()
    results.close()  # type: ignore[attr-defined] # A generator, as it is written.
    assert gc.isenabled()


def _begin() -> Callable[[int], int]:
    return partial(mul, 2)
