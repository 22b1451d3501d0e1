"""`rightsizer config` and `check-config`: create, show and check a configuration."""

import argparse
import os
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from rightsizer.agent.settings import Settings
from rightsizer.config.loader import SettingOrigins, load_file, load_with_origins
from rightsizer.config.shape import shape_of
from rightsizer.config.spelling import plain
from rightsizer.console.command import Command, help_of, program, say
from rightsizer.console.flags import CONFIGURATION
from rightsizer.fleet.settings import FleetSettings
from rightsizer.io.yaml import dump_yaml
from rightsizer.model.values import ConfigurationError

_REMEDY: Final = "name the file to show, as in 'rightsizer config show FILE'"
_CHECK_REMEDY: Final = "name the file to check, as in 'rightsizer check-config FILE'"


class WholeSettings(Settings, frozen=True):
    """Everything that an operator may set, for the agent or for the fleet."""

    fleet: FleetSettings = FleetSettings()


def _configure(parser: argparse.ArgumentParser) -> None:
    names = "{init,show,check}"
    actions = parser.add_subparsers(dest="action", required=True, metavar=names, help="what to do")
    init = actions.add_parser("init")
    init.add_argument("file", nargs="?", type=Path, default="rightsizer.yaml", help="file to write")
    show = actions.add_parser("show")
    show.add_argument("file", type=Path, nargs="?", default=CONFIGURATION, help="file to show")
    effective = "print all settings, defaults too"
    show.add_argument("--effective", action="store_true", help=effective)
    _configure_check(actions.add_parser("check"))


def _run(arguments: argparse.Namespace) -> int:
    if arguments.action == "show":
        say(shown(arguments.file, os.environ, is_effective=arguments.effective))
    elif arguments.action == "check":
        _check(arguments)
    elif arguments.file == Path("-"):
        say(starter().rstrip("\n"))
    else:
        _write(arguments.file)
    return 0


def starter() -> str:
    """Return the text of a starter configuration."""
    return files("rightsizer.agent").joinpath("starter.yaml").read_text(encoding="utf-8")


def shown(path: Path, environ: Mapping[str, str], *, is_effective: bool) -> str:
    """Return the settings as YAML, each value with its origin as a comment.

    Raises:
        ConfigurationError: a file cannot be read, or has faults.
    """
    settings, origins = load_with_origins(WholeSettings, path, environ, remedy=_REMEDY)
    data = plain(settings, shape_of(WholeSettings))
    return "\n".join(_lines(data, (), origins, is_effective=is_effective)) or (
        f"# {path} sets nothing: everything has its default"
    )


def _lines(
    data: Mapping[str, Any], path: tuple[str, ...], origins: SettingOrigins, *, is_effective: bool
) -> Iterator[str]:
    indent = "  " * len(path)
    for key, value in data.items():
        at = (*path, key)
        if isinstance(value, dict) and value:
            below = list(_lines(value, at, origins, is_effective=is_effective))
            if below:
                yield f"{indent}{key}:"
                yield from below
        elif (origin := origins.origin(at)) or is_effective:
            text = dump_yaml({key: value}).rstrip("\n").split("\n")
            yield f"{indent}{text[0]}  # {origin or 'default'}"
            yield from (f"{indent}{line}" for line in text[1:])


def _write(path: Path) -> None:
    try:
        with path.open("x", encoding="utf-8") as sink:
            sink.write(starter())
    except FileExistsError:
        raise ConfigurationError(
            f"{path}: exists and is left alone; name another file, or - for standard output"
        ) from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ConfigurationError(f"{path}: {reason}; name a file that can be written") from None
    say(f"{path}: written; '{program()} agent --config.file {path}' runs with it")


def _configure_check(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, nargs="?", default=CONFIGURATION, help="file to check")
    only = "do not check the files that it names, which may be on another machine"
    parser.add_argument("--syntax-only", action="store_true", help=only)


def _check(arguments: argparse.Namespace) -> int:
    from rightsizer.agent.configuration_check import faults_of  # noqa: PLC0415 - for it alone.

    path = arguments.file
    settings = load_file(WholeSettings, path, os.environ, remedy=_CHECK_REMEDY)
    faults = () if arguments.syntax_only else faults_of(settings)
    if faults:
        raise ConfigurationError("\n".join(f"{path}: {fault}" for fault in faults))
    say(f"{path}: ok")
    return 0


_HELP: Final = help_of(__file__)
COMMAND: Final = Command("config", _configure, _run, _HELP["description"])
CHECK: Final = Command("check-config", _configure_check, _check, _HELP["check"])
