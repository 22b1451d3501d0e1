"""Command `rightsizer topology`: connections of GPUs, network cards and disks of this node."""

import argparse
import os
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from rightsizer.agent.scheduler_documents import gres_of_node, resource_topology_of_node
from rightsizer.agent.settings import Settings
from rightsizer.agent.simulated_node import simulate
from rightsizer.catalogue.catalogue import read_catalogue
from rightsizer.cli.scenario_flag import add_scenario_flag, scenario_settings
from rightsizer.console.answer import add_format_flag, show
from rightsizer.console.command import Command, add_flags, help_of, say
from rightsizer.console.flags import add_config_flag, settings_of, with_values
from rightsizer.host.settings import PathSettings
from rightsizer.io.clock import SystemClock
from rightsizer.io.codec import indented
from rightsizer.model.values import (
    Adapter,
    AdapterKind,
    Bridge,
    GpuLink,
    LinkKind,
    Placement,
    RightsizerError,
    Topology,
    UsageError,
    cpu_list,
)
from rightsizer.report.blocks import Block, Cell, KeyValues, Table, section, table
from rightsizer.report.topology_document import topology_document
from rightsizer.telemetry.node_survey import NodeSurvey, survey_node
from rightsizer.telemetry.nvml.library import use_library

_HELP: Final = help_of(__file__)
_LINK_COLUMNS: Final = ("PCIe link", "address", "now", "maximum", "with its slot")
_NAMES_SHOWN: Final = 3
_PAIRS_SHOWN: Final = 4
_GRES: Final = "gres"
_TOPOLOGY: Final = "node-resource-topology"
_NO_BUS: Final = Path(os.devnull)
"""A simulated node has no bus, and this machine's does not belong to it."""


class _Column(Struct, frozen=True):
    """Network card or disk of the matrix; the kernel may have several names for a card."""

    label: str
    adapters: tuple[Adapter, ...]

    @property
    def names(self) -> str:
        """Names such as `mlx5_0 (ib0)`."""
        first, *others = [adapter.name for adapter in self.adapters]
        shown = ", ".join(others[:_NAMES_SHOWN])
        more = ", ..." if len(others) > _NAMES_SHOWN else ""
        return f"{first} ({shown}{more})" if others else first


def topology_blocks(survey: NodeSurvey) -> Iterator[Block]:
    """Yield all tables."""
    topology = survey.topology
    offered = survey.offered
    labels = {
        device.uuid: f"GPU{device.index}"
        if device.uuid in offered
        else device.uuid.removeprefix("0000:")
        for device in survey.devices
    }
    columns = tuple(_columns(topology.adapters))
    absent = "not offered by the driver", None
    gpus = (
        (labels[gpu.uuid], *((gpu.name or None, gpu.uuid) if gpu.uuid in offered else absent))
        for gpu in survey.devices
    )
    adapters = (
        (column.label, adapter.pci_bus_id, _or_nothing(adapter.numa_node), column.names)
        for column in columns
        for adapter in column.adapters[:1]
    )
    nodes = (
        (str(node), cpu_list(cpus) or "none: memory alone")
        for node, cpus in sorted(topology.numa_nodes.items())
    )
    yield _matrix(topology, labels, columns)
    yield table(_LINK_COLUMNS, _links(topology, labels))
    yield f"Peer memory: {_peers(topology.links, labels)}"
    yield table(("GPU", "model", "uuid"), gpus)
    yield table(("Adapter", "address", "NUMA", "kernel's name"), adapters)
    yield table(("NUMA node", "CPUs"), nodes)
    legend = (line.split(maxsplit=1) for line in _HELP["legend"].splitlines())
    yield section("Legend", KeyValues(tuple((sign, meaning) for sign, meaning in legend)))


def _columns(adapters: Sequence[Adapter]) -> Iterator[_Column]:
    """Yield the network cards, one per PCI function, then the disks."""
    cards: dict[str, list[Adapter]] = {}
    for adapter in adapters:
        if adapter.kind is not AdapterKind.NVME:
            cards.setdefault(adapter.pci_bus_id, []).append(adapter)
    for number, (_, same) in enumerate(sorted(cards.items())):
        yield _Column(f"NIC{number}", tuple(same))
    for adapter in adapters:
        if adapter.kind is AdapterKind.NVME:
            yield _Column(adapter.name, (adapter,))


def _matrix(topology: Topology, labels: Mapping[str, str], columns: Sequence[_Column]) -> Table:
    placements = topology.placements
    has_memory_nodes = any(
        placement.memory_numa_node is not None for placement in placements.values()
    )
    more = ["NUMA", *(["memory node"] if has_memory_nodes else []), "CPUs"]
    rows = []
    for uuid, label in labels.items():
        placement = placements[uuid]
        ways = (_way(topology, uuid, peer) for peer in labels)
        near = (str(column.adapters[0].links[uuid]) for column in columns)
        nodes = [placement.numa_node, *([placement.memory_numa_node] if has_memory_nodes else [])]
        cpus = cpu_list(placement.cpus) or None
        rows.append([label, *ways, *near, *map(_or_nothing, nodes), cpus])
    return table(["", *labels.values(), *(column.label for column in columns), *more], rows)


def _way(topology: Topology, uuid: str, peer_uuid: str) -> str:
    if uuid == peer_uuid:
        return str(LinkKind.SELF)
    link = topology.link(uuid, peer_uuid)
    return link.label if link is not None else str(LinkKind.UNKNOWN)


def _links(topology: Topology, labels: Mapping[str, str]) -> Iterator[Sequence[Cell]]:
    for uuid, label in labels.items():
        placement = topology.placements[uuid]
        slot = _link(placement.slot_generation_maximum, placement.slot_width_maximum)
        yield [label, placement.pci_bus_id or None, *_port(placement), slot]
        for bridge in placement.bridges:
            yield ["  under", bridge.pci_bus_id, *_port(bridge), ""]


def _link(generation: int | None, width: int | None) -> str | None:
    if generation is None and width is None:
        return None
    return f"gen{generation or '?'} x{width or '?'}"


def _port(port: Placement | Bridge) -> tuple[str | None, str | None]:
    now = _link(port.generation, port.width)
    return now, _link(port.generation_maximum, port.width_maximum)


def _peers(links: Sequence[GpuLink], labels: Mapping[str, str]) -> str:
    if not links:
        return "there is no other GPU"
    reported = [link for link in links if link.can_read_peer is not None]
    refused = [link for link in reported if not link.can_read_peer]
    if not reported:
        return "the driver does not say who can read whose"
    if len(refused) == len(links):
        return "no GPU can read another's"
    if len(reported) < len(links) or len(refused) > _PAIRS_SHOWN:
        return f"{len(reported) - len(refused)} of {len(links)} pairs can read each other's"
    pairs = ", ".join(f"{labels[link.uuid]}-{labels[link.peer_uuid]}" for link in refused)
    return "each GPU can read every other's" + (f", but not {pairs}" if pairs else "")


def _or_nothing(number: int | None) -> str | None:
    return None if number is None else str(number)


def _configure(parser: argparse.ArgumentParser) -> None:
    add_format_flag(parser, "the keys of docs/api.md", _GRES, _TOPOLOGY)
    flags = f"""
--node-name NAME: the node's name in Slurm or Kubernetes; without it NODE_NAME of the environment,
  else the host's name
--path.sysfs DIR: mount point of sysfs; setting: path.sysfs
  (default: {PathSettings().sysfs})
"""
    add_flags(parser.add_argument, flags)
    add_scenario_flag(parser, "the real driver")
    add_config_flag(parser)


def _run(arguments: argparse.Namespace) -> int:
    settings = settings_of(arguments, Settings)
    if arguments.format in {_GRES, _TOPOLOGY}:
        say(_for_scheduler(settings, arguments))
    else:
        _show_survey(settings, arguments)
    return 0


def _for_scheduler(settings: Settings, arguments: argparse.Namespace) -> str:
    """Return facts that need a few polls of the driver: MIG instances, and holders."""
    host = arguments.node_name or os.environ.get("NODE_NAME") or socket.gethostname()
    with scenario_settings(settings, arguments.scenario) as node:
        sysfs = _sysfs(arguments, Path(node.path.sysfs))
        chosen = with_values(node, {"path.sysfs": str(sysfs)})
        if arguments.format == _GRES:
            return gres_of_node(chosen, SystemClock(), host)
        return indented(resource_topology_of_node(chosen, SystemClock(), host))


def _show_survey(settings: Settings, arguments: argparse.Namespace) -> None:
    scenario = arguments.scenario or settings.sources.simulated.scenario
    sysfs = _sysfs(arguments, _NO_BUS if scenario else Path(settings.path.sysfs))
    catalogue = read_catalogue(settings.catalogue.boards_path)
    try:
        if scenario:
            simulate(scenario, SystemClock(), catalogue)
        survey = survey_node(sysfs, catalogue)
    finally:
        if scenario:
            use_library(None)
    if not survey.devices:
        fault = f"no NVIDIA GPU is on the bus under {sysfs}, and the driver offers none"
        remedy = "look with 'lspci -d 10de:', or show the host's sysfs with --path.sysfs"
        raise RightsizerError(f"{fault}: {'; '.join([*survey.warnings, remedy])}")
    nameless = "" if survey.offered else "; GPUs go by their PCI addresses"
    for warning in survey.warnings:
        print(f"rightsizer: warning: {warning}{nameless}", file=sys.stderr)
    document = topology_document(survey.topology, survey.devices, survey.offered)
    show(arguments, "GPU topology", document, topology_blocks(survey), may_color=False)


def _sysfs(arguments: argparse.Namespace, otherwise: Path) -> Path:
    if arguments.path_sysfs is None:
        return otherwise
    if not os.path.isdir(arguments.path_sysfs):  # noqa: PTH112 - pathlib raises for some errors.
        why = "is no folder; name the mount point of sysfs"
        raise UsageError(f"--path.sysfs: {arguments.path_sysfs} {why}")
    return Path(arguments.path_sysfs)


COMMAND = Command("topology", _configure, _run, _HELP["description"])
