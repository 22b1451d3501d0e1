"""Waits of a device for the host, divided by what fills them."""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import merge
from statistics import median_low

from rightsizer.model.profile import GapUse, HostSpanUse, SpanKind
from rightsizer.model.units import Nanoseconds, seconds
from rightsizer.profiles.tables import HostSpans
from rightsizer.profiles.timeline import (
    Column,
    CoveredLength,
    Interval,
    NamedInterval,
    Within,
    outside,
    union,
)


class CallsWithin:
    """Finds the calls of the host within successive times, in one pass over both."""

    def __init__(self, calls: Iterable[NamedInterval]) -> None:
        """Create it over disjoint calls, sorted by start."""
        self._rest = iter(calls)
        self._current = next(self._rest, None)

    def of(self, start: Nanoseconds, end: Nanoseconds) -> Iterator[NamedInterval]:
        """Yield the parts of calls; each time must begin no earlier than the last one ended."""
        while (current := self._current) is not None and current[0] < end:
            if current[1] > start:
                yield max(current[0], start), min(current[1], end), current[2]
            if current[1] > end:
                return
            self._current = next(self._rest, None)

    def running(self, moment: Nanoseconds) -> str:
        """Return the call that contains a moment, exclusively; empty without one."""
        while (current := self._current) is not None and current[1] <= moment:
            self._current = next(self._rest, None)
        return "" if current is None or current[0] >= moment else current[2]


class HostWaits:
    """Gaps in order: loader, copies, calls that wait for the device, short gaps, and the rest."""

    def __init__(
        self,
        rulers: Mapping[str, CoveredLength],
        spans: HostSpans,
        copied: Within,
        pause: Nanoseconds,
    ) -> None:
        """Create it with the rulers that take the parts, and the length from which one is long."""
        self._rulers = rulers
        self._loader = Within(spans.times(SpanKind.LOADER))
        self._calls = CallsWithin(spans.named(SpanKind.SYNCHRONIZATION))
        self._copied = copied
        self._pause = pause
        self._short: Column = array("q")
        self._uses: dict[str, list[int]] = {}
        self.longest: Nanoseconds = 0
        self.pauses: list[Interval] = []
        """Long waits while the host was not in its loader."""

    def divide(self, begin: Nanoseconds, end: Nanoseconds) -> None:
        """Take a wait; each must begin no earlier than the last one ended."""
        self.longest = max(self.longest, end - begin)
        in_loader = [*self._loader.of(begin, end)]
        taken = [*union(merge(in_loader, self._copied.of(begin, end)))]
        held = self._held(begin, end, taken)
        rest = outside(begin, end, union(merge(taken, held)))
        short = [*filter(self._is_short, rest)]
        if short:
            self._short.append(sum(last - first for first, last in short))
        beside_loader = outside(begin, end, in_loader)
        self.pauses += (each for each in beside_loader if not self._is_short(each))
        self._rulers["loader_wait"].add_all(in_loader)
        self._rulers["taken_wait"].add_all(taken)
        self._rulers["synchronization_wait"].add_all(held)
        self._rulers["dispatch_wait"].add_all(short)

    def gaps(self) -> GapUse | None:
        """Return the short waits for launches; `None` without any."""
        if not self._short:
            return None
        return GapUse(len(self._short), seconds(median_low(self._short)))

    def calls(self) -> tuple[HostSpanUse, ...]:
        """Return the calls that waits are due to, with their number and time; longest first."""
        ranked = sorted(self._uses.items(), key=lambda each: (-each[1][1], each[0]))
        return tuple(
            HostSpanUse(SpanKind.SYNCHRONIZATION, name, count, seconds(time))
            for name, (count, time) in ranked
        )

    def _is_short(self, part: Interval) -> bool:
        return part[1] - part[0] < self._pause

    def _held(
        self, begin: Nanoseconds, end: Nanoseconds, taken: Sequence[Interval]
    ) -> list[Interval]:
        """Return the parts that calls account for, in order.

        A call that ran as the wait began kept the host from launching ahead: the short gaps that
        follow are its, too. Longer ones are what the host did then.
        """
        running = self._calls.running(begin)
        called = [*self._calls.of(begin, end)]
        held = [(*part, call[2]) for call in called for part in outside(*call[:2], taken)]
        if running:
            apart = union(merge(taken, ((first, last) for first, last, _ in called)))
            held += (
                (*part, running) for part in outside(begin, end, apart) if self._is_short(part)
            )
        times: dict[str, Nanoseconds] = {}
        for first, last, name in held:
            times[name] = times.get(name, 0) + last - first
        for name, time in times.items():
            use = self._uses.setdefault(name, [0, 0])
            use[0] += 1
            use[1] += time
        return sorted((first, last) for first, last, _ in held)
