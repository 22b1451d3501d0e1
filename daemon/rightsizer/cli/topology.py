"""`rightsizer topology`: how GPUs, network cards and disks of this node hang together."""

import argparse
import contextlib
import json
import os
import socket
import sys
from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Final

from rightsizer.agent.scheduler_look import gres_by_look, resource_topology_by_look
from rightsizer.agent.settings import PathSettings, Settings
from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.catalogue.operator_file import read_catalogue
from rightsizer.cli.topology_text import topology_text
from rightsizer.console.command import Command
from rightsizer.console.look_flags import add_scenario_flag, looked_at
from rightsizer.console.output import say
from rightsizer.console.settings_flag import add_config_flag, settings_of
from rightsizer.io.clock import SystemClock
from rightsizer.model.errors import RightsizerError, UsageError
from rightsizer.report.json_encoder import topology_form
from rightsizer.simulator.library.simulated_library import SimulatedLibrary
from rightsizer.simulator.node import SimulatedNode
from rightsizer.simulator.scenario_reader import load_scenario
from rightsizer.telemetry.node_survey import survey_node
from rightsizer.telemetry.nvml.library import use_library

_DESCRIPTION = """\
Print the ways between GPUs, network cards and disks, as `nvidia-smi topo -m` does, with NUMA nodes,
near CPUs, and the PCIe link of each GPU and of each bridge above it. Works without the driver too:
GPUs then go by their PCI addresses. Devices that are asleep are not woken.

Two forms are for those who schedule: 'gres' is the node's gres.conf for Slurm, with near cores and
NVLinks, and 'node-resource-topology' the object that Kubernetes' topology-aware schedulers place
pods by. Both tell of MIG instances too, take two seconds, and need the driver.
"""
_NO_BUS: Final = Path(os.devnull)
"""A simulated node has none, and what is on this machine's does not belong to it."""
_PATIENCE_SECONDS: Final = 10.0
"""Opening NVML takes some 3 s where no persistence daemon runs."""


class _Format(StrEnum):
    """How to answer."""

    TEXT = "text"
    JSON = "json"
    GRES = "gres"
    NODE_RESOURCE_TOPOLOGY = "node-resource-topology"


def configure(parser: argparse.ArgumentParser) -> None:
    """Which node, and how to answer."""
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--format",
        choices=tuple(map(str, _Format)),
        default=str(_Format.TEXT),
        help="'gres' for Slurm, 'node-resource-topology' for Kubernetes (default: text)",
    )
    form.add_argument("--json", action="store_true", help="the same as --format json")
    parser.add_argument(
        "--node-name",
        metavar="NAME",
        help="the node's name in Slurm or Kubernetes; without it NODE_NAME of the environment, "
        "else the host's name",
    )
    parser.add_argument(
        "--path.sysfs",
        dest="sysfs",
        metavar="DIR",
        help="mount point of sysfs; without it path.sysfs of the configuration "
        f"(default: {PathSettings().sysfs})",
    )
    add_scenario_flag(parser, "the real driver")
    add_config_flag(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print what was found.

    Raises:
        RightsizerError: there is no GPU.
    """
    settings = settings_of(arguments)
    form = _Format.JSON if arguments.json else _Format(arguments.format)
    if form in {_Format.GRES, _Format.NODE_RESOURCE_TOPOLOGY}:
        say(_for_scheduler(form, settings, arguments))
    else:
        _show_survey(form, settings, arguments)
    return 0


def _for_scheduler(form: _Format, settings: Settings, arguments: argparse.Namespace) -> str:
    """What only a few looks at the driver tell: MIG instances, and who holds what."""
    host = arguments.node_name or os.environ.get("NODE_NAME") or socket.gethostname()
    with looked_at(settings, arguments.scenario) as looked:
        sysfs = _sysfs(arguments, Path(looked.path.sysfs))
        chosen = replace(looked, path=replace(looked.path, sysfs=str(sysfs)))
        if form is _Format.GRES:
            return gres_by_look(chosen, SystemClock(), host)
        return json.dumps(resource_topology_by_look(chosen, SystemClock(), host), indent=1)


def _show_survey(form: _Format, settings: Settings, arguments: argparse.Namespace) -> None:
    scenario = arguments.scenario or settings.sources.simulated.scenario
    sysfs = _sysfs(arguments, _NO_BUS if scenario else Path(settings.path.sysfs))
    catalogue = read_catalogue(settings.catalogue.boards_path)
    with _simulated(scenario, catalogue) if scenario else contextlib.nullcontext():
        survey = survey_node(sysfs, catalogue, patience_seconds=_PATIENCE_SECONDS)
    if not survey.devices:
        reason = "".join(f"{warning}; " for warning in survey.warnings)
        raise RightsizerError(
            f"no NVIDIA GPU is on the bus under {sysfs}, and the driver offers none: {reason}"
            "look with 'lspci -d 10de:', or show the host's sysfs with --path.sysfs"
        )
    nameless = "" if survey.offered else "; GPUs go by their PCI addresses"
    for warning in survey.warnings:
        print(f"rightsizer: warning: {warning}{nameless}", file=sys.stderr)
    if form is _Format.JSON:
        told = topology_form(survey.topology, survey.devices, survey.offered)
        say(json.dumps(told, indent=1))
    else:
        say(topology_text(survey))


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
    node = SimulatedNode(load_scenario(name, catalogue), catalogue, start=clock.wall_time())
    use_library(SimulatedLibrary(node, clock.wall_time))
    try:
        yield
    finally:
        use_library(None)


COMMAND = Command(
    "topology", "print how GPUs, NICs and disks hang together", configure, run, _DESCRIPTION
)
