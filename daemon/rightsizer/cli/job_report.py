"""`rightsizer job-report`: what one job did with its GPUs, for the end of its own output."""

import argparse
import json
import platform
from dataclasses import asdict
from typing import Any

from rightsizer.cli.command import Command
from rightsizer.cli.history_flag import add_history_flag, history_path, write_up_to_now
from rightsizer.cli.job_report_text import job_report_text
from rightsizer.cli.output import say
from rightsizer.cli.settings_flag import add_config_flag, settings_of
from rightsizer.domain.units import seconds
from rightsizer.publish.json_form import advice_form
from rightsizer.runtime.job_report import JobReport, job_report

__all__ = ["COMMAND"]

_DESCRIPTION = """\
What a job has used of its GPUs on this node, where the rest went, and one line of advice. Made for
Slurm's epilog (config/slurm), and of use for any workload while it runs. A running agent is asked
to write its history first, so that nothing is missing; without one it is read as it is.

  rightsizer job-report 4242
  rightsizer job-report kubernetes:research/llm-pretrain --json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Which job, and where its history is."""
    parser.add_argument(
        "job", help="number of a Slurm job, or the key of any workload, as /api/v1 has it"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object, in base units")
    add_history_flag(parser)
    add_config_flag(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the report.

    Raises:
        HistoryError: there is no history, or no such job in it.
    """
    settings = settings_of(arguments)
    path = history_path(arguments, settings)
    write_up_to_now(settings)
    report = job_report(path, settings, arguments.job)
    if arguments.json:
        say(json.dumps(_form(report), indent=2))
    else:
        say(job_report_text(report, platform.node()))
    return 0


def _form(report: JobReport) -> dict[str, Any]:
    return {
        **asdict(report),
        "start": seconds(report.start),
        "end": seconds(report.end),
        "unused_seconds": {str(cause): lost for cause, lost in report.unused_seconds.items()},
        "advice": [advice_form(each) for each in report.advice],
    }


COMMAND = Command("job-report", "what one job did with its GPUs", configure, run, _DESCRIPTION)
