"""`rightsizer demo`: a simulated node in fast motion."""

import argparse
import math
import sys
from functools import partial
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
    least, most = math.nextafter(0.0, 1.0), sys.float_info.max
    positive = partial(_number, least=least, most=most, what="a positive number")
    # The longest window is thirty days.
    month = partial(_number, least=0, most=30, what="a number of days from 0 to 30")
    speed = {"type": positive, "default": default.speed}
    days = {"type": month, "default": default.days_before}
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


def _number(text: str, least: float, most: float, what: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number") from None
    if not least <= value <= most:
        raise argparse.ArgumentTypeError(f"'{text}' is not {what}")
    return value


COMMAND = Command("demo", configure, run)
