"""A pool in a few figures, as every form of an answer tells them."""

from collections.abc import Iterable

from rightsizer.fleet.estate import Waiting
from rightsizer.fleet.view import Hours, PoolView

__all__ = ["gpus_of", "mean_of", "peak_of", "waiting_by_pool"]


def gpus_of(pool: PoolView) -> float:
    """Whole GPUs, however divided."""
    return sum(each.device.capacity_ratio for each in pool.devices)


def mean_of(hours: Hours) -> float | None:
    """Over the hours that are known, `None` where none is."""
    known = [value for value in hours.values if value is not None]
    return sum(known) / len(known) if known else None


def peak_of(hours: Hours) -> float | None:
    """The highest of the hours that are known, `None` where none is."""
    return max((value for value in hours.values if value is not None), default=None)


def waiting_by_pool(waiting: Iterable[Waiting]) -> dict[str, float]:
    """GPUs that work waits for, by the pool that it waits for."""
    found: dict[str, float] = {}
    for each in waiting:
        found[each.pool] = found.get(each.pool, 0.0) + each.gpus
    return found
