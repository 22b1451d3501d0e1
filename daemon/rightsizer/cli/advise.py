"""`rightsizer advise`: one recommender run over the local history, which is read, or kept up."""

import argparse
import json

from rightsizer.cli.advise_text import advise_text
from rightsizer.cli.command import Command
from rightsizer.cli.history_flag import add_history_flag, history_path
from rightsizer.cli.output import say
from rightsizer.cli.settings_flag import add_config_flag, settings_of
from rightsizer.publish.json_form import advice_form, finding_form
from rightsizer.runtime.advise import advise
from rightsizer.runtime.advise_once import advise_and_keep
from rightsizer.runtime.log import LogLevel
from rightsizer.runtime.log import configure as configure_log

__all__ = ["COMMAND"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Which history, and how to answer."""
    add_history_flag(parser)
    parser.add_argument("--json", action="store_true", help="answer in JSON")
    parser.add_argument(
        "--save",
        action="store_true",
        help="keep the advice in the history and tell Grafana and webhooks of it, as the agent "
        "does; refused while an agent runs",
    )
    add_config_flag(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the verdicts and the advice that follows."""
    settings = settings_of(arguments)
    configure_log(settings.log.format, LogLevel.WARNING)
    run_once = advise_and_keep if arguments.save else advise
    findings, advice = run_once(history_path(arguments, settings), settings)
    if arguments.json:
        form = {
            "findings": [finding_form(finding) for finding in findings],
            "advice": [advice_form(each) for each in advice],
        }
        say(json.dumps(form, indent=1))
        return 0
    say(advise_text(findings, advice))
    return 0


COMMAND = Command("advise", "run the recommender once over the local history", configure, run)
