"""Answers about one stretch of time after the other, made into one."""

from array import array
from collections.abc import Sequence
from itertools import chain

from rightsizer.domain.units import Nanoseconds
from rightsizer.fleet.store import Sampled

__all__ = ["joined"]


def joined(answers: Sequence[Sequence[Sampled]]) -> Sequence[Sampled]:
    """One answer, of all times, from several of which each is later than the one before."""
    if len(answers) == 1:
        return answers[0]
    parts: dict[tuple[tuple[str, str], ...], list[Sampled]] = {}
    for series in chain.from_iterable(answers):
        parts.setdefault(tuple(sorted(series.labels.items())), []).append(series)
    return [_one(each) for each in parts.values()]


def _one(parts: Sequence[Sampled]) -> Sampled:
    values = array("d")
    for part in parts:
        values.extend(part.values)
    return Sampled(parts[0].labels, _times([part.times for part in parts]), values)


def _times(parts: Sequence[Sequence[Nanoseconds]]) -> Sequence[Nanoseconds]:
    """Still a range where the parts are ranges without a gap between them."""
    whole = parts[0]
    for part in parts[1:]:
        if (
            isinstance(whole, range)
            and isinstance(part, range)
            and whole.step == part.step
            and whole[-1] + whole.step == part[0]
        ):
            whole = range(whole.start, part.stop, whole.step)
        else:
            return tuple(chain.from_iterable(parts))
    return whole
