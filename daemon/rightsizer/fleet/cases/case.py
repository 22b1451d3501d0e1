"""Cases of a fleet over any span, read from the day cache in batches of workloads."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, islice
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.accounting.accounts_snapshot import (
    CaseHistory,
    allocator_of,
)
from rightsizer.accounting.provisioning import provision
from rightsizer.accounting.settings import AccountingSettings
from rightsizer.advice.verification import Measured, Measurement, measure_all
from rightsizer.fleet.cache.combination import (
    DevicePart,
    are_aligned,
    combined,
    merged_frames,
    merged_holdings,
)
from rightsizer.fleet.cache.day_cache import DayCache, HoldingRow, by_first_day, rows_by_day
from rightsizer.fleet.cache.day_frame import DayFrame, frames_by_day
from rightsizer.fleet.cache.grid import DAY, FINE_STEP
from rightsizer.fleet.cache.span_sums import SpanSums
from rightsizer.fleet.cache.subject_days import SubjectDays
from rightsizer.fleet.cache.summed_day import SummedDay
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
from rightsizer.fleet.model import FleetDevice
from rightsizer.fleet.settings import DemandSettings
from rightsizer.model.finding import Case, Node
from rightsizer.model.lazy import LazySequence
from rightsizer.model.reading import Reading
from rightsizer.model.units import Nanoseconds, nanoseconds
from rightsizer.model.window import Provisioning, Window, workload_subject
from rightsizer.model.workload import Holding, Workload


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

    `frames` are the days of the batch's devices by uuid, former devices included, `rows` their
    holders; both in time order.
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
        grids = [row.grid for row in chain(rows, *ever.values())]
        grids += [frame.grid for day_frames in frames.values() for frame in day_frames]
        if not are_aligned(grids):
            frames = {uuid: list(frames_by_day(frame)) for uuid, frame in frames.items()}
            rows = list(rows_by_day(rows))
            ever = {key: tuple(rows_by_day(holding_rows)) for key, holding_rows in ever.items()}
        every = chain.from_iterable(frames.values())
        days = iter(SummedDay.of_all(every, self.settings.demands))
        of_devices = SubjectDays.of_all(list(islice(days, len(of))) for of in frames.values())
        self._days = dict(zip(frames, of_devices, strict=True))
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
            key: found
            for key, uuids in request.occupancy.present.items()
            if (found := list(filter(self.is_present, uuids)))
        }
        together = self._days_together({key: ever[key] for key in present if key in ever})
        for key, uuids in present.items():
            self._add(key, uuids, together.get(key))
        residents = (self._case(key, 0) for key in self._held)
        self._neighbors = NodeNeighbors(residents, self.devices, self.rows, self._workloads)

    def cases(self, span: Nanoseconds | None) -> tuple[Case, ...]:
        """Return the cases over the latest span; `None` for everything."""
        found = {key: self._case(key, span) for key in self._held}
        nodes = self._neighbors.nodes(found)
        return tuple(
            replace(case, node=self._node(case, nodes.get(key))) for key, case in found.items()
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

    def days(self, uuid: str) -> SubjectDays:
        """Return the days of a device."""
        return self._days.get(uuid) or SubjectDays(())

    def days_of(self, key: str) -> SubjectDays:
        """Return the days of a case's subject."""
        return self._past[key].days

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
        days = self.days(uuid)
        if days.last_present is None or self.devices[uuid].device.has_mig_instances:
            return False
        step = days.days[-1].frame.grid.step
        longest = nanoseconds(self.settings.absent_seconds) + (step if step > FINE_STEP else 0)
        return self.now - days.last_present <= longest

    def _add(self, key: str, uuids: Sequence[str], together: SubjectDays | None) -> None:
        """Prepare what a case shares over all spans; `together` are a workload's days."""
        holder = None if together is None else key
        gap = self.settings.gap
        held = [
            (self.devices[uuid], held_since(self.rows(uuid), holder, self.days(uuid), gap))
            for uuid in uuids
        ]
        if together is None:
            days = self.days(key)
            subject = key
            since = held[0][1]
        else:
            days = together
            subject = workload_subject(key)
            since = 0
        settings = self.settings.accounting.past
        self._held[key] = tuple(held)
        self._past[key] = SubjectHistory(days, subject, since, self.now, settings)

    def _case(self, key: str, span: Nanoseconds | None) -> Case:
        held = self._held[key]
        past = self._past[key]
        workload = self._workloads.get(key)
        start, end = past.days.over(span, self.now)
        allocator = allocator_of(workload)
        settings = self.settings.accounting.provisioning
        devices = tuple(device.device for device, _ in held)

        def windows() -> tuple[Window, ...]:
            return tuple(
                self.days(device.uuid).window(
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
            start, end = self._past[key].days.over(span, self.now)
            workload = self._workloads.get(key)
            for device, since in held:
                uuid = device.device.uuid
                if since <= start and device.device.mig is None:
                    sums, place = self.days(uuid).sums(start, end)
                    row = TableRow(
                        key, workload, device, place, len(held) == 1, uuid in self._sharers
                    )
                    alike[sums].append(row)
        settings = self.settings.accounting.provisioning
        return [DeviceTable(rows, sums, settings) for sums, rows in alike.items()]

    def _days_together(self, ever: Mapping[str, Sequence[HoldingRow]]) -> dict[str, SubjectDays]:
        """Return the days of workloads, which alone on a device are the device's."""
        found: dict[str, SubjectDays] = {}
        days: dict[str, list[SummedDay | DayFrame]] = {}
        for key, rows in ever.items():
            own = [self._day(of_day) for _, of_day in sorted(by_first_day(rows).items())]
            (uuid, *others) = {row.uuid for row in rows}
            if not others and own == list(self.days(uuid).days):
                found[key] = self.days(uuid)
            else:
                days[key] = own
        every = chain.from_iterable(days.values())
        frames = (each for each in every if isinstance(each, DayFrame))
        summed = iter(SummedDay.of_all(frames, self.settings.demands))
        subjects = SubjectDays.of_all(
            [next(summed) if isinstance(each, DayFrame) else each for each in day]
            for day in days.values()
        )
        return found | dict(zip(days, subjects, strict=True))

    def _day(self, rows: Iterable[HoldingRow]) -> SummedDay | DayFrame:
        """Return a workload's day: a device's, or those of several combined."""
        parts = []
        shared = None
        for row in rows:
            days = (day for day in self.days(row.uuid).days if day.frame.grid.day == row.grid.day)
            day = next(days, None)
            frame = None if day is None else day.frame
            grid = row.grid if frame is None else frame.grid
            first, after = row.places(grid)
            last = max(first, after - 1)
            if day is not None and not day.known[last + 1 :].any():
                last = grid.count - 1  # Later time is unknown.
            part = DevicePart(frame, grid, first, last, row.share_ratio)
            parts.append(part)
            shared = day if part.is_whole else None
        if len(parts) == 1 and shared is not None:
            return shared
        return combined(parts)


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
    cached = day_cache.frames(uuids, request.first_day, last)
    rows = day_cache.holdings(request.first_day, last, uuids)
    frames = {
        uuid: merged_frames(cached_frames, request.sources)
        for uuid, cached_frames in cached.items()
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
    uuids = sorted({uuid for found in present.values() for uuid in found})
    sharers = {uuid: occupancy.sharers[uuid] for uuid in uuids if uuid in occupancy.sharers}
    named = dict.fromkeys(chain(keys, *sharers.values()))
    return replace(
        request,
        occupancy=Occupancy(present, ever, sharers),
        devices={uuid: request.devices[uuid] for uuid in uuids},
        workloads={key: request.workloads[key] for key in named if key in request.workloads},
    )


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
    occupancy = replace(request.occupancy, present={key: present[key] for key in wanted})
    batches = list(batches_of(replace(request, occupancy=occupancy)))

    @cache
    def measured(span: Nanoseconds) -> Mapping[str, Measurement]:
        measurements: dict[str, Measurement] = {}
        for batch in batches:
            measurements |= measure_all(read_batch(day_cache, batch, settings).cases(span))
        return measurements

    return measured
