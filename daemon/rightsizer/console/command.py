"""A command: name, function, table of flags; and its standard output, which may be closed."""

import argparse
import json
import keyword
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from rightsizer.model.errors import RightsizerError
from rightsizer.model.frozen import dataclass, field

_PROGRAM: Final = "rightsizer"
_OBEYED: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""What a terminal would do something at, turn around, or choke on; names of others may hold it."""


def say(text: str, *, may_color: bool = False) -> None:
    """Print a text at once, so that a fault can still be told; in colors on a terminal.

    Raises:
        BrokenPipeError: the reader is gone.
        RightsizerError: it cannot be written.
    """
    shown = harmless(text)
    if may_color and sys.stdout.isatty():
        from rightsizer.console.color import colored  # noqa: PLC0415 - no pipe needs it.

        shown = colored(shown)
    write(shown)


def write(text: str) -> None:
    """Print what is harmless as it is; raises as `say`."""
    with explained_output("send it elsewhere"):
        print(text, flush=True)


def program() -> str:
    """How this command was called, for hints that can be typed as they stand."""
    from shutil import which  # noqa: PLC0415 - an agent hints at nothing.

    called = sys.argv[0]
    is_found = which(_PROGRAM) == which(called)
    return _PROGRAM if is_found or Path(called).name != _PROGRAM else called


@contextmanager
def explained_output(otherwise: str) -> Iterator[None]:
    """Standard output, whose faults are told with what may be done instead; raises as `say`."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        discard_output()
        fault = f"standard output cannot be written: {error.strerror}"
        raise RightsizerError(f"{fault}; make room where it goes, or {otherwise}") from None


def answer(
    arguments: argparse.Namespace, document: object, text: str, *, may_color: bool = True
) -> None:
    """Print an answer as JSON where `--json` asks for it, else as text."""
    if arguments.json:
        say(json.dumps(document, indent=1))
    else:
        say(text, may_color=may_color)


def harmless(text: str) -> str:
    """A text that does nothing to a terminal."""
    return _OBEYED.sub("?", text)


def discard_output() -> None:
    """Let what waits in standard output go nowhere, so that leaving has nothing to fail at."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


@dataclass(frozen=True, slots=True)
class Command:
    """One word after `rightsizer`."""

    name: str
    configure: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
    """The exit code, or a RightsizerError, which is printed."""
    description: str = ""
    meant: Mapping[str, str] = field(default_factory=dict)
    """What to write for words that other tools have for flags, without `--`."""


def help_of(module_file: str) -> dict[str, str]:
    """The texts beside a command's module: its description, and tables for `add_flags`."""
    text = Path(module_file).with_suffix(".txt").read_text(encoding="utf-8")
    description, *parts = re.split(r"^\[(\w+)\]\n", text, flags=re.MULTILINE)
    sections = {"description": description, **dict(zip(parts[::2], parts[1::2], strict=True))}
    return {section: f"{lines.strip()}\n" for section, lines in sections.items()}


def add_flags(add: Callable[..., object], table: str, **kinds: Any) -> None:
    """Add flags from a table: `--name VALUE: help` each, which indented lines continue.

    Its destination is the name with `_` for `.` and `-`, and after a Python keyword. A flag without
    a value is a switch.

    Args:
        add: `add_argument` of a parser or of a group.
        table: The flags in the order of the help.
        kinds: By destination, a type, or options of `add_argument`.
    """
    for row in re.split("^(?=--)", table, flags=re.MULTILINE)[1:]:
        declared, _, help_text = row.partition(": ")
        flag, _, metavar = declared.partition(" ")
        name = re.sub("[.-]", "_", flag.removeprefix("--"))
        name += "_" * keyword.iskeyword(name)
        kind = kinds.get(name, {} if metavar else {"action": "store_true"})
        options = {"metavar": metavar} if metavar else {}
        options |= kind if isinstance(kind, dict) else {"type": kind}
        add(flag, dest=name, help=" ".join(help_text.split()), **options)
