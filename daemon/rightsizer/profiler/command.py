"""`rightsizer profile`: reads profilers' files, shows where time goes and what to change."""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Final

from msgspec import Struct

from rightsizer.advice.storage import Storage
from rightsizer.console.command import Command, add_flags, help_of, say
from rightsizer.console.flags import add_config_flag, settings_of, write_up_to_now
from rightsizer.console.progress import ProgressLine
from rightsizer.host.settings import PathSettings
from rightsizer.io.files import whole_file
from rightsizer.model.errors import HistoryError, UsageError
from rightsizer.profiler.join import ProfileJoin, join
from rightsizer.profiler.page import profile_document
from rightsizer.profiler.profile_encoder import encode_profile_answer
from rightsizer.profiler.settings import ProfileSettings
from rightsizer.profiler.taken_profile import history_telemetry, weighed
from rightsizer.profiler.text import profile_text
from rightsizer.profiler.workload import ProfiledWorkload, judged_workloads
from rightsizer.profiles.reader import progress_reported
from rightsizer.profiles.registry import read_files

_HELP: Final = help_of(__file__)
_SMALL_BYTES: Final = 2_000_000


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files", type=Path, nargs="+", metavar="FILE", help="files of profilers, or their folders"
    )
    against = {"type": Path, "nargs": "+", "default": ()}
    add_flags(parser.add_argument, _HELP["flags"], against=against, report=Path, history_path=Path)
    add_config_flag(parser)


class _ProfileCommandSettings(Struct, frozen=True):
    profiles: ProfileSettings = ProfileSettings()
    path: PathSettings = PathSettings()


def _run(arguments: argparse.Namespace) -> int:
    out = arguments.report
    files = (*arguments.files, *arguments.against)
    if out is not None and out.resolve() in {each.resolve() for each in files}:
        raise UsageError(f"--report {out}: is a profile to read; name another file")
    settings = settings_of(arguments, _ProfileCommandSettings)
    limits = settings.profiles.read_limits
    judges = settings.profiles.judges
    shows = sys.stderr.isatty()
    with (
        ProgressLine(sys.stderr) if shows else nullcontext(lambda *_: None) as progress,
        progress_reported(partial(_show_progress, progress)),
    ):
        later, earlier = (read_files(each, limits) for each in (arguments.files, arguments.against))
    found = judged_workloads(later.profiles, judges)
    against = judged_workloads(earlier.profiles, judges)
    if joins := _joined(arguments.history_path, found, settings):
        found = tuple(map(weighed, found, joins, repeat(settings.profiles.comparison)))
    answer = encode_profile_answer(found, against, (*later.broken, *earlier.broken), joins)
    if out is not None:
        with whole_file(out, "report") as file:
            file.write(profile_document(answer).encode())
    say(json.dumps(answer, indent=1) if arguments.json else profile_text(answer))
    return 0


def _show_progress(
    progress: Callable[[str, int, int], None], name: str, done_bytes: int, total_bytes: int
) -> None:
    """Show progress for large files only."""
    if total_bytes > _SMALL_BYTES:
        progress(f"{name}, MB", done_bytes // 10**6, total_bytes // 10**6)


def _joined(
    path: Path | None, found: Sequence[ProfiledWorkload], settings: _ProfileCommandSettings
) -> tuple[ProfileJoin, ...]:
    """Join each workload's profiles with a history, which is only read."""
    if path is None:
        return ()
    write_up_to_now(settings.path)
    storage = Storage(str(path), read_only=True)
    try:
        if storage.history is None:
            raise HistoryError("no history is kept; name one with --history.path")
        devices, telemetry = history_telemetry(storage.history)
        comparison = settings.profiles.comparison
        return tuple(join(each.profiles, devices, telemetry, comparison) for each in found)
    finally:
        storage.close()


COMMAND = Command("profile", _configure, _run, _HELP["description"])
