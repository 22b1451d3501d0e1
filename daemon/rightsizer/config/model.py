"""Plain data against a shape.

The only importer of pydantic, and itself imported only when there is something to validate:
pydantic takes 9 MB and more.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Annotated, Any, Final

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    WrapValidator,
    create_model,
)

from rightsizer.config.shape import Entry, Group, Many, Named, Nullable, Scalar, Shape
from rightsizer.config.spelling import parse_seconds, parse_size

__all__ = ["Fault", "validate"]

_CLOSED: Final = ConfigDict(extra="forbid")
_NAME: Final[Any] = Annotated[str, Field(strict=True)]


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong, in pydantic's words."""

    path: tuple[str | int, ...]
    type: str
    value: Any
    message: str


def validate(group: Group, data: Any) -> Any | list[Fault]:
    """The settings that plain data stands for, or everything that is wrong with it."""
    try:
        return TypeAdapter(_annotation(group)).validate_python(data)
    except ValidationError as error:
        return [_fault(details) for details in error.errors(include_url=False)]


def _fault(details: Any) -> Fault:
    path, kind = details["loc"], details["type"]
    if path[-1:] == ("[key]",):
        path, kind = path[:-1], "invalid_key"
    if kind == "invalid_key":
        path = (*path[:-1], str(path[-1]))
    message = str(details.get("ctx", {}).get("error", details["msg"]))
    return Fault(path, kind, details["input"], message)


def _annotation(shape: Shape) -> Any:
    match shape:
        case Scalar():
            return _scalar(shape)
        case Nullable(inner):
            return _annotation(inner) | None
        case Many(item):
            return tuple[_annotation(item), ...]  # type: ignore[misc]
        case Named(value):
            mapping: Any = dict[_NAME, _annotation(value)]  # type: ignore[misc]
            return Annotated[mapping, AfterValidator(MappingProxyType)]
        case Group():
            return Annotated[_model(shape), AfterValidator(partial(_build, shape))]


def _scalar(scalar: Scalar) -> Any:
    if scalar.choices:
        return scalar.type
    if scalar.type in (bool, str):
        return Annotated[scalar.type, Field(strict=True)]
    finite = False if scalar.type is float else None
    bounded = Field(strict=True, ge=scalar.minimum, le=scalar.maximum, allow_inf_nan=finite)
    if scalar.is_duration:
        return Annotated[scalar.type, bounded, BeforeValidator(parse_seconds)]
    if scalar.is_size:
        return Annotated[scalar.type, bounded, BeforeValidator(parse_size)]
    return Annotated[scalar.type, bounded]


def _model(group: Group) -> Any:
    # The keys are aliases of made-up names, so that no key can hide a method of pydantic's.
    members: dict[str, Any] = {
        f"field_{index}": _member(entry) for index, entry in enumerate(group.entries)
    }
    return create_model(group.type.__name__, __config__=_CLOSED, **members)


def _member(entry: Entry) -> tuple[Any, Any]:
    annotation = _annotation(entry.shape)
    if entry.is_required:
        return annotation, Field(alias=entry.key)
    if isinstance(entry.shape, Group | Many | Named):
        annotation = Annotated[annotation, WrapValidator(partial(_nothing_is, entry.default))]
    return annotation, Field(alias=entry.key, default_factory=lambda: entry.default)


def _nothing_is(default: Any, value: Any, validate_value: Callable[[Any], Any]) -> Any:
    """A key whose contents are all commented out stands for the default."""
    return default if value is None else validate_value(value)


def _build(group: Group, model: Any) -> Any:
    values = model.__dict__.values()
    return group.type(
        **{entry.name: value for entry, value in zip(group.entries, values, strict=True)}
    )
