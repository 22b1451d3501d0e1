"""A column of numbers that is worked out when somebody first reads it, for most go unread."""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import overload


class LazyColumn(Sequence[float]):
    """As many numbers as it says, from whoever can tell them."""

    def __init__(self, length: int, read: Callable[[], Sequence[float]]) -> None:
        """Nothing is read yet."""
        self._length, self._read = length, read

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[float]:
        return iter(self._values)

    @overload
    def __getitem__(self, place: int) -> float: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[float]: ...
    def __getitem__(self, place: int | slice) -> float | Sequence[float]:
        return self._values[place]

    @cached_property
    def _values(self) -> Sequence[float]:
        return self._read()
