"""`rightsizer advise`: one recommender run over the local history, which is only read."""

import argparse
import json
from pathlib import Path

from rightsizer.cli.command import Command, add_config_flag, settings_of
from rightsizer.cli.counted import counted
from rightsizer.cli.output import say
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
        say(json.dumps(form, indent=1))
        return 0
    for each in advice:
        say(f"{each.state:9} {finding_line(each.finding)}")
    for finding in findings:
        if finding.abstained is not None:
            say(f"abstained {finding.rule} on {', '.join(finding.devices)}: {finding.abstained}")
    still_open = sum(each.is_open for each in advice)
    pieces = counted(still_open, "piece of advice is", "pieces of advice are")
    say(f"{pieces} open.")
    return 0


COMMAND = Command("advise", "run the recommender once over the local history", configure, run)
