"""What a tree of settings dataclasses asks for, as plain data.

The validator, the schema, the example and the reference all walk this one description.
"""

import types
from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import cached_property
from typing import Any, Final, TypeAlias, Union, get_args, get_origin, get_type_hints

from rightsizer.model.frozen import MISSING, dataclass, fields, is_dataclass
from rightsizer.model.settings import Bounds, bounds_of, is_live
from rightsizer.model.units import Unit

_SCALARS: Final = (bool, int, float, str)
_WRITTEN_WITH_UNIT: Final = (Unit.SECONDS, Unit.BYTES)
"""Their values tell the unit, so that the keys need not."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """One value: text, a switch, a number, or one of a few words."""

    type: type
    unit: str = ""
    minimum: float | None = None
    maximum: float | None = None

    @property
    def is_duration(self) -> bool:
        """Written like `10m`, kept in seconds."""
        return self.unit == Unit.SECONDS

    @property
    def is_size(self) -> bool:
        """Written like `512MiB` or as an integer, kept in bytes."""
        return self.unit == Unit.BYTES

    @property
    def choices(self) -> tuple[str, ...]:
        """The words allowed, none where any value may stand."""
        return tuple(map(str, self.type)) if issubclass(self.type, StrEnum) else ()


@dataclass(frozen=True, slots=True)
class Nullable:
    """A value that may be `null`."""

    inner: "Shape"


@dataclass(frozen=True, slots=True)
class Many:
    """A list, kept as a tuple."""

    item: "Shape"


@dataclass(frozen=True, slots=True)
class Named:
    """A mapping whose keys the operator chooses."""

    value: "Shape"


@dataclass(frozen=True, slots=True)
class ShapeEntry:
    """One key of a group."""

    key: str
    name: str
    """The dataclass's own name for it."""
    shape: "Shape"
    default: Any
    """`dataclasses.MISSING` where the operator has to say it."""
    described: Bounds | None
    """What its field says of it; `None` of a group of settings."""
    is_live: bool = False
    """Whether a reload puts it in force; a group's keys may each say otherwise."""

    @property
    def is_required(self) -> bool:
        """Whether there is no default."""
        return self.default is MISSING


@dataclass(frozen=True)
class Group:
    """A mapping whose keys are the fields of a dataclass."""

    type: type
    entries: tuple[ShapeEntry, ...]

    @cached_property
    def by_key(self) -> Mapping[str, ShapeEntry]:
        """The entries by what the file calls them."""
        return {entry.key: entry for entry in self.entries}

    def default(self) -> Any:
        """The group where the operator says nothing; `MISSING` where that is not allowed."""
        if any(entry.is_required for entry in self.entries):
            return MISSING
        return self.type(**{entry.name: entry.default for entry in self.entries})


Shape: TypeAlias = Scalar | Nullable | Many | Named | Group


def shape_of(settings: type, defaults: Any = None, *, live: bool = False) -> Group:
    """The shape of a settings class.

    Values of the instance `defaults` stand in place of the class's own; `live`: whether a reload
    puts in force what does not say otherwise.

    Raises:
        TypeError: a field has a type that a configuration file cannot hold, or another's key.
    """
    group = Group(settings, tuple(_entries(settings, defaults, live)))
    if len(group.by_key) < len(group.entries):
        raise TypeError(f"{settings.__name__}: two fields have the same key")
    return group


def _entries(settings: type, defaults: Any, live: bool) -> Iterator[ShapeEntry]:  # noqa: FBT001 - handed down.
    hints, bounds_by_name = get_type_hints(settings), bounds_of(settings)
    for declared in fields(settings):
        if defaults is not None:
            default = getattr(defaults, declared.name)
        elif declared.default_factory is not MISSING:
            default = declared.default_factory()
        else:
            default = declared.default
        bounds, says = bounds_by_name.get(declared.name), is_live(declared)
        is_entry_live = live if says is None else says
        try:
            shape = _shape(hints[declared.name], bounds, default, is_entry_live)
        except TypeError as error:
            raise TypeError(f"{settings.__name__}.{declared.name}: {error}") from None
        yield ShapeEntry(
            key=_key(declared.name, bounds.unit if bounds else ""),
            name=declared.name,
            shape=shape,
            default=default,
            described=bounds,
            is_live=is_entry_live,
        )


def _key(name: str, unit: str) -> str:
    if unit in _WRITTEN_WITH_UNIT:
        return name.removesuffix(f"_{unit}")
    # A keyword of the language cannot name a field, but may well name a key.
    return name.removesuffix("_")


def _shape(hint: Any, bounds: Bounds | None, default: Any, live: bool) -> Shape:  # noqa: FBT001 - handed down.
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType) and len(arguments) == 2 and type(None) in arguments:  # noqa: PLR2004 - a value or nothing.
        (inner,) = (argument for argument in arguments if argument is not type(None))
        return Nullable(_shape(inner, bounds, default, live))
    if origin is tuple and arguments[1:] == (...,):
        return Many(_shape(arguments[0], bounds, None, live))
    if origin in (dict, Mapping) and arguments[0] is str:
        return Named(_shape(arguments[1], bounds, None, live))
    if isinstance(hint, type) and is_dataclass(hint):
        return shape_of(hint, default if isinstance(default, hint) else None, live=live)
    if isinstance(hint, type) and (hint in _SCALARS or issubclass(hint, StrEnum)):
        if bounds is None:
            return Scalar(hint)
        return Scalar(hint, bounds.unit, bounds.minimum, bounds.maximum)
    raise TypeError(f"{hint} cannot stand in a configuration file")
