"""`rightsizer project`: performance of a measured workload on other GPUs."""

import argparse
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import Final

from rightsizer.catalogue.catalogue import Catalogue, read_catalogue
from rightsizer.console.answer import add_format_flag, show
from rightsizer.console.command import Command, add_flags, help_of
from rightsizer.console.flags import add_config_flag, settings_of
from rightsizer.planner.learned import read_learned
from rightsizer.planner.projection import (
    ReadRun,
    answer_question,
    projection_blocks,
    projection_document,
)
from rightsizer.planner.question_file import FailedQuestion, read_questions
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
    add_format_flag(parser, "bytes and ratios")


def _run(arguments: argparse.Namespace) -> int:
    settings = settings_of(arguments, PlannerSettings)
    catalogue = read_catalogue(arguments.catalogue or settings.catalogue.boards_path)
    asked = read_questions(arguments.file, "'rightsizer project --help' shows what it takes")
    ask = partial(
        answer_question,
        catalogue=catalogue,
        settings=settings.sizing.memory,
        site=read_learned(settings.sizing.learned_file),
        read_run=_reader_of_runs(arguments.file.parent, arguments.profile, catalogue),
    )
    answers = asked.answers(ask)
    forms = [
        answer if isinstance(answer, FailedQuestion) else [*map(projection_document, answer)]
        for answer in answers
    ]
    result = forms if asked.is_list else forms[0]
    show(arguments, "Projection", result, projection_blocks(answers), may_color=False)
    return 0


def _reader_of_runs(folder: Path, usual: Sequence[Path], catalogue: Catalogue) -> ReadRun:
    @cache
    def run_of(files: tuple[str, ...]) -> ProfiledRun | None:
        paths = [folder / file for file in files] or usual
        return profiled_run(read_all(paths, ReadLimits()), catalogue) if paths else None

    return run_of


COMMAND = Command("project", _configure, _run, _HELP["description"])
