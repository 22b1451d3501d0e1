"""`rightsizer catalogue`: what is known of GPUs, what they cost, and how we know."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from rightsizer.catalogue.board import Board
from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.catalogue.names import plain_name
from rightsizer.catalogue.operator_file import read_catalogue, read_prices
from rightsizer.catalogue.prices import Prices
from rightsizer.cli.catalogue_card import card_text
from rightsizer.cli.catalogue_form import board_form
from rightsizer.cli.catalogue_table import table_text
from rightsizer.cli.catalogue_unknown import unknown_form, unknown_text
from rightsizer.cli.command import Command
from rightsizer.cli.output import say
from rightsizer.cli.settings_flag import add_config_flag, settings_of
from rightsizer.domain.device import Device
from rightsizer.domain.errors import RightsizerError, UsageError
from rightsizer.telemetry.topology.survey import take_survey

__all__ = ["COMMAND"]

_DESCRIPTION = """\
List the boards of the catalogue, or tell everything of those that are named, each figure with its
origin: measured, verified against a public table, recalled from a datasheet, assumed from boards
alike, or stated by you. A board is named by its key or by what its driver calls it. Prices are
dollars per GPU-hour as of the dates beside them, never quotes. Of a GPU of this node that nobody
knows, what its driver says is told.

A file of your own changes or adds boards, figure by figure; a new board needs these:

  boards:
    H100-SXM5-80GB: {power_limit_watts: 650, source: our own limit}
    LAB-1:
      architecture: Hopper
      compute_capability: "9.0"
      sm_count: 100
      memory_mib: 65536
      memory_bandwidth_gbs: 2000
      power_limit_watts: 300
      dense_peak_tera: {bf16: 500}

and one of prices likewise:

  boards:
    H100-SXM5-80GB: {on_demand: 2.10, reserved: {1: 1.60}, dates: [2026-09-01], purchase: 27000}
  on_premises: {pue_ratio: 1.2, dollars_per_kilowatt_hour: 0.09}
"""


_PATIENCE_SECONDS: Final = 10.0
"""Opening NVML takes some 3 s where no persistence daemon runs."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Which boards, and how to answer."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="keys or names of boards")
    parser.add_argument(
        "--search",
        metavar="TEXT",
        help="list boards with all these words in their key, names, architecture, form or memory",
    )
    parser.add_argument(
        "--catalogue",
        type=Path,
        metavar="FILE",
        help="YAML file that changes or adds boards; units are in its keys",
    )
    parser.add_argument(
        "--prices",
        type=Path,
        metavar="FILE",
        help="YAML file that changes or adds prices, in dollars per GPU-hour",
    )
    add_config_flag(parser)
    parser.add_argument(
        "--json", action="store_true", help="answer in JSON; bytes, hertz, watts, seconds, dollars"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print what was asked for.

    Raises:
        UsageError: a board is unknown; the nearest are named.
        ConfigurationError: a file has faults.
        RightsizerError: nothing was found.
    """
    settings = settings_of(arguments)
    catalogue = read_catalogue(arguments.catalogue or settings.catalogue.boards_path)
    prices = read_prices(arguments.prices or settings.catalogue.prices_path, catalogue)
    if arguments.names:
        if arguments.search is not None:
            raise UsageError("--search lists boards; leave it out to tell of those that are named")
        found = _named(catalogue, arguments.names, Path(settings.path.sysfs))
        if arguments.json:
            say(json.dumps([_form(each, prices) for each in found], indent=1))
        else:
            say("\n\n".join(_text(each, prices) for each in found))
        return 0
    boards = _searched(catalogue, arguments.search)
    if arguments.json:
        say(json.dumps([board_form(board, prices) for board in boards], indent=1))
    else:
        say(table_text(boards, prices))
    return 0


def _form(found: Board | Device, prices: Prices) -> dict[str, Any]:
    return unknown_form(found) if isinstance(found, Device) else board_form(found, prices)


def _text(found: Board | Device, prices: Prices) -> str:
    return unknown_text(found) if isinstance(found, Device) else card_text(found, prices)


def _named(catalogue: Catalogue, names: Sequence[str], sysfs: Path) -> list[Board | Device]:
    """Boards, and GPUs of this node that are none; the driver is asked for these alone."""
    found: list[Board | Device] = []
    here: tuple[Device, ...] | None = None
    for name in names:
        try:
            found.append(catalogue.get(name))
        except UsageError as error:
            if here is None:
                here = take_survey(sysfs, catalogue, patience_seconds=_PATIENCE_SECONDS).devices
            called = [each for each in here if plain_name(each.name) == plain_name(name)]
            if not called:
                raise UsageError(
                    f"{error}; no GPU of this node is called so either, and a file of boards may "
                    "describe it (--catalogue FILE)"
                ) from None
            found.append(called[0])
    return found


def _searched(catalogue: Catalogue, search: str | None) -> tuple[Board, ...]:
    boards = catalogue.search(search or "")
    if not boards:
        raise RightsizerError(
            f"--search: no board has all of '{search}' in its key, names, architecture, form or "
            "memory; 'rightsizer catalogue' lists them all"
        )
    return boards


COMMAND = Command(
    "catalogue", "list and search what is known of GPUs", configure, run, _DESCRIPTION
)
