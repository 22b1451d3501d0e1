"""A pool as fleet rules use it: evidence, prices, and waiting work."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Annotated, Final, Self

from msgspec.structs import replace

from rightsizer.advice.market import Market
from rightsizer.advice.rules.rule import RuleSettings
from rightsizer.advice.savings import release_savings
from rightsizer.advice.verdict import CaseSubject
from rightsizer.fleet.model import FleetPool, FleetView, FleetWorkload, HourlySeries, WaitingWork
from rightsizer.fleet.pools.hourly import HOUR, covers_cycle, known_ratio, known_values, mean_of
from rightsizer.model.values import (
    CONSTANT,
    DAY_SECONDS,
    HOUR_SECONDS,
    Case,
    Device,
    Finding,
    Reason,
    Savings,
    Spec,
    State,
    Window,
    format_duration,
    percent_text,
)
from rightsizer.owners.registry import SCHEDULER_KINDS

MOST_DEVICES: Final = 64
"""Advice that names more devices than fit in a row is ignored."""
_HISTORY_DAYS: Final = 3.0
"""docs/definitions.md, conduct."""


class PoolRuleSettings(RuleSettings, frozen=True):
    """Thresholds of rules that judge the size of a pool.

    Attributes:
        minimum_known_seconds: Known time, with every hour of a week, below which the rule abstains.
            Source: docs/definitions.md, conduct: not before the history covers the load's cycle
        minimum_coverage_ratio: Share of the span that must be known: an unseen time may hold a
            peak.
            Source: assumed; a day a week may be missing
    """

    minimum_known_seconds: Annotated[float, Spec(within=(DAY_SECONDS, None)), CONSTANT] = (
        6 * DAY_SECONDS
    )
    minimum_coverage_ratio: Annotated[float, Spec(within=(0.1, 1)), CONSTANT] = 0.8


class PoolSubject(CaseSubject, frozen=True):
    """Pool as judged by one rule, with how much is known of its holders.

    Verdicts refer to its case, which names at most 64 devices.
    """

    view: FleetView
    pool: FleetPool
    known_seconds: float
    coverage_ratio: float
    covers_cycle: bool
    """Whether nearly every hour of a week was observed."""

    @classmethod
    def of(cls, rule: str, view: FleetView, pool: FleetPool, market: Market) -> Self:
        """Build the subject of a pool over the span of a view."""
        devices = sorted((device.device for device in pool.devices), key=lambda device: device.uuid)
        case = Case(
            pool_key(pool.name), None, tuple(devices[:MOST_DEVICES]), (_window(view, pool),), ()
        )
        peak = pool.held_peak
        known_seconds = len(known_values(peak)) * HOUR_SECONDS
        covers = covers_cycle(peak)
        ratio = known_ratio(peak)
        local = market.near(pool.provider)
        return cls(rule, case, local, view, pool, known_seconds, ratio, covers)

    @property
    def name(self) -> str:
        """Name of the pool."""
        return self.pool.name

    @property
    def size(self) -> int:
        """GPUs present now."""
        return self.pool.size

    @property
    def workloads(self) -> tuple[FleetWorkload, ...]:
        """Workloads of the pool, by key."""
        return workloads_in(self.view, self.pool)

    @property
    def scheduler(self) -> str | None:
        """Scheduler that allocates the pool's GPUs."""
        return kind_of(self.view, self.pool)

    def about(self, workloads: Iterable[FleetWorkload]) -> Self:
        """Return the pool with verdicts that name the GPUs of some workloads alone."""
        devices = (device for workload in workloads for device in workload.case.devices)
        named = {device.uuid: device for device in devices}
        case = replace(self.case, devices=tuple(named.values())[:MOST_DEVICES])
        return replace(self, case=case)

    def factors(self, margin: float) -> dict[str, float]:
        """Return the confidence factors: number of days, and the margin of the decision.

        There is no tier, as holders are known from schedulers rather than telemetry.
        """
        days = self.known_seconds / DAY_SECONDS
        return {
            "coverage": self.coverage_ratio,
            "history": 1.0 - math.exp(-days / _HISTORY_DAYS),
            "samples": days / (days + 1.0),
            "certainty": min(1.0, 0.5 + 5.0 * max(0.0, margin)),
        }

    def savings(self, low: float, high: float) -> Savings:
        """Return the savings of releasing GPUs; money only if all are one board with a price.

        Energy is unknown for pools.
        """
        case = Case("", None, (Device(uuid="", index=0, board=self.pool.board),), (), ())
        savings = release_savings(case, self.market, low, high)
        return replace(
            savings, kilowatt_hours_per_month_low=None, kilowatt_hours_per_month_high=None
        )

    def abstain(self, why: str, reason: Reason = Reason.INSUFFICIENT_DATA) -> Finding:
        """Return an abstention with its reason."""
        return CaseSubject.abstain(self, why, reason)

    def too_little(self, settings: PoolRuleSettings) -> Finding | None:
        """Return an abstention if the history is too short to judge the size."""
        if not self.size:
            return self.abstain("it has no GPU now")
        if self.known_seconds < settings.minimum_known_seconds:
            known_text = format_duration(self.known_seconds)
            return self.abstain(f"only {known_text} of who held its GPUs is known")
        if self.coverage_ratio < settings.minimum_coverage_ratio:
            return self.abstain(f"only {percent_text(self.coverage_ratio)} of the span is known")
        if not self.covers_cycle:
            return self.abstain("the history does not cover every hour of a week")
        return None

    def early(self, settings: PoolRuleSettings, waiting_gpus: float, so: str) -> Finding | None:
        """Return a verdict if the history is too short or work waits for the pool."""
        finding = self.too_little(settings)
        if finding is None and waiting_gpus > 0:
            summary = f"Work waits for {waiting_gpus:g} GPUs of {self.name}{so}"
            return self.find_nothing(summary, {}, {"waiting_gpus": waiting_gpus})
        return finding


def pool_key(name: str) -> str:
    """Return the key of advice on a pool."""
    return f"pool/{name}"


def is_of_whole_pool(key: str, devices: Sequence[str]) -> bool:
    """Whether a verdict is about all GPUs of a pool, of which it names the first alone."""
    return key.startswith(pool_key("")) and len(devices) >= MOST_DEVICES


def workloads_in(view: FleetView, pool: FleetPool) -> tuple[FleetWorkload, ...]:
    """Return the workloads of a pool, by key."""
    workloads = (workload for workload in view.workloads if workload.pool == pool.name)
    return tuple(sorted(workloads, key=lambda workload: workload.case.key))


def kind_of(view: FleetView, pool: FleetPool) -> str | None:
    """Return the scheduler that allocates the pool's GPUs; `None` if unknown.

    Determined by the kind of most of its work; without work, by its nodes' schedulers.
    """
    kinds = [
        workload.case.workload.kind
        for workload in workloads_in(view, pool)
        if workload.case.workload
    ]
    if set(SCHEDULER_KINDS).isdisjoint(kinds):
        kinds = [device.scheduler for device in pool.devices if device.scheduler]
    workload_kinds = [kind for kind in SCHEDULER_KINDS if kind in kinds]
    return max(workload_kinds, key=kinds.count, default=None)


def _window(view: FleetView, pool: FleetPool) -> Window:
    """Return the hours of the pool as those of one device: held, active, empty, unknown."""
    known_time = len(known_values(pool.held)) * HOUR
    at_work = round(known_time * _part(pool.active, pool.present))
    idle = max(0, round(known_time * _part(pool.held, pool.present)) - at_work)
    states = {
        State.PRODUCTIVE: at_work,
        State.IDLE_HELD: idle,
        State.IDLE_EMPTY: max(0, known_time - at_work - idle),
        State.UNKNOWN: max(0, view.end - view.start - known_time),
    }
    return Window(uuid=pool_key(pool.name), start=view.start, end=view.end, states=states)


def _part(part: HourlySeries, whole: HourlySeries) -> float:
    mean = mean_of(part)
    of = mean_of(whole)
    return min(1.0, mean / of) if mean is not None and of else 0.0


def placed_waiting(
    waiting: Iterable[WaitingWork], pools: Sequence[FleetPool], workloads: Iterable[FleetWorkload]
) -> tuple[WaitingWork, ...]:
    """Assign each piece of waiting work to its pool, if known.

    In this order: the pool that it names; the pool where similar work runs; the pool where the rest
    of its namespace runs; the only pool with nodes large enough for one of its parts.
    """
    pools_by_key = defaultdict[str, set[str]](set)
    spaces = defaultdict[tuple[str, str], set[str]](set)
    for workload in workloads:
        pools_by_key[workload.case.key].add(workload.pool)
        if workload.namespace:
            spaces[workload.cluster, workload.namespace].add(workload.pool)

    def pool_of(waiting_work: WaitingWork) -> str:
        roomy = {pool.name for pool in pools if _could_hold(pool, waiting_work)}
        of_space = spaces[waiting_work.cluster, waiting_work.namespace]
        for pool_names in (pools_by_key[waiting_work.key], of_space, roomy):
            if len(fitting := pool_names & roomy) == 1:
                return fitting.pop()
        return ""

    return tuple(
        waiting_work if waiting_work.pool else replace(waiting_work, pool=pool_of(waiting_work))
        for waiting_work in waiting
    )


def _could_hold(pool: FleetPool, waiting: WaitingWork) -> bool:
    """Whether a part fits an empty node of the pool, which must be of the same cluster."""
    return pool.cluster == waiting.cluster and 0 < part_of(waiting, pool) <= pool.largest_node


def waiting_for(view: FleetView, pool: FleetPool) -> tuple[WaitingWork, ...]:
    """Return the work known to wait for a pool."""
    return tuple(waiting_work for waiting_work in view.waiting if waiting_work.pool == pool.name)


def waiting_gpus(view: FleetView, pool: FleetPool) -> float:
    """Return the number of GPUs that work waits for in a pool."""
    return sum(waiting_work.gpus for waiting_work in waiting_for(view, pool))


def may_wait_for(view: FleetView, pool: FleetPool) -> float:
    """Return the GPUs of a pool that work waits for, or may wait for if its pool is unknown.

    Pools with room for a part of it now are excluded, since it would be running there, as are pools
    whose nodes are smaller than a part.
    """
    return sum(waiting_work.gpus for waiting_work in _may_wait(view, pool))


def waiting_parts(view: FleetView, pool: FleetPool) -> list[float]:
    """Return the GPUs that each part of such work needs on one node, largest first."""
    parts: list[float] = []
    for waiting_work in _may_wait(view, pool):
        part = part_of(waiting_work, pool)
        parts += [part] * math.ceil(waiting_work.gpus / part) if part > 0 else []
    return sorted(parts, reverse=True)


def _may_wait(view: FleetView, pool: FleetPool) -> list[WaitingWork]:
    return [
        *waiting_for(view, pool),
        *(
            waiting_work
            for waiting_work in view.waiting
            if not waiting_work.pool
            and _could_hold(pool, waiting_work)
            and not pool.has_room(part_of(waiting_work, pool))
        ),
    ]


def part_of(waiting: WaitingWork, pool: FleetPool) -> float:
    """Return the GPUs needed on one node; if unknown, as many as a node has."""
    gpus_each = waiting.gpus_each
    return min(waiting.gpus, pool.largest_node) if gpus_each is None else gpus_each
