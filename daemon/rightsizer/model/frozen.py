"""Frozen dataclasses that share the methods which the standard library writes for each class.

All but `__init__` is code of its own for every class there: 4 MiB of an agent, and more than half
of the time that its modules take to load. Here each class keeps two getters of its fields in place
of that, and its `__init__` sets slots by their descriptors, which takes a third less. All else,
`fields` and `replace` among it, is the standard library's, and so is what a type checker sees.
`InitVar` and `init=False` are not for these.
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
        """As `dataclasses.dataclass` makes it; frozen ones with slots share their methods."""
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
            done.__compared__, done.__hashed__ = _values_of(compared), _values_of(hashed)
            for name, method in {"__init__": _initializer(done), **_SHARED}.items():
                if name not in own:
                    setattr(done, name, method)
            return done

        return made if cls is None else made(cls)


def _initializer(cls: type) -> Any:
    """The `__init__` of a class with slots, in the order of its fields."""
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
    exec(text, known)  # noqa: S102 - The standard library makes it so as well.
    return known["__init__"]


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


def _state(self: Any) -> list[Any]:
    return [getattr(self, each.name) for each in fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for each, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, each.name, value)


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
