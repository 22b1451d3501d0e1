"""A pool as fleet rules use it: evidence, prices, and the work that waits for it."""

import math
from collections.abc import Iterable, Sequence
from typing import Final

from rightsizer.advice.market import Market
from rightsizer.advice.verdict import abstain, released
from rightsizer.fleet.model import FleetPool, FleetView, FleetWorkload, WaitingWork
from rightsizer.fleet.pools.hourly import HOUR, covers_cycle, known_ratio, known_values
from rightsizer.model.device import Device
from rightsizer.model.finding import Case, Finding, Reason, Savings
from rightsizer.model.frozen import dataclass, replace
from rightsizer.model.state import State
from rightsizer.model.units import format_duration
from rightsizer.model.window import Window
from rightsizer.model.workload import WorkloadKind
from rightsizer.owners.registry import SCHEDULER_KINDS

_MOST_NAMED: Final = 64
"""Advice that names more devices than a row holds is read by nobody."""
_HOUR_SECONDS: Final = 3600.0
_DAY_HOURS: Final = 24.0
_HISTORY_DAYS: Final = 3.0
"""docs/definitions.md, conduct."""


@dataclass(frozen=True, slots=True)
class PoolSubject:
    """A pool, and how much is known of who held it."""

    pool: FleetPool
    case: Case
    """What the forms of a verdict ask for; it names at most 64 devices."""
    known_seconds: float
    coverage_ratio: float
    covers_cycle: bool
    """Nearly every hour of a week was seen."""

    @property
    def size(self) -> int:
        """GPUs that are there now."""
        return sum(self.pool.size_by_node.values())

    def factors(self, margin: float) -> dict[str, float]:
        """How sure a judgement of the pool's size is: its days, and how clear the case is.

        Who holds what is told by schedulers, not by telemetry, so that no tier is in it.
        """
        days = self.known_seconds / _HOUR_SECONDS / _DAY_HOURS
        return {
            "coverage": self.coverage_ratio,
            "history": 1.0 - math.exp(-days / _HISTORY_DAYS),
            "samples": days / (days + 1.0),
            "certainty": min(1.0, 0.5 + 5.0 * max(0.0, margin)),
        }

    def too_little(
        self, rule: str, minimum_known_seconds: float, minimum_coverage_ratio: float
    ) -> Finding | None:
        """An abstention where the past does not carry a judgement of size."""
        if not self.size:
            return abstain(rule, self.case, Reason.INSUFFICIENT_DATA, "it has no GPU now")
        if self.known_seconds < minimum_known_seconds:
            why = f"only {format_duration(self.known_seconds)} of who held its GPUs is known"
            return abstain(rule, self.case, Reason.INSUFFICIENT_DATA, why)
        if self.coverage_ratio < minimum_coverage_ratio:
            why = f"only {self.coverage_ratio:.0%} of the span is known"
            return abstain(rule, self.case, Reason.INSUFFICIENT_DATA, why)
        if not self.covers_cycle:
            why = "the history does not cover every hour of a week"
            return abstain(rule, self.case, Reason.INSUFFICIENT_DATA, why)
        return None


def pool_key(name: str) -> str:
    """The key of advice on a pool."""
    return f"pool/{name}"


def pool_subject(view: FleetView, pool: FleetPool) -> PoolSubject:
    """What is known of a pool over the span of a view."""
    known = len(known_values(pool.held_peak)) * _HOUR_SECONDS
    devices = sorted((each.device for each in pool.devices), key=lambda device: device.uuid)
    case = Case(
        key=pool_key(pool.name),
        workload=None,
        devices=tuple(devices[:_MOST_NAMED]),
        windows=(_window(view, pool),),
        provisioning=(),
    )
    return PoolSubject(
        pool=pool,
        case=case,
        known_seconds=known,
        coverage_ratio=known_ratio(pool.held_peak),
        covers_cycle=covers_cycle(pool.held_peak),
    )


def of_gpus(pool: FleetPool, market: Market, low: float, high: float) -> Savings:
    """What so many GPUs of a pool less save: money where all are of one board that has a price.

    Energy is not known by the pool.
    """
    whole = Device(uuid="", index=0, board=pool.board)
    case = Case("", None, (whole,), (), ())
    found = released(case, market, low, high)
    return replace(found, kilowatt_hours_per_month_low=None, kilowatt_hours_per_month_high=None)


def workloads_in(view: FleetView, pool: FleetPool) -> tuple[FleetWorkload, ...]:
    """Those of a pool, by their keys."""
    found = (each for each in view.workloads if each.pool == pool.name)
    return tuple(sorted(found, key=lambda each: each.case.key))


def kind_of(view: FleetView, pool: FleetPool) -> WorkloadKind | None:
    """Who hands the pool's GPUs out; `None` where nobody knows.

    By what most of its work is, and where nobody works by what schedulers tell of its nodes.
    """
    kinds = [each.case.workload.kind for each in workloads_in(view, pool) if each.case.workload]
    if set(SCHEDULER_KINDS).isdisjoint(kinds):
        kinds = [each.scheduler for each in pool.devices if each.scheduler]
    known = [kind for kind in SCHEDULER_KINDS if kind in kinds]
    return max(known, key=kinds.count, default=None)


def _window(view: FleetView, pool: FleetPool) -> Window:
    """The hours of the pool as one device's: held, active, empty, unknown."""
    held, active = known_values(pool.held), known_values(pool.active)
    present = known_values(pool.present)
    known = round(len(held) * HOUR)
    at_work = round(known * _part(active, present))
    idle = round(known * _part(held, present)) - at_work
    states = {
        State.PRODUCTIVE: at_work,
        State.IDLE_HELD: max(0, idle),
        State.IDLE_EMPTY: max(0, known - at_work - max(0, idle)),
        State.UNKNOWN: max(0, view.end - view.start - known),
    }
    return Window(uuid=pool_key(pool.name), start=view.start, end=view.end, states=states)


def _part(part: Sequence[float], whole: Sequence[float]) -> float:
    if not part or not whole or sum(whole) <= 0.0:
        return 0.0
    return min(1.0, sum(part) / len(part) / (sum(whole) / len(whole)))


def placed_waiting(
    waiting: Iterable[WaitingWork], pools: Sequence[FleetPool], workloads: Iterable[FleetWorkload]
) -> tuple[WaitingWork, ...]:
    """Each with its pool, as far as anything tells it.

    In this order: what it says itself; where more of the same already runs; where everything else
    of its namespace runs; the only pool with nodes that are large enough for one of its parts.

    Args:
        waiting: As its scheduler tells of it.
        pools: All of the estate.
        workloads: All that hold something.
    """
    own: dict[str, set[str]] = {}
    spaces: dict[str, set[str]] = {}
    for each in workloads:
        own.setdefault(each.case.key, set()).add(each.pool)
        if each.case.workload is not None and each.case.workload.namespace:
            spaces.setdefault(each.case.workload.namespace, set()).add(each.pool)
    return tuple(
        each if each.pool else replace(each, pool=_pool(each, pools, own, spaces))
        for each in waiting
    )


def waiting_gpus(view: FleetView, pool: FleetPool) -> float:
    """GPUs of a pool that work waits for."""
    return sum(each.gpus for each in waiting_for(view, pool))


def waiting_for(view: FleetView, pool: FleetPool) -> tuple[WaitingWork, ...]:
    """Work that is known to wait for a pool."""
    return tuple(each for each in view.waiting if each.pool == pool.name)


def may_wait_for(view: FleetView, pool: FleetPool) -> float:
    """GPUs of a pool that work waits for, or may wait for: nobody knows which pool it wants.

    A pool that has room for a part of it now is not what it waits for: it would be there. Neither
    is one whose nodes are smaller than a part of it.
    """
    most_free = max(pool.free_by_node.values(), default=0)
    return waiting_gpus(view, pool) + sum(
        each.gpus
        for each in view.waiting
        if not each.pool and most_free < part_of(each, pool) <= _largest(pool)
    )


def part_of(waiting: WaitingWork, pool: FleetPool) -> float:
    """GPUs of one node that it needs; where nobody tells, as many of them as a node has."""
    if waiting.gpus_each is None:
        return min(waiting.gpus, _largest(pool))
    return waiting.gpus_each


def _largest(pool: FleetPool) -> int:
    return max(pool.size_by_node.values(), default=0)


def _pool(
    waiting: WaitingWork,
    pools: Sequence[FleetPool],
    own: dict[str, set[str]],
    spaces: dict[str, set[str]],
) -> str:
    roomy = {pool.name for pool in pools if 0 < part_of(waiting, pool) <= _largest(pool)}
    for found in (own.get(waiting.key, set()), spaces.get(waiting.namespace, set()), roomy):
        if len(fitting := found & roomy) == 1:
            return fitting.pop()
    return ""
