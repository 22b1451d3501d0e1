"""View of the node's topology: two drawings, for wide and narrow screens, and a table."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from msgspec import Struct

from rightsizer.model.values import DeviceReport, LinkKind, Placement, Report, State, Topology
from rightsizer.report.labels import ABSENT, TIMES, display_name
from rightsizer.web.view.drawing import Drawing, DrawingPlace, Frame, draw, nvlink_groups

_NEAR: Final = (LinkKind.PIX, LinkKind.PXB)
_MATRIX_MOST: Final = 16


class TopologyView(Struct, frozen=True):
    """Values for the template."""

    wide: Drawing
    narrow: Drawing
    label: str
    columns: tuple[str, ...]
    matrix: tuple[tuple[str, tuple[str, ...]], ...]
    """GPUs and adapters, and the paths from each to every GPU."""


def topology_view(
    report: Report, names: Mapping[str, str], fresh: Collection[str]
) -> TopologyView | None:
    """Return the topology of a report; `None` if unknown."""
    topology = report.node.topology
    if topology is None:
        return None
    devices = [device for device in report.devices if device.device.uuid in topology.placements]
    if not devices:
        return None
    uuids = [device.device.uuid for device in devices]
    frames = _frames(devices, topology, names, fresh)
    groups = nvlink_groups(topology, uuids)
    label = "; ".join(
        [f"{frame.title}: {', '.join(place.title for place in frame.places)}" for frame in frames]
        + [f"{group.text}: {', '.join(names[uuid] for uuid in group.uuids)}" for group in groups]
    )
    few = uuids if len(uuids) <= _MATRIX_MOST else []
    return TopologyView(
        wide=draw(frames, groups, 1060, 4),
        narrow=draw(frames, groups, 340, 2),
        label=label,
        columns=tuple(names[uuid] for uuid in few),
        matrix=_matrix(topology, few, names),
    )


def _frames(
    devices: Sequence[DeviceReport],
    topology: Topology,
    names: Mapping[str, str],
    fresh: Collection[str],
) -> list[Frame]:
    by_node: dict[int | None, list[DeviceReport]] = {}
    for device in devices:
        node = topology.placements[device.device.uuid].numa_node
        by_node.setdefault(node, []).append(device)
    uuids = [device.device.uuid for device in devices]
    # The first GPU that shares a PCIe switch with an adapter.
    nearest = {
        adapter.name: next(
            (uuid for kind in _NEAR for uuid in uuids if adapter.links.get(uuid) is kind), None
        )
        for adapter in topology.adapters
    }
    frames = []
    for node in sorted(by_node, key=lambda node: (node is None, node or 0)):
        places = tuple(_place(device, topology, names, fresh, nearest) for device in by_node[node])
        loose = tuple(
            adapter.name
            for adapter in topology.adapters
            if nearest[adapter.name] is None and adapter.numa_node == node
        )
        unknown = "NUMA node not known" if len(by_node) > 1 else "Host"
        frames.append(Frame(unknown if node is None else f"NUMA node {node}", places, loose))
    return frames


def _place(
    report: DeviceReport,
    topology: Topology,
    names: Mapping[str, str],
    fresh: Collection[str],
    nearest: Mapping[str, str | None],
) -> DrawingPlace:
    uuid = report.device.uuid
    state = report.state if uuid in fresh else State.UNKNOWN
    link, is_degraded = _link(topology.placements[uuid])
    return DrawingPlace(
        uuid=uuid,
        title=names[uuid],
        detail=link,
        state_key=state,
        state_name="MIG instances" if report.device.has_mig_instances else display_name(state),
        is_degraded=is_degraded,
        chips=tuple(
            f"{adapter.name} · {adapter.links[uuid]}"
            for adapter in topology.adapters
            if nearest[adapter.name] == uuid
        ),
    )


def _link(placement: Placement) -> tuple[str, bool]:
    """Return the PCIe link, and whether it is too narrow; generations drop at idle."""
    if placement.generation is None or placement.width is None:
        return "PCIe not known", False
    maximum = placement.slot_width_maximum
    text = f"PCIe {placement.generation} {TIMES}{placement.width}"
    if maximum is not None and placement.width < maximum:
        return f"{text} of {TIMES}{maximum}", True
    return text, False


def _matrix(
    topology: Topology, uuids: Sequence[str], names: Mapping[str, str]
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    ways = {frozenset((link.uuid, link.peer_uuid)): link.label for link in topology.links}
    ways |= {frozenset((uuid,)): ABSENT for uuid in uuids}
    gpus = (
        (names[one], tuple(ways.get(frozenset((one, other)), "?") for other in uuids))
        for one in uuids
    )
    adapters = (
        (adapter.name, tuple(str(adapter.links.get(uuid, "?")) for uuid in uuids))
        for adapter in topology.adapters
        if uuids
    )
    return (*gpus, *adapters)
