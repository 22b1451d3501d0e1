"""Settings from the environment: `RIGHTSIZER_RECOMMENDER__INTERVAL` is `recommender.interval`."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from rightsizer.config.shape import Entry, Group, Nullable, Scalar, Shape
from rightsizer.io.near import near_words
from rightsizer.io.yaml import YamlError, load_yaml

_PREFIX: Final = "RIGHTSIZER_"
_STEP: Final = "__"


@dataclass(frozen=True, slots=True)
class Override:
    """One variable that stands for a key of the file."""

    variable: str
    path: tuple[str, ...]
    value: Any
    """As the file would have it."""


def variable_of(path: tuple[str, ...]) -> str:
    """What the variable for a key is called."""
    return _PREFIX + _STEP.join(path).upper()


def overrides(
    group: Group, environ: Mapping[str, str], others: Collection[str] = ()
) -> tuple[tuple[Override, ...], tuple[str, ...]]:
    """The settings that the environment holds, and what is wrong with its variables.

    Both are by the variables' names; each fault is a line that begins with its variable.

    Kubernetes puts variables of its own into a container, `RIGHTSIZER_PORT` for a service called
    `rightsizer`: what has no double underscore and resembles no key is not ours.

    Args:
        group: The settings.
        environ: All variables.
        others: Sections that other programs read; their variables are passed over.
    """
    known = {variable_of(path): (path, entry) for path, entry in _entries(group, ())}
    found: list[Override] = []
    faults: list[str] = []
    passed = tuple(variable_of((other, "")) for other in others)
    ours = (name for name in environ if name.startswith(_PREFIX) and not name.startswith(passed))
    for variable in sorted(ours):
        if variable not in known:
            values = [name for name, (_, at) in known.items() if not isinstance(at.shape, Group)]
            faults.extend(_strange(variable, values))
            continue
        path, entry = known[variable]
        if isinstance(entry.shape, Group):
            below = next(name for name in known if name.startswith(variable + _STEP))
            faults.append(f"{variable}: is a group of settings; name one of them, like {below}")
            continue
        try:
            found.append(Override(variable, path, _value(entry.shape, variable, environ)))
        except YamlError as error:
            faults.append(f"{' '.join(str(error).split())}; write it as the file would have it")
    return tuple(found), tuple(faults)


def overridden(data: Any, found: tuple[Override, ...]) -> Any:
    """A file's data with what variables say in its place; neither is changed."""
    for override in found:
        data = _set(data, override.path, override.value)
    return data


def _set(data: Any, path: tuple[str, ...], value: Any) -> Any:
    if not path:
        return value
    if data is not None and not isinstance(data, dict):
        return data  # The file's own fault here is told in its place.
    below = {} if data is None else data
    return {**below, path[0]: _set(below.get(path[0]), path[1:], value)}


def _entries(group: Group, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Entry]]:
    for entry in group.entries:
        yield (*path, entry.key), entry
        if isinstance(entry.shape, Group):
            yield from _entries(entry.shape, (*path, entry.key))


def _value(shape: Shape, variable: str, environ: Mapping[str, str]) -> Any:
    """Text as it is, so that it needs no quotes; all else as YAML."""
    text = environ[variable]
    if isinstance(shape, Nullable):
        return None if text in ("", "null") else _value(shape.inner, variable, environ)
    if isinstance(shape, Scalar) and (shape.type is str or shape.choices):
        return text
    return load_yaml(text, variable).data


def _strange(variable: str, known: list[str]) -> Iterator[str]:
    """The fault of a variable that is no key; none where it is hardly meant to be one."""
    plain = {name.replace(_STEP, "_"): name for name in known}
    upper = variable.upper()
    if upper in known:
        yield f"{variable}: is written in capitals; did you mean {upper}?"
    elif upper.replace(_STEP, "_") in plain:
        yield f"{variable}: is no setting; did you mean {plain[upper.replace(_STEP, '_')]}?"
    elif _STEP in variable:
        near = near_words(
            upper.removeprefix(_PREFIX), [name.removeprefix(_PREFIX) for name in known]
        )
        hint = f"did you mean {_PREFIX}{near[0]}?" if near else "see docs/configuration.md"
        yield f"{variable}: is no setting; {hint}"
