"""Loader of the configuration file and environment into frozen settings."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from msgspec import Struct

from rightsizer.config.former_keys import passed_over, warn, without_constants, without_dropped
from rightsizer.config.overrides import Override, overridden, overrides, variable_of
from rightsizer.config.shape import (
    Group,
    shape_of,
)
from rightsizer.config.spelling import escaped_line, spell_path
from rightsizer.config.validator import Fault, explain, validate
from rightsizer.io.files import file_bytes
from rightsizer.io.yaml import Document, Place, YamlError, load_yaml, merge_documents
from rightsizer.model.errors import ConfigurationError
from rightsizer.model.settings import key_in_file

_Settings = TypeVar("_Settings")
_REMEDY: Final = "check the path, or leave the flag out to run with the defaults"
_NOTHING: Final[Mapping[str, str]] = {}
_NAMES: Final = (
    "accounting acting actions broker catalogue fleet grafana history labels log mails node path"
    " placement policies prices profiles recommender sampling sizing sources web webhooks"
)
SECTIONS: Final = frozenset(_NAMES.split())
"""All top-level sections of the configuration file; a test compares them with the settings."""


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
    gone = {variable_of(path): remedy for path, remedy in passed_over(shape)}
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
        warn(name, gone[name])
    document = without_constants(shape, without_dropped(document))
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
