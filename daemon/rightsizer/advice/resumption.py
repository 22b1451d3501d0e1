"""Resumption: how soon an idle workload returns to work, by its own past."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from rightsizer.model.block import BLOCK_SPAN, Block
from rightsizer.model.units import Nanoseconds, seconds


@dataclass(frozen=True, slots=True)
class IdleGap:
    """A time without work."""

    seconds: float
    has_ended: bool
    """False where nobody saw its end; it lasted at least so long."""


@dataclass(frozen=True, slots=True)
class Resumption:
    """The probability that work resumes soon."""

    probability_ratio: float
    gaps: int
    """That had lasted as long; few of them prove little."""


def idle_gaps(blocks: Iterable[Block], busy_ratio: float) -> tuple[IdleGap, ...]:
    """The times of whole five-minute blocks that were less busy than a ratio, oldest first.

    Args:
        blocks: Of one workload, oldest first. Where one is missing, a gap is cut off.
        busy_ratio: Mean busy share from which on there was work.
    """
    found = []
    for run in _unbroken(blocks):
        groups = groupby(run, lambda block: block.mean < busy_ratio)
        parts = [(idle, list(group)) for idle, group in groups]
        for at, (idle, group) in enumerate(parts):
            if idle:
                length = len(group) * seconds(BLOCK_SPAN)
                found.append(IdleGap(length, has_ended=at + 1 < len(parts)))
    return tuple(found)


def resumption(
    gaps: Iterable[IdleGap], idle_seconds: float, within_seconds: float
) -> Resumption | None:
    """The probability of work within some time after so much idleness (Kaplan and Meier 1958).

    `None` where no gap has lasted that long.
    """
    lasting = sorted(
        (gap for gap in gaps if gap.seconds > idle_seconds),
        key=lambda gap: (gap.seconds, not gap.has_ended),
    )
    if not lasting:
        return None
    survival, at_risk = 1.0, len(lasting)
    for gap in lasting:
        if gap.seconds > idle_seconds + within_seconds:
            break
        if gap.has_ended:
            survival *= 1.0 - 1.0 / at_risk
        at_risk -= 1
    return Resumption(1.0 - survival, len(lasting))


def _unbroken(blocks: Iterable[Block]) -> Iterator[list[Block]]:
    run: list[Block] = []
    last: Nanoseconds | None = None
    for block in blocks:
        if last is not None and block.start != last + BLOCK_SPAN:
            yield run
            run = []
        run.append(block)
        last = block.start
    if run:
        yield run
