"""`rightsizer topology`: how GPUs, network cards and disks of this node hang together."""

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.catalogue.operator_file import read_catalogue
from rightsizer.cli.command import Command, add_config_flag, settings_of
from rightsizer.cli.output import say
from rightsizer.cli.topology_text import topology_text
from rightsizer.domain.errors import RightsizerError, UsageError
from rightsizer.edge.clock import SystemClock
from rightsizer.publish.topology_form import topology_form
from rightsizer.runtime.settings import PathSettings
from rightsizer.telemetry.nvml.library import use_library
from rightsizer.telemetry.simulated.library import SimulatedLibrary
from rightsizer.telemetry.simulated.node import Node
from rightsizer.telemetry.simulated.scenario import load_scenario, packaged_scenarios
from rightsizer.telemetry.topology.survey import take_survey

__all__ = ["COMMAND"]

_DESCRIPTION = """\
Print the ways between GPUs, network cards and disks, as `nvidia-smi topo -m` does, with NUMA nodes,
near CPUs, and the PCIe link of each GPU and of each bridge above it. Works without the driver too:
GPUs then go by their PCI addresses. Devices that are asleep are not woken.
"""
_NO_BUS: Final = Path(os.devnull)
"""A simulated node has none, and what is on this machine's does not belong to it."""
_PATIENCE_SECONDS: Final = 10.0
"""Opening NVML takes some 3 s where no persistence daemon runs."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Which node, and how to answer."""
    parser.add_argument("--json", action="store_true", help="answer in JSON")
    parser.add_argument(
        "--path.sysfs",
        dest="sysfs",
        metavar="DIR",
        help="mount point of sysfs; without it path.sysfs of the configuration "
        f"(default: {PathSettings().sysfs})",
    )
    parser.add_argument(
        "--simulated.scenario",
        "--scenario",
        dest="scenario",
        metavar="NAME",
        help="look at a simulated node in place of the real driver: one of "
        f"{', '.join(packaged_scenarios())}, or a scenario file",
    )
    add_config_flag(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print what was found.

    Raises:
        RightsizerError: there is no GPU.
    """
    settings = settings_of(arguments)
    scenario = arguments.scenario or settings.sources.simulated.scenario
    sysfs = _sysfs(arguments, _NO_BUS if scenario else Path(settings.path.sysfs))
    catalogue = read_catalogue(settings.catalogue.boards_path)
    with _simulated(scenario, catalogue) if scenario else contextlib.nullcontext():
        survey = take_survey(sysfs, catalogue, patience_seconds=_PATIENCE_SECONDS)
    if not survey.devices:
        reason = "".join(f"{warning}; " for warning in survey.warnings)
        raise RightsizerError(
            f"no NVIDIA GPU is on the bus under {sysfs}, and the driver offers none: {reason}"
            "look with 'lspci -d 10de:', or show the host's sysfs with --path.sysfs"
        )
    nameless = "" if survey.offered else "; GPUs go by their PCI addresses"
    for warning in survey.warnings:
        print(f"rightsizer: warning: {warning}{nameless}", file=sys.stderr)
    if arguments.json:
        form = topology_form(survey.topology, survey.devices, survey.offered)
        say(json.dumps(form, indent=1))
    else:
        say(topology_text(survey))
    return 0


def _sysfs(arguments: argparse.Namespace, otherwise: Path) -> Path:
    if arguments.sysfs is None:
        return otherwise
    if not os.path.isdir(arguments.sysfs):  # noqa: PTH112 - pathlib raises for some errors.
        raise UsageError(
            f"--path.sysfs: {arguments.sysfs} is no folder; name the mount point of sysfs"
        )
    return Path(arguments.sysfs)


@contextlib.contextmanager
def _simulated(name: str, catalogue: Catalogue) -> Iterator[None]:
    """The driver of a simulated node, for as long as it is asked."""
    clock = SystemClock()
    node = Node(load_scenario(name, catalogue), catalogue, start=clock.wall_time())
    use_library(SimulatedLibrary(node, clock.wall_time))
    try:
        yield
    finally:
        use_library(None)


COMMAND = Command(
    "topology", "print how GPUs, NICs and disks hang together", configure, run, _DESCRIPTION
)
