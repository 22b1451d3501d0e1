"""`rightsizer advise`: one recommender run over the local history, which is only read."""

import argparse
import json
import sys
from pathlib import Path

from rightsizer.cli.command import Command, add_config_flag, settings_of
from rightsizer.cli.replay_text import finding_line
from rightsizer.publish.json_form import advice_form, finding_form
from rightsizer.runtime.advise import advise
from rightsizer.runtime.settings import Settings

__all__ = ["COMMAND"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Which history, and how to answer."""
    parser.add_argument(
        "--history.path",
        dest="history_path",
        type=Path,
        metavar="FILE",
        help="the history; without it history.path of the configuration "
        f"(default: {Settings().history.path})",
    )
    parser.add_argument("--json", action="store_true", help="answer in JSON")
    add_config_flag(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the verdicts and the advice that follows."""
    settings = settings_of(arguments)
    path = arguments.history_path or Path(settings.history.path)
    findings, advice = advise(path, settings)
    if arguments.json:
        form = {
            "findings": [finding_form(finding) for finding in findings],
            "advice": [advice_form(each) for each in advice],
        }
        json.dump(form, sys.stdout, indent=1)
        print()
        return 0
    for each in advice:
        print(f"{each.state:9} {finding_line(each.finding)}")
    for finding in findings:
        if finding.abstained is not None:
            print(f"abstained {finding.rule} on {', '.join(finding.devices)}: {finding.abstained}")
    print(f"{sum(each.is_open for each in advice)} pieces of advice are open.")
    return 0


COMMAND = Command("advise", "run the recommender once over the local history", configure, run)
