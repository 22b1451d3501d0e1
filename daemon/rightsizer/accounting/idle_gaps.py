"""Idle gaps of a load: sequences of five-minute blocks without work."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from rightsizer.model.values import BLOCK_SPAN, IdleGap, Series, seconds


def idle_gaps(series: Series, busy_ratio: float) -> tuple[IdleGap, ...]:
    """Sequences of five-minute blocks below a busy ratio, oldest first.

    A hole in the telemetry, wider than the median step between blocks, ends a gap as unobserved,
    unless it is idle on both sides and the hole is no longer than the idle time before: then only
    the hole's own time is not counted. With readings less frequent than blocks, each block counts
    for the median step.
    """
    numbers = series.numbers
    usual, holes = _steps_of(numbers)
    is_idle = series.means_below(busy_ratio)
    gaps: list[IdleGap] = []
    blocks = 0
    start = 0

    def end(*, has_ended: bool) -> None:
        if blocks:
            length = seconds(blocks * BLOCK_SPAN)
            gaps.append(IdleGap(length, has_ended, start=start * BLOCK_SPAN))

    for first, last in pairwise((0, *holes, len(numbers))):
        missing = numbers[first] - numbers[first - 1] - usual if first else 0
        for low, high in _runs(is_idle, first, last):
            idle = is_idle[low]
            if low == first and missing and not (idle and missing <= blocks):
                end(has_ended=False)
                blocks = 0
            if idle:
                start = start if blocks else numbers[low]
                blocks += numbers[high - 1] - numbers[low] + _step_after(numbers, high, usual)
            else:
                end(has_ended=True)
                blocks = 0
    end(has_ended=False)
    return tuple(gaps)


def _steps_of(numbers: Sequence[int]) -> tuple[int, list[int]]:
    """Return the median step, and the places after a wider one."""
    if isinstance(numbers, range) or not numbers:
        return 1, []
    steps = [later - number for number, later in pairwise(numbers)]
    usual = max(1, sorted(steps)[len(steps) // 2]) if steps else 1
    return usual, [place for place, step in enumerate(steps, 1) if step > usual]


def _step_after(numbers: Sequence[int], place: int, usual: int) -> int:
    """Step to a place from the one before it, at most the usual one."""
    return min(numbers[place] - numbers[place - 1], usual) if place < len(numbers) else usual


def _runs(flags: bytes, first: int, last: int) -> Iterator[tuple[int, int]]:
    """Yield the first place of each run of equal flags, and the one after its last."""
    while first < last:
        end = flags.find(1 - flags[first], first, last)
        after = last if end < 0 else end
        yield first, after
        first = after
