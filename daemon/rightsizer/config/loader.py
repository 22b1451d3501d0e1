"""Reads a configuration file, and the environment over it, into frozen settings dataclasses."""

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from rightsizer.config.environment import Override, overridden, overrides
from rightsizer.config.fault import explain, spell_path
from rightsizer.config.shape import Group, shape_of
from rightsizer.config.validator import Fault, validate
from rightsizer.io.yaml import Document, YamlError, load_yaml
from rightsizer.model.errors import ConfigurationError

_Settings = TypeVar("_Settings")

_MEND: Final = "mend the path, or leave the flag out to run with the defaults"
_NOTHING: Final[Mapping[str, str]] = {}


def load(
    root: type[_Settings],
    text: str,
    name: str,
    environ: Mapping[str, str] = _NOTHING,
    others: Collection[str] = (),
) -> _Settings:
    """The settings in a YAML text; an empty one stands for all defaults.

    Args:
        root: The frozen dataclass at the top of the tree.
        text: The file's contents.
        name: What faults call the file.
        environ: Variables that go before the file; see `environment`.
        others: Sections at the top that other programs read, and that are passed over here.

    Raises:
        ConfigurationError: with every fault, one line each: variables that are no settings, then
            all others in the order of their places.
    """
    shape = shape_of(root)
    said, told = overrides(shape, environ, others)
    faults = [_printable(fault) for fault in told]
    try:
        document = load_yaml(text, name)
    except YamlError as error:
        # Of a file that nobody can read, only what variables say can be right or wrong.
        answer = validate(shape, overridden({}, said))
        found = answer if isinstance(answer, list) else []
        theirs = [fault for fault in found if _variable(fault, said) is not None]
        faults.extend(_lines(theirs, Document(name, None, {}), said, shape))
        faults.append(_printable(" ".join(str(error).split())))
        raise ConfigurationError("\n".join(faults)) from None
    data = overridden(_without(document.data, others), said)
    if data is None and not faults and isinstance(defaults := shape.default(), root):
        return defaults
    answer = validate(shape, {} if data is None else data)
    if isinstance(answer, list):
        faults.extend(_lines(answer, document, said, shape))
    if faults:
        raise ConfigurationError("\n".join(faults))
    return cast(_Settings, answer)


def load_file(
    root: type[_Settings],
    path: Path,
    environ: Mapping[str, str] = _NOTHING,
    others: Collection[str] = (),
    remedy: str = _MEND,
) -> _Settings:
    """The settings in a file, and in the environment over it.

    Args:
        root: The frozen dataclass at the top of the tree.
        path: The file.
        environ: Variables that go before the file; see `environment`.
        others: Sections at the top that other programs read, and that are passed over here.
        remedy: What to do where there is no such file.

    Raises:
        ConfigurationError: the file cannot be read, or has faults.
    """
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise ConfigurationError(f"{path}: there is no such file; {remedy}") from None
    except IsADirectoryError:
        raise ConfigurationError(
            f"{path}: is a directory; name the file in it, such as {path / 'rightsizer.yaml'}"
        ) from None
    except PermissionError:
        raise ConfigurationError(
            f"{path}: may not be read; let the user that runs the program read it"
        ) from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ConfigurationError(f"{path}: {reason}; {remedy}") from None
    try:
        # Some editors begin a file with a byte order mark.
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigurationError(f"{path}:{line}:1: is not UTF-8; save it as UTF-8") from None
    return load(root, text, str(path), environ, others)


def _without(data: Any, others: Collection[str]) -> Any:
    if not others or not isinstance(data, dict):
        return data
    # A file that holds nothing else stands for all defaults.
    return {key: value for key, value in data.items() if key not in others} or None


def _lines(
    faults: Iterable[Fault], document: Document, said: Iterable[Override], shape: Group
) -> Iterable[str]:
    for fault in sorted(faults, key=lambda fault: (document.place(fault.path), str(fault.path))):
        variable = _variable(fault, said)
        if variable is None:
            where, key = document.where(fault.path), spell_path(fault.path)
        else:
            where, key = variable.variable, spell_path(fault.path[len(variable.path) :])
        yield _printable(": ".join(filter(None, (where, key, explain(fault, shape)))))


def _variable(fault: Fault, said: Iterable[Override]) -> Override | None:
    """The variable that says what is wrong; `None` where the file does."""
    return next((each for each in said if fault.path[: len(each.path)] == each.path), None)


def _printable(line: str) -> str:
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in line
    )
