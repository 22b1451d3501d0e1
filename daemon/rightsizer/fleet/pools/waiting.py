"""Work that waits for GPUs, and which pool it waits for: few schedulers say it outright."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from rightsizer.fleet.estate import Waiting
from rightsizer.fleet.view import EstateView, PoolView, WorkloadView

__all__ = ["may_wait_for", "part_of", "placed_waiting", "waiting_for", "waiting_gpus"]


def placed_waiting(
    waiting: Iterable[Waiting], pools: Sequence[PoolView], workloads: Iterable[WorkloadView]
) -> tuple[Waiting, ...]:
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


def waiting_gpus(view: EstateView, pool: PoolView) -> float:
    """GPUs of a pool that work waits for."""
    return sum(each.gpus for each in waiting_for(view, pool))


def waiting_for(view: EstateView, pool: PoolView) -> tuple[Waiting, ...]:
    """Work that is known to wait for a pool."""
    return tuple(each for each in view.waiting if each.pool == pool.name)


def may_wait_for(view: EstateView, pool: PoolView) -> float:
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


def part_of(waiting: Waiting, pool: PoolView) -> float:
    """GPUs of one node that it needs; where nobody tells, as many of them as a node has."""
    if waiting.gpus_each is None:
        return min(waiting.gpus, _largest(pool))
    return waiting.gpus_each


def _largest(pool: PoolView) -> int:
    return max(pool.size_by_node.values(), default=0)


def _pool(
    waiting: Waiting,
    pools: Sequence[PoolView],
    own: dict[str, set[str]],
    spaces: dict[str, set[str]],
) -> str:
    roomy = {pool.name for pool in pools if 0 < part_of(waiting, pool) <= _largest(pool)}
    for found in (own.get(waiting.key, set()), spaces.get(waiting.namespace, set()), roomy):
        if len(fitting := found & roomy) == 1:
            return fitting.pop()
    return ""
