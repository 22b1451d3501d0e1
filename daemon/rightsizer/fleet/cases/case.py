"""Cases of a fleet over any span, read from the day cache in batches of workloads."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.accounting.accounts_snapshot import (
    CaseHistory,
    allocator_of,
)
from rightsizer.accounting.provisioning import provision
from rightsizer.accounting.settings import AccountingSettings
from rightsizer.advice.verification import Measured, measure_all
from rightsizer.fleet.cache.day_cache import DayCache, HoldingRow, merged_holdings, rank
from rightsizer.fleet.cache.day_frame import IDLE_HELD_STATE, DayFrame, FrameLayout
from rightsizer.fleet.cache.grid import DAY, FINE_STEP, Grid
from rightsizer.fleet.cases.history import SubjectHistory
from rightsizer.fleet.cases.occupancy import (
    Occupancy,
    Place,
    held_since,
    neighbors_of,
    node_of,
    place_of,
)
from rightsizer.fleet.cases.subject_table import BatchTable, TableRow
from rightsizer.fleet.columns.subject import Subject
from rightsizer.fleet.columns.subject_columns import HeldRow, SubjectColumns, columns_of
from rightsizer.fleet.model import FleetDevice
from rightsizer.fleet.settings import DemandSettings
from rightsizer.model.lazy import LazySequence
from rightsizer.model.values import (
    Case,
    Holding,
    Nanoseconds,
    Node,
    Provisioning,
    Reading,
    Window,
    Workload,
    nanoseconds,
    workload_subject,
)


class CaseSettings(Struct, frozen=True):
    """Settings that turn cached days into cases."""

    accounting: AccountingSettings = AccountingSettings()
    demands: DemandSettings = DemandSettings()
    absent_seconds: float = 3600.0
    """Silence after which a device counts as gone."""

    @property
    def gap(self) -> Nanoseconds:
        """How long a GPU may be empty before its holder counts as gone."""
        return nanoseconds(self.accounting.holder_gap_seconds)


class BatchRequest(Struct, frozen=True):
    """Workloads, and devices without one, at one time; small, since it is sent to processes."""

    occupancy: Occupancy
    """Of the batch only."""
    devices: Mapping[str, FleetDevice]
    """Present devices by uuid."""
    workloads: Mapping[str, Workload]
    """By key."""
    first_day: int
    now: Nanoseconds
    """End of all spans."""
    sources: tuple[str, ...] = ()
    """In order of preference."""


def _with_held_days(
    frames: Mapping[str, Sequence[DayFrame]], rows: Iterable[HoldingRow]
) -> dict[str, list[DayFrame]]:
    """Add empty days: a device of which nothing is known was there while it was held."""
    grids = defaultdict[str, set[Grid]](set)
    for row in rows:
        grids[row.uuid].add(row.grid)
    days = {uuid: [*frames.get(uuid, ())] for uuid in dict.fromkeys((*frames, *grids))}
    for uuid, of_device in grids.items():
        unknown = of_device - {frame.grid for frame in days[uuid]}
        days[uuid] += [DayFrame.of(grid, {}) for grid in unknown]
    return days


class FleetCases:
    """Cases of a batch.

    `frames` are the days of the batch's devices by uuid, former devices included; those of one time
    complete each other, the last first. `rows` are their holders, in time order.
    """

    def __init__(
        self,
        request: BatchRequest,
        frames: Mapping[str, Sequence[DayFrame]],
        rows: Sequence[HoldingRow],
        settings: CaseSettings | None = None,
    ) -> None:
        self.now = request.now
        self.settings = settings or CaseSettings()
        self.devices = request.devices
        """Devices of the batch within the fleet, present or not."""
        ever = request.occupancy.ever
        self._frames = _with_held_days(frames, chain(rows, *ever.values()))
        self._subjects = self._arranged(self._frames)
        self._nothing = Subject(SubjectColumns(FrameLayout.of(()), (), 0, DemandSettings()), 0)
        self._rows: defaultdict[str, list[HoldingRow]] = defaultdict(list)
        for row in rows:
            self._rows[row.uuid].append(row)
        self._workloads = request.workloads
        self._places: defaultdict[Place, list[FleetDevice]] = defaultdict(list)
        for device in self.devices.values():
            self._places[place_of(device)].append(device)
        self._sharers = request.occupancy.sharers
        self._past: dict[str, SubjectHistory] = {}
        self._nodes: dict[str, Node] = {}
        """By the first of a node's workloads."""
        present = {
            key: there
            for key, uuids in request.occupancy.present.items()
            if (there := list(filter(self.is_present, uuids)))
        }
        self._holders = self._held({key: ever[key] for key in present if key in ever})
        gap = self.settings.gap
        self._since = {
            key: tuple(
                held_since(
                    self.rows(uuid), key if key in self._holders else None, self.subject(uuid), gap
                )
                for uuid in uuids
            )
            for key, uuids in present.items()
        }
        self.present = {
            key: Case(
                key,
                self._workloads.get(key),
                tuple(self.devices[uuid].device for uuid in uuids),
                (),
                (),
            )
            for key, uuids in present.items()
        }
        """What holds devices now, by key, without windows."""
        self._neighbors = neighbors_of(self.present.values(), self.devices)

    def cases(self, span: Nanoseconds | None) -> tuple[Case, ...]:
        """Return the cases over the latest span; `None` for everything."""
        case_of = cache(self.case)
        return tuple(self.with_node(case_of, key, span) for key in self.present)

    def with_node(
        self, case_of: Callable[[str, Nanoseconds | None], Case], key: str, span: Nanoseconds | None
    ) -> Case:
        """Return a case with its node, of which it knows the workloads as `case_of` returns them.

        It knows none if it is on several nodes.
        """
        case = case_of(key, span)
        neighbors = (case_of(neighbor.key, span) for neighbor in self._neighbors.get(key, ()))
        return replace(case, node=replace(self.node(case), cases=tuple(neighbors)))

    def node(self, case: Case) -> Node:
        """Return a case's node with the last readings of its GPUs, or of all its nodes' GPUs."""
        residents = self._neighbors.get(case.key) or [case]
        if (first := residents[0].key) not in self._nodes:
            self._nodes[first] = self._read(residents, case)
        node = self._nodes[first]
        devices = [self.devices[device.uuid] for device in case.devices]
        holdings = {
            device.device.uuid: (Holding(replace(case.workload, pod=device.pod), held.share_ratio),)
            for device in devices
            if case.workload is not None and device.pod
            for held in node.holdings.get(device.device.uuid) or (Holding(case.workload, 1.0),)
            if len(node.holdings.get(device.device.uuid, ())) <= 1
        }
        return replace(node, holdings={**node.holdings, **holdings})

    def _read(self, residents: Sequence[Case], case: Case) -> Node:
        """Return what the cases of a node share."""
        places = {place_of(self.devices[device.uuid]) for device in case.devices}
        there = [device for place in sorted(places) for device in self._places[place]]
        boards = {device.device.board_uuid: device for device in there} | {
            device.device.uuid: device for device in there
        }
        return replace(
            node_of(residents, self.rows, self._workloads),
            readings={uuid: Reading(uuid, 0, board.readings) for uuid, board in boards.items()},
            xids={uuid: board.xids for uuid, board in boards.items() if board.xids is not None},
        )

    def subject(self, uuid: str) -> Subject:
        """Return a device in columns."""
        return self._subjects.get(uuid) or self._nothing

    def subject_of(self, key: str) -> Subject:
        """Return a case's workload, or its single device, in columns."""
        return self._holders.get(key) or self.subject(key)

    def rows(self, uuid: str) -> Sequence[HoldingRow]:
        """Return the holders of a device, oldest first."""
        return self._rows.get(uuid, ())

    def last_shares(self, uuid: str) -> dict[str, float]:
        """Return the last holders of a device, with the share of each."""
        rows = self.rows(uuid)
        last = max((row.end for row in rows), default=0)
        shares = defaultdict[str, float](float)
        for row in rows:
            if row.end == last:
                shares[row.workload] += row.share_ratio
        return dict(shares)

    def is_present(self, uuid: str) -> bool:
        """Whether a device is present, undivided: it has recent samples, to the hour."""
        subject = self.subject(uuid)
        if subject.last_present is None or self.devices[uuid].device.has_mig_instances:
            return False
        step = subject.last_step
        longest = nanoseconds(self.settings.absent_seconds) + (step if step > FINE_STEP else 0)
        return self.now - subject.last_present <= longest

    def idle_held_seconds(self, key: str, span: Nanoseconds) -> float:
        """Return how long a case's devices were held but idle, since its holder took them."""
        start, end = self.subject_of(key).over(span, self.now)
        return sum(
            self.subject(device.uuid).seconds_in(IDLE_HELD_STATE, max(start, since), end)
            for device, since in zip(self.present[key].devices, self._since[key], strict=True)
        )

    def _past_of(self, key: str) -> SubjectHistory:
        """Return what a case shares over all spans."""
        if key not in self._past:
            is_workload = key in self._holders
            self._past[key] = SubjectHistory(
                self.subject_of(key),
                workload_subject(key) if is_workload else key,
                0 if is_workload else self._since[key][0],
                min(self._since[key]),
                self.now,
                self.settings.accounting.past,
            )
        return self._past[key]

    def case(self, key: str, span: Nanoseconds | None) -> Case:
        """Return a case over the latest span, without its node."""
        case = self.present[key]
        past = self._past_of(key)
        start, end = past.subject.over(span, self.now)
        allocator = allocator_of(case.workload)
        settings = self.settings.accounting.provisioning

        def windows() -> tuple[Window, ...]:
            return tuple(
                self.subject(device.uuid).window(
                    device.uuid, min(end, max(start, since)), end, is_shared=since <= start
                )
                for device, since in zip(case.devices, self._since[key], strict=True)
            )

        lazy_windows = LazySequence(windows)

        def provisioning() -> tuple[Provisioning, ...]:
            return tuple(
                provision(window, allocator, settings, self.devices[device.uuid].demands)
                for device, window in zip(case.devices, lazy_windows, strict=True)
            )

        return replace(
            case,
            windows=lazy_windows,
            provisioning=LazySequence(provisioning),
            past=CaseHistory(past, start, end),
        )

    def table(self) -> BatchTable:
        """Return all devices of the cases in a table."""
        rows = [
            TableRow(
                key=key,
                workload=case.workload,
                device=self.devices[device.uuid],
                subject=self.subject(device.uuid),
                since=since,
                last_step=self.subject_of(key).last_step,
                is_single=len(case.devices) == 1,
                is_shared=device.uuid in self._sharers,
            )
            for key, case in self.present.items()
            for device, since in zip(case.devices, self._since[key], strict=True)
        ]
        return BatchTable(rows, self.settings.accounting.provisioning, self.now)

    def _arranged(self, uuids: Iterable[str], *, by_the_hour: bool = False) -> dict[str, Subject]:
        """Return devices in columns."""
        frames = {uuid: self._frames[uuid] for uuid in uuids}
        rows = columns_of([*frames.values()], self.settings.demands, by_the_hour=by_the_hour)
        return {uuid: Subject(*row) for uuid, row in zip(frames, rows, strict=True)}

    def _held(self, ever: Mapping[str, Sequence[HoldingRow]]) -> dict[str, Subject]:
        """Return workloads in columns; one that is alone on a device is the device."""
        subjects: dict[str, Subject] = {}
        groups: defaultdict[SubjectColumns, dict[str, list[HeldRow]]] = defaultdict(dict)
        for key, rows in ever.items():
            devices = {row.uuid: self._subjects[row.uuid] for row in rows}
            if len({subject.columns for subject in devices.values()}) > 1:
                devices = self._arranged(devices, by_the_hour=True)
            (first, *others) = devices.values()
            if not others and first.columns.is_held_throughout(first.row, rows):
                subjects[key] = first
            else:
                groups[first.columns][key] = [(devices[row.uuid].row, row) for row in rows]
        for columns, holders in groups.items():
            held = columns.held([*holders.values()])
            subjects |= {key: Subject(held, row) for row, key in enumerate(holders)}
        return subjects


_PEERS: Final = 32
_DEVICES: Final = 128
"""Devices per batch, unless one workload has more; two weeks of one take 0.5 MB."""


def batches_of(request: BatchRequest, devices: int = _DEVICES) -> Iterator[BatchRequest]:
    """Yield a fleet's batches in a stable order, each of about the same number of devices."""
    keys: list[str] = []
    size = 0
    for group in _groups(request):
        keys += group
        size += sum(len(request.occupancy.devices_of(key)) for key in group)
        if size >= devices:
            yield _part(request, sorted(keys))
            keys = []
            size = 0
    if keys:
        yield _part(request, sorted(keys))


def read_batch(
    day_cache: DayCache, request: BatchRequest, settings: CaseSettings | None = None
) -> FleetCases:
    """Read the cases of a batch from the cache."""
    occupancy = request.occupancy
    last = request.now // DAY
    uuids = sorted({uuid for key in occupancy.present for uuid in occupancy.devices_of(key)})
    rows = day_cache.holdings(request.first_day, last, uuids)
    frames = {
        uuid: [
            cached.frame
            for cached in sorted(
                cached_frames, key=lambda cached: rank(cached.source, request.sources), reverse=True
            )
        ]
        for uuid, cached_frames in day_cache.frames(uuids, request.first_day, last).items()
    }
    return FleetCases(request, frames, merged_holdings(rows, request.sources), settings)


def _groups(request: BatchRequest) -> Iterator[list[str]]:
    """Yield groups that need one batch: cases of one node may share a GPU, or a fault."""
    neighbors: dict[tuple[str, str], list[str]] = {}
    for key, uuids in sorted(request.occupancy.present.items()):
        places = {place_of(request.devices[uuid]) for uuid in uuids}
        if len(places) == 1:
            neighbors.setdefault(places.pop(), []).append(key)
        else:
            yield [key]
    yield from (keys for _, keys in sorted(neighbors.items()))


def _part(request: BatchRequest, keys: Sequence[str]) -> BatchRequest:
    occupancy = request.occupancy
    present = {key: occupancy.present[key] for key in keys}
    ever = {key: occupancy.ever[key] for key in keys if key in occupancy.ever}
    uuids = sorted({uuid for held_uuids in present.values() for uuid in held_uuids})
    sharers = {uuid: occupancy.sharers[uuid] for uuid in uuids if uuid in occupancy.sharers}
    named = dict.fromkeys(chain(keys, *sharers.values()))
    return replace(
        request,
        occupancy=Occupancy(present, ever, sharers),
        devices={uuid: request.devices[uuid] for uuid in uuids},
        workloads={key: request.workloads[key] for key in named if key in request.workloads},
    )


def cases_of(
    day_cache: DayCache,
    request: BatchRequest,
    keys: Iterable[str],
    settings: CaseSettings | None = None,
) -> Callable[[Nanoseconds], Iterator[Case]]:
    """Return the cases of some of a fleet's workloads over a span, read batch by batch."""
    present = {key: request.occupancy.present[key] for key in keys}
    occupancy = replace(request.occupancy, present=present)
    batches = list(batches_of(replace(request, occupancy=occupancy)))

    def cases(span: Nanoseconds) -> Iterator[Case]:
        for batch in batches:
            yield from read_batch(day_cache, batch, settings).cases(span)

    return cases


def case_measurement(
    day_cache: DayCache,
    request: BatchRequest,
    keys: Iterable[str],
    settings: CaseSettings | None = None,
) -> Measured:
    """Measure some workloads, and others for comparison.

    `request` is of the whole fleet; workloads that are gone are skipped.
    """
    present = request.occupancy.present
    asked = [key for key in dict.fromkeys(keys) if key in present]
    others = sorted(request.occupancy.ever.keys() & present.keys() - set(asked))
    # Evenly spaced by key, so that they are stable between runs.
    step = max(1, len(others) // _PEERS)
    wanted = sorted([*asked, *others[::step][:_PEERS]]) if asked else []
    cases = cases_of(day_cache, request, wanted, settings)
    return cache(lambda span: measure_all(cases(span)))
