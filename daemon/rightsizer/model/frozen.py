"""Frozen dataclasses that share the methods which the standard library writes for each class.

Comparison, hash, text and refusal of changes are code of its own for every class there: 4 MiB of
an agent, and a quarter of the time that its modules take to load. Here each class keeps two
getters of its fields in place of that. All else, `fields` and `replace` among it, is the standard
library's, and so is what a type checker sees.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import (
    MISSING,
    Field,
    FrozenInstanceError,
    asdict,
    astuple,
    field,
    fields,
    is_dataclass,
    make_dataclass,
    replace,
)
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

__all__ = [
    "MISSING",
    "Field",
    "FrozenInstanceError",
    "asdict",
    "astuple",
    "dataclass",
    "field",
    "fields",
    "is_dataclass",
    "make_dataclass",
    "replace",
]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    import dataclasses

    def dataclass(cls: Any = None, /, **options: Any) -> Any:
        """What `dataclasses.dataclass` makes of a class; one that is frozen shares its methods."""
        if not options.get("frozen") or options.get("order") or not options.get("eq", True):
            return dataclasses.dataclass(cls, **options)

        def made(of: type) -> type:
            own = set(vars(of))
            done = dataclasses.dataclass(of, **options, eq=False, repr=False)
            declared = fields(done)
            compared = [each.name for each in declared if each.compare]
            hashed = [
                each.name for each in declared if (each.compare if each.hash is None else each.hash)
            ]
            done.__compared__, done.__hashed__ = _values_of(compared), _values_of(hashed)
            for name, method in _SHARED.items():
                if name not in own:
                    setattr(done, name, method)
            return done

        return made if cls is None else made(cls)


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
    values = self.__hashed__(self)
    try:
        return hash(values)
    except TypeError:
        return hash(_hashable(values))


def _hashable(value: Any) -> Any:
    """The same for values that are equal: collections by what is in them.

    What has no hash, whatever is in it, tells no two objects apart, and equality does.
    """
    if isinstance(value, Mapping):
        return frozenset((key, _hashable(each)) for key, each in value.items())
    if isinstance(value, AbstractSet):
        return frozenset(value)
    if isinstance(value, tuple | list):
        return tuple(map(_hashable, value))
    try:
        hash(value)
    except TypeError:
        return None
    return value


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
