"""The node around a case whose devices all lie on one: what a store tells of it.

Limits, links and places are known to the node's own agent alone, so that rules which need them
find no reading here, and abstain.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from rightsizer.domain.finding import Case
from rightsizer.domain.node import Node
from rightsizer.domain.workload import Holding
from rightsizer.fleet.estate import EstateDevice
from rightsizer.fleet.shelf import HeldRow

__all__ = ["place_of", "with_nodes"]

Place = tuple[str, str]
"""Cluster and node."""


def place_of(device: EstateDevice) -> Place:
    """Where a device stands."""
    return device.cluster, device.node


def with_nodes(
    cases: Sequence[Case],
    devices: Mapping[str, EstateDevice],
    rows: Callable[[str], Sequence[HeldRow]],
) -> tuple[Case, ...]:
    """The cases, those on one node with the others that are there.

    Args:
        cases: Of one span.
        devices: By uuid.
        rows: Who held a device, oldest first.
    """
    there: dict[Place, list[Case]] = defaultdict(list)
    places = [{place_of(devices[device.uuid]) for device in case.devices} for case in cases]
    for case, found in zip(cases, places, strict=True):
        if len(found) == 1 and case.workload is not None:
            there[min(found)].append(case)
    nodes = {place: _node(found, rows) for place, found in there.items()}
    return tuple(
        replace(case, node=nodes.get(min(found))) if len(found) == 1 else case
        for case, found in zip(cases, places, strict=True)
    )


def _node(cases: Sequence[Case], rows: Callable[[str], Sequence[HeldRow]]) -> Node:
    workloads = {case.key: case.workload for case in cases if case.workload is not None}
    devices = tuple(device for case in cases for device in case.devices)
    holdings: dict[str, tuple[Holding, ...]] = {}
    for device in devices:
        held = rows(device.uuid)
        last = max((row.end for row in held), default=0)
        holdings[device.uuid] = tuple(
            Holding(workloads[row.workload], row.share_ratio)
            for row in held
            if row.end == last and row.workload in workloads
        )
    return Node(devices=devices, holdings=holdings, cases=tuple(cases))
