"""Protocol of the isolated reader: task, answer, dataclasses as JSON."""

from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from rightsizer.model.frozen import dataclass, fields, is_dataclass
from rightsizer.model.profile import Profile
from rightsizer.telemetry.profiles.limits import ReadLimits

_Value = TypeVar("_Value")


def plain(value: Any) -> Any:
    """What `json.dumps` takes."""
    if is_dataclass(value):
        return [plain(getattr(value, each.name)) for each in fields(value)]
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, (tuple, list)):
        return [plain(each) for each in value]
    return value


def restored(kind: type[_Value], value: Any) -> _Value:
    """An instance of a dataclass from what `plain` made of one.

    Raises:
        ValueError: it is none.
    """
    found: _Value = _of_dataclass(kind, value)
    return found


def _of(hint: Any, value: Any) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        if value is None and NoneType in arguments:
            return None
        (inner,) = (each for each in arguments if each is not NoneType)
        return _of(inner, value)
    if origin is tuple:
        return tuple(_of(arguments[0], each) for each in _checked(list, value))
    if origin is not None and issubclass(origin, Mapping):
        of_key, of_value = arguments
        items = _checked(dict, value).items()
        return {_of(of_key, key): _of(of_value, each) for key, each in items}
    if is_dataclass(hint):
        return _of_dataclass(hint, value)
    if issubclass(hint, StrEnum):
        return hint(value)
    if hint is float:
        return float(_checked((int, float), value))
    return _checked(hint, value)


def _of_dataclass(kind: Any, value: Any) -> Any:
    hints = _hints(kind)
    values = _checked(list, value)
    return kind(*(_of(hint, each) for hint, each in zip(hints, values, strict=True)))


@cache
def _hints(kind: Any) -> tuple[Any, ...]:
    hints = get_type_hints(kind)
    return tuple(hints[each.name] for each in fields(kind))


def _checked(kind: Any, value: Any) -> Any:
    # A truth value is an integer to Python, and nowhere else.
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ValueError(f"{value!r:.80} is no {getattr(kind, '__name__', 'number')}")
    return value


@dataclass(frozen=True, slots=True)
class ReaderTask:
    """What to read."""

    path: str
    """A way to the open file that was handed over, under the name that it goes by."""
    name: str
    limits: ReadLimits
    memory_bytes: int
    cpu_seconds: int


@dataclass(frozen=True, slots=True)
class ReaderAnswer:
    """What came of it: one of the two."""

    profile: Profile | None
    fault: str = ""
