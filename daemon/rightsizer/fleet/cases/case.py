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
from rightsizer.fleet.cache.day_frame import DayFrame, FrameLayout
from rightsizer.fleet.cache.grid import DAY, FINE_STEP, Grid
from rightsizer.fleet.cases.history import SubjectHistory
from rightsizer.fleet.cases.occupancy import (
    NodeNeighbors,
    Occupancy,
    Place,
    held_since,
    node_of,
    place_of,
)
from rightsizer.fleet.cases.subject_table import DeviceTable, TableRow
from rightsizer.fleet.columns.span_sums import SpanSums
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
        held_grids = defaultdict[str, set[Grid]](set)
        for row in chain(rows, *ever.values()):
            held_grids[row.uuid].add(row.grid)
        # A device of which nothing is known was there while it was held.
        self._frames = {
            uuid: [
                *frames.get(uuid, ()),
                *(
                    DayFrame.of(grid, {})
                    for grid in held_grids.get(uuid, ())
                    if all(frame.grid != grid for frame in frames.get(uuid, ()))
                ),
            ]
            for uuid in dict.fromkeys((*frames, *held_grids))
        }
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
        self._held: dict[str, tuple[tuple[FleetDevice, Nanoseconds], ...]] = {}
        self._past: dict[str, SubjectHistory] = {}
        self._nodes: dict[str, Node] = {}
        present = {
            key: there
            for key, uuids in request.occupancy.present.items()
            if (there := list(filter(self.is_present, uuids)))
        }
        together = self._holders({key: ever[key] for key in present if key in ever})
        for key, uuids in present.items():
            self._add(key, uuids, together.get(key))
        residents = (self._case(key, 0) for key in self._held)
        self._neighbors = NodeNeighbors(residents, self.devices, self.rows, self._workloads)

    def cases(self, span: Nanoseconds | None) -> tuple[Case, ...]:
        """Return the cases over the latest span; `None` for everything."""
        cases = {key: self._case(key, span) for key in self._held}
        nodes = self._neighbors.nodes(cases)
        return tuple(
            replace(case, node=self._node(case, nodes.get(key))) for key, case in cases.items()
        )

    def _node(self, case: Case, node: Node | None) -> Node:
        """Return a case's node over its span; over others it differs in its cases alone."""
        if case.key not in self._nodes:
            self._nodes[case.key] = self._read(case, node)
        return replace(self._nodes[case.key], cases=() if node is None else node.cases)

    def _read(self, case: Case, node: Node | None) -> Node:
        """Return a case's node with the last readings of its GPUs, or of all its nodes' GPUs."""
        places = {place_of(self.devices[device.uuid]) for device in case.devices}
        there = [device for place in sorted(places) for device in self._places[place]]
        boards = {device.device.board_uuid: device for device in there} | {
            device.device.uuid: device for device in there
        }
        node = node or node_of([case], self.rows, self._workloads)
        devices = [self.devices[device.uuid] for device in case.devices]
        holdings = {
            device.device.uuid: (Holding(replace(case.workload, pod=device.pod), held.share_ratio),)
            for device in devices
            if case.workload is not None and device.pod
            for held in node.holdings.get(device.device.uuid) or (Holding(case.workload, 1.0),)
            if len(node.holdings.get(device.device.uuid, ())) <= 1
        }
        return replace(
            node,
            cases=(),  # They hold the batch.
            holdings={**node.holdings, **holdings},
            readings={uuid: Reading(uuid, 0, board.readings) for uuid, board in boards.items()},
            xids={uuid: board.xids for uuid, board in boards.items() if board.xids is not None},
        )

    def subject(self, uuid: str) -> Subject:
        """Return a device in columns."""
        return self._subjects.get(uuid) or self._nothing

    def subject_of(self, key: str) -> Subject:
        """Return a case's workload, or its single device, in columns."""
        return self._past[key].subject

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

    def _add(self, key: str, uuids: Sequence[str], together: Subject | None) -> None:
        """Prepare what a case shares over all spans; `together` is a workload."""
        holder = None if together is None else key
        gap = self.settings.gap
        held = [
            (self.devices[uuid], held_since(self.rows(uuid), holder, self.subject(uuid), gap))
            for uuid in uuids
        ]
        if together is None:
            subject = self.subject(key)
            name = key
            since = held[0][1]
        else:
            subject = together
            name = workload_subject(key)
            since = 0
        settings = self.settings.accounting.past
        self._held[key] = tuple(held)
        self._past[key] = SubjectHistory(subject, name, since, self.now, settings)

    def _case(self, key: str, span: Nanoseconds | None) -> Case:
        held = self._held[key]
        past = self._past[key]
        workload = self._workloads.get(key)
        start, end = past.subject.over(span, self.now)
        allocator = allocator_of(workload)
        settings = self.settings.accounting.provisioning
        devices = tuple(device.device for device, _ in held)

        def windows() -> tuple[Window, ...]:
            return tuple(
                self.subject(device.uuid).window(
                    device.uuid, min(end, max(start, since)), end, is_shared=since <= start
                )
                for device, (_, since) in zip(devices, held, strict=True)
            )

        lazy_windows = LazySequence(windows)

        def provisioning() -> tuple[Provisioning, ...]:
            return tuple(
                provision(window, allocator, settings, device.demands)
                for (device, _), window in zip(held, lazy_windows, strict=True)
            )

        return Case(
            key,
            workload,
            devices,
            lazy_windows,
            LazySequence(provisioning),
            CaseHistory(past, start, end),
        )

    def tables(self, span: Nanoseconds) -> list[DeviceTable]:
        """Return the devices over the latest span in tables.

        A device is left out if its holder took it within the span, or if it is an instance.
        """
        alike = defaultdict[SpanSums, list[TableRow]](list)
        for key, held in self._held.items():
            start, end = self._past[key].subject.over(span, self.now)
            workload = self._workloads.get(key)
            for device, since in held:
                uuid = device.device.uuid
                if since <= start and device.device.mig is None:
                    subject = self.subject(uuid)
                    row = TableRow(
                        key, workload, device, subject.row, len(held) == 1, uuid in self._sharers
                    )
                    alike[subject.sums(start, end)].append(row)
        settings = self.settings.accounting.provisioning
        return [DeviceTable(rows, sums, settings) for sums, rows in alike.items()]

    def _arranged(self, uuids: Iterable[str], *, by_the_hour: bool = False) -> dict[str, Subject]:
        """Return devices in columns."""
        frames = {uuid: self._frames[uuid] for uuid in uuids}
        rows = columns_of([*frames.values()], self.settings.demands, by_the_hour=by_the_hour)
        return {uuid: Subject(*row) for uuid, row in zip(frames, rows, strict=True)}

    def _holders(self, ever: Mapping[str, Sequence[HoldingRow]]) -> dict[str, Subject]:
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
