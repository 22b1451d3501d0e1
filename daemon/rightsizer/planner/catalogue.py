"""`rightsizer catalogue`: boards, prices, origin of each figure; unknown GPUs of this node."""

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from rightsizer.catalogue.board import Board
from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.catalogue.names import plain_name
from rightsizer.catalogue.operator_file import read_catalogue, read_prices
from rightsizer.catalogue.prices import Prices
from rightsizer.console.command import Command, say
from rightsizer.console.settings_flags import add_config_flag, settings_of
from rightsizer.model.device import Device
from rightsizer.model.errors import RightsizerError, UsageError
from rightsizer.planner.catalogue_encoder import encode_board
from rightsizer.planner.catalogue_text import card_text, table_text
from rightsizer.planner.figures import short_number
from rightsizer.telemetry.node_survey import survey_node

_GIB: Final = 2.0**30
_REMEDY: Final = """\
  Memory bandwidth, peaks and prices are unknown, so that nothing is planned or projected on it and
  no advice names it. Describe it in a file of boards: 'rightsizer catalogue --help' shows one."""


def unknown_text(device: Device) -> str:
    """A card of what the driver says."""
    rows = [("architecture", device.architecture or "unknown"), *_figures(device)]
    width = max(len(label) for label, _ in rows)
    return "\n".join(
        [
            device.name,
            "  unknown to the catalogue",
            "",
            "What the driver of this node says",
            *(f"  {label.ljust(width)}  {text}" for label, text in rows),
            "",
            _REMEDY,
        ]
    )


def encode_unknown_board(device: Device) -> dict[str, Any]:
    """The same for programs, under the names that a board's figures have; no key, no price."""
    return {
        "key": None,
        "names": [device.name],
        "architecture": device.architecture,
        "compute_capability": device.facts.get("compute_capability"),
        "cores": int(device.facts["cores"]) if "cores" in device.facts else None,
        "memory_bytes": device.memory_total_bytes,
        "power_limit_watts": device.power_limit_watts,
        "sm_clock_maximum_hertz": device.sm_clock_maximum_hertz,
        "pcie_generation": device.pcie_generation_maximum,
        "pcie_width": device.pcie_width_maximum,
        "price": None,
        "source": "the driver of this node",
    }


def _figures(device: Device) -> Iterator[tuple[str, str]]:
    """What it tells; what it does not is left out."""
    if "compute_capability" in device.facts:
        yield "compute capability", device.facts["compute_capability"]
    if "cores" in device.facts:
        yield "CUDA cores", device.facts["cores"]
    if device.memory_total_bytes is not None:
        yield "memory", f"{device.memory_total_bytes / _GIB:.2f} GiB"
    if device.power_limit_watts is not None:
        yield "power limit", f"{short_number(device.power_limit_watts)} W"
    if device.sm_clock_maximum_hertz is not None:
        yield "highest SM clock", f"{short_number(device.sm_clock_maximum_hertz / 1e6)} MHz"
    if device.pcie_generation_maximum is not None:
        width = device.pcie_width_maximum
        lanes = "" if width is None else f" x{width}"
        yield "PCIe, with its slot", f"gen{device.pcie_generation_maximum}{lanes}"


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
        say(json.dumps([encode_board(board, prices) for board in boards], indent=1))
    else:
        say(table_text(boards, prices))
    return 0


def _form(found: Board | Device, prices: Prices) -> dict[str, Any]:
    return encode_unknown_board(found) if isinstance(found, Device) else encode_board(found, prices)


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
                here = survey_node(sysfs, catalogue, patience_seconds=_PATIENCE_SECONDS).devices
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
