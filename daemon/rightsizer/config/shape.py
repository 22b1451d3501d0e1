"""Shape of a tree of settings, as plain data.

Used by the validator, the schema, the example and the reference.
"""

import types
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from functools import cached_property
from typing import Any, Final, TypeAlias, Union, cast, get_args, get_origin

from msgspec import NODEFAULT, Struct

from rightsizer.model.settings import Bounds, Spec, bounds_by, declared_fields, split_hint
from rightsizer.model.units import Unit

_AMOUNT: Final = "amount"
_SCALARS: Final = (bool, int, float, str)


class Scalar(Struct, frozen=True, dict=True):
    """One value: text, boolean, number or enumeration."""

    type: type
    unit: str = ""
    minimum: float | None = None
    maximum: float | None = None
    words: tuple[str, ...] = ()
    """Allowed texts, if they are no enumeration of their own."""

    @property
    def is_duration(self) -> bool:
        """Written like `10m`, stored in seconds."""
        return self.unit == Unit.SECONDS

    @property
    def is_amount(self) -> bool:
        """Written like `70B` or as a number."""
        return self.unit == _AMOUNT

    @property
    def is_size(self) -> bool:
        """Written like `512MiB` or as an integer, stored in bytes."""
        return self.unit == Unit.BYTES

    @cached_property
    def choices(self) -> tuple[str, ...]:
        """Allowed words; empty for any."""
        return tuple(map(str, self.type)) if issubclass(self.type, StrEnum) else self.words


class Nullable(Struct, frozen=True):
    """Value that may be `null`."""

    inner: "Shape"


class Many(Struct, frozen=True):
    """List, stored as a tuple."""

    item: "Shape"


class Named(Struct, frozen=True):
    """Mapping with keys chosen by the operator."""

    value: "Shape"
    key: "Shape" = Scalar(str)


class Parsed(Struct, frozen=True):
    """Value that is rewritten before it is read, since a document may write it otherwise."""

    inner: "Shape"
    parse: Callable[[Any], Any]
    """Raises `ValueError` with the remedy."""


class Tagged(Struct, frozen=True):
    """Mapping whose keys depend on the word that one of them has."""

    key: str
    groups: "Mapping[str, Group]"
    usual: str | None = None


class ShapeEntry(Struct, frozen=True):
    """One key of a group."""

    key: str
    name: str
    """Name of the field."""
    shape: "Shape"
    default: Any
    """`msgspec.NODEFAULT` if required."""
    settings: type
    """Class of the field."""
    is_live: bool = False
    """Whether a reload applies it; the keys of a group may override this."""
    is_constant: bool = False
    """Whether only `--constants` overrides it."""

    @property
    def is_required(self) -> bool:
        """Whether there is no default."""
        return self.default is NODEFAULT


class Group(Struct, frozen=True, dict=True):
    """Mapping with the fields of a settings class as keys."""

    type: type
    entries: tuple[ShapeEntry, ...]
    """Settings."""
    constants: tuple[ShapeEntry, ...] = ()

    @cached_property
    def is_list(self) -> bool:
        """Whether it is written as a list of its values, in the order of the fields."""
        return bool(cast(Any, self.type).__struct_config__.array_like)

    @cached_property
    def by_key(self) -> Mapping[str, ShapeEntry]:
        """Settings and constants by key in a file."""
        return {entry.key: entry for entry in (*self.entries, *self.constants)}

    def default(self) -> Any:
        """Group with all defaults, or `NODEFAULT` if a key is required."""
        fields = self.by_key.values()
        if any(field.is_required for field in fields):
            return NODEFAULT
        return self.type(**{field.name: field.default for field in fields})


Shape: TypeAlias = Scalar | Nullable | Many | Named | Parsed | Tagged | Group


def shape_of(
    settings: type, defaults: Any = None, *, live: bool = False, bounds: Bounds | None = None
) -> Group:
    """Shape of a settings class.

    Values in the instance `defaults` override the class's defaults; `live`: whether a reload
    applies fields that do not specify it; `bounds`: of values without bounds of their own.

    Raises:
        TypeError: a field has a type unsupported in a configuration file, or a duplicate key.
    """
    has_limits = bounds is not None and (bounds.minimum, bounds.maximum) != (None, None)
    entries = tuple(_entries(settings, defaults, live, bounds if has_limits else None))
    constants = tuple(entry for entry in entries if entry.is_constant)
    group = Group(settings, tuple(entry for entry in entries if not entry.is_constant), constants)
    if len(group.by_key) < len(entries):
        raise TypeError(f"{settings.__name__}: two fields have the same key")
    return group


def _entries(
    settings: type,
    defaults: Any,
    live: bool,  # noqa: FBT001 - passed on.
    outer: Bounds | None,
) -> Iterator[ShapeEntry]:
    for declared in declared_fields(settings):
        default = declared.default if defaults is None else getattr(defaults, declared.name)
        has_own_bounds = outer is None or declared.spec.within is not None
        bounds = declared.bounds if has_own_bounds else outer
        is_entry_live = live if declared.spec.is_live is None else declared.spec.is_live
        try:
            shape = _specified(declared.hint, declared.spec, bounds, default, is_entry_live)
        except TypeError as error:
            raise TypeError(f"{settings.__name__}.{declared.name}: {error}") from None
        yield ShapeEntry(
            key=declared.key(bounds or declared.bounds),
            name=declared.name,
            shape=shape,
            default=default,
            settings=settings,
            is_live=is_entry_live,
            is_constant=bool(declared.spec.is_constant) or _has_only_constants(shape),
        )


def _has_only_constants(shape: Shape) -> bool:
    return isinstance(shape, Group) and bool(shape.constants) and not shape.entries


def _specified(
    hint: Any,
    spec: Spec,
    bounds: Bounds | None,
    default: Any,
    live: bool,  # noqa: FBT001 - passed on.
) -> Shape:
    """Shape of a type with what its annotations say."""
    if spec.kinds is None:
        shape = _shape(hint, bounds, default, live)
    else:
        kinds = spec.kinds
        groups = {word: shape_of(kind, bounds=bounds) for word, kind in kinds.types.items()}
        shape = Tagged(kinds.key, groups, kinds.usual)
    return shape if spec.parse is None else Parsed(shape, spec.parse)


def _shape(hint: Any, bounds: Bounds | None, default: Any, live: bool) -> Shape:  # noqa: FBT001 - passed on.
    inner, spec = split_hint(hint)
    if inner is not hint:
        is_bounded = (spec.within, spec.unit, spec.words) != (None, None, None)
        stated = bounds_by(spec, "") if is_bounded else bounds
        return _specified(inner, spec, stated, default, live)
    origin = get_origin(hint)
    arguments = get_args(hint)
    if origin in (Union, types.UnionType) and len(arguments) == 2 and type(None) in arguments:  # noqa: PLR2004 - a value or `None`.
        (inner,) = (argument for argument in arguments if argument is not type(None))
        return Nullable(_shape(inner, bounds, default, live))
    if origin is tuple and arguments[1:] == (...,):
        return Many(_shape(arguments[0], bounds, None, live))
    if origin in (dict, Mapping):
        key = _shape(arguments[0], None, None, live)
        return Named(_shape(arguments[1], bounds, None, live), key)
    if isinstance(hint, type) and issubclass(hint, Struct):
        defaults = default if isinstance(default, hint) else None
        return shape_of(hint, defaults, live=live, bounds=bounds)
    if isinstance(hint, type) and (hint in _SCALARS or issubclass(hint, StrEnum)):
        if bounds is None:
            return Scalar(hint)
        return Scalar(hint, bounds.unit, bounds.minimum, bounds.maximum, bounds.words)
    raise TypeError(f"{hint} cannot stand in a configuration file")
