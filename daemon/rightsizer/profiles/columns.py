"""Columns of numbers that grow to millions of rows, and their order without boxing them all."""

from array import array
from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import pairwise
from typing import Final, TypeAlias

__all__ = ["Column", "is_ordered", "order"]

Column: TypeAlias = "array[int]"

_RUN: Final = 2**18
"""Rows that are sorted at once: the sort boxes each, which takes some 80 bytes a row."""


def is_ordered(column: Column) -> bool:
    """Whether the values only rise or stay."""
    return all(before <= after for before, after in pairwise(column))


def order(column: Column, run: int = _RUN) -> Sequence[int]:
    """The rows by rising value, equal ones as they came."""
    rows = len(column)
    if is_ordered(column):
        return range(rows)
    runs = [
        array("I", sorted(range(first, min(first + run, rows)), key=column.__getitem__))
        for first in range(0, rows, run)
    ]
    return runs[0] if len(runs) == 1 else array("I", _merged(runs, column))


def _merged(runs: "list[array[int]]", column: Column) -> Iterator[int]:
    return merge(*runs, key=column.__getitem__)
