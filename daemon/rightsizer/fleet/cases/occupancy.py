"""Occupancy: holder of each device, since when, and the other workloads of its node."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from rightsizer.fleet.cache.day_cache import HoldingRow
from rightsizer.fleet.columns.subject import Subject
from rightsizer.fleet.model import FleetDevice
from rightsizer.model.values import Case, Holding, Nanoseconds, Node, Workload, WorkloadKind


class Occupancy(Struct, frozen=True):
    """Cases by key, with their devices."""

    present: Mapping[str, tuple[str, ...]]
    """Present devices by key; a device without a holder has a key of its own."""
    ever: Mapping[str, tuple[HoldingRow, ...]] = {}
    """By workload, everything it held."""
    sharers: Mapping[str, tuple[str, ...]] = {}
    """Workloads that were last seen with a device at the same time, by uuid, if several."""

    def devices_of(self, key: str) -> tuple[str, ...]:
        """Return all devices of a case, former ones included."""
        former = {row.uuid for row in self.ever.get(key, ())}
        return tuple(dict.fromkeys((*self.present[key], *sorted(former))))


def occupancy_of(
    uuids: Iterable[str], rows: Sequence[HoldingRow], now: Nanoseconds, gap: Nanoseconds
) -> Occupancy:
    """Assign present devices to the workloads last seen with them.

    The last sighting is at most `gap` ago. Rows are by device, in time order.
    """
    latest: dict[str, HoldingRow] = {}
    ever: dict[str, list[HoldingRow]] = {}
    together: dict[str, list[HoldingRow]] = {}
    for row in rows:
        ever.setdefault(row.workload, []).append(row)
        holding_row = latest.get(row.uuid)
        if holding_row is None or (row.end, row.share_ratio) > (
            holding_row.end,
            holding_row.share_ratio,
        ):
            latest[row.uuid] = row
        others = together.get(row.uuid, [])
        if not others or row.end >= others[0].end:
            same = others if others and row.end == others[0].end else []
            together[row.uuid] = [*same, row]
    present: dict[str, list[str]] = {}
    for uuid in uuids:
        held = latest.get(uuid)
        is_held = held is not None and held.end + max(gap, held.grid.step) >= now
        present.setdefault(held.workload if held and is_held else uuid, []).append(uuid)
    return Occupancy(
        {key: tuple(uuids_of_key) for key, uuids_of_key in present.items()},
        {key: tuple(holding_rows) for key, holding_rows in ever.items()},
        {
            uuid: tuple(row.workload for row in holding_rows)
            for uuid, holding_rows in together.items()
            if len(holding_rows) > 1
        },
    )


def held_since(
    rows: Sequence[HoldingRow], holder: str | None, device: Subject, gap: Nanoseconds
) -> Nanoseconds:
    """Return when the holder took a device, or the last one left it; 0 if unknown.

    An absence up to the gap, or while nothing is known of the device, does not count as leaving.
    Of the first interval, a share of it may be its end. Rows are of the device, oldest first.
    """
    if holder is None:
        return max((row.end for row in rows), default=0)
    holding_rows = sorted((row for row in rows if row.workload == holder), key=lambda row: row.end)
    others = [row for row in rows if row.workload != holder]
    if not holding_rows:
        return 0
    first = holding_rows.pop()
    for row in reversed(holding_rows):
        since = first.start
        is_taken = any(
            (other.end > row.end and other.start < since and other.share_ratio > row.share_ratio)
            or (row.end <= other.start and other.end <= since)
            for other in others
        )
        is_away = since - row.end > max(gap, row.grid.step) and device.known_in(row.end, since) > 0
        if is_taken or is_away:
            break
        first = min(row, first, key=lambda holding_row: holding_row.start)
    if first.first < first.last:
        return first.start
    return first.start + round((1.0 - first.share_ratio) * first.grid.step)


Place = tuple[str, str]
"""Cluster and node."""


def place_of(device: FleetDevice) -> Place:
    """Return the cluster and node of a device."""
    return device.cluster, device.node


def neighbors_of(
    residents: Iterable[Case], devices: Mapping[str, FleetDevice]
) -> dict[str, list[Case]]:
    """Return the workloads on the node of each case by its key; none for cases on several nodes."""
    places: dict[str, Place] = {}
    neighbors = defaultdict[Place, list[Case]](list)
    for resident in residents:
        first, *others = {place_of(devices[device.uuid]) for device in resident.devices}
        if not others:
            places[resident.key] = first
        if not others and resident.workload is not None:
            neighbors[first].append(resident)
    return {key: neighbors[place] for key, place in places.items()}


def node_of(
    residents: Iterable[Case],
    rows: Callable[[str], Sequence[HoldingRow]],
    workloads: Mapping[str, Workload],
) -> Node:
    """Return the devices of some cases with all their last holders."""
    devices = tuple(device for resident in residents for device in resident.devices)
    holdings: dict[str, tuple[Holding, ...]] = {}
    for device in devices:
        held = rows(device.uuid)
        last = max((row.end for row in held), default=0)
        holdings[device.uuid] = tuple(
            Holding(workloads.get(row.workload) or _named(row.workload), row.share_ratio)
            for row in held
            if row.end == last
        )
    return Node(devices=devices, holdings=holdings)


def _named(key: str) -> Workload:
    """Return a workload of which nothing is known but its key."""
    return Workload(key, WorkloadKind.OTHER, re.split("[:/]", key)[-1])
