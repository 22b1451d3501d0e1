"""The node's topology for people: a matrix, the links behind it, and a legend."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rightsizer.model.device import Device
from rightsizer.model.topology import (
    Adapter,
    AdapterKind,
    Bridge,
    GpuLink,
    LinkKind,
    Placement,
    Topology,
)
from rightsizer.report.json_encoder import cpu_list
from rightsizer.telemetry.node_survey import NodeSurvey

_LEGEND: Final = (
    ("X", "the GPU itself"),
    ("NV#", "that many NVLinks, or to the switches that join all alike"),
    ("PIX", "at most one PCIe bridge"),
    ("PXB", "several PCIe bridges, but no host bridge"),
    ("PHB", "a PCIe host bridge, where the bus leaves the CPU"),
    ("NODE", "two host bridges of one NUMA node"),
    ("SYS", "the link between NUMA nodes"),
    ("?", "nobody tells"),
)
_NOTHING: Final = "-"
_NAMES_SHOWN: Final = 3
_PAIRS_SHOWN: Final = 4


@dataclass(frozen=True, slots=True)
class _Column:
    """A network card or disk of the matrix; a card may have several names in the kernel."""

    label: str
    adapters: tuple[Adapter, ...]

    @property
    def names(self) -> str:
        """`mlx5_0 (ib0)`."""
        first, *others = [adapter.name for adapter in self.adapters]
        shown = ", ".join(others[:_NAMES_SHOWN])
        more = ", ..." if len(others) > _NAMES_SHOWN else ""
        return f"{first} ({shown}{more})" if others else first


def topology_text(survey: NodeSurvey) -> str:
    """All of it, section by section."""
    topology = survey.topology
    labels = {device.uuid: _label(device, survey.offered) for device in survey.devices}
    columns = tuple(_columns(topology.adapters))
    sections = [
        _table(_matrix(topology, labels, columns)),
        _table(_links(topology, labels)),
        [f"Peer memory: {_peers(topology.links, labels)}"],
        _table(_gpus(survey, labels)),
        _table(_adapters(columns)),
        _table(_nodes(topology.numa_nodes)),
        ["Legend", *(f"  {word:4}  {meaning}" for word, meaning in _LEGEND)],
    ]
    return "\n\n".join("\n".join(lines) for lines in sections if lines)


def _label(device: Device, offered: frozenset[str]) -> str:
    return f"GPU{device.index}" if device.uuid in offered else device.uuid.removeprefix("0000:")


def _columns(adapters: Iterable[Adapter]) -> Iterator[_Column]:
    """The network cards, one for each PCI function, then the disks."""
    cards: dict[str, list[Adapter]] = {}
    disks: list[Adapter] = []
    for adapter in adapters:
        if adapter.kind is AdapterKind.NVME:
            disks.append(adapter)
        else:
            cards.setdefault(adapter.pci_bus_id, []).append(adapter)
    for number, (_, same) in enumerate(sorted(cards.items())):
        yield _Column(f"NIC{number}", tuple(same))
    for disk in disks:
        yield _Column(disk.name, (disk,))


def _matrix(
    topology: Topology, labels: Mapping[str, str], columns: Sequence[_Column]
) -> Iterator[Sequence[str]]:
    placements = topology.placements
    has_memory_nodes = any(each.memory_numa_node is not None for each in placements.values())
    more = ["NUMA", *(["memory node"] if has_memory_nodes else []), "CPUs"]
    yield ["", *labels.values(), *(column.label for column in columns), *more]
    for uuid, label in labels.items():
        placement = placements[uuid]
        ways = (_way(topology, uuid, peer) for peer in labels)
        near = (str(column.adapters[0].links[uuid]) for column in columns)
        nodes = [placement.numa_node, *([placement.memory_numa_node] if has_memory_nodes else [])]
        cpus = cpu_list(placement.cpus) or _NOTHING
        yield [label, *ways, *near, *map(_or_nothing, nodes), cpus]


def _way(topology: Topology, uuid: str, peer_uuid: str) -> str:
    if uuid == peer_uuid:
        return str(LinkKind.SELF)
    link = topology.link(uuid, peer_uuid)
    return link.label if link is not None else str(LinkKind.UNKNOWN)


def _links(topology: Topology, labels: Mapping[str, str]) -> Iterator[Sequence[str]]:
    yield ["PCIe link", "address", "now", "maximum", "with its slot"]
    for uuid, label in labels.items():
        placement = topology.placements[uuid]
        slot = _link(placement.slot_generation_maximum, placement.slot_width_maximum)
        yield [label, placement.pci_bus_id or _NOTHING, *_port(placement), slot]
        for bridge in placement.bridges:
            yield ["  under", bridge.pci_bus_id, *_port(bridge)]


def _port(port: Placement | Bridge) -> tuple[str, str]:
    return (
        _link(port.generation, port.width),
        _link(port.generation_maximum, port.width_maximum),
    )


def _link(generation: int | None, width: int | None) -> str:
    if generation is None and width is None:
        return _NOTHING
    return f"gen{generation or '?'} x{width or '?'}"


def _peers(links: Sequence[GpuLink], labels: Mapping[str, str]) -> str:
    if not links:
        return "there is no other GPU"
    told = [link for link in links if link.can_read_peer is not None]
    refused = [link for link in told if not link.can_read_peer]
    if not told:
        return "the driver does not say who can read whose"
    if len(refused) == len(links):
        return "no GPU can read another's"
    if len(told) == len(links) and not refused:
        return "each GPU can read every other's"
    if len(told) == len(links) and len(refused) <= _PAIRS_SHOWN:
        pairs = ", ".join(f"{labels[link.uuid]}-{labels[link.peer_uuid]}" for link in refused)
        return f"each GPU can read every other's, but not {pairs}"
    return f"{len(told) - len(refused)} of {len(links)} pairs can read each other's"


def _gpus(survey: NodeSurvey, labels: Mapping[str, str]) -> Iterator[Sequence[str]]:
    yield ["GPU", "model", "uuid"]
    for device in survey.devices:
        label = labels[device.uuid]
        if device.uuid in survey.offered:
            yield [label, device.name or _NOTHING, device.uuid]
        else:
            yield [label, "not offered by the driver", _NOTHING]


def _adapters(columns: Sequence[_Column]) -> Iterator[Sequence[str]]:
    if columns:
        yield ["Adapter", "address", "NUMA", "kernel's name"]
    for column in columns:
        adapter = column.adapters[0]
        yield [column.label, adapter.pci_bus_id, _or_nothing(adapter.numa_node), column.names]


def _nodes(nodes: Mapping[int, tuple[int, ...]]) -> Iterator[Sequence[str]]:
    if nodes:
        yield ["NUMA node", "CPUs"]
    for node, cpus in sorted(nodes.items()):
        yield [str(node), cpu_list(cpus) or "none: memory alone"]


def _or_nothing(number: int | None) -> str:
    return _NOTHING if number is None else str(number)


def _table(rows: Iterable[Sequence[str]]) -> list[str]:
    """Rows with their cells under each other."""
    lines = [list(row) for row in rows]
    width = max(map(len, lines), default=0)
    widths = [max(len(row[at]) for row in lines if at < len(row)) for at in range(width)]
    return [
        "  ".join(cell.ljust(size) for cell, size in zip(row, widths, strict=False)).rstrip()
        for row in lines
    ]
