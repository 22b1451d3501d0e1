"""Answers of commands in the format of `--format`."""

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

from rightsizer.console.command import printable, say, write
from rightsizer.io.codec import indented
from rightsizer.report.blocks import Block, Tone

_Rendered = Callable[[str, object, Iterable[Block]], str]


def _text(_title: str, _result: object, blocks: Iterable[Block]) -> str:
    from rightsizer.report.block_text import text_of  # noqa: PLC0415 - not for JSON.

    return text_of(blocks)


def _html(title: str, _result: object, blocks: Iterable[Block]) -> str:
    from rightsizer.report.template import page_of  # noqa: PLC0415 - jinja2.

    return page_of(title, blocks).rstrip()


def _markdown(title: str, _result: object, blocks: Iterable[Block]) -> str:
    from rightsizer.report.block_markdown import markdown_of  # noqa: PLC0415 - rare.

    return markdown_of(title, blocks).rstrip()


def _json(_title: str, result: object, _blocks: Iterable[Block]) -> str:
    return indented(result)


FORMATS: Final[Mapping[str, _Rendered]] = {
    "text": _text,
    "html": _html,
    "markdown": _markdown,
    "json": _json,
}
"""Of every answer: each takes a title, a result and blocks, and ends without a line break.

A generator of blocks is not run for JSON.
"""


def add_format_flag(
    parser: argparse.ArgumentParser, units: str, *others: str
) -> Callable[..., object]:
    """Add `--format`, and `--json` as its short form; return what adds other short forms.

    Args:
        parser: Of the command.
        units: What JSON has, such as `times in seconds`.
        others: Formats of this command alone, which it renders itself.
    """
    add = parser.add_mutually_exclusive_group().add_argument
    help_text = f"format of the answer (default: text); JSON has {units}"
    add("--format", choices=(*FORMATS, *others), help=help_text)
    short = "the same as --format json"
    add("--json", dest="format", action="store_const", const="json", help=short)
    return add


def show(
    arguments: argparse.Namespace,
    title: str,
    result: object,
    blocks: Iterable[Block],
    *,
    may_color: bool = True,
) -> None:
    """Print an answer: its result as JSON, or its blocks under a title."""
    if arguments.format not in {None, "text"}:
        say(FORMATS[arguments.format](title, result, blocks))
        return
    from rightsizer.report.block_text import text_of  # noqa: PLC0415 - not for JSON.

    write(text_of(blocks, style=partial(_styled, may_color=may_color)))


def _styled(text: str, tone: Tone | None, *, may_color: bool) -> str:
    """Return a line as standard output has it: what a terminal would obey is replaced."""
    line = printable(text)
    if not sys.stdout.isatty():
        return line
    from rightsizer.console.color import colored, toned  # noqa: PLC0415 - no pipe needs it.

    if tone is not None:
        return toned(line, tone)
    return colored(line) if may_color else line
