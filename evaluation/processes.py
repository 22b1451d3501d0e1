"""Work in two processes, in an order that does not depend on which is done first."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Final, TypeVar

_MOST: Final = 2
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def in_processes(work: Callable[[_Item], _Result], items: Sequence[_Item]) -> Iterator[_Result]:
    """The results of all items in their order; in this process where another would gain nothing."""
    workers = min(_MOST, len(os.sched_getaffinity(0)), len(items))
    if workers <= 1:
        yield from map(work, items)
        return
    with ProcessPoolExecutor(workers) as pool:
        yield from pool.map(work, items)
