"""Validator of plain data against a shape: returns settings or all faults in plain language.

A library for this would add 9 MB or more to an agent that should need less than 50 MB.
"""

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum, auto
from types import MappingProxyType
from typing import Any, Final

from msgspec import NODEFAULT, Struct
from msgspec.structs import replace

from rightsizer.config.shape import (
    Group,
    Many,
    Named,
    Nullable,
    Parsed,
    Scalar,
    Shape,
    ShapeEntry,
    Tagged,
)
from rightsizer.config.spelling import parse_number, parse_seconds, parse_size, show, spell
from rightsizer.io.near import near_words

_Path = tuple[str | int, ...]
_SURE: Final = 0.85
"""Minimum similarity to a key of a nested section for a suggestion."""
_LISTED: Final = 20
"""Choices beyond which the one that was meant is named alone."""
_OF_A_SHELL: Final = ("~/", "$HOME/", "${HOME}/")
_LARGEST: Final = sys.float_info.max
_SWITCHES: Final = dict.fromkeys(("true", "yes", "on", "1"), "true") | dict.fromkeys(
    ("false", "no", "off", "0"), "false"
)
_KINDS: Final = {bool: "true or false", int: "whole number", float: "number", str: "text"}


class FaultKind(StrEnum):
    """Kinds of faults."""

    UNKNOWN_KEY = auto()
    KEY_TYPE = auto()
    MISSING = auto()
    TYPE = auto()
    CHOICE = auto()
    BOUNDS = auto()
    TEXT = auto()


class _Hidden:
    """In place of a value that no message may show."""

    def __str__(self) -> str:
        return "..."


HIDDEN: Final = _Hidden()


class Fault(Struct, frozen=True):
    """One fault."""

    path: tuple[str | int, ...]
    kind: FaultKind
    value: Any
    message: str = ""
    """With the remedy, where the shape has none."""
    shape: Shape | None = None
    """What should stand there, or what a key should stand in."""

    def hidden(self) -> "Fault":
        """Fault without its value, which may be a secret; a wrong choice is none."""
        return self if self.kind is FaultKind.CHOICE else replace(self, value=HIDDEN)


def rule_fault(path: tuple[str | int, ...], message: str) -> Fault:
    """Fault by a rule that no type states."""
    return Fault(path, FaultKind.TEXT, None, message)


def validate(
    group: Group,
    data: Any,
    mapping: Callable[[dict[Any, Any]], Mapping[Any, Any]] = MappingProxyType,
) -> Any | list[Fault]:
    """Convert plain data to settings, or return all faults.

    Mappings are read-only, unless another type is given, such as one that can be pickled.
    """
    validator = _Validator(mapping)
    settings = validator.read(group, data, ())
    return validator.faults or settings


class _Validator:
    """Continues after a fault, so that all are found at once; faulty values read as `NODEFAULT`."""

    def __init__(self, mapping: Callable[[dict[Any, Any]], Mapping[Any, Any]]) -> None:
        self.faults: list[Fault] = []
        self._mapping = mapping

    def read(self, shape: Shape, value: Any, path: _Path) -> Any:
        match shape:
            case Scalar():
                return self._scalar(shape, value, path)
            case Nullable(inner):
                return None if value is None else self.read(inner, value, path)
            case Parsed(inner, parse):
                try:
                    plain = parse(value)
                except ValueError as error:
                    return self._text_fault(path, value, str(error))
                return self.read(inner, plain, path)
            case Tagged():
                return self._tagged(shape, value, path)
            case Many(item):
                if not isinstance(value, list):
                    return self._fault(path, FaultKind.TYPE, value, shape)
                return tuple(
                    self.read(item, element, (*path, at)) for at, element in enumerate(value)
                )
            case Named():
                return self._named(shape, value, path)
            case Group():
                return self._group(shape, value, path)

    def _fault(self, path: _Path, kind: FaultKind, value: Any, shape: Shape) -> Any:
        self.faults.append(Fault(path, kind, value, shape=_value_of(shape)))
        return NODEFAULT

    def _text_fault(self, path: _Path, value: Any, message: str) -> Any:
        self.faults.append(Fault(path, FaultKind.TEXT, value, message))
        return NODEFAULT

    def _tagged(self, tagged: Tagged, value: Any, path: _Path) -> Any:
        if not isinstance(value, dict):
            return self._fault(path, FaultKind.TYPE, value, tagged)
        key = tagged.key
        words = Scalar(str, words=tuple(tagged.groups))
        word = self._scalar(words, value.get(key, tagged.usual), (*path, key))
        if word is NODEFAULT:
            return NODEFAULT
        rest = {name: item for name, item in value.items() if name != key}
        return self._group(tagged.groups[word], rest, path)

    def _named(self, named: Named, value: Any, path: _Path) -> Any:
        if not isinstance(value, dict):
            return self._fault(path, FaultKind.TYPE, value, named)
        names = ((self._key(named, key, path), key) for key in value)
        return self._mapping(
            {
                name: self.read(named.value, value[key], (*path, str(key)))
                for name, key in names
                if name is not NODEFAULT
            }
        )

    def _scalar(self, scalar: Scalar, value: Any, path: _Path) -> Any:
        if scalar.choices:
            for word in (value, value.lower()) if isinstance(value, str) else ():
                if word in scalar.choices:
                    return scalar.type(word)
            return self._fault(path, FaultKind.CHOICE, value, scalar)
        if scalar.type in (bool, str):
            if type(value) is not scalar.type:
                return self._fault(path, FaultKind.TYPE, value, scalar)
            if isinstance(value, str) and value.startswith(_OF_A_SHELL):
                message = f"{show(value)} is no whole path, and no shell reads it; begin it with /"
                return self._text_fault(path, value, message)
            return value
        return self._number(scalar, value, path)

    def _number(self, scalar: Scalar, value: Any, path: _Path) -> Any:
        number = value
        try:
            if scalar.is_duration:
                number = parse_seconds(value)
            elif scalar.is_size:
                number = parse_size(value)
            elif scalar.is_amount:
                number = parse_number(value)
        except ValueError as error:
            return self._text_fault(path, value, str(error))
        allowed = int if scalar.type is int else int | float
        is_number = isinstance(number, allowed) and not isinstance(number, bool)
        if not is_number or abs(number) > _LARGEST or number != number:  # noqa: PLR0124 - nan.
            return self._fault(path, FaultKind.TYPE, number, scalar)
        number = scalar.type(number)
        minimum = -math.inf if scalar.minimum is None else scalar.minimum
        maximum = math.inf if scalar.maximum is None else scalar.maximum
        if not minimum <= number <= maximum:
            return self._fault(path, FaultKind.BOUNDS, number, scalar)
        return number

    def _group(self, group: Group, value: Any, path: _Path) -> Any:
        before = len(self.faults)
        if group.is_list:
            values = self._listed(group, value, path)
        else:
            values = self._keyed(group, value, path)
        if len(self.faults) > before:
            return NODEFAULT
        try:
            return group.type(**values)
        except ValueError as error:
            for line in str(error).splitlines():
                self._rule_fault(group, line, value, path)
            return NODEFAULT

    def _keyed(self, group: Group, value: Any, path: _Path) -> Any:
        """Read the fields of a mapping."""
        if not isinstance(value, dict):
            return self._fault(path, FaultKind.TYPE, value, group)
        for key in value:
            if self._is_key(key, path) and key not in group.by_key:
                self._fault((*path, key), FaultKind.UNKNOWN_KEY, value[key], group)
        fields = group.by_key.values()
        return {field.name: self._entry(field, value, path) for field in fields}

    def _listed(self, group: Group, value: Any, path: _Path) -> Any:
        """Read the fields of a list, of which the last ones may be left out."""
        needed = sum(entry.is_required for entry in group.entries)
        if not isinstance(value, list):
            return self._fault(path, FaultKind.TYPE, value, group)
        if not needed <= len(value) <= len(group.entries):
            message = f"must be {_listed_keys(group)} (got {len(value)} values)"
            return self._text_fault(path, value, message)
        pairs = enumerate(zip(group.entries, value, strict=False))
        return {
            entry.name: self.read(entry.shape, cell, (*path, at)) for at, (entry, cell) in pairs
        }

    def _rule_fault(self, group: Group, line: str, value: Any, path: _Path) -> None:
        """Add a fault of several keys together; its line may begin with the path of one."""
        place, _, text = line.partition(": ")
        key, *below = place.split(".")
        if key in group.by_key:
            self._text_fault((*path, key, *below), value, text)
        else:
            self._text_fault(path, value, line)

    def _entry(self, entry: ShapeEntry, values: Mapping[str, Any], path: _Path) -> Any:
        if entry.key not in values:
            if entry.is_required:
                return self._fault((*path, entry.key), FaultKind.MISSING, None, entry.shape)
            return entry.default
        value = values[entry.key]
        # A key with all contents commented out has its default.
        is_empty = value is None and isinstance(entry.shape, Group | Many | Named)
        is_default = is_empty and not entry.is_required
        if is_default:
            return entry.default
        return self.read(entry.shape, value, (*path, entry.key))

    def _key(self, named: Named, key: Any, path: _Path) -> Any:
        """Read a key; what is no choice is an unknown key."""
        before = len(self.faults)
        name = self.read(named.key, key, (*path, str(key)))
        for at, fault in enumerate(self.faults[before:], before):
            if fault.kind is FaultKind.CHOICE:
                self.faults[at] = Fault(fault.path, FaultKind.UNKNOWN_KEY, None, shape=named)
            elif fault.kind is not FaultKind.TEXT:
                self.faults[at] = replace(fault, kind=FaultKind.KEY_TYPE)
        return name

    def _is_key(self, key: Any, path: _Path) -> bool:
        if not isinstance(key, str):
            self._fault((*path, str(key)), FaultKind.KEY_TYPE, key, Scalar(str))
        return isinstance(key, str)


def kind(shape: Shape) -> str:
    """Describe the expected value: `duration`, `list of text`, `one of auto, json`."""
    match shape:
        case Group():
            return f"list {_listed_keys(shape)}" if shape.is_list else "mapping"
        case Nullable(inner):
            return f"{kind(inner)} or null"
        case Parsed(inner):
            return kind(inner)
        case Tagged():
            return "mapping"
        case Many(item):
            return f"list of {_plural(item)}"
        case Named(value):
            return f"mapping of names to {_plural(value)}"
        case Scalar():
            return _scalar_kind(shape)


def limits(scalar: Scalar) -> str:
    """Describe the bounds: `between 1s and 1h`, `at least 1s`; empty without bounds."""
    bounds = scalar.minimum, scalar.maximum
    low, high = (None if bound is None else _spell_limit(bound, scalar) for bound in bounds)
    if low is None or high is None:
        return f"at least {low}" if low is not None else f"at most {high}" if high else ""
    return f"between {low} and {high}"


def _listed_keys(group: Group) -> str:
    return f"[{', '.join(entry.key for entry in group.entries)}]"


def _plural(shape: Shape) -> str:
    words = kind(shape)
    is_countable = words in ("mapping", "duration", "size", "number", "whole number")
    return f"{words}s" if is_countable else words


def _scalar_kind(scalar: Scalar) -> str:
    if scalar.choices:
        return "one of " + ", ".join(scalar.choices)
    if scalar.is_duration:
        return "duration"
    if scalar.is_size:
        return "size"
    name = _KINDS[scalar.type]
    return (
        f"{name} in {scalar.unit}" if scalar.unit not in ("", "ratio", "count", "amount") else name
    )


def _spell_limit(limit: float, scalar: Scalar) -> object:
    if scalar.is_duration or scalar.is_size:
        return spell(limit, scalar)
    return f"{limit:.10g}"


def explain(fault: Fault) -> str:
    """Describe a fault and its remedy."""
    shape = fault.shape
    if shape is None:
        return fault.message
    if fault.kind is FaultKind.UNKNOWN_KEY:
        return _unknown_key(str(fault.path[-1]), shape, fault.value)
    if fault.kind is FaultKind.KEY_TYPE:
        return _wrong_key(shape)
    if fault.kind is FaultKind.MISSING:
        return f"is required ({kind(shape)})"
    if isinstance(shape, Scalar) and fault.kind is FaultKind.CHOICE:
        nearest = near_words(str(fault.value).lower(), shape.choices)
        if nearest and len(shape.choices) > _LISTED:
            return f"{show(fault.value)} is not known; did you mean '{nearest[0]}'?"
        text = f"must be one of {', '.join(shape.choices)} (got {show(fault.value)})"
        return f"{text}; did you mean '{nearest[0]}'?" if nearest else text
    if isinstance(shape, Scalar) and fault.kind is FaultKind.BOUNDS:
        given = fault.value if fault.value is HIDDEN else spell(fault.value, shape)
        return f"must be {limits(shape)}{_got(given)}{_as_ratio(fault.value, shape)}"
    words = kind(shape)
    article = "" if words.startswith(("text", "true", "one of")) else "a "
    return f"must be {article}{words}{_got(fault.value)}{_remedy(fault, shape)}"


def _got(value: Any) -> str:
    """Faulty value, for the end of a message; empty if it may be a secret."""
    if value is HIDDEN:
        return ""
    return f" (got {value:g})" if isinstance(value, float) else f" (got {show(value)})"


def _wrong_key(key: Shape) -> str:
    if not isinstance(key, Scalar) or key.type is str:
        return "a key must be text; put it in quotes"
    within = limits(key)
    return f"a key must be a {kind(key)}{within and ', '}{within}"


def _value_of(shape: Shape) -> Shape:
    while isinstance(shape, Nullable | Parsed):
        shape = shape.inner
    return shape


def _unknown_key(key: str, around: Shape, value: object) -> str:
    keys = _keys_of(around)
    others = getattr(around.type, "OTHER_NAMES", {}) if isinstance(around, Group) else {}
    if key.lower() in others:
        return f"unknown key; write {others[key.lower()]}"
    above, _, below = key.rpartition(".")
    if above and isinstance(around, Group) and _has_key(around, key.split(".")):
        above = "".join(f"{part}: {{" for part in above.split("."))
        text = value if isinstance(value, str) else show(value)
        return f"keys nest; write it like {above}{below}: {text}{'}' * key.count('.')}"
    nearest = near_words(key, keys) or near_words(key.lower(), keys)
    if not nearest and isinstance(value, dict):
        # Indented below a heading that does not exist.
        nearest = [name for name in value if name in keys]
    inside = [
        f"{section}.{word}"
        for section in keys
        if isinstance(inner := _shape_below(around, section), Group)
        for word in near_words(key.lower(), [entry.key for entry in inner.entries], 1, _SURE)
    ]
    if nearest or inside:
        return f"unknown key; did you mean '{(nearest or inside)[0]}'?"
    if keys and isinstance(value, int | float) and isinstance(_shape_below(around, keys[0]), Named):
        return f"unknown key; write it like {keys[0]}: {{{key}: {show(value)}}}"
    return f"unknown key; known keys: {', '.join(keys) or 'none'}"


def _keys_of(shape: Shape) -> Sequence[str]:
    match shape:
        case Group(entries=entries):
            return [entry.key for entry in entries]
        case Named(key=Scalar(choices=choices)):
            return choices
        case _:
            return ()


def _shape_below(around: Shape, key: str) -> Shape | None:
    return _value_of(around.by_key[key].shape) if isinstance(around, Group) else None


def _has_key(group: Shape, path: list[str]) -> bool:
    for step in path:
        if not isinstance(group, Group) or step not in group.by_key:
            return False
        group = _value_of(group.by_key[step].shape)
    return True


def _remedy(fault: Fault, shape: Shape) -> str:
    if isinstance(shape, Scalar) and not isinstance(fault.value, list | dict | None):
        return _scalar_remedy(str(fault.value), shape, is_quoted=isinstance(fault.value, str))
    if isinstance(shape, Many) and isinstance(fault.value, dict):
        return "; begin each with '- '"
    if isinstance(shape, Many) and isinstance(fault.value, str | int | float):
        item = _value_of(shape.item)
        if isinstance(item, Group):
            return f"; write it like [{_as_mapping(item, fault.value)}]"
        is_text = isinstance(item, Scalar) and item.type is str
        return f"; write it like [{show(str(fault.value) if is_text else fault.value)}]"
    if isinstance(shape, Group) and not shape.is_list:
        return f"; write it like {_as_mapping(shape, fault.value)}"
    return ""


def _scalar_remedy(text: str, scalar: Scalar, *, is_quoted: bool) -> str:
    if scalar.type is str:
        return "; put it in quotes"
    if scalar.type is bool:
        meant = _SWITCHES.get(text.lower())
        return f"; write {meant} without quotes" if meant else ""
    if text.endswith("%"):
        return _as_ratio(text.removesuffix("%"), scalar)
    return "; write it in digits without quotes" if is_quoted and _is_number(text) else ""


def _as_ratio(percent: str | float, scalar: Scalar) -> str:
    """Remedy for a ratio written in percent; empty if it is not one."""
    maximum = scalar.maximum
    if maximum is None or maximum > 1 or not _is_number(str(percent)):
        return ""
    ratio = float(percent) / 100.0
    is_meant = (scalar.minimum or 0.0) <= ratio <= maximum
    return f"; it is a ratio: for {float(percent):g}% write {ratio:g}" if is_meant else ""


def _as_mapping(group: Group, value: object) -> str:
    """Value as the URL of a mapping; else the mapping's first key, with its value left open."""
    if isinstance(value, str) and "url" in group.by_key:
        address = value if "://" in value else f"http://{value}"
        return f"{{url: {show(address)}}}"
    return f"{{{next(iter(group.by_key))}: ...}}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
