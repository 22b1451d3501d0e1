"""Batches of a fleet's workloads read from the day cache, and measurements of single ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Final

from rightsizer.advice.verification import Measured, Measurement, measure_all
from rightsizer.fleet.cache.day_cache import DayCache
from rightsizer.fleet.cache.day_frame import DAY
from rightsizer.fleet.cases.case import (
    BatchRequest,
    CaseSettings,
    FleetCases,
    merged_frames,
    merged_holdings,
)
from rightsizer.fleet.cases.occupancy import Occupancy, place_of
from rightsizer.model.frozen import replace
from rightsizer.model.units import Nanoseconds

_DEVICES: Final = 32
"""In one batch, unless one workload has more; a device's fortnight takes half a megabyte."""


def batches_of(request: BatchRequest, devices: int = _DEVICES) -> Iterator[BatchRequest]:
    """The batches of a fleet, in a stable order, each of so many devices or a few more."""
    keys: list[str] = []
    size = 0
    for group in _groups(request):
        keys += group
        size += sum(len(request.occupancy.devices_of(key)) for key in group)
        if size >= devices:
            yield _part(request, sorted(keys))
            keys, size = [], 0
    if keys:
        yield _part(request, sorted(keys))


def read_batch(
    day_cache: DayCache, request: BatchRequest, settings: CaseSettings | None = None
) -> FleetCases:
    """The cases of a batch, from all that the cache has of it."""
    uuids = sorted({uuid for key in request.keys for uuid in request.occupancy.devices_of(key)})
    last = request.now // DAY
    cached = day_cache.frames(uuids, request.first_day, last)
    rows = day_cache.holdings(request.first_day, last, uuids)
    frames = {uuid: merged_frames(found, request.sources) for uuid, found in cached.items()}
    return FleetCases(request, frames, merged_holdings(rows, request.sources), settings)


def _groups(request: BatchRequest) -> Iterator[list[str]]:
    """What must be in one batch: workloads of one GPU on one node, which may share them."""
    neighbors: dict[tuple[str, str], list[str]] = {}
    for key, uuids in sorted(request.occupancy.present.items()):
        if len(uuids) == 1 and key in request.occupancy.ever:
            neighbors.setdefault(place_of(request.devices[uuids[0]]), []).append(key)
        else:
            yield [key]
    yield from (keys for _, keys in sorted(neighbors.items()))


def _part(request: BatchRequest, keys: Sequence[str]) -> BatchRequest:
    occupancy = request.occupancy
    present = {key: occupancy.present[key] for key in keys}
    ever = {key: occupancy.ever[key] for key in keys if key in occupancy.ever}
    uuids = sorted({uuid for found in present.values() for uuid in found})
    return replace(
        request,
        occupancy=Occupancy(present, ever),
        devices={uuid: request.devices[uuid] for uuid in uuids},
        workloads={key: request.workloads[key] for key in keys if key in request.workloads},
    )


def case_measurement(
    day_cache: DayCache,
    request: BatchRequest,
    keys: Iterable[str],
    peers: int = 32,
    settings: CaseSettings | None = None,
) -> Measured:
    """What is measured of some workloads, and of `peers` others to compare them with.

    `request` is of the whole fleet; workloads that have gone are left out.
    """
    present = request.occupancy.present
    asked = [key for key in dict.fromkeys(keys) if key in present]
    others = sorted(request.occupancy.ever.keys() & present.keys() - set(asked))
    # Evenly from the alphabet, so that they stay the same from run to run.
    step = max(1, len(others) // peers) if peers else 1
    wanted = sorted([*asked, *others[::step][:peers]]) if asked else []
    occupancy = replace(request.occupancy, present={key: present[key] for key in wanted})
    batches = list(batches_of(replace(request, occupancy=occupancy)))

    @cache
    def measured(span: Nanoseconds) -> Mapping[str, Measurement]:
        found: dict[str, Measurement] = {}
        for batch in batches:
            found |= measure_all(read_batch(day_cache, batch, settings).cases(span))
        return found

    return measured
