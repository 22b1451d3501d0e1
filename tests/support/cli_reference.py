"""The page of the commands, generated from the text of `--help`."""

import argparse
import getpass
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from rightsizer.cli.main import COMMANDS
from rightsizer.console.command import Command

__all__ = ["all_commands", "cli_reference", "options_of", "parser_of"]

_HEAD: Final = """\
# Commands

<!-- Generated from what each command says of itself; change it there and run `make golden`. -->

For lookups, as in `--help`. Options override environment variables, and these the file
([configuration](configuration.md)). Durations are written like `90s`, `10m`, `7d`.

Exit status: 0 done, 1 failed or nothing fits, 2 usage, 78 bad configuration, 130 interrupted.
Answers go to standard output, errors to standard error.
"""
_COLLECTOR: Final = "`--collector."
_COLLECTORS: Final = (
    "- `--collector.NAME`, `--no-collector.NAME`: switch a [collector](metrics.md#collectors) of"
    " metrics on or off; setting: web.metrics.collectors.NAME\n"
)
_BRIEF: Final = 6
"""Words of a line that is repeated."""
_COMMON: Final = 4
"""Number of commands from which on an option is explained once for all of them."""


def all_commands() -> tuple[Command, ...]:
    """Each of them, loaded."""
    return tuple(entry.load() for entry in COMMANDS)


def parser_of(command: Command) -> argparse.ArgumentParser:
    """The parser of a command's arguments."""
    parser = argparse.ArgumentParser(prog=f"rightsizer {command.name}", exit_on_error=False)
    command.configure(parser)
    return parser


_SUMMARIES = {command.name: command.summary for command in COMMANDS}


def options_of(command: Command) -> list[argparse.Action]:
    """The options that `--help` shows of a command, but itself: arguments first, as in a usage."""
    return _options(parser_of(command))


def _options(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    actions = [
        action
        for action in parser._actions
        if action.dest != "help" and action.help is not argparse.SUPPRESS
    ]
    return sorted(actions, key=lambda action: bool(action.option_strings))


def cli_reference() -> str:
    """The page."""
    counts = Counter(
        row for command in all_commands() for row in dict.fromkeys(_rows(options_of(command)))
    )
    often = [row for row, count in counts.most_common() if count >= _COMMON]
    common = list({_name(row): row for row in reversed(often)}.values())[::-1]
    told: dict[str, str] = {}
    sections = "\n".join(_section(command, common, told) for command in all_commands())
    return f"{_HEAD}\n{''.join(_overview())}\n## Common options\n\n{''.join(common)}\n{sections}"


def _overview() -> Iterator[str]:
    """The commands by group, as in `--help`."""
    for group, entries in groupby(COMMANDS, lambda entry: entry.group):
        links = (f"[`{entry.name}`](#{_anchor(entry.name)})" for entry in entries)
        yield f"- {group}: {', '.join(links)}\n"


def _anchor(name: str) -> str:
    return f"rightsizer-{name}"


def _section(command: Command, common: Sequence[str], told: dict[str, str]) -> str:
    """A command's section; what an earlier one says word for word is a link to that."""
    text = command.description or _sentence(_SUMMARIES[command.name])
    owners = {part: told.setdefault(part, command.name) for part in _paragraphs(text)}
    own_parts = [part for part, owner in owners.items() if owner == command.name]
    elsewhere = sorted({owner for owner in owners.values() if owner != command.name})
    rest = [f"The rest as for [`{each}`](#{_anchor(each)})." for each in elsewhere]
    text = "\n\n".join([*own_parts, *rest])
    own = []
    links: dict[str, list[str]] = {}
    for row in dict.fromkeys(_rows(options_of(command))):
        if row in common:
            links.setdefault("[common](#common-options)", []).append(_name(row))
        elif _is_brief(row) or (owner := told.setdefault(row, command.name)) == command.name:
            own.append(row)
        else:
            links.setdefault(f"as for [`{owner}`](#{_anchor(owner)})", []).append(_name(row))
    own += [f"- {', '.join(names)}: {link}\n" for link, names in links.items()]
    options = f"\n{''.join(own)}" if own else ""
    return f"## `rightsizer {command.name}`\n\n{text}\n{options}"


def _is_brief(row: str) -> bool:
    """Whether a line is no longer than a link to it."""
    return len(row.split()) <= _BRIEF


def _name(row: str) -> str:
    """The option of a line without its value."""
    return re.sub(r" [A-Z-]+`", "`", row.split(": ", maxsplit=1)[0][2:])


def _rows(options: list[argparse.Action], before: str = "") -> Iterator[str]:
    for option in options:
        if isinstance(option, argparse._SubParsersAction):
            for name, parser in option.choices.items():
                yield from _rows(_options(parser), f"`{name}` ")
        else:
            called = _called(option)
            own = f"- {before}{called}: {_help(option)}\n"
            yield _COLLECTORS if called.startswith(_COLLECTOR) else own


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _paragraphs(text: str) -> Iterator[str]:
    for part in text.strip("\n").split("\n\n"):
        if part.startswith("  "):
            lines = [line.removeprefix("  ") for line in part.splitlines()]
            yield "\n".join(["```", *lines, "```"])
        else:
            yield part


def _called(action: argparse.Action) -> str:
    value = _value(action)
    if not action.option_strings:
        return f"`{value}`"
    joined = "`, `".join(action.option_strings)
    return f"`{joined}`" if action.nargs == 0 else f"`{joined} {value}`"


def _value(action: argparse.Action) -> str:
    if action.choices is not None:
        name = "|".join(map(str, action.choices))
    else:
        name = str(
            action.metavar or (action.dest.upper() if action.option_strings else action.dest)
        )
    return name + (" ..." if action.nargs in {"+", "*"} else "")


def _help(action: argparse.Action) -> str:
    text = " ".join((action.help or "").split()).replace("%%", "%")
    if action.default in (None, "") or isinstance(action.default, bool | list | tuple):
        return text
    # The default is the name of the current user, which no page can know.
    is_person = action.dest == "actor" and action.default == getpass.getuser()
    default = "the user of the command" if is_person else f"`{action.default}`"
    return f"{text} (default: {default})" if "(default:" not in text else text
