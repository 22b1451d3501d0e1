"""Which GPUs NVLink joins, and how: the groups that a drawing has a rail for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rightsizer.domain.topology import GpuLink, LinkKind, Topology

__all__ = ["LinkGroup", "nvlink_groups"]


@dataclass(frozen=True, slots=True)
class LinkGroup:
    """GPUs that reach one another over NVLink, directly or over others of them."""

    uuids: tuple[str, ...]
    text: str


def nvlink_groups(topology: Topology, uuids: Sequence[str]) -> tuple[LinkGroup, ...]:
    """The groups among these GPUs, in their order; whoever has no NVLink is in none."""
    links = [link for link in topology.links if link.kind is LinkKind.NVLINK]
    neighbors: dict[str, set[str]] = {uuid: set() for uuid in uuids}
    for link in links:
        if link.uuid in neighbors and link.peer_uuid in neighbors:
            neighbors[link.uuid].add(link.peer_uuid)
            neighbors[link.peer_uuid].add(link.uuid)
    groups, seen = [], set[str]()
    for uuid in uuids:
        if uuid not in seen and neighbors[uuid]:
            members = _reached(uuid, neighbors)
            seen |= members
            groups.append(_group([each for each in uuids if each in members], links))
    return tuple(groups)


def _reached(uuid: str, neighbors: Mapping[str, set[str]]) -> set[str]:
    reached, ahead = {uuid}, [uuid]
    while ahead:
        new = neighbors[ahead.pop()] - reached
        reached |= new
        ahead += new
    return reached


def _group(uuids: Sequence[str], links: Sequence[GpuLink]) -> LinkGroup:
    inside = [link for link in links if link.uuid in uuids and link.peer_uuid in uuids]
    labels = sorted({link.label for link in inside})
    is_complete = len(inside) == len(uuids) * (len(uuids) - 1) // 2
    label = labels[0] if len(labels) == 1 else f"{labels[0]} to {labels[-1]}"
    if len(uuids) == 2:  # noqa: PLR2004 - a pair needs no word on how complete it is.
        return LinkGroup(tuple(uuids), f"NVLink {label}")
    return LinkGroup(tuple(uuids), f"NVLink {label}, {'all to all' if is_complete else 'in part'}")
