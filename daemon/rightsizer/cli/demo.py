"""`rightsizer demo`: a simulated node in fast motion."""

import argparse
from typing import Final

from rightsizer.agent.demo import DemoSettings, run_demo
from rightsizer.cli.web_flags import add_access_flags
from rightsizer.console.command import Command, add_flags, say
from rightsizer.console.flags import checked_address

_ADDRESS: Final = """
--web.listen-address ADDRESS: where to listen, as host:port
"""
_PACE: Final = """
--speed FACTOR: simulated seconds in a second; the first day passes at this speed
--days-before DAYS: days that the node remembers at the start, 0 to 30
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """The demonstration's flags."""
    default = DemoSettings()
    parser.add_argument(
        "--scenario", default=default.scenario, help="a built-in scenario, or a scenario file"
    )
    address = {"default": default.listen_address}
    add_flags(parser.add_argument, _ADDRESS, web_listen_address=address)
    add_access_flags(parser)
    speed = {"type": _positive, "default": default.speed}
    days = {"type": _not_negative, "default": default.days_before}
    add_flags(parser.add_argument, _PACE, speed=speed, days_before=days)


def run(arguments: argparse.Namespace) -> int:
    """Run until a signal ends it."""
    run_demo(
        DemoSettings(
            scenario=arguments.scenario,
            listen_address=checked_address(arguments.web_listen_address),
            speed=arguments.speed,
            days_before=arguments.days_before,
            web_config_file=arguments.web_config_file or "",
            enable_lifecycle=arguments.web_enable_lifecycle,
        ),
        say,
    )
    return 0


def _positive(text: str) -> float:
    value = _number(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"'{text}' is not a positive number")
    return value


def _not_negative(text: str) -> float:
    value = _number(text)
    if not 0 <= value <= 30:  # noqa: PLR2004 - the longest window is thirty days.
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of days from 0 to 30")
    return value


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number") from None


COMMAND = Command("demo", configure, run)
