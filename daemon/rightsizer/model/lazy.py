"""Collections of a value class that are computed when first read, since most readers need few."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Generic, TypeVar, overload

Item = TypeVar("Item")
Key = TypeVar("Key")


class LazySequence(Sequence[Item], Generic[Item]):
    """Sequence of the items that a function returns; copies of the value share it."""

    def __init__(self, compute: Callable[[], Sequence[Item]]) -> None:
        self._compute = compute

    @cached_property
    def _items(self) -> tuple[Item, ...]:
        return tuple(self._compute())

    @overload
    def __getitem__(self, place: int) -> Item: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Item]: ...

    def __getitem__(self, place: int | slice) -> Item | Sequence[Item]:
        return self._items[place]

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._items == tuple(other)

    def __hash__(self) -> int:
        return hash(self._items)

    def __reduce__(self) -> tuple[type[tuple[Item, ...]], tuple[tuple[Item, ...]]]:
        """Pickle the items, in place of what computes them."""
        return tuple, (self._items,)

    def __repr__(self) -> str:
        return repr(self._items)


class LazyMapping(Mapping[Key, Item], Generic[Key, Item]):
    """Mapping that a function returns."""

    def __init__(self, compute: Callable[[], Mapping[Key, Item]]) -> None:
        self._compute = compute

    @cached_property
    def _items(self) -> Mapping[Key, Item]:
        return self._compute()

    def __getitem__(self, key: Key) -> Item:
        return self._items[key]

    def __iter__(self) -> Iterator[Key]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __reduce__(self) -> tuple[type[dict[Key, Item]], tuple[dict[Key, Item]]]:
        """Pickle the items, in place of what computes them."""
        return dict, (dict(self._items),)

    def __repr__(self) -> str:
        return repr(self._items)
