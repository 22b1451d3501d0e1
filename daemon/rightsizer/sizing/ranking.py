"""Which candidate is the better one: by what the work costs, never by what an hour costs."""

import math
from collections.abc import Iterable
from dataclasses import replace

from rightsizer.sizing.candidates import Candidate

__all__ = ["preference", "ranked"]


def preference(candidate: Candidate) -> tuple[float, ...]:
    """The smaller, the better.

    Of candidates that meet what is asked for: those whose work has a price first, the cheapest
    work before the others; then the fewest GPUs, the fastest, the cheapest hour. Of the rest,
    those that fail least: with memory enough, then by how much of it is short.
    """
    rate = candidate.rate.tokens_per_second
    speed = 0.0 if rate is None else rate.value
    if not candidate.fits:
        shortage = min(0.0, candidate.memory_headroom_ratio)
        return (2.0, not candidate.fits_memory, -shortage, candidate.count, -speed)
    if candidate.work_dollars is None:
        dollars = candidate.dollars_per_hour
        return (1.0, candidate.count, -speed, math.inf if dollars is None else dollars)
    return (0.0, candidate.work_dollars, candidate.count, -speed)


def ranked(candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """Best first and numbered from 1; those that do not fit follow without a number."""
    ordered = sorted(candidates, key=lambda each: (preference(each), each.gpu))
    return tuple(
        replace(each, rank=place if each.fits else None) for place, each in enumerate(ordered, 1)
    )
