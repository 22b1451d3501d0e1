"""The node around a case whose devices all lie on one: what a store tells of it.

Limits, links and places are known to the node's own agent alone, so that rules which need them
find no reading here, and abstain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from rightsizer.domain.device import Device
from rightsizer.domain.finding import Case
from rightsizer.domain.node import Node
from rightsizer.domain.workload import Holding, Workload
from rightsizer.fleet.estate import EstateDevice
from rightsizer.fleet.kept.shelf import HeldRow

__all__ = ["Neighbors", "Resident", "place_of"]

Place = tuple[str, str]
"""Cluster and node."""


def place_of(device: EstateDevice) -> Place:
    """Where a device stands."""
    return device.cluster, device.node


@dataclass(frozen=True, slots=True)
class Resident:
    """A case, as far as it is the same over any span."""

    key: str
    workload: Workload | None
    devices: tuple[Device, ...]


class Neighbors:
    """Who stands on which node and holds what there, which is the same over any span."""

    def __init__(
        self,
        residents: Iterable[Resident],
        devices: Mapping[str, EstateDevice],
        rows: Callable[[str], Sequence[HeldRow]],
    ) -> None:
        """Look at them.

        Args:
            residents: Those of some nodes.
            devices: By uuid.
            rows: Who held a device, oldest first.
        """
        self._places: dict[str, Place] = {}
        there: dict[Place, list[Resident]] = {}
        for each in residents:
            places = {place_of(devices[device.uuid]) for device in each.devices}
            if len(places) == 1:
                (place,) = places
                self._places[each.key] = place
                if each.workload is not None:
                    there.setdefault(place, []).append(each)
        self._there = {place: _node(found, rows) for place, found in there.items()}
        self._keys = {place: [each.key for each in found] for place, found in there.items()}

    def nodes(self, cases: Mapping[str, Case]) -> Mapping[str, Node]:
        """By their keys, the nodes of cases of one span; none of a case that has none."""
        nodes = {
            place: Node(
                devices=node.devices,
                holdings=node.holdings,
                cases=tuple(cases[key] for key in self._keys[place]),
            )
            for place, node in self._there.items()
        }
        return {key: nodes[place] for key, place in self._places.items() if place in nodes}


def _node(residents: Sequence[Resident], rows: Callable[[str], Sequence[HeldRow]]) -> Node:
    workloads = {each.key: each.workload for each in residents if each.workload is not None}
    devices = tuple(device for each in residents for device in each.devices)
    holdings: dict[str, tuple[Holding, ...]] = {}
    for device in devices:
        held = rows(device.uuid)
        last = max((row.end for row in held), default=0)
        holdings[device.uuid] = tuple(
            Holding(workloads[row.workload], row.share_ratio)
            for row in held
            if row.end == last and row.workload in workloads
        )
    return Node(devices=devices, holdings=holdings)
