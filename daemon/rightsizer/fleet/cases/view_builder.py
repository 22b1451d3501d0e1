"""Builder of the fleet view from slim contributions of each batch."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from msgspec.structs import replace

from rightsizer.advice.replica_load import are_separate_pods
from rightsizer.fleet.cache.day_frame import Floats
from rightsizer.fleet.cache.grid import COARSE_STEP, DAY
from rightsizer.fleet.cases.case import FleetCases
from rightsizer.fleet.cases.hourly_figures import (
    GpuCounts,
    HourlyFigures,
    NodeSums,
    add_counts,
    hours_of,
    latest,
)
from rightsizer.fleet.model import (
    MOVABLE_CLASSES,
    FleetDevice,
    FleetPool,
    FleetView,
    FleetWorkload,
    HourlySeries,
    LostDevice,
    WaitingWork,
)
from rightsizer.fleet.pools.pool import placed_waiting
from rightsizer.fleet.usage import (
    HeldDevice,
    HeldGpu,
    Uses,
    WorkloadOwner,
    add_uses,
    held_gpus,
    holder_hours,
    uses_of,
)
from rightsizer.model.values import Case, Nanoseconds, Tier, Window, seconds


@dataclass(slots=True)
class BatchContribution:
    """Additive parts of a fleet's views."""

    sums: NodeSums = field(default_factory=NodeSums)
    workloads: list[FleetWorkload] = field(default_factory=list)
    """Over the longest span."""
    cases: dict[Nanoseconds, list[Case]] = field(default_factory=dict)
    """Of workloads whose windows are read, by shorter span."""
    present: list[FleetDevice] = field(default_factory=list)
    """Present devices."""
    free: set[str] = field(default_factory=set)
    """Uuids of devices without a holder."""
    room: dict[str, float] = field(default_factory=dict)
    """Part without a holder of held GPUs that several may share, by uuid."""
    known_seconds: dict[Nanoseconds, float] = field(default_factory=dict)
    """Over present devices, by span."""
    empty: dict[str, Nanoseconds] = field(default_factory=dict)
    """Since when those are empty, by uuid; without devices used by unknown holders."""
    lost: list[LostDevice] = field(default_factory=list)
    """GPUs that are gone, or have lost their profiling."""
    uses: Uses = field(default_factory=dict)
    """Over the lookback."""
    holdings: list[HeldGpu] = field(default_factory=list)
    """Present devices, or parts of them, by holder."""

    def merge(self, other: BatchContribution) -> None:
        """Add the parts of other workloads."""
        self.sums.merge(other.sums)
        self.workloads += other.workloads
        for span, case in other.cases.items():
            self.cases.setdefault(span, []).extend(case)
        self.present += other.present
        self.free |= other.free
        self.room |= other.room
        for span, second in other.known_seconds.items():
            self.known_seconds[span] = self.known_seconds.get(span, 0.0) + second
        self.empty |= other.empty
        self.lost += other.lost
        add_uses(self.uses, other.uses)
        self.holdings += other.holdings


def contribution_of(  # noqa: PLR0913, PLR0917 - cases, and what is asked of them.
    cases: FleetCases,
    case_of: Callable[[str, Nanoseconds], Case],
    spans: Iterable[Nanoseconds],
    owners: Mapping[str, WorkloadOwner],
    lookback: Nanoseconds,
    judged: Container[str],
) -> BatchContribution:
    """Return the contribution of a batch for each span of a view, the lookback among them.

    Rules of the fleet read the windows of workloads that can move, or have several devices. Of
    others only those in `judged` have windows: verdicts on them are kept, with their span.
    """
    held_devices = [
        HeldDevice(device, cases.subject(uuid), cases.rows(uuid))
        for uuid, device in cases.devices.items()
    ]
    contribution = BatchContribution(
        NodeSums.of(held_devices), known_seconds=dict.fromkeys({*spans, lookback}, 0.0)
    )
    hours = holder_hours(held_devices, (cases.now - lookback, cases.now))
    for uuid, device in cases.devices.items():
        subject = cases.subject(uuid)
        add_uses(contribution.uses, uses_of(device, hours[uuid], owners))
        contribution.lost += _lost(cases, device)
        for length in contribution.known_seconds if cases.is_present(uuid) else ():
            contribution.known_seconds[length] += subject.known_in(cases.now - length, cases.now)
    for case in cases.present.values():
        uuids = [device.uuid for device in case.devices]
        for uuid in uuids:
            device = cases.devices[uuid]
            shares = {} if case.workload is None else cases.last_shares(uuid)
            contribution.present.append(device)
            contribution.holdings += held_gpus(device, hours[uuid], shares, owners)
        if case.workload is None:
            # Of what has no label of a holder, something may still be running.
            contribution.free.update(uuid for uuid in uuids if cases.subject(uuid).is_empty)
            contribution.empty.update(_empty(cases, uuids))
        else:
            contribution.room.update(_room(cases, uuids))
    read = {
        key
        for key, case in cases.present.items()
        if case.workload
        and (case.workload_class in MOVABLE_CLASSES or len(case.devices) > 1 or key in judged)
    }
    longest, *shorter = sorted(contribution.known_seconds, reverse=True)
    contribution.workloads = [
        _workload(
            cases, _slim_case(case_of(key, longest)) if key in read else case, longest, owners
        )
        for key, case in cases.present.items()
        if case.workload is not None
    ]
    for span in shorter:
        contribution.cases[span] = [_slim_case(case_of(key, span)) for key in read]
    return contribution


def _empty(cases: FleetCases, uuids: Iterable[str]) -> Iterator[tuple[str, Nanoseconds]]:
    """Yield since when empty devices are empty."""
    for uuid in uuids:
        left = max((row.end for row in cases.rows(uuid)), default=0)
        subject = cases.subject(uuid)
        since = subject.empty_since(left)
        # Time without a known tier is not trusted.
        if since is None or subject.window(uuid, cases.now - DAY, cases.now).tier is Tier.NONE:
            continue
        yield uuid, since


def _room(cases: FleetCases, uuids: Iterable[str]) -> Iterator[tuple[str, float]]:
    """Yield which part of the GPUs that several may share no holder has now."""
    for uuid in uuids:
        room = 1.0 - sum(cases.last_shares(uuid).values())
        if cases.devices[uuid].is_shareable and room > 0.0:
            yield uuid, room


def _lost(cases: FleetCases, device: FleetDevice) -> Iterator[LostDevice]:
    """Yield what is lost of a device; MIG instances may come and go with their GPU's division."""
    uuid = device.device.uuid
    is_divided = device.device.has_mig_instances
    subject = cases.subject(uuid)
    if is_divided or device.device.mig is not None or subject.last_present is None:
        return
    if not cases.is_present(uuid):
        last = max(cases.rows(uuid), key=lambda row: row.end, default=None)
        # A holder that left earlier is not affected.
        is_held = last is not None and last.end >= subject.last_present - COARSE_STEP
        yield LostDevice(device, subject.last_present, last.workload if is_held and last else "")
        return
    profiled = subject.last_profiled
    if profiled is not None and subject.known_in(profiled, cases.now) > 0:
        yield LostDevice(device, profiled, is_profiling=True)


def _workload(
    cases: FleetCases,
    case: Case,
    span: Nanoseconds,
    owners: Mapping[str, WorkloadOwner],
) -> FleetWorkload:
    devices = [cases.devices[device.uuid] for device in case.devices]
    pools = Counter(device.pool for device in devices)
    ratio = sum(device.device.capacity_ratio for device in devices) / len(devices)
    subject = cases.subject_of(case.key)

    def hours(column: str, factor: float) -> HourlySeries:
        return hours_of(subject, column, cases.now - span, cases.now, factor)

    return FleetWorkload(
        case=case,
        pool=min(pools, key=lambda pool: (-pools[pool], pool)),
        nodes=dict(sorted(Counter(device.node for device in devices).items())),
        team=owners[case.key].team if case.key in owners else "",
        busy=hours("mean:busy", ratio),
        compute=hours("peak:compute", ratio),
        memory_bytes=hours("peak:memory_bytes", 1.0),
        cluster=devices[0].cluster,
        idle_held_seconds=cases.idle_held_seconds(case.key, span),
        has_separate_pods=len(devices) > 1
        and are_separate_pods(replace(case, node=cases.node(case))),
    )


_NOTHING: Final = Window("", 0, 0)
_WIDE: Final = ("demands", "compute_at_least", "blocks")
_SLIM: Final = {
    struct_field: getattr(_NOTHING, struct_field)
    for struct_field in Window.__struct_fields__
    if struct_field not in _WIDE
}
_WITHOUT: Final[dict[str, Any]] = {name: getattr(_NOTHING, name) for name in _WIDE}


def _slim_case(case: Case) -> Case:
    """Remove distributions, blocks, history and node from a case: fleets have very many.

    Empty mappings are shared, a twelfth of a view's memory.
    """
    windows = (
        Window(**_WITHOUT, **{name: getattr(window, name) or no for name, no in _SLIM.items()})
        for window in case.windows
    )
    # What is computed on demand would hold the batch.
    provisioning = tuple(case.provisioning)
    return Case(case.key, case.workload, case.devices, tuple(windows), provisioning)


_HOURS: Final = DAY // COARSE_STEP


def view_of(
    parts: BatchContribution,
    span: Nanoseconds,
    now: Nanoseconds,
    waiting: Sequence[WaitingWork] = (),
) -> FleetView:
    """Build the view over the latest span, which all parts must have."""
    by_pool: defaultdict[str, list[FleetDevice]] = defaultdict(list)
    for device in sorted(parts.present, key=lambda fleet_device: fleet_device.device.uuid):
        by_pool[device.pool].append(device)
    total = seconds(span) * len(parts.present)
    pools = tuple(
        _pool(name, devices, parts, now - span, now) for name, devices in sorted(by_pool.items())
    )
    cases = {case.key: case for case in parts.cases.get(span, ())}
    workloads = tuple(
        _over_span(workload, cases.get(workload.case.key, workload.case), now - span)
        for workload in sorted(parts.workloads, key=lambda workload: workload.case.key)
    )
    return FleetView(
        start=now - span,
        end=now,
        pools=pools,
        workloads=workloads,
        waiting=placed_waiting(waiting, pools, workloads),
        empty=parts.empty,
        lost=tuple(sorted(parts.lost, key=lambda e: (e.device.pool, e.device.device.uuid))),
        coverage_ratio=min(1.0, parts.known_seconds.get(span, 0.0) / total) if total > 0 else 0.0,
    )


def _over_span(workload: FleetWorkload, case: Case, start: Nanoseconds) -> FleetWorkload:
    """Return a workload over a span that may be shorter than the longest."""
    return replace(
        workload,
        case=case,
        busy=latest(workload.busy, start),
        compute=latest(workload.compute, start),
        memory_bytes=latest(workload.memory_bytes, start),
    )


def _pool(
    name: str,
    devices: Sequence[FleetDevice],
    parts: BatchContribution,
    start: Nanoseconds,
    end: Nanoseconds,
) -> FleetPool:
    boards = {device.device.board for device in devices}
    sizes = _gpus(devices)
    held = {device.device.board_uuid for device in devices if device.device.uuid not in parts.free}
    shared_room: defaultdict[str, tuple[float, ...]] = defaultdict(tuple)
    for fleet_device in devices:
        if fleet_device.device.uuid in parts.room:
            shared_room[fleet_device.node] += (parts.room[fleet_device.device.uuid],)
    whole: dict[int, GpuCounts] = {}
    node_free = {}
    for node, days in parts.sums.days_of(name):
        for number, counts in days.items():
            add_counts(whole, number, counts)
        if node in sizes:
            of_node = [day.by_the_hour() for day in days.values()]
            node_free[node] = _hours(
                of_node, [gpu_counts.free for gpu_counts in of_node], start, end
            )
    hourly = [gpu_counts.by_the_hour() for gpu_counts in whole.values()]
    return FleetPool(
        name=name,
        board=boards.pop() if len(boards) == 1 else None,
        devices=tuple(devices),
        present=_hours(hourly, [gpu_counts.present for gpu_counts in hourly], start, end),
        held=_hours(hourly, [gpu_counts.held for gpu_counts in hourly], start, end),
        held_peak=_hours(
            hourly, [gpu_counts.held_peaks for gpu_counts in whole.values()], start, end
        ),
        active=_hours(hourly, [gpu_counts.active for gpu_counts in hourly], start, end),
        free_by_node=_gpus(device for device in devices if device.device.board_uuid not in held),
        size_by_node=sizes,
        node_free=node_free,
        shared_room=dict(shared_room),
        cluster=devices[0].cluster,
    )


def _hours(
    hourly: Iterable[GpuCounts], figures: Iterable[Floats], start: Nanoseconds, end: Nanoseconds
) -> HourlySeries:
    """Return figures of some days; hours without any present GPU are unknown."""
    first = start // COARSE_STEP
    last = end // COARSE_STEP
    values = np.full(max(0, last - first), np.nan)
    for counts, of_day in zip(hourly, figures, strict=True):
        hours = np.flatnonzero(counts.present > 0)
        places = hours + (counts.grid.day * _HOURS - first)
        inside = (places >= 0) & (places < len(values))
        values[places[inside]] = of_day[hours[inside]]
    return HourlySeries(first * COARSE_STEP, HourlyFigures(values))


def _gpus(devices: Iterable[FleetDevice]) -> dict[str, int]:
    """Count whole GPUs by node, however they are divided."""
    boards = {device.device.board_uuid: device.node for device in devices}
    return dict(sorted(Counter(boards.values()).items()))
