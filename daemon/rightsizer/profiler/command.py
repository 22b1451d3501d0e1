"""`rightsizer profile`: reads profilers' files, shows where time goes and what to change."""

import argparse
import sys
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Final

from rightsizer.console.answer import add_format_flag, show
from rightsizer.console.command import Command, add_flags, help_of, say
from rightsizer.console.flags import add_config_flag, settings_of, write_up_to_now
from rightsizer.console.progress import ProgressLine
from rightsizer.io.codec import plain
from rightsizer.io.files import whole_file
from rightsizer.model.values import UsageError
from rightsizer.profiler.answer_blocks import profile_blocks
from rightsizer.profiler.page import TITLE, profile_document
from rightsizer.profiler.profile_encoder import answer_document
from rightsizer.profiler.profiled_files import ProfileAnswerSettings, profile_files
from rightsizer.profiles.reader import progress_reported

_HELP: Final = help_of(__file__)
_SMALL_BYTES: Final = 2_000_000


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files", type=Path, nargs="+", metavar="FILE", help="files of profilers, or their folders"
    )
    against = {"type": Path, "nargs": "+", "default": ()}
    add_flags(parser.add_argument, _HELP["flags"], against=against, report=Path, history_path=Path)
    add_format_flag(parser, "seconds, bytes and ratios")
    add_config_flag(parser)


def _run(arguments: argparse.Namespace) -> int:
    out = arguments.report
    files = (*arguments.files, *arguments.against)
    if out is not None and out.resolve() in {file.resolve() for file in files}:
        raise UsageError(f"--report {out}: is a profile to read; name another file")
    settings = settings_of(arguments, ProfileAnswerSettings)
    shows = sys.stderr.isatty()
    with (
        ProgressLine(sys.stderr) if shows else nullcontext(lambda *_: None) as progress,
        progress_reported(partial(_show_progress, progress)),
    ):
        profile_answer = profile_files(
            arguments.files,
            arguments.against,
            arguments.history_path,
            settings=settings,
            flush=write_up_to_now,
        )
    answer = plain(answer_document(profile_answer))
    if out is not None:
        with whole_file(out, "report") as file:
            file.write(profile_document(answer).encode())
    if arguments.format == "html":
        say(profile_document(answer).rstrip())
    else:
        show(arguments, TITLE, answer, profile_blocks(answer))
    return 0


def _show_progress(
    progress: Callable[[str, int, int], None], name: str, done_bytes: int, total_bytes: int
) -> None:
    """Show progress for large files only."""
    if total_bytes > _SMALL_BYTES:
        progress(f"{name}, MB", done_bytes // 10**6, total_bytes // 10**6)


COMMAND = Command("profile", _configure, _run, _HELP["description"])
