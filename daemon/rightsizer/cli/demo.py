"""`rightsizer demo`: a simulated node in fast motion."""

import argparse

from rightsizer.agent.demo import DemoSettings, run_demo
from rightsizer.cli.web_flags import add_access_flags
from rightsizer.console.command import Command, say
from rightsizer.console.flags import checked_address


def configure(parser: argparse.ArgumentParser) -> None:
    """The demonstration's flags."""
    default = DemoSettings()
    parser.add_argument(
        "--scenario", default=default.scenario, help="a built-in scenario, or a scenario file"
    )
    parser.add_argument(
        "--web.listen-address",
        dest="listen_address",
        default=default.listen_address,
        metavar="ADDRESS",
        help="where to listen, as host:port",
    )
    add_access_flags(parser)
    parser.add_argument(
        "--speed",
        type=_positive,
        default=default.speed,
        metavar="FACTOR",
        help="simulated seconds in a second; the first day passes at this speed",
    )
    parser.add_argument(
        "--days-before",
        dest="days_before",
        type=_not_negative,
        default=default.days_before,
        metavar="DAYS",
        help="days that the node remembers at the start, 0 to 30",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run until a signal ends it."""
    run_demo(
        DemoSettings(
            scenario=arguments.scenario,
            listen_address=checked_address(arguments.listen_address),
            speed=arguments.speed,
            days_before=arguments.days_before,
            web_config_file=arguments.web_config_file or "",
            enable_lifecycle=arguments.enable_lifecycle,
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
