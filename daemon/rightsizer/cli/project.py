"""`rightsizer project`: how a measured workload would do on other GPUs."""

import argparse
import json
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import Final

from rightsizer.catalogue.catalogue import Catalogue, read_catalogue
from rightsizer.console.command import Command, add_flags, say
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
from rightsizer.sizing.workload_profile import ProfiledRun
from rightsizer.telemetry.profiles.limits import ReadLimits
from rightsizer.telemetry.profiles.registry import read_all

_DESCRIPTION = """\
Project what was measured on one GPU to others, or to MIG slices of one: how long the same work
would take, how busy it would keep them, whether its memory fits, and what would hold it back. Every
figure has the interval that it lies in with a probability of 90 %.

The file is YAML or JSON; several documents, or a list, give a list of answers in the same order,
with {error} in the place of one that fails:

  gpu: H100-SXM5-80GB                 # or what NVML calls it, or a slice of it, as below
  precision: {from: bf16, to: bf16}   # of the weights; to: absent for the same
  shares:                             # means over the whole window, idle included, 0 to 1
    {gpu_busy: 0.9, sm_active: 0.7, tensor_active: 0.25, dram_active: 0.35, sm_clock_ratio: 0.95,
     pcie_receive: 0.05, pcie_transmit: 0.01, nvlink_receive: 0.0, nvlink_transmit: 0.0}
  memory_bytes: 31.0e9                # the most that it used
  to: [L40S, A100-SXM4-80GB, "H100-SXM5-80GB:3g.40gb"]

sm_active, tensor_active and dram_active are needed: GPM and DCGM measure them, NVML alone does not.
Beside these shares there is fp32_active, for work outside the tensor cores.

In their place, or beside them, a trace of a profiler tells where the time of a GPU goes: kernels
with tensor cores and without, collectives and copies beside no kernel, waits for the host. It also
tells the GPU and the most memory, where they are in it; what it cannot tell is named:

  profile: trace.json.gz              # from this file's folder; or a list, one file of each rank
  to: [L40S]
"""


_FILES: Final = """
--catalogue FILE: YAML file that changes or adds boards
--profile TRACE: a profiler's files of the workload, for questions that name none; a folder's ranks
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """The file, and how to answer."""
    parser.add_argument("file", type=Path, metavar="FILE", help="YAML or JSON file")
    profile = {"type": Path, "nargs": "+", "default": ()}
    add_flags(parser.add_argument, _FILES, catalogue=Path, profile=profile)
    add_config_flag(parser)
    parser.add_argument("--json", action="store_true", help="answer in JSON; bytes, ratios")


def run(arguments: argparse.Namespace) -> int:
    """Print the answers."""
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
    if arguments.json:
        forms = [
            {"error": each} if isinstance(each, str) else [*map(encode_projection, each)]
            for each in found
        ]
        say(json.dumps(forms if asked.is_list else forms[0], indent=1))
        return 0
    texts = [f"error: {each}" if isinstance(each, str) else answers_text(each) for each in found]
    say("\n\n".join([*texts, LEGEND]))
    return 0


def _reader_of_runs(folder: Path, usual: Sequence[Path], catalogue: Catalogue) -> ReadRun:
    @cache
    def run_of(files: tuple[str, ...]) -> ProfiledRun | None:
        paths = [folder / each for each in files] or usual
        return profiled_run(read_all(paths, ReadLimits()), catalogue) if paths else None

    return run_of


COMMAND = Command("project", configure, run, _DESCRIPTION)
