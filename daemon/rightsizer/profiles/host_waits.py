"""Waits of a device for the host, divided by what fills them."""

from collections.abc import Mapping
from statistics import median_low

import numpy as np

from rightsizer.model.profile import GapUse, HostSpanUse, SpanKind
from rightsizer.model.values import Nanoseconds, seconds
from rightsizer.profiles.columns import summed
from rightsizer.profiles.tables import HostSpans
from rightsizer.profiles.timeline import (
    CoveredLength,
    Intervals,
    Numbers,
    common,
    in_order,
    outside,
    united,
)


class HostWaits:
    """Gaps in order: loader, copies, calls that wait for the device, short gaps, and the rest.

    A call that ran as a wait began kept the host from launching ahead: the short gaps that follow
    are its, too. Longer ones are what the host did then.
    """

    def __init__(
        self,
        waits: Intervals,
        rulers: Mapping[str, CoveredLength],
        spans: HostSpans,
        copied: Intervals,
        pause: Nanoseconds,
    ) -> None:
        """Divide disjoint waits, in order, with rulers that take the parts; a pause is long."""
        loader = common(waits, spans.times(SpanKind.LOADER))[:2]
        taken = united(*in_order(loader, common(waits, copied)[:2]))
        *calls, names = spans.named(SpanKind.SYNCHRONIZATION)
        *called, wait, call = common(waits, (calls[0], calls[1]))
        *held, part = outside((called[0], called[1]), taken)
        *free, free_wait = outside(waits, united(*in_order(taken, (called[0], called[1]))))
        is_short = free[1] - free[0] < pause
        running = _running(waits[0], (calls[0], calls[1]), names)[free_wait]
        is_held = is_short & (running >= 0)
        is_dispatch = is_short & ~is_held
        rulers["loader_wait"].add(*loader)
        rulers["taken_wait"].add(*taken)
        rulers["synchronization_wait"].add(held[0], held[1])
        rulers["synchronization_wait"].add(free[0][is_held], free[1][is_held])
        rulers["dispatch_wait"].add(free[0][is_dispatch], free[1][is_dispatch])
        times = summed(free_wait[is_dispatch], (free[1] - free[0])[is_dispatch])
        self._short = [time for _, time, _ in times]
        self._names = spans.names()
        self._holders = np.append(names[call[part]], running[is_held])
        self._held_waits = np.append(wait[part], free_wait[is_held])
        self._held = np.append(held[1] - held[0], (free[1] - free[0])[is_held])
        self.longest: Nanoseconds = int((waits[1] - waits[0]).max(initial=0))
        starts, ends, _ = outside(waits, loader)
        is_long = ends - starts >= pause
        self.pauses: Intervals = (starts[is_long], ends[is_long])
        """Long waits while the host was not in its loader."""

    def gaps(self) -> GapUse | None:
        """Return the short waits for launches; `None` without any."""
        if not self._short:
            return None
        return GapUse(len(self._short), seconds(median_low(self._short)))

    def calls(self) -> tuple[HostSpanUse, ...]:
        """Return the calls that waits are due to, with their number and time; longest first."""
        pairs = np.unique(np.stack((self._holders, self._held_waits)), axis=1)
        counts = np.bincount(pairs[0])
        ranked = sorted(
            (-time, self._names[name], int(counts[name]))
            for name, time, _ in summed(self._holders, self._held)
        )
        return tuple(
            HostSpanUse(SpanKind.SYNCHRONIZATION, name, count, seconds(-time))
            for time, name, count in ranked
        )


def _running(moments: Numbers, calls: Intervals, names: Numbers) -> Numbers:
    """Return the name of the call that contains each moment, exclusively; -1 without one."""
    places = np.searchsorted(calls[1], moments, side="right")
    is_within = np.append(calls[0], moments.max(initial=0))[places] < moments
    return np.where(is_within, np.append(names, -1)[places], -1)
