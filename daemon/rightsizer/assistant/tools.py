"""Tools of an assistant: each is a command with some of its flags, of which its schema is made."""

import argparse
import json
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from rightsizer.cli.main import COMMANDS
from rightsizer.console.command import Command
from rightsizer.console.flags import whole_number
from rightsizer.io.files import is_there
from rightsizer.model.table import table_rows
from rightsizer.model.values import RightsizerError, UsageError

_REQUIRED: Final = "*"
_LIMIT: Final = "limit"
_MODEL: Final = "model"
"""Argument that is a path too where a person asks."""
_HISTORY: Final = "history.path"
_USUAL_LIMIT: Final = 3
"""Entries of a long list: one alternative to weigh, and one more."""
_WHOLE: Final = (int, whole_number)
"""Parsers of integers."""
_PROGRAM: Final = "rightsizer: "
_TRACE: Final = "Traceback (most recent call last)"


class ToolTarget(StrEnum):
    """What a tool asks."""

    NONE = ""
    NODE = "node"
    FLEET = "fleet"


class ToolSources(Struct, frozen=True):
    """Places that are asked, as the operator named them; an assistant cannot change them."""

    url: str | None = None
    fleet_url: str | None = None
    login: Mapping[str, str] = {}
    """Flags for either address, by name."""
    history_path: str | None = None
    common: Mapping[str, str] = {}
    """Flags of every command that has them, by name."""


class ToolRow(Struct, frozen=True):
    """Tool as in the table."""

    name: str
    title: str
    command: str
    target: ToolTarget
    arguments: tuple[str, ...]
    """Flags and positional arguments that may be given; required ones end in a star."""
    parts: tuple[str, ...]
    """Keys of the command's answer; empty for all."""
    listed: str
    """Long list, of which the first are given unless more are asked for."""
    is_change: bool


TOOL_ROWS: Final = tuple(
    ToolRow(
        name=row["name"],
        title=row["title"],
        command=row["command"],
        target=ToolTarget(row["target"]),
        arguments=tuple(row["arguments"].split()),
        parts=tuple(row["parts"].split()),
        listed=row["listed"],
        is_change=bool(row["changes"]),
    )
    for row in table_rows(__file__, "tools.csv")
)


class AssistantTool:
    """A command as a tool: schema, command line of a call, and answer of its output."""

    def __init__(self, row: ToolRow) -> None:
        self.row = row
        entry = next(entry for entry in COMMANDS if entry.name == row.command)
        command: Command = entry.load()
        parser = argparse.ArgumentParser(prog=row.command, add_help=False)
        command.configure(parser)
        self._actions = {_name(action): action for action in parser._actions}  # noqa: SLF001 - argparse has no other list.
        summary = command.description or entry.summary
        self.description = f"{row.title}.\n\n{summary}"

    @property
    def schema(self) -> dict[str, Any]:
        """JSON schema of the arguments, with the help of the command's flags."""
        properties = {name: _property(self._actions[name]) for name in self._names}
        if self.row.listed:
            text = f"first entries of `{self.row.listed}`; `left_out` has the number of the others"
            usual = f"{text} (default: {_USUAL_LIMIT})"
            properties[_LIMIT] = {"type": "integer", "minimum": 1, "description": usual}
        required = [
            name.removesuffix(_REQUIRED) for name in self.row.arguments if name.endswith(_REQUIRED)
        ]
        return {
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        }

    def command_line(self, given: Mapping[str, Any], sources: ToolSources) -> list[str]:
        """Return the arguments of the command for a call.

        Raises:
            UsageError: an argument is unknown, missing or not of its type.
        """
        schema = self.schema
        for name in given:
            if name not in schema["properties"]:
                names = ", ".join(schema["properties"]) or "nothing"
                raise UsageError(f"{self.row.name} has no argument '{name}'; it takes {names}")
        for name in schema["required"]:
            if given.get(name) in (None, ""):
                raise UsageError(f"{name}: is missing; {schema['properties'][name]['description']}")
        if not isinstance(given.get(_LIMIT, 1), int) or given.get(_LIMIT, 1) < 1:
            raise UsageError(f"{_LIMIT}: '{given[_LIMIT]}' is not a whole number; give 1 or more")
        words = [word for name in self._names for word in self._words(name, given.get(name))]
        return [self.row.command, *self._source_flags(sources), "--json", *words]

    def answer(self, output: str, error: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer of a command that has ended.

        Raises:
            RightsizerError: it printed none; the text is the command's.
        """
        try:
            printed = json.loads(output)
        except ValueError:
            raise RightsizerError(self._fault(error)) from None
        # A tool's answer is an object, whatever the command prints.
        document = printed if isinstance(printed, dict) else {self.row.command: printed}
        if self.row.parts:
            document = {key: document[key] for key in self.row.parts if key in document}
        listed = self.row.listed
        entries = document.get(listed) or [] if listed else []
        left_out = len(entries) - given.get(_LIMIT, _USUAL_LIMIT)
        if left_out > 0:
            document = document | {listed: entries[:-left_out], "left_out": {listed: left_out}}
        return document

    @property
    def _names(self) -> tuple[str, ...]:
        return tuple(name.removesuffix(_REQUIRED) for name in self.row.arguments)

    def _words(self, name: str, value: object) -> Iterator[str]:
        action = self._actions[name]
        if value is None or value is False:
            return
        if not isinstance(value, str | int | float):
            raise UsageError(f"{name}: {json.dumps(value)} is no text, number or truth value")
        if "\0" in str(value):
            raise UsageError(f"{name}: has a null character; leave it out")
        if name == _MODEL and is_there(Path(str(value))):
            raise UsageError(f"{name}: '{value}' is a file; files are the operator's, give a name")
        if not action.option_strings:
            if str(value).startswith("-"):
                raise UsageError(f"{name}: '{value}' begins with a dash; {action.help}")
            yield str(value)
        elif action.nargs == 0:
            yield f"--{name}"
        elif value is True:
            raise UsageError(f"{name}: needs a value; {action.help}")
        else:
            yield f"--{name}={value}"

    def _source_flags(self, sources: ToolSources) -> Iterator[str]:
        for name, value in sources.common.items():
            if name in self._actions:
                yield f"--{name}={value}"
        if self.row.target is ToolTarget.NONE:
            return
        is_fleet = self.row.target is ToolTarget.FLEET
        url = sources.fleet_url if is_fleet else sources.url
        if url is not None:
            yield f"--url={url}"
            yield from (f"--{name}={value}" for name, value in sources.login.items())
        elif is_fleet and "fleet" in self._actions:
            yield "--fleet"
        elif _HISTORY in self._actions and sources.history_path is not None:
            yield f"--{_HISTORY}={sources.history_path}"

    def _fault(self, error: str) -> str:
        """Return what a command said on its standard error, without a trace."""
        lines = [line.removeprefix(_PROGRAM) for line in error.strip().splitlines()]
        command = self.row.command
        if lines and _TRACE not in error:
            return "\n".join(lines)
        reason = lines[-1] if lines else "it printed nothing"
        return f"{command} failed: {reason}; run 'rightsizer {command}' in a terminal to see it all"


def _name(action: argparse.Action) -> str:
    """Return the longest flag of an action without its dashes, or the name of a positional."""
    return max(action.option_strings, key=len, default=action.dest).lstrip("-")


def _property(action: argparse.Action) -> dict[str, Any]:
    kind = "boolean" if action.nargs == 0 else "integer" if action.type in _WHOLE else "string"
    schema: dict[str, Any] = {"type": kind, "description": action.help or ""}
    return schema | {"enum": [*action.choices]} if action.choices else schema
