"""Frozen dataclasses that share methods which the standard library generates for each class.

The standard library compiles all methods for every class: 4 MiB of an agent's memory, and more
than half of its import time. Here each class keeps only two attribute getters and an `__init__`
that sets slots through their descriptors, which takes a third less time. Everything else,
`fields` and `replace` included, is the standard library's, and a type checker sees only that.
`InitVar` and `init=False` are not supported.
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
    replace,
)
from functools import cache
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
    "replace",
]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    import dataclasses

    def dataclass(cls: Any = None, /, **options: Any) -> Any:
        """Drop-in for `dataclasses.dataclass`; frozen classes with slots share their methods."""
        plain = options.get("order") or not options.get("eq", True)
        if plain or not (options.get("frozen") and options.get("slots")):
            return dataclasses.dataclass(cls, **options)
        unwritten = options | dict.fromkeys(("frozen", "init", "eq", "repr"), False)

        def made(of: type) -> type:
            own = set(vars(of))
            done = dataclasses.dataclass(of, **unwritten)
            declared = fields(done)
            compared = [each.name for each in declared if each.compare]
            hashed = [
                each.name for each in declared if (each.compare if each.hash is None else each.hash)
            ]
            done.__compared__ = _values_of(compared)
            done.__hashed__ = _values_of(hashed)
            for name, method in {"__init__": _initializer(done), **_SHARED}.items():
                if name not in own:
                    setattr(done, name, method)
            return done

        return made if cls is None else made(cls)


def _initializer(cls: type) -> Any:
    """Generate `__init__` of a class with slots, in field order."""
    known: dict[str, Any] = {"MISSING": MISSING}
    parameters: dict[bool, list[str]] = {False: ["self"], True: ["*"]}
    lines = []
    for each in fields(cls):
        parameter = value = name = each.name
        known[f"__set_{name}"] = getattr(cls, name).__set__
        if each.default_factory is not MISSING:
            known[f"__default_{name}"] = each.default_factory
            parameter = f"{name}=MISSING"
            value = f"__default_{name}() if {name} is MISSING else {name}"
        elif each.default is not MISSING:
            known[f"__default_{name}"] = each.default
            parameter = f"{name}=__default_{name}"
        parameters[bool(each.kw_only)].append(parameter)
        lines.append(f" __set_{name}(self, {value})")
    if hasattr(cls, "__post_init__"):
        lines.append(" self.__post_init__()")
    listed = parameters[False] + (parameters[True] if len(parameters[True]) > 1 else [])
    text = f"def __init__({', '.join(listed)}):\n" + "\n".join(lines or [" pass"])
    exec(text, known)  # noqa: S102 - The standard library does the same.
    return known["__init__"]


def _values_of(names: list[str]) -> Any:
    """Attribute getter by names that does not bind to instances."""
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
    """Hashable form of a value, the same for equal values: collections by their contents.

    Unhashable values map to `None`; equality still tells them apart.
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


@cache
def _members(cls: type) -> tuple[Any, ...]:
    """Descriptors of the slots of a class, in field order."""
    return tuple(getattr(cls, each.name) for each in fields(cls))


def _state(self: Any) -> list[Any]:
    return [member.__get__(self) for member in _members(self.__class__)]


def _set_state(self: Any, state: list[Any]) -> None:
    for member, value in zip(_members(self.__class__), state, strict=True):
        member.__set__(self, value)


def _text(self: Any) -> str:
    shown = (f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr)
    return f"{self.__class__.__qualname__}({', '.join(shown)})"


_SHARED: Final = {
    "__setattr__": _set,
    "__delattr__": _delete,
    "__eq__": _equal,
    "__hash__": _hash,
    "__repr__": _text,
    "__getstate__": _state,
    "__setstate__": _set_state,
}
