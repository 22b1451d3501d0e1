"""Commands: name, function, table of flags; and standard output, which may be closed."""

import argparse
import keyword
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from msgspec import Struct

from rightsizer.model.errors import RightsizerError

_PROGRAM: Final = "rightsizer"
_OBEYED: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Characters that control a terminal or its text direction; foreign names may contain them."""


def say(text: str, *, may_color: bool = False) -> None:
    """Print a text and flush it, so that faults can be reported; in colors on a terminal.

    Raises:
        BrokenPipeError: the reader has closed the pipe.
        RightsizerError: it cannot be written.
    """
    shown = printable(text)
    if may_color and sys.stdout.isatty():
        from rightsizer.console.color import colored  # noqa: PLC0415 - no pipe needs it.

        shown = colored(shown)
    write(shown)


def write(text: str) -> None:
    """Print a trusted text unchanged; raises as `say`."""
    with explained_output("send it elsewhere"):
        print(text, flush=True)


def program() -> str:
    """Return how this command was called, for hints that can be copied."""
    from shutil import which  # noqa: PLC0415 - not needed by an agent.

    called = sys.argv[0]
    is_found = which(_PROGRAM) == which(called)
    return _PROGRAM if is_found or Path(called).name != _PROGRAM else called


@contextmanager
def explained_output(otherwise: str) -> Iterator[None]:
    """Report faults of standard output with a remedy; raises as `say`."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        discard_output()
        fault = f"standard output cannot be written: {error.strerror}"
        raise RightsizerError(f"{fault}; make room where it goes, or {otherwise}") from None


def printable(text: str) -> str:
    """Replace characters that control a terminal."""
    return _OBEYED.sub("?", text)


def discard_output() -> None:
    """Redirect standard output to nowhere, so that flushing at exit cannot fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


class Command(Struct, frozen=True):
    """A subcommand of `rightsizer`."""

    name: str
    configure: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
    """Returns the exit code, or raises a RightsizerError, which is printed."""
    description: str = ""
    meant: Mapping[str, str] = {}
    """Hints for flag names of other tools, keyed without `--`."""
    is_service: Callable[[argparse.Namespace], bool] = lambda _: False
    """Whether it runs for months, whatever becomes of its standard error."""


def help_of(module_file: str) -> dict[str, str]:
    """Read the texts of a command's module: its description, and tables for `add_flags`."""
    text = Path(module_file).with_suffix(".txt").read_text(encoding="utf-8")
    description, *parts = re.split(r"^\[(\w+)\]\n", text, flags=re.MULTILINE)
    sections = {"description": description, **dict(zip(parts[::2], parts[1::2], strict=True))}
    return {section: f"{lines.strip()}\n" for section, lines in sections.items()}


class FlagRow(NamedTuple):
    """Flag of a table: name without dashes, argparse's destination and metavar, help."""

    name: str
    destination: str
    metavar: str
    help: str


def flag_rows(table: str) -> Iterator[FlagRow]:
    """Yield the flags of a table of `--name VALUE: help`, continued by indented lines.

    The destination is the name with `_` for `.` and `-`, and with `_` appended to a Python keyword.
    """
    for row in re.split("^--", table, flags=re.MULTILINE)[1:]:
        declared, _, help_text = row.partition(": ")
        name, _, metavar = declared.partition(" ")
        destination = re.sub("[.-]", "_", name)
        destination += "_" * keyword.iskeyword(destination)
        yield FlagRow(name, destination, metavar, " ".join(help_text.split()))


def add_flags(add: Callable[..., object], table: str, **kinds: Any) -> None:
    """Add flags from a table as of `flag_rows`; a flag without a value is a switch.

    Args:
        add: `add_argument` of a parser or of a group.
        table: The flags in the order of the help.
        kinds: By destination, a type, or options of `add_argument`.
    """
    for row in flag_rows(table):
        kind = kinds.get(row.destination, {} if row.metavar else {"action": "store_true"})
        options = {"metavar": row.metavar} if row.metavar else {}
        options |= kind if isinstance(kind, dict) else {"type": kind}
        add(f"--{row.name}", dest=row.destination, help=row.help, **options)
