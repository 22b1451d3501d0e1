"""Why waiting work is not served by any pool, or not all of it, in a sentence."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from rightsizer.fleet.estate import Waiting
from rightsizer.fleet.pools.pool_choice import Obstacle
from rightsizer.fleet.pools.waiting import part_of
from rightsizer.fleet.view import PoolView

__all__ = ["why_left"]

_MOST_NAMED: Final = 3
_GIBIBYTE: Final = 2**30


def why_left(
    waiting: Waiting,
    tried: Sequence[PoolView],
    obstacles: Mapping[str, Obstacle],
    memory_bytes: float | None,
) -> str:
    """What is said of the part that nothing could give: the pools that were tried, then the rest.

    Args:
        waiting: Whom it is about.
        tried: Pools that might have served it, its own first.
        obstacles: The other pools, by name, and what is in the way of each.
        memory_bytes: That a GPU must have for it, as far as anything tells.
    """
    reasons = [*_of_tried(waiting, tried), *_of_others(waiting, obstacles, memory_bytes)]
    return f"{'; '.join(reasons)}." if reasons else "No pool is known."


def _of_tried(waiting: Waiting, tried: Sequence[PoolView]) -> Iterator[str]:
    if not tried:
        return
    named = ", ".join(pool.name for pool in tried[:_MOST_NAMED])
    more = len(tried) - _MOST_NAMED
    beside = f" and {more} more" if more > 0 else ""
    # Where nobody tells how large its parts are, a part is what a node of its own pool has.
    part = _gpus(part_of(waiting, tried[0]))
    yield f"no node of {named}{beside} has {part} left, free or after any advice or move"


def _of_others(
    waiting: Waiting, obstacles: Mapping[str, Obstacle], memory_bytes: float | None
) -> Iterator[str]:
    counts = Counter(obstacles.values())
    if count := counts[Obstacle.NODE]:
        each = waiting.gpus if waiting.gpus_each is None else waiting.gpus_each
        yield f"{_pools(count, 'has', 'have')} no node of {_gpus(each)}"
    if count := counts[Obstacle.MEMORY]:
        least = (memory_bytes or 0.0) / _GIBIBYTE
        yield f"{_pools(count, 'has', 'have')} not the {least:,.0f} GiB a GPU that it needs"
    if count := counts[Obstacle.SCHEDULER]:
        yield f"{_pools(count, 'is', 'are')} another scheduler's"


def _pools(count: int, one: str, many: str) -> str:
    return f"1 pool {one}" if count == 1 else f"{count} pools {many}"


def _gpus(count: float) -> str:
    return f"{count:,.4g} GPU{'' if count == 1 else 's'}"
