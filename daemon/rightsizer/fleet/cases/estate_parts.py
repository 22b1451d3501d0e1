"""What a batch of workloads contributes to the view of an estate, without what takes room."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from rightsizer.domain.block import Blocks
from rightsizer.domain.finding import Case
from rightsizer.domain.histogram import Histogram
from rightsizer.domain.units import Nanoseconds
from rightsizer.domain.window import Window
from rightsizer.fleet.cases.case import FleetCases
from rightsizer.fleet.estate import EstateDevice
from rightsizer.fleet.pools.figures import hours_of, latest
from rightsizer.fleet.pools.pool_sums import NodeSums
from rightsizer.fleet.view import Hours, WorkloadView

__all__ = ["EstateParts", "parts_of"]


@dataclass(slots=True)
class EstateParts:
    """Parts of an estate's views, which add up."""

    sums: NodeSums = field(default_factory=NodeSums)
    workloads: dict[Nanoseconds, list[WorkloadView]] = field(default_factory=dict)
    """By span."""
    present: list[EstateDevice] = field(default_factory=list)
    """Devices that are there now."""
    free: set[str] = field(default_factory=set)
    """Uuids of those that nobody holds now."""
    known_seconds: dict[Nanoseconds, float] = field(default_factory=dict)
    """By span, of all devices."""

    def merge(self, other: EstateParts) -> None:
        """Add those of other workloads."""
        self.sums.merge(other.sums)
        for span, found in other.workloads.items():
            self.workloads.setdefault(span, []).extend(found)
        self.present += other.present
        self.free |= other.free
        for span, known in other.known_seconds.items():
            self.known_seconds[span] = self.known_seconds.get(span, 0.0) + known


def parts_of(
    cases: FleetCases, spans: Mapping[Nanoseconds, tuple[Case, ...]], teams: Mapping[str, str]
) -> EstateParts:
    """What a batch contributes.

    Args:
        cases: The batch.
        spans: Its cases over each span that a view is made of.
        teams: Who answers for a workload.
    """
    found = EstateParts()
    for uuid, device in cases.devices.items():
        days = cases.days(uuid)
        found.sums.add_device(device, days, cases.rows(uuid))
        for span in spans:
            known = days.known_in(cases.now - span, cases.now)
            found.known_seconds[span] = found.known_seconds.get(span, 0.0) + known
    for case in cases.cases(0):
        found.present += [cases.devices[device.uuid] for device in case.devices]
        if case.workload is None:
            found.free |= {device.uuid for device in case.devices}
    views: dict[str, WorkloadView] = {}
    for span, of_span in sorted(spans.items(), reverse=True):
        start = cases.now - span
        found.workloads[span] = []
        for case in of_span:
            if case.workload is not None:
                if case.key not in views:
                    views[case.key] = _workload(cases, case, start, teams)
                view = _later(views[case.key], case, start)
                found.workloads[span].append(view)
    return found


def _later(view: WorkloadView, case: Case, start: Nanoseconds) -> WorkloadView:
    """The same workload over a shorter span."""
    return replace(
        view,
        case=_slim_case(case),
        busy=latest(view.busy, start),
        compute=latest(view.compute, start),
        memory_bytes=latest(view.memory_bytes, start),
    )


def _workload(
    cases: FleetCases, case: Case, start: Nanoseconds, teams: Mapping[str, str]
) -> WorkloadView:
    devices = [cases.devices[device.uuid] for device in case.devices]
    pools = Counter(device.pool for device in devices)
    ratio = sum(device.device.capacity_ratio for device in devices) / len(devices)
    days = cases.days_of(case.key)

    def hours(column: str, factor: float) -> Hours:
        return hours_of(days, column, start, cases.now, factor)

    return WorkloadView(
        case=_slim_case(case),
        pool=min(pools, key=lambda pool: (-pools[pool], pool)),
        nodes=dict(sorted(Counter(device.node for device in devices).items())),
        team=teams.get(case.key, case.workload.namespace if case.workload else ""),
        busy=hours("mean:busy", ratio),
        compute=hours("peak:compute", ratio),
        memory_bytes=hours("peak:memory_bytes", 1.0),
    )


def _slim_case(case: Case) -> Case:
    """A case without distributions, blocks, past and node: an estate has very many of them."""
    windows = tuple(map(_slim, case.windows))
    return Case(case.key, case.workload, case.devices, windows, case.provisioning)


def _slim(window: Window) -> Window:
    return replace(window, demands={}, compute_at_least=Histogram(), blocks=Blocks())
