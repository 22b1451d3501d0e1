"""Plain data against a shape: the settings that it stands for, or everything that is wrong.

A library would do it, at 9 MB and more of an agent that should live in under 50.
"""

import math
from collections.abc import Mapping
from enum import StrEnum, auto
from types import MappingProxyType
from typing import Any

from rightsizer.config.shape import Group, Many, Named, Nullable, Scalar, Shape, ShapeEntry
from rightsizer.config.spelling import parse_seconds, parse_size
from rightsizer.model.frozen import MISSING, dataclass

_Path = tuple[str | int, ...]


class FaultKind(StrEnum):
    """What can be wrong with a value."""

    UNKNOWN_KEY = auto()
    KEY_TYPE = auto()
    MISSING = auto()
    TYPE = auto()
    CHOICE = auto()
    BOUNDS = auto()
    TEXT = auto()
    """The message says it."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong."""

    path: tuple[str | int, ...]
    kind: FaultKind
    value: Any
    message: str = ""


def validate(group: Group, data: Any) -> Any | list[Fault]:
    """The settings that plain data stands for, or everything that is wrong with it."""
    validator = _Validator()
    settings = validator.read(group, data, ())
    return validator.faults or settings


class _Validator:
    """Reads on after a fault, so that all are found at once; what is wrong reads as `MISSING`."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []

    def read(self, shape: Shape, value: Any, path: _Path) -> Any:
        match shape:
            case Scalar():
                return self._scalar(shape, value, path)
            case Nullable(inner):
                return None if value is None else self.read(inner, value, path)
            case Many(item):
                if not isinstance(value, list):
                    return self._fault(path, FaultKind.TYPE, value)
                return tuple(self.read(item, each, (*path, at)) for at, each in enumerate(value))
            case Named(inner):
                if not isinstance(value, dict):
                    return self._fault(path, FaultKind.TYPE, value)
                keys = [key for key in value if self._is_key(key, path)]
                found = {key: self.read(inner, value[key], (*path, key)) for key in keys}
                return MappingProxyType(found)
            case Group():
                return self._group(shape, value, path)

    def _fault(self, path: _Path, kind: FaultKind, value: Any, message: str = "") -> Any:
        self.faults.append(Fault(path, kind, value, message))
        return MISSING

    def _scalar(self, scalar: Scalar, value: Any, path: _Path) -> Any:
        if scalar.choices:
            is_known = isinstance(value, str) and value in scalar.choices
            return scalar.type(value) if is_known else self._fault(path, FaultKind.CHOICE, value)
        if scalar.type in (bool, str):
            is_right = type(value) is scalar.type
            return value if is_right else self._fault(path, FaultKind.TYPE, value)
        return self._number(scalar, value, path)

    def _number(self, scalar: Scalar, value: Any, path: _Path) -> Any:
        number = value
        try:
            if scalar.is_duration:
                number = parse_seconds(value)
            elif scalar.is_size:
                number = parse_size(value)
        except ValueError as error:
            return self._fault(path, FaultKind.TEXT, value, str(error))
        allowed = int if scalar.type is int else int | float
        is_number = isinstance(number, allowed) and not isinstance(number, bool)
        if not is_number or not math.isfinite(number := scalar.type(number)):
            return self._fault(path, FaultKind.TYPE, number)
        least = -math.inf if scalar.minimum is None else scalar.minimum
        most = math.inf if scalar.maximum is None else scalar.maximum
        if not least <= number <= most:
            return self._fault(path, FaultKind.BOUNDS, number)
        return number

    def _group(self, group: Group, value: Any, path: _Path) -> Any:
        if not isinstance(value, dict):
            return self._fault(path, FaultKind.TYPE, value)
        for key in value:
            if self._is_key(key, path) and key not in group.by_key:
                self._fault((*path, key), FaultKind.UNKNOWN_KEY, value[key])
        before = len(self.faults)
        entries = group.entries
        values = {each.name: self._entry(each, value, (*path, each.key)) for each in entries}
        if len(self.faults) > before:
            return MISSING
        try:
            return group.type(**values)
        except ValueError as error:
            return self._fault(path, FaultKind.TEXT, value, str(error))

    def _entry(self, entry: ShapeEntry, values: Mapping[str, Any], path: _Path) -> Any:
        if entry.key not in values:
            is_given = not entry.is_required
            return entry.default if is_given else self._fault(path, FaultKind.MISSING, None)
        value = values[entry.key]
        # A key whose contents are all commented out stands for the default.
        is_empty = value is None and isinstance(entry.shape, Group | Many | Named)
        is_default = is_empty and not entry.is_required
        return entry.default if is_default else self.read(entry.shape, value, path)

    def _is_key(self, key: Any, path: _Path) -> bool:
        if not isinstance(key, str):
            self._fault((*path, str(key)), FaultKind.KEY_TYPE, key)
        return isinstance(key, str)
