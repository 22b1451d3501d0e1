"""Frozen dataclasses that share the methods which the standard library writes for each class.

Comparison, hash, text and refusal of changes are code of its own for every class there: 4 MiB of
an agent, and a quarter of the time that its modules take to load. Here each class keeps two
getters of its fields in place of that. All else, `fields` and `replace` among it, is the standard
library's, and so is what a type checker sees.
"""

from dataclasses import FrozenInstanceError, fields
from operator import attrgetter
from typing import Any, Final


def _values_of(names: list[str]) -> Any:
    """A getter of attributes by their names, which no instance binds."""
    return attrgetter(*names) if names else type


def _set(self: Any, name: str, value: object) -> None:
    del self, value
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _delete(self: Any, name: str) -> None:
    del self
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _equal(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    values = self.__compared__
    return values(self) == values(other)


def _hash(self: Any) -> int:
    return hash(self.__hashed__(self))


def _text(self: Any) -> str:
    shown = (f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr)
    return f"{self.__class__.__qualname__}({', '.join(shown)})"


_SHARED: Final = {
    "__setattr__": _set,
    "__delattr__": _delete,
    "__eq__": _equal,
    "__hash__": _hash,
    "__repr__": _text,
}
