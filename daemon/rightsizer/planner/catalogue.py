"""`rightsizer catalogue`: boards, prices, origin of each figure, as text and as JSON."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Final

from msgspec import Struct

from rightsizer.catalogue.board import Board
from rightsizer.catalogue.board_parser import EFFICIENCIES, FIGURES
from rightsizer.catalogue.catalogue import Catalogue, plain_name, read_catalogue
from rightsizer.catalogue.prices import Price, Prices
from rightsizer.catalogue.prices_file import read_prices
from rightsizer.catalogue.settings import CatalogueSettings, PriceSettings
from rightsizer.console.answer import add_format_flag, show
from rightsizer.console.command import Command, add_flags, help_of
from rightsizer.console.flags import add_config_flag, settings_of
from rightsizer.host.settings import PathSettings
from rightsizer.model.device import Device
from rightsizer.model.errors import RightsizerError, UsageError
from rightsizer.model.units import GIB
from rightsizer.planner.catalogue_blocks import boards_blocks, card
from rightsizer.planner.display import short_number
from rightsizer.report.blocks import Block, KeyValues, section
from rightsizer.telemetry.node_survey import survey_node

_HELP: Final = help_of(__file__)
_FIGURES: Final[Mapping[str, str]] = {
    "names": "names",
    "sm_count": "sm_count",
    **{name: key for name, (key, _) in FIGURES.items()},
}
"""Names of figures here, with those of the catalogue's file."""
_IDENTITY: Final = (
    "key",
    "vendor",
    "names",
    "other_names",
    "architecture",
    "form_factor",
    "memory_type",
    "release_year",
)
_OFFER: Final = (
    "low_dollars_per_hour",
    "median_dollars_per_hour",
    "high_dollars_per_hour",
    "hyperscaler_dollars_per_hour",
)
_TERMS: Final = (1, 3)
_REMEDY: Final = (
    "Memory bandwidth, peaks and prices are unknown, so that nothing is planned or projected on it "
    "and no advice names it. Describe it in a file of boards: 'rightsizer catalogue --help' shows "
    "one."
)


def _figure_names(board: Board) -> Iterator[tuple[str, str]]:
    for name, in_file in _FIGURES.items():
        if getattr(board, name):
            yield name, in_file
    for precision in board.peak_per_second:
        yield f"peak_per_second.{precision}", f"dense_peak_tera.{precision}"
    for kind in EFFICIENCIES:
        for precision in getattr(board.efficiency, kind):
            yield f"efficiency.{kind}.{precision}", f"efficiency.{kind}.{precision}"
    for count in board.all_reduce:
        yield f"all_reduce.{count}", f"all_reduce.{count}"
    if board.mig_profiles:
        yield "mig_profiles", "mig_profiles"


def _board_document(board: Board, prices: Prices) -> dict[str, object]:
    efficiency = board.efficiency
    return {
        **{name: getattr(board, name) for name in _IDENTITY},
        "compute_capability": "{}.{}".format(*board.compute_capability),
        **{name: getattr(board, name) for name in _FIGURES if name not in _IDENTITY},
        "pcie_bytes_per_second": board.pcie_bytes_per_second,
        "peak_per_second": board.peak_per_second,
        "efficiency": {
            **{kind: getattr(efficiency, kind) for kind in EFFICIENCIES},
            "power_cap_ratio": efficiency.power_cap_ratio,
        },
        "all_reduce": board.all_reduce,
        "mig_profiles": board.mig_profiles,
        "price": _price_document(prices.of(board.key), prices),
        "origins": {
            name: {"kind": board.origin(in_file).kind, "source": board.origin(in_file).source}
            for name, in_file in _figure_names(board)
        },
        "source": board.source,
        "notes": board.notes,
    }


def _price_document(price: Price | None, prices: Prices) -> dict[str, object] | None:
    if price is None:
        return None
    offer = price.on_demand
    reserved = {years: prices.reserved(price.key, years) for years in _TERMS}
    return {
        "dates": price.dates,
        "sources": price.sources,
        "is_stated": price.is_stated,
        "on_demand": None if offer is None else {name: getattr(offer, name) for name in _OFFER},
        "spot_dollars_per_hour": price.spot_dollars_per_hour,
        "reserved": {years: terms for years, terms in reserved.items() if terms is not None},
        "clouds": price.clouds,
        "purchases": price.purchases,
    }


def _unknown(device: Device) -> Iterator[Block]:
    yield section(device.name, "unknown to the catalogue")
    yield section("What the driver of this node says", KeyValues(tuple(_figures(device))))
    yield _REMEDY


def _unknown_document(device: Device) -> dict[str, object]:
    """Return an unknown device with the keys of a board's figures; without key and price."""
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
    yield "architecture", device.architecture or "unknown"
    if "compute_capability" in device.facts:
        yield "compute capability", device.facts["compute_capability"]
    if "cores" in device.facts:
        yield "CUDA cores", device.facts["cores"]
    if device.memory_total_bytes is not None:
        yield "memory", f"{device.memory_total_bytes / GIB:.2f} GiB"
    if device.power_limit_watts is not None:
        yield "power limit", f"{short_number(device.power_limit_watts)} W"
    if device.sm_clock_maximum_hertz is not None:
        yield "highest SM clock", f"{short_number(device.sm_clock_maximum_hertz / 1e6)} MHz"
    if device.pcie_generation_maximum is not None:
        lanes = f" x{device.pcie_width_maximum}" if device.pcie_width_maximum is not None else ""
        yield "PCIe, with its slot", f"gen{device.pcie_generation_maximum}{lanes}"


class _CatalogueCommandSettings(Struct, frozen=True):
    """Sections that the command reads."""

    catalogue: CatalogueSettings = CatalogueSettings()
    prices: PriceSettings = PriceSettings()
    path: PathSettings = PathSettings()


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="keys or names of boards")
    add_flags(parser.add_argument, _HELP["files"], catalogue=Path, prices=Path)
    add_config_flag(parser)
    add_format_flag(parser, "bytes, hertz, watts, seconds and dollars")


def _run(arguments: argparse.Namespace) -> int:
    settings = settings_of(arguments, _CatalogueCommandSettings)
    catalogue = read_catalogue(arguments.catalogue or settings.catalogue.boards_path)
    prices_file = arguments.prices or settings.catalogue.prices_path
    prices = read_prices(prices_file, catalogue, settings.prices)
    if arguments.names and arguments.search is not None:
        raise UsageError("--search lists boards; leave it out to tell of those that are named")
    boards = () if arguments.names else catalogue.search(arguments.search or "")
    if not (arguments.names or boards):
        fault = f"no board has all of '{arguments.search or ''}' in its key, names"
        remedy = "'rightsizer catalogue' lists them all"
        raise RightsizerError(f"--search: {fault}, architecture, form or memory; {remedy}")
    named = _named(catalogue, arguments.names, Path(settings.path.sysfs))
    forms = [
        _unknown_document(entry) if isinstance(entry, Device) else _board_document(entry, prices)
        for entry in (*named, *boards)
    ]
    cards = [
        _unknown(entry) if isinstance(entry, Device) else card(entry, prices) for entry in named
    ]
    blocks = chain.from_iterable(cards) if cards else boards_blocks(boards, prices)
    show(arguments, "Catalogue of GPUs", forms, blocks, may_color=False)
    return 0


def _named(catalogue: Catalogue, names: Sequence[str], sysfs: Path) -> list[Board | Device]:
    """Return named boards, and unknown GPUs of this node; only then is the driver queried."""
    entries: list[Board | Device] = []
    here: tuple[Device, ...] | None = None
    for name in names:
        try:
            entries += catalogue.family(name) or [catalogue.get(name)]
        except UsageError as error:
            if here is None:
                here = survey_node(sysfs, catalogue).devices
            called = [device for device in here if plain_name(device.name) == plain_name(name)]
            if not called:
                remedy = "a file of boards may describe it (--catalogue FILE)"
                here_too = "no GPU of this node is called so either"
                raise UsageError(f"{error}; {here_too}, and {remedy}") from None
            entries.append(called[0])
    return entries


COMMAND = Command("catalogue", _configure, _run, _HELP["description"])
