"""Loader of the configuration file and environment into frozen settings."""

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.config.shape import (
    Group,
    Many,
    Named,
    Nullable,
    Scalar,
    Shape,
    ShapeEntry,
    shape_of,
)
from rightsizer.config.spelling import escaped_line, spell_path
from rightsizer.config.validator import Fault, explain, validate
from rightsizer.io.files import file_bytes
from rightsizer.io.near import near_words
from rightsizer.io.yaml import Document, Place, YamlError, load_yaml, merge_documents
from rightsizer.model.errors import ConfigurationError
from rightsizer.model.settings import key_in_file

DROPPED: Final[dict[tuple[str, ...], str]] = {
    ("grafana", "failures_before_pause"): "leave it out: pauses grow with the failures",
    ("sizing", "training", "network_ratio"): "set sizing.training.network_bytes_per_second",
}
"""Keys dropped in this release, by path, with the remedy.

They are ignored with a warning until the next release, which rejects them as unknown: an
unattended upgrade must not keep an agent from starting.
"""
_PREFIX: Final = "RIGHTSIZER_"
_STEP: Final = "__"
_Settings = TypeVar("_Settings")
_REMEDY: Final = "check the path, or leave the flag out to run with the defaults"
_NOTHING: Final[Mapping[str, str]] = {}
_NAMES: Final = (
    "accounting acting actions broker catalogue fleet grafana history labels log mails node path"
    " placement policies prices profiles recommender sampling sizing sources web webhooks"
)
SECTIONS: Final = frozenset(_NAMES.split())
"""All top-level sections of the configuration file; a test compares them with the settings."""


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


class SettingOrigins(Struct, frozen=True):
    """Origin of each setting: line of a file or environment variable."""

    document: Document
    overrides: tuple[Override, ...]

    def origin(self, path: tuple[str, ...]) -> str | None:
        """`file:line` or the name of a variable; `None` for a default."""
        for override in self.overrides:
            if path[: len(override.path)] == override.path:
                return override.variable
        if path not in self.document.places:
            return None
        return self.document.where(path).rpartition(":")[0]


def load(
    root: type[_Settings],
    text: str,
    name: str,
    environ: Mapping[str, str] = _NOTHING,
    others: Collection[str] = (),
) -> _Settings:
    """Load settings from a YAML text; an empty text means all defaults.

    Variables in `environ` override the file, called `name` in faults; `others` are top-level
    sections read by other programs and ignored here.

    Raises:
        ConfigurationError: all faults, one per line: first unknown variables, then all others
            in order of their places.
    """
    return _load(root, ((name, text),), environ, others)[0]


def _load(
    root: type[_Settings],
    texts: Sequence[tuple[str, str]],
    environ: Mapping[str, str],
    others: Collection[str],
    constants: Path | None = None,
) -> tuple[_Settings, SettingOrigins]:
    """Merge named texts, later ones over earlier ones, and load settings with their origins."""
    shape = shape_of(root)
    gone = {variable_of(path): remedy for path, remedy in _passed_over(shape)}
    variables = {name: value for name, value in environ.items() if name not in gone}
    said, override_faults = overrides(shape, variables, others)
    faults = [escaped_line(fault) for fault in override_faults]
    try:
        document = merge_documents([load_yaml(text, name) for name, text in texts])
        experiment = [] if constants is None else [load_yaml(_text(constants), str(constants))]
    except YamlError as error:
        # If the file is unreadable, only the variables can be validated.
        answer = validate(shape, overridden({}, said))
        data_faults = answer if isinstance(answer, list) else []
        theirs = [fault for fault in data_faults if _variable(fault, said) is not None]
        faults.extend(_lines(theirs, Document("", None, {}), said))
        faults.append(escaped_line(" ".join(str(error).split())))
        raise ConfigurationError("\n".join(faults)) from None
    for name in gone.keys() & environ.keys():
        _warn(name, gone[name])
    document = _without_constants(shape, _without_dropped(document))
    if experiment:
        document = merge_documents([document, *experiment])
    data = document.data
    if others and isinstance(data, dict):
        # A file without other sections means all defaults.
        data = {key: value for key, value in data.items() if key not in others} or None
    data = overridden(data, said)
    origins = SettingOrigins(document, said)
    if data is None and not faults and isinstance(defaults := shape.default(), root):
        return defaults, origins
    answer = validate(shape, {} if data is None else data)
    if isinstance(answer, list):
        faults.extend(_lines(answer, document, said))
    if faults:
        raise ConfigurationError("\n".join(faults))
    return cast(_Settings, answer), origins


@cache
def _shape_of_document(kind: type) -> Group:
    """Shape of a class of which there are many documents."""
    return shape_of(kind)


def read_document(
    kind: type[_Settings],
    document: Document,
    *,
    beside: Iterable[Fault] = (),
    shows_values: bool = True,
) -> _Settings:
    """Read a document that is no configuration file into its value class.

    A key without a value counts as absent. `beside` are faults that are found elsewhere.

    Raises:
        ConfigurationError: all faults, one per line, in order of their places.
    """
    shape = _shape_of_document(cast(Any, kind))
    data = _stated(document.data)
    # Boards and prices are sent to other processes, so that no mapping may be a view.
    answer = validate(shape, {} if data is None else data, dict)
    faults = [*beside, *(answer if isinstance(answer, list) else ())]
    if faults:
        raise refusal(document, faults, shows_values=shows_values)
    return cast(_Settings, answer)


def refusal(
    document: Document,
    faults: Iterable[Fault],
    *,
    shows_values: bool = True,
) -> ConfigurationError:
    """Error with faults of a document, one per line, in order of their places."""
    shown = faults if shows_values else [fault.hidden() for fault in faults]
    return ConfigurationError("\n".join(_lines(shown, document, ())))


def _stated(data: Any) -> Any:
    """Copy without the keys that have no value, such as those with all contents commented out."""
    if isinstance(data, dict):
        return {key: _stated(value) for key, value in data.items() if value is not None}
    return [_stated(value) for value in data] if isinstance(data, list) else data


def load_file(
    root: type[_Settings],
    path: Path,
    environ: Mapping[str, str] = _NOTHING,
    others: Collection[str] = (),
    remedy: str = _REMEDY,
) -> _Settings:
    """Load settings from a file, overridden by its drop-ins, then by the environment.

    Otherwise like `load`; `remedy` is the advice if the file does not exist.

    Raises:
        ConfigurationError: a file cannot be read or has faults.
    """
    return load_with_origins(root, path, environ, others, remedy)[0]


def load_with_origins(
    root: type[_Settings],
    path: Path,
    environ: Mapping[str, str] = _NOTHING,
    others: Collection[str] = (),
    remedy: str = _REMEDY,
) -> tuple[_Settings, SettingOrigins]:
    """Like `load_file`, with the origin of each setting."""
    return _load(root, _texts(path, remedy), environ, others)


def drop_ins(path: Path) -> tuple[Path, ...]:
    """Files that are merged over a configuration file, sorted by name.

    These are `conf.d/*.yaml` beside `rightsizer.yaml`, and `NAME.d/*.yaml` beside `NAME.yaml`.

    Raises:
        ConfigurationError: the folder cannot be read.
    """
    folder = path.with_name("conf.d" if path.name == "rightsizer.yaml" else f"{path.stem}.d")
    try:
        paths = sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        remedy = "let the user that runs the program read it"
        raise ConfigurationError(f"{folder}: {reason}; {remedy}") from None
    return tuple(file for file in paths if file.suffix == ".yaml" and not file.name.startswith("."))


def _texts(path: Path, remedy: str = _REMEDY) -> Sequence[tuple[str, str]]:
    """Names and texts of a file and its drop-ins."""
    return [(str(file), _text(file, remedy)) for file in (path, *drop_ins(path))]


def _text(path: Path, remedy: str = _REMEDY) -> str:
    try:
        raw = file_bytes(path)
    except OSError as error:
        match error:
            case FileNotFoundError():
                why = f"there is no such file; {remedy}"
            case IsADirectoryError():
                why = f"is a directory; name the file in it, such as {path / 'rightsizer.yaml'}"
            case PermissionError():
                why = "may not be read; let the user that runs the program read it"
            case _:
                why = f"{(error.strerror or str(error)).lower()}; {remedy}"
        raise ConfigurationError(f"{path}: {why}") from None
    try:
        # Some editors write a byte order mark.
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigurationError(f"{path}:{line}:1: is not UTF-8; save it as UTF-8") from None


def _passed_over(shape: Group) -> Iterator[tuple[tuple[str, ...], str]]:
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


def _without_dropped(document: Document) -> Document:
    """Remove the keys dropped in this release, each with a warning."""
    for path, remedy in DROPPED.items():
        if path in document.places:
            _warn(document.where(path), _dropped(path, remedy))
            document = replace(document, data=_without_path(document.data, path))
    return document


def _without_constants(shape: Group, document: Document) -> Document:
    """Remove constants, which releases before had as settings, each with a warning."""
    for path, constant in _named_constants(shape, document.data, ()):
        _warn(document.where(path), _constant(constant, path))
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


def _warn(where: str, message: str) -> None:
    """Write a line to standard error, since logging is configured by the settings being loaded."""
    sys.stderr.write(f"warning: {where}: {message}\n")


def _lines(faults: Iterable[Fault], document: Document, said: Iterable[Override]) -> Iterable[str]:
    def place(fault: Fault) -> tuple[str, Place, str]:
        return document.file(fault.path), document.place(fault.path), str(fault.path)

    for fault in sorted(faults, key=place):
        variable = _variable(fault, said)
        if variable is None:
            where = document.where(fault.path)
            key = spell_path(fault.path)
        else:
            where = variable.variable
            key = spell_path(fault.path[len(variable.path) :])
        yield escaped_line(": ".join(filter(None, (where, key, explain(fault)))))


def _variable(fault: Fault, said: Iterable[Override]) -> Override | None:
    """Variable that caused a fault, or `None` if the file did."""
    return next(
        (override for override in said if fault.path[: len(override.path)] == override.path), None
    )


def load_sections(
    root: type[_Settings],
    path: Path | None,
    environ: Mapping[str, str] = _NOTHING,
    constants: Path | None = None,
) -> _Settings:
    """Load some sections; the file's other sections are ignored.

    Without a file every setting has its default; variables in `environ` override the file, and
    the file `constants` overrides constants of models.

    Raises:
        ConfigurationError: the file cannot be read, or a section has faults.
    """
    others = SECTIONS - {key_in_file(field, None) for field in cast(Any, root).__struct_fields__}
    texts = [("", "")] if path is None else _texts(path)
    return _load(root, texts, environ, others, constants)[0]


def live_update(in_force: _Settings, wanted: _Settings) -> tuple[_Settings, tuple[str, ...]]:
    """Settings after a reload, and the changed keys that keep their value until a restart.

    Raises:
        ConfigurationError: new values conflict with values that cannot change.
    """
    return _merged(shape_of(type(in_force)), in_force, wanted, "")


def _merged(group: Group, in_force: Any, wanted: Any, path: str) -> tuple[Any, tuple[str, ...]]:
    changes: dict[str, Any] = {}
    waiting: list[str] = []
    for entry in group.entries:
        old = getattr(in_force, entry.name)
        new = getattr(wanted, entry.name)
        if old == new:
            continue
        key = f"{path}{entry.key}"
        if isinstance(entry.shape, Group):
            changes[entry.name], below = _merged(entry.shape, old, new, f"{key}.")
            waiting.extend(below)
        elif entry.is_live:
            changes[entry.name] = new
        else:
            waiting.append(key)
    try:
        return replace(in_force, **changes), tuple(waiting)
    except ValueError as error:
        keys = ", ".join(waiting) or path.rstrip(".")
        raise ConfigurationError(
            f"{path.rstrip('.')}: {error}; that is with {keys} as it is until a restart"
        ) from None
