"""Keys that are no settings any more: passed over with a warning."""

import sys
from collections.abc import Iterator
from typing import Any, Final

from msgspec.structs import replace

from rightsizer.config.shape import (
    Group,
    Many,
    Named,
    Nullable,
    Shape,
    ShapeEntry,
)
from rightsizer.config.spelling import spell_path
from rightsizer.io.yaml import Document

DROPPED: Final[dict[tuple[str, ...], str]] = {
    ("grafana", "failures_before_pause"): "leave it out: pauses grow with the failures",
    ("sizing", "training", "network_ratio"): "set sizing.training.network_bytes_per_second",
}
"""Keys dropped in this release, by path, with the remedy.

They are ignored with a warning until the next release, which rejects them as unknown: an
unattended upgrade must not keep an agent from starting.
"""


def passed_over(shape: Group) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the paths of keys that are no settings any more, each with what to do."""
    for path, remedy in DROPPED.items():
        yield path, _dropped(path, remedy)
    yield from _constants(shape, ())


def _constants(group: Group, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    for constant in group.constants:
        yield (*path, constant.key), _constant(constant, (*path, constant.key))
    for entry in group.entries:
        if isinstance(entry.shape, Group):
            yield from _constants(entry.shape, (*path, entry.key))


def _dropped(path: tuple[str | int, ...], remedy: str) -> str:
    return (
        f"{spell_path(path)}: this release has no such key and passes it over, the next one will "
        f"refuse it; {remedy}"
    )


def _constant(constant: ShapeEntry, path: tuple[str | int, ...]) -> str:
    return (
        f"{spell_path(path)}: is passed over; it is a constant of {constant.settings.__module__} "
        "now, which '--constants FILE' overrides for experiments"
    )


def without_dropped(document: Document) -> Document:
    """Remove the keys dropped in this release, each with a warning."""
    for path, remedy in DROPPED.items():
        if path in document.places:
            warn(document.where(path), _dropped(path, remedy))
            document = replace(document, data=_without_path(document.data, path))
    return document


def without_constants(shape: Group, document: Document) -> Document:
    """Remove constants, which releases before had as settings, each with a warning."""
    for path, constant in _named_constants(shape, document.data, ()):
        warn(document.where(path), _constant(constant, path))
        document = replace(document, data=_without_path(document.data, path))
    return document


def _named_constants(
    shape: Shape, data: Any, path: tuple[str | int, ...]
) -> Iterator[tuple[tuple[str | int, ...], ShapeEntry]]:
    """Yield the constants that stand in a document."""
    match shape:
        case Nullable(inner):
            yield from _named_constants(inner, data, path)
        case Many(item) if isinstance(data, list):
            for place, value in enumerate(data):
                yield from _named_constants(item, value, (*path, place))
        case Named(inner) if isinstance(data, dict):
            for key, value in data.items():
                yield from _named_constants(inner, value, (*path, key))
        case Group() if isinstance(data, dict):
            for key, value in data.items():
                if (entry := shape.by_key.get(key)) is None:
                    continue
                if entry.is_constant:
                    yield (*path, key), entry
                else:
                    yield from _named_constants(entry.shape, value, (*path, key))
        case _:
            return


def _without_path(data: Any, path: tuple[str | int, ...]) -> Any:
    key, *rest = path
    if isinstance(data, list):
        return [
            _without_path(value, tuple(rest)) if place == key else value
            for place, value in enumerate(data)
        ]
    if not isinstance(data, dict) or key not in data:
        return data
    below = {key: _without_path(data[key], tuple(rest))} if rest else {}
    return {name: value for name, value in data.items() if name != key} | below


def warn(where: str, message: str) -> None:
    """Write a line to standard error, since logging is configured by the settings being loaded."""
    sys.stderr.write(f"warning: {where}: {message}\n")
