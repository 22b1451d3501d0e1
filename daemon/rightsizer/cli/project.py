"""`rightsizer project`: performance of a measured workload on other GPUs."""

import argparse
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import Final

from rightsizer.catalogue.catalogue import Catalogue, read_catalogue
from rightsizer.console.command import Command, add_flags, answer, help_of
from rightsizer.console.flags import add_config_flag, settings_of
from rightsizer.planner.projection import (
    LEGEND,
    ReadRun,
    answer_question,
    answers_text,
    encode_projection,
)
from rightsizer.planner.question_file import read_questions
from rightsizer.planner.settings import PlannerSettings
from rightsizer.profiler.profiled_run import profiled_run
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.registry import read_all
from rightsizer.sizing.workload_profile import ProfiledRun

_HELP: Final = help_of(__file__)


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="YAML or JSON file")
    profile = {"type": Path, "nargs": "+", "default": ()}
    add_flags(parser.add_argument, _HELP["files"], catalogue=Path, profile=profile)
    add_config_flag(parser)
    parser.add_argument("--json", action="store_true", help="answer in JSON; bytes, ratios")


def _run(arguments: argparse.Namespace) -> int:
    settings = settings_of(arguments, PlannerSettings)
    catalogue = read_catalogue(arguments.catalogue or settings.catalogue.boards_path)
    asked = read_questions(arguments.file, "'rightsizer project --help' shows what it takes")
    ask = partial(
        answer_question,
        catalogue=catalogue,
        settings=settings.sizing.memory,
        read_run=_reader_of_runs(arguments.file.parent, arguments.profile, catalogue),
    )
    found = asked.answers(ask)
    forms = [
        {"error": each} if isinstance(each, str) else [*map(encode_projection, each)]
        for each in found
    ]
    texts = [f"error: {each}" if isinstance(each, str) else answers_text(each) for each in found]
    text = "\n\n".join([*texts, LEGEND])
    answer(arguments, forms if asked.is_list else forms[0], text, may_color=False)
    return 0


def _reader_of_runs(folder: Path, usual: Sequence[Path], catalogue: Catalogue) -> ReadRun:
    @cache
    def run_of(files: tuple[str, ...]) -> ProfiledRun | None:
        paths = [folder / each for each in files] or usual
        return profiled_run(read_all(paths, ReadLimits()), catalogue) if paths else None

    return run_of


COMMAND = Command("project", _configure, _run, _HELP["description"])
