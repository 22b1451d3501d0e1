"""Host steps without a device: operators, gaps between them, and read-backs of values.

A CPU's operators follow each other as a GPU's would; only their durations differ.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import merge
from itertools import chain
from typing import Final, TypeAlias

from rightsizer.model.units import Nanoseconds
from rightsizer.profiles.call_stacks import Call, CallKind, CallStacks
from rightsizer.profiles.limits import TimeSettings
from rightsizer.profiles.names import is_read_back
from rightsizer.profiles.time_use import StepSpan
from rightsizer.profiles.timeline import (
    Column,
    CoveredLength,
    Interval,
    SpanLine,
    Within,
    outside,
    union,
)

Holders: TypeAlias = Mapping[str, tuple[int, Nanoseconds]]
"""By frame name, in how many intervals it was active, and its time."""
_AWAIT: Final = "::Await"
"""XLA marks both start and end of a wait by a moment of this name."""


@dataclass(slots=True)
class _NestedCall:
    call: Call
    end: Nanoseconds
    around: "_NestedCall | None"
    own: Nanoseconds = 0
    """Outside of the calls within it."""
    pending: list[Interval] = field(default_factory=list)
    """The same in intervals, while it is short."""
    is_leaf: bool = True
    is_closed: bool = False


class HostLine:
    """Operators of all threads, assigned to steps in one pass per thread."""

    def __init__(
        self,
        stacks: CallStacks,
        settings: TimeSettings,
        steps: Sequence[StepSpan],
        taken: Iterable[Interval],
    ) -> None:
        """Measure at least one step; `taken` are times that are already attributed."""
        self._stacks = stacks
        self._longest_short = settings.launch_maximum_nanoseconds
        self._operators = SpanLine()
        self._long = SpanLine()
        self._leaves: Column = array("q")
        taken = [*taken]
        launches = (CallKind.LAUNCH,)
        is_compiled = any(True for thread in stacks.threads for _ in stacks.calls(thread, launches))
        self._issued = CallKind.LAUNCH if is_compiled else CallKind.OPERATOR
        leaves = {thread: self._take(thread) for thread in stacks.threads}
        self._leaves = array("q", sorted(self._leaves))
        self.read_back_uses: dict[str, tuple[int, Nanoseconds]] = {}
        """Read-backs of values by origin: number and time."""
        self._waits = SpanLine()
        self._read_starts = [*self._find_reads(taken)]
        marks = [mark for step in steps for mark in (step.start, step.end)]
        self._fixed = CoveredLength(marks)
        self._paused = CoveredLength(marks)
        lines = [span_line.intervals() for span_line in (self._long, self._waits)]
        self._fixed.add_all(union(merge(*lines, taken)))
        lines = [span_line.intervals() for span_line in (self._operators, self._waits)]
        pauses = [
            each
            for each in outside(marks[0], marks[-1], union(merge(*lines, taken)))
            if each[1] - each[0] >= settings.pause_minimum_nanoseconds
        ]
        self._paused.add_all(pauses)
        self.holders: Holders = {}
        """Of pauses within steps."""
        if leaves:
            within = Within(pauses)
            parts = chain.from_iterable(within.of(step.start, step.end) for step in steps)
            self.holders = holders(stacks, (max(leaves, key=leaves.__getitem__),), parts)

    def operators(self, step: StepSpan) -> int:
        """Return the number of outermost operators."""
        return self._issued_before(step.end) - self._issued_before(step.start)

    def dispatch(self, step: StepSpan) -> Nanoseconds:
        """Return the time in short operators and between operators, without pauses."""
        length = step.end - step.start - self._fixed.length(step.start, step.end)
        return max(0, length - self.paused(step))

    def paused(self, step: StepSpan) -> Nanoseconds:
        """Return the time in pauses between operators."""
        return self._paused.length(step.start, step.end)

    def read_backs(self, step: StepSpan) -> int:
        """Return the number of read-backs."""
        return bisect_left(self._read_starts, step.end) - bisect_left(self._read_starts, step.start)

    def _take(self, thread: int) -> int:
        """Add the operators of a thread; return their number."""
        count = len(self._leaves)
        kinds = CallKind.OPERATOR, CallKind.LAUNCH
        for start, end, opened in _innermost(self._stacks.calls(thread, kinds)):
            if opened.around is None and opened.is_closed:
                self._operators.add(opened.call.start, opened.end)
            if opened.is_closed and opened.is_leaf and opened.call.kind is self._issued:
                self._leaves.append(opened.call.start)
            if opened.call.kind is CallKind.LAUNCH:
                continue
            opened.own += end - start
            opened.pending.append((start, end))
            if opened.own > self._longest_short:
                for piece in opened.pending:
                    self._long.add(*piece)
                opened.pending.clear()
        return len(self._leaves) - count

    def _find_reads(self, taken: Iterable[Interval]) -> Iterator[Nanoseconds]:
        """Yield the times of read-backs."""
        stacks = self._stacks
        optimizers = (
            (call.start, call.end)
            for thread in stacks.threads
            for call in stacks.calls(thread, (CallKind.MODULE,))
            if call.name.startswith("Optimizer.")
        )
        # Optimizers count steps in host tensors.
        apart = Within(union(merge(taken, sorted(optimizers))))
        awaits: Nanoseconds | None = None
        until: Nanoseconds | None = None
        for start, end, name in sorted(stacks.read_backs(is_read_back)):
            # Without an operator in between, the second of two waits for nothing more.
            is_new = until is None or self._issued_before(start) > self._issued_before(until)
            until = end if until is None else max(until, end)
            is_await = _AWAIT in name
            self._waits.add(start if awaits is None or is_new or not is_await else awaits, end)
            if is_await:
                awaits = start
            if is_new and not apart.covers(start + 1):
                count, time = self.read_back_uses.get(name, (0, 0))
                self.read_back_uses[name] = count + 1, time + end - start
                yield start

    def _issued_before(self, moment: Nanoseconds) -> int:
        return bisect_left(self._leaves, moment)


def holders(stacks: CallStacks, threads: Iterable[int], times: Iterable[Interval]) -> Holders:
    """Return what the first thread with frames did at some times, sorted and disjoint.

    The innermost frame that users can change counts, with the number of times it was active.
    """
    times = [*times]
    starts = [start for start, _ in times]
    found: dict[str, tuple[int, Nanoseconds]] = {}
    last: dict[str, int] = {}
    for thread in threads:
        within = Within(times)
        calls = stacks.calls(thread, (CallKind.LINE, CallKind.MODULE))
        for start, end, opened in _innermost(calls):
            if parts := [*within.of(start, end)]:
                name = _holder(opened, are_frames_own=stacks.are_frames_own)
                places = {bisect_right(starts, begin) for begin, _ in parts}
                count, time = found.get(name, (0, 0))
                count += len(places - {last.get(name)})
                found[name] = count, time + sum(until - begin for begin, until in parts)
                last[name] = max(places)
        if found:
            break
    return found


def _holder(innermost: _NestedCall, *, are_frames_own: bool) -> str:
    of_file = "" if are_frames_own else _outermost(innermost).call.name.partition("(")[0]
    holder = innermost
    while holder.around is not None:
        name = holder.call.name
        if ": <" not in name and name.startswith(of_file):
            break
        holder = holder.around
    return holder.call.name


def _outermost(innermost: _NestedCall) -> _NestedCall:
    while innermost.around is not None:
        innermost = innermost.around
    return innermost


def _innermost(calls: Iterable[Call]) -> Iterator[tuple[Nanoseconds, Nanoseconds, _NestedCall]]:
    """Yield start and end of each interval with its innermost call; its last one closes it."""
    opened: _NestedCall | None = None
    at: Nanoseconds = 0
    for call in chain(calls, (None,)):
        while opened is not None and (call is None or opened.end <= call.start):
            begin = min(at, opened.end)
            at = max(at, opened.end)
            opened.is_closed = True
            yield begin, at, opened
            opened = opened.around
        if call is None:
            return
        end = call.end
        if opened is not None:
            yield at, call.start, opened
            opened.is_leaf &= call.kind is not opened.call.kind
            end = min(end, opened.end)
        at = call.start
        opened = _NestedCall(call, end, opened)
