"""`rightsizer doctor`: checks of this machine, with the cost of what is missing."""

import argparse
from collections.abc import Iterator, Sequence
from typing import Final

from rightsizer.agent.doctor import examine
from rightsizer.agent.doctor.check import Check, Verdict
from rightsizer.agent.settings import Settings
from rightsizer.console.answer import add_format_flag, show
from rightsizer.console.command import Command, help_of
from rightsizer.console.flags import add_config_flag, settings_of
from rightsizer.io.log import configure as configure_log
from rightsizer.io.log_settings import LogLevel
from rightsizer.report.blocks import Block, Items, section

_HELP: Final = help_of(__file__)


def _configure(parser: argparse.ArgumentParser) -> None:
    add_format_flag(parser, "a value for each check")
    add_config_flag(parser)


def _run(arguments: argparse.Namespace) -> int:
    settings = settings_of(arguments, Settings)
    configure_log(settings.log.format, LogLevel.ERROR)
    checks = examine(settings)
    show(arguments, "Checks of this machine", {"checks": checks}, doctor_blocks(checks))
    return 0


def doctor_blocks(checks: Sequence[Check]) -> Iterator[Block]:
    """Yield each check, with cost and remedy, and a total."""
    yield section("This machine:", *map(_check, checks))
    yield ", ".join(
        f"{sum(check.verdict is verdict for check in checks)} {verdict}" for verdict in Verdict
    )


def _check(check: Check) -> Block:
    details = (("costs", check.lost), ("remedy", check.remedy))
    lines = tuple(f"{word}: {text}" for word, text in details if text)
    head = f"{check.verdict:8} {check.name}: {check.found}"
    return section(head, Items(lines)) if lines else head


COMMAND = Command("doctor", _configure, _run, _HELP["description"])
