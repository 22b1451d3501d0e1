"""A fleet of pods, counted moment by moment."""

from array import array
from collections.abc import Iterable, Sequence
from itertools import pairwise
from statistics import median

from msgspec import Struct

from evaluation.traces.fleet_trace import Pod
from rightsizer.model.units import Nanoseconds


class Group(Struct, frozen=True):
    """Numbers of pods and of busy pods at equal intervals."""

    start: Nanoseconds
    step: Nanoseconds
    held: Sequence[int]
    busy: Sequence[int]

    def busy_at(self, time: Nanoseconds) -> int:
        """Number of busy pods by the last rows up to a time."""
        place = min(len(self.busy) - 1, (time - self.start) // self.step)
        return self.busy[place] if place >= 0 else 0


def group_of(fleet: Iterable[Pod]) -> Group:
    """Count the fleet's pods at each moment; one pod is held at a time.

    The distance is that of the first pod's rows.

    Raises:
        ValueError: there is no pod with two rows.
    """
    counts: _Counts | None = None
    for pod in fleet:
        if counts is None and len(pod.times) > 1:
            step = median(after - before for before, after in pairwise(pod.times))
            counts = _Counts(pod.times[0], round(step))
        if counts is not None:
            counts.add(pod)
    if counts is None:
        raise ValueError("a fleet needs a pod with two rows")
    return Group(counts.start, counts.step, counts.held, counts.busy)


class _Counts:
    """Counts that grow at either end."""

    def __init__(self, start: Nanoseconds, step: Nanoseconds) -> None:
        self.start = start
        self.step = step
        self.held = array("l")
        self.busy = array("l")

    def add(self, pod: Pod) -> None:
        self._make_room(pod.times[0], pod.times[-1])
        for time, is_busy in zip(pod.times, pod.are_busy, strict=True):
            place = (time - self.start) // self.step
            self.held[place] += 1
            self.busy[place] += is_busy

    def _make_room(self, first: Nanoseconds, last: Nanoseconds) -> None:
        before = max(0, -((first - self.start) // self.step))
        self.start -= before * self.step
        after = max(0, (last - self.start) // self.step + 1 - before - len(self.held))
        for counts in (self.held, self.busy):
            counts[:0] = array("l", [0] * before)
            counts.extend([0] * after)
