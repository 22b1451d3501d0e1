"""Batches of a fleet's workloads read from the day cache.

And the waste and pressure of single ones on request.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from rightsizer.advice.verification import Measurement, measure_all
from rightsizer.fleet.cache.day_cache import DayCache
from rightsizer.fleet.cache.day_frame import DAY
from rightsizer.fleet.cases.case import (
    CaseBatch,
    CaseSettings,
    FleetCases,
    merged_frames,
    merged_holdings,
)
from rightsizer.fleet.cases.occupancy import Occupancy, place_of
from rightsizer.fleet.model import FleetDevice
from rightsizer.model.units import Nanoseconds
from rightsizer.model.workload import Workload

_DEVICES: Final = 32
"""In one batch, as far as a workload has no more; a device's fortnight takes half a megabyte."""


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """A batch that is not read yet; small, for it goes to another process."""

    roster: Occupancy
    """Of the batch alone."""
    devices: Mapping[str, FleetDevice]
    workloads: Mapping[str, Workload]
    first_day: int
    now: Nanoseconds
    sources: tuple[str, ...] = ()
    """Whom to believe first."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The batch's."""
        return tuple(self.roster.present)


def batches_of(order: BatchRequest, devices: int = _DEVICES) -> Iterator[BatchRequest]:
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


def read_batch(shelf: DayCache, order: BatchRequest) -> CaseBatch:
    """A batch with all that is kept of it."""
    uuids = sorted({uuid for key in order.keys for uuid in order.roster.devices_of(key)})
    last = order.now // DAY
    kept = shelf.sheets(uuids, order.first_day, last)
    rows = shelf.holdings(order.first_day, last, uuids)
    return CaseBatch(
        keys=order.keys,
        roster=order.roster,
        devices=order.devices,
        workloads=order.workloads,
        sheets={uuid: merged_frames(found, order.sources) for uuid, found in kept.items()},
        rows=merged_holdings(rows, order.sources),
    )


def _groups(order: BatchRequest) -> Iterator[list[str]]:
    """What must be in one batch: the only GPUs of workloads on one node, who may share them."""
    neighbors: dict[tuple[str, str], list[str]] = {}
    for key, uuids in sorted(order.roster.present.items()):
        if len(uuids) == 1 and key in order.roster.ever:
            neighbors.setdefault(place_of(order.devices[uuids[0]]), []).append(key)
        else:
            yield [key]
    yield from (keys for _, keys in sorted(neighbors.items()))


def _part(order: BatchRequest, keys: Sequence[str]) -> BatchRequest:
    roster = order.roster
    present = {key: roster.present[key] for key in keys}
    uuids = {uuid for found in present.values() for uuid in found}
    return BatchRequest(
        roster=Occupancy(present, {key: roster.ever[key] for key in keys if key in roster.ever}),
        devices={uuid: order.devices[uuid] for uuid in sorted(uuids)},
        workloads={key: order.workloads[key] for key in keys if key in order.workloads},
        first_day=order.first_day,
        now=order.now,
        sources=order.sources,
    )


class CaseMeasurement:
    """A `Measured` of some workloads, and of others to compare them with."""

    def __init__(
        self,
        shelf: DayCache,
        order: BatchRequest,
        keys: Iterable[str],
        peers: int = 32,
        settings: CaseSettings | None = None,
    ) -> None:
        """Nothing is read yet.

        Args:
            shelf: Where days are kept.
            order: Of the whole estate.
            keys: Who is asked about; those that have gone are passed over.
            peers: How many others stand for the rest of the estate.
            settings: Thresholds.
        """
        self._shelf, self._settings = shelf, settings
        present = order.roster.present
        asked = [key for key in dict.fromkeys(keys) if key in present]
        others = sorted(order.roster.ever.keys() & present.keys() - set(asked))
        # Evenly from the alphabet, so that they stay the same from look to look.
        step = max(1, len(others) // peers) if peers else 1
        wanted = [*asked, *others[::step][:peers]] if asked else []
        roster = Occupancy({key: present[key] for key in sorted(wanted)}, order.roster.ever)
        self._orders = list(batches_of(replace(order, roster=roster)))
        self._found: dict[Nanoseconds, dict[str, Measurement]] = {}

    def __call__(self, span: Nanoseconds) -> Mapping[str, Measurement]:
        """What is measured over the last span of time, by key."""
        if span not in self._found:
            found: dict[str, Measurement] = {}
            for order in self._orders:
                batch = FleetCases(read_batch(self._shelf, order), order.now, self._settings)
                found |= measure_all(batch.cases(span))
            self._found[span] = found
        return self._found[span]
