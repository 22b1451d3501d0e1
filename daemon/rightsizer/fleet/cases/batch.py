"""Batches of an estate's workloads, read from a shelf one at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rightsizer.domain.units import Nanoseconds
from rightsizer.domain.workload import Workload
from rightsizer.fleet.cases.case import Batch
from rightsizer.fleet.cases.neighbors import place_of
from rightsizer.fleet.cases.roster import Roster
from rightsizer.fleet.estate import EstateDevice
from rightsizer.fleet.kept.grid import DAY
from rightsizer.fleet.kept.kept_days import rows_of, sheets_of
from rightsizer.fleet.kept.shelf import Shelf

__all__ = ["Order", "batches_of", "read_batch"]

_DEVICES: Final = 32
"""In one batch, as far as a workload has no more; a device's fortnight takes half a megabyte."""


@dataclass(frozen=True, slots=True)
class Order:
    """A batch that is not read yet; small, for it goes to another process."""

    roster: Roster
    """Of the batch alone."""
    devices: Mapping[str, EstateDevice]
    workloads: Mapping[str, Workload]
    first_day: int
    now: Nanoseconds
    sources: tuple[str, ...] = ()
    """Whom to believe first."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The batch's."""
        return tuple(self.roster.present)


def batches_of(order: Order, devices: int = _DEVICES) -> Iterator[Order]:
    """The orders that an estate's comes to, in a stable order.

    Args:
        order: Of the whole estate.
        devices: How many of them make a batch full.
    """
    keys: list[str] = []
    size = 0
    for group in _groups(order):
        keys += group
        size += sum(len(order.roster.devices_of(key)) for key in group)
        if size >= devices:
            yield _part(order, sorted(keys))
            keys, size = [], 0
    if keys:
        yield _part(order, sorted(keys))


def read_batch(shelf: Shelf, order: Order) -> Batch:
    """A batch with all that is kept of it."""
    uuids = sorted({uuid for key in order.keys for uuid in order.roster.devices_of(key)})
    last = order.now // DAY
    kept = shelf.sheets(uuids, order.first_day, last)
    rows = shelf.holdings(order.first_day, last, uuids)
    return Batch(
        keys=order.keys,
        roster=order.roster,
        devices=order.devices,
        workloads=order.workloads,
        sheets={uuid: sheets_of(found, order.sources) for uuid, found in kept.items()},
        rows=rows_of(rows, order.sources),
    )


def _groups(order: Order) -> Iterator[list[str]]:
    """What must be in one batch: the only GPUs of workloads on one node, who may share them."""
    neighbors: dict[tuple[str, str], list[str]] = {}
    for key, uuids in sorted(order.roster.present.items()):
        if len(uuids) == 1 and key in order.roster.ever:
            neighbors.setdefault(place_of(order.devices[uuids[0]]), []).append(key)
        else:
            yield [key]
    yield from (keys for _, keys in sorted(neighbors.items()))


def _part(order: Order, keys: Sequence[str]) -> Order:
    roster = order.roster
    present = {key: roster.present[key] for key in keys}
    uuids = {uuid for found in present.values() for uuid in found}
    return Order(
        roster=Roster(present, {key: roster.ever[key] for key in keys if key in roster.ever}),
        devices={uuid: order.devices[uuid] for uuid in sorted(uuids)},
        workloads={key: order.workloads[key] for key in keys if key in order.workloads},
        first_day=order.first_day,
        now=order.now,
        sources=order.sources,
    )
