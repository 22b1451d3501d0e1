"""`rightsizer profile`: what profilers wrote, where the time goes, and what to change."""

import argparse
import json
from pathlib import Path

from rightsizer.cli.command import Command
from rightsizer.cli.output import say
from rightsizer.cli.profile_text import profile_text
from rightsizer.domain.errors import UsageError
from rightsizer.edge.whole_file import WholeFile
from rightsizer.profiles.reader import ReadLimits
from rightsizer.publish.report.profile_document import profile_document
from rightsizer.runtime.profile_answer import profiled_workloads
from rightsizer.runtime.profile_forms import answer_form

__all__ = ["COMMAND"]

_DESCRIPTION = """\
Reads what profilers write and says where the time of each GPU goes, why it is idle, what to change,
and what that would give. Formats are told by their content: PyTorch Profiler, Nsight Systems
(.sqlite, .nsys-rep, CSV and JSON of 'nsys stats'), Nsight Compute (CSV, .ncu-rep), TensorFlow, JAX
and XLA (.xplane.pb, trace.json.gz), MLPerf logs; packed or plain. A folder is read whole; files of
the ranks of one program are judged together.

Environments, host names, users and command lines that such files carry are never kept or shown.
docs/profiles.md tells what is read of each format, and every key of the JSON.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """What to read, and how to answer."""
    parser.add_argument(
        "files", type=Path, nargs="+", metavar="FILE", help="files of profilers, or their folders"
    )
    parser.add_argument(
        "--against",
        type=Path,
        nargs="+",
        default=(),
        metavar="FILE",
        help="earlier profiles of the same workloads, in the same order: before and after",
    )
    parser.add_argument(
        "--report", type=Path, metavar="OUT", help="write the answer as one page of HTML too"
    )
    parser.add_argument(
        "--json", action="store_true", help="answer in JSON; seconds, bytes, ratios"
    )


def run(arguments: argparse.Namespace) -> int:
    """Read, judge, and print what came of it.

    Raises:
        ProfileError: a file cannot be read, or is of no known format.
        UsageError: the report would replace a profile, or profiles cannot be compared.
    """
    _check_report(arguments)
    limits = ReadLimits()
    found = profiled_workloads(arguments.files, limits)
    answer = answer_form(found, profiled_workloads(arguments.against, limits))
    if arguments.report is not None:
        with WholeFile(arguments.report, "report") as out:
            out.write(profile_document(answer).encode())
    say(json.dumps(answer, indent=1) if arguments.json else profile_text(answer))
    return 0


def _check_report(arguments: argparse.Namespace) -> None:
    out = arguments.report
    if out is not None and out.resolve() in {
        each.resolve() for each in (*arguments.files, *arguments.against)
    }:
        raise UsageError(f"--report {out}: is a profile to read; name another file")


COMMAND = Command(
    "profile",
    "say where a program's time goes, by its profiler's files",
    configure,
    run,
    _DESCRIPTION,
)
