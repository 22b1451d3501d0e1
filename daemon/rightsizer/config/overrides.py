"""Settings given by environment variables."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from rightsizer.config.shape import (
    Group,
    Nullable,
    Scalar,
    Shape,
    ShapeEntry,
)
from rightsizer.io.near import near_words
from rightsizer.io.yaml import YamlError, load_yaml

_PREFIX: Final = "RIGHTSIZER_"
_STEP: Final = "__"


class Override(Struct, frozen=True):
    """Environment variable that sets a key of the file."""

    variable: str
    path: tuple[str, ...]
    value: Any
    """In the form used in the file."""


def variable_of(path: tuple[str, ...]) -> str:
    """Name of the variable for a key."""
    return _PREFIX + _STEP.join(path).upper()


def overrides(
    group: Group, environ: Mapping[str, str], others: Collection[str] = ()
) -> tuple[tuple[Override, ...], tuple[str, ...]]:
    """Read settings from the environment, with the faults of its variables.

    Both are sorted by variable; each fault is a line that begins with its variable.
    Kubernetes adds its own variables to a container, such as `RIGHTSIZER_PORT` for a service named
    `rightsizer`; names without a double underscore that resemble no key are ignored.

    `others` are sections read by other programs; their variables are ignored.
    """
    entries = {variable_of(path): (path, entry) for path, entry in _entries(group, ())}
    accepted: list[Override] = []
    faults: list[str] = []
    passed = tuple(variable_of((other, "")) for other in others)
    ours = (name for name in environ if name.startswith(_PREFIX) and not name.startswith(passed))
    for variable in sorted(ours):
        if variable not in entries:
            values = [name for name, (_, at) in entries.items() if not isinstance(at.shape, Group)]
            faults.extend(_unknown_variable(variable, values))
            continue
        path, entry = entries[variable]
        if isinstance(entry.shape, Group):
            below = next(name for name in entries if name.startswith(variable + _STEP))
            faults.append(f"{variable}: is a group of settings; name one of them, like {below}")
            continue
        try:
            accepted.append(Override(variable, path, _value(entry.shape, variable, environ)))
        except YamlError as error:
            faults.append(f"{' '.join(str(error).split())}; write it as the file would have it")
    return tuple(accepted), tuple(faults)


def overridden(data: Any, changes: tuple[Override, ...]) -> Any:
    """Copy of a file's data with the overrides applied; the arguments are unchanged."""
    for override in changes:
        data = _set(data, override.path, override.value)
    return data


def _set(data: Any, path: tuple[str, ...], value: Any) -> Any:
    if not path:
        return value
    if data is not None and not isinstance(data, dict):
        return data  # The fault of the file here is reported for its own place.
    below = {} if data is None else data
    return {**below, path[0]: _set(below.get(path[0]), path[1:], value)}


def _entries(group: Group, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], ShapeEntry]]:
    for entry in group.entries:
        yield (*path, entry.key), entry
        if isinstance(entry.shape, Group):
            yield from _entries(entry.shape, (*path, entry.key))


def _value(shape: Shape, variable: str, environ: Mapping[str, str]) -> Any:
    """Text as is, so that it needs no quotes; all other values as YAML."""
    text = environ[variable]
    if isinstance(shape, Nullable):
        return None if text in ("", "null") else _value(shape.inner, variable, environ)
    if isinstance(shape, Scalar) and (shape.type is str or shape.choices):
        return text
    return load_yaml(text, variable).data


def _unknown_variable(variable: str, variables: list[str]) -> Iterator[str]:
    """Fault of a variable that is not a key; none if it was probably not meant as one."""
    plain = {name.replace(_STEP, "_"): name for name in variables}
    upper = variable.upper()
    if upper in variables:
        yield f"{variable}: is written in capitals; did you mean {upper}?"
    elif upper.replace(_STEP, "_") in plain:
        yield f"{variable}: is no setting; did you mean {plain[upper.replace(_STEP, '_')]}?"
    elif _STEP in variable:
        names = [name.removeprefix(_PREFIX) for name in variables]
        near = near_words(upper.removeprefix(_PREFIX), names)
        hint = f"did you mean {_PREFIX}{near[0]}?" if near else "see docs/configuration.md"
        yield f"{variable}: is no setting; {hint}"
