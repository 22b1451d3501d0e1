"""Occupancy: holder of each device, since when, and the other workloads of its node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rightsizer.fleet.cache.day_cache import HoldingRow
from rightsizer.fleet.cache.subject_days import SubjectDays
from rightsizer.fleet.model import FleetDevice
from rightsizer.model.device import Device
from rightsizer.model.finding import Case
from rightsizer.model.node import Node
from rightsizer.model.units import Nanoseconds
from rightsizer.model.workload import Holding, Workload


@dataclass(frozen=True, slots=True)
class DeviceTenure:
    """A device's present holder."""

    holder: str | None
    """A workload's key, `None` where nobody holds it."""
    since: Nanoseconds
    """When the holder took the device, or the last one left it; 0 where that was not seen."""


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Cases by their keys, with the devices that they need."""

    present: Mapping[str, tuple[str, ...]]
    """By key, the devices that it has now; a device that nobody holds is a key of its own."""
    ever: Mapping[str, tuple[HoldingRow, ...]] = field(default_factory=dict)
    """By workload, all that it held."""

    def devices_of(self, key: str) -> tuple[str, ...]:
        """All the devices that a case looks at, former ones included."""
        former = {row.uuid for row in self.ever.get(key, ())}
        return tuple(dict.fromkeys((*self.present[key], *sorted(former))))


def occupancy_of(
    uuids: Iterable[str], rows: Sequence[HoldingRow], now: Nanoseconds, gap: Nanoseconds
) -> Occupancy:
    """Who has which devices, by who was seen with them last.

    Args:
        uuids: The devices that are there now.
        rows: Who held devices, by device, in the order of time.
        now: Wall time.
        gap: How long before now a holder may have been seen last.
    """
    latest: dict[str, HoldingRow] = {}
    ever: dict[str, list[HoldingRow]] = {}
    for row in rows:
        ever.setdefault(row.workload, []).append(row)
        known = latest.get(row.uuid)
        if known is None or (row.end, row.share_ratio) > (known.end, known.share_ratio):
            latest[row.uuid] = row
    present: dict[str, list[str]] = {}
    for uuid in uuids:
        held = latest.get(uuid)
        is_held = held is not None and held.end + max(gap, held.grid.step) >= now
        present.setdefault(held.workload if held and is_held else uuid, []).append(uuid)
    return Occupancy(
        {key: tuple(found) for key, found in present.items()},
        {key: tuple(found) for key, found in ever.items()},
    )


def tenure_of(
    rows: Sequence[HoldingRow], holder: str | None, days: SubjectDays, gap: Nanoseconds
) -> DeviceTenure:
    """Since when a device is as it is.

    A holder who was away for no longer than the gap never left, nor one that was not seen while
    nothing was known of the device.

    Args:
        rows: Who held the device, oldest first.
        holder: Who holds it now.
        days: What is known of the device.
        gap: How long a holder may be away.
    """
    if holder is None:
        return DeviceTenure(None, max((row.end for row in rows), default=0))
    others = [row for row in rows if row.workload != holder]
    since: Nanoseconds | None = None
    for row in sorted((row for row in rows if row.workload == holder), key=_end, reverse=True):
        if since is None:
            since = row.start
            continue
        is_taken = any(
            other.end > row.end and other.start < since and other.share_ratio > row.share_ratio
            for other in others
        ) or any(row.end <= other.start and other.end <= since for other in others)
        is_away = since - row.end > max(gap, row.grid.step) and days.known_in(row.end, since) > 0
        if is_taken or is_away:
            break
        since = min(since, row.start)
    return DeviceTenure(holder, since or 0)


def _end(row: HoldingRow) -> Nanoseconds:
    return row.end


Place = tuple[str, str]
"""Cluster and node."""


def place_of(device: FleetDevice) -> Place:
    """Where a device stands."""
    return device.cluster, device.node


@dataclass(frozen=True, slots=True)
class NodeResident:
    """A case, as far as it is the same over any span."""

    key: str
    workload: Workload | None
    devices: tuple[Device, ...]


class NodeNeighbors:
    """Who stands on which node and holds what there, which is the same over any span."""

    def __init__(
        self,
        residents: Iterable[NodeResident],
        devices: Mapping[str, FleetDevice],
        rows: Callable[[str], Sequence[HoldingRow]],
    ) -> None:
        """Look at them.

        Args:
            residents: Those of some nodes.
            devices: By uuid.
            rows: Who held a device, oldest first.
        """
        self._places: dict[str, Place] = {}
        there: dict[Place, list[NodeResident]] = {}
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


def _node(residents: Sequence[NodeResident], rows: Callable[[str], Sequence[HoldingRow]]) -> Node:
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
