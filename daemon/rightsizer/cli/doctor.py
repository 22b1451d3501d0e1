"""`rightsizer doctor`: checks of this machine, with the cost of what is missing."""

import argparse
from collections.abc import Sequence
from typing import Final

from rightsizer.agent.doctor import examine
from rightsizer.agent.doctor.check import Check, Verdict
from rightsizer.agent.settings import Settings
from rightsizer.console.command import Command, answer, help_of
from rightsizer.console.flags import add_config_flag, settings_of
from rightsizer.io.codec import plain_fields
from rightsizer.io.log import configure as configure_log
from rightsizer.io.log_settings import LogLevel
from rightsizer.io.terminal import wrapped

_HELP: Final = help_of(__file__)


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="answer in JSON")
    add_config_flag(parser)


def _run(arguments: argparse.Namespace) -> int:
    settings = settings_of(arguments, Settings)
    configure_log(settings.log.format, LogLevel.ERROR)
    checks = examine(settings)
    answer(arguments, {"checks": [plain_fields(check) for check in checks]}, doctor_text(checks))
    return 0


def doctor_text(checks: Sequence[Check]) -> str:
    """Format a line per check, with cost and remedy, and a total."""
    lines = [line for check in checks for line in _lines(check)]
    counts = [
        f"{sum(check.verdict is verdict for check in checks)} {verdict}" for verdict in Verdict
    ]
    return "\n".join([*lines, "", ", ".join(counts)])


def _lines(check: Check) -> list[str]:
    head = f"{check.verdict:8} {check.name}: {check.found}"
    lines = wrapped(head, hanging=9)
    for word, text in (("costs", check.lost), ("remedy", check.remedy)):
        if text:
            lines += wrapped(f"{word}: {text}", 9, len(word) + 2)
    return lines


COMMAND = Command("doctor", _configure, _run, _HELP["description"])
