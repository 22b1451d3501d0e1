"""Host steps without a device: operators, gaps between them, and read-backs of values.

A CPU's operators follow each other as a GPU's would; only their durations differ.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np

from rightsizer.model.values import Nanoseconds
from rightsizer.profiles.call_stacks import CallKind, CallStacks, Nesting
from rightsizer.profiles.columns import summed
from rightsizer.profiles.limits import TimeSettings
from rightsizer.profiles.names import is_read_back
from rightsizer.profiles.time_use import StepSpan
from rightsizer.profiles.timeline import (
    LATEST,
    CoveredLength,
    Intervals,
    Numbers,
    common,
    in_order,
    outside,
    united,
)

Holders: TypeAlias = Mapping[str, tuple[int, Nanoseconds]]
"""By frame name, in how many intervals it was active, and its time."""
_AWAIT: Final = "::Await"
"""XLA marks both start and end of a wait by a moment of this name."""


class HostLine:
    """Operators of all threads, by step."""

    def __init__(
        self,
        stacks: CallStacks,
        settings: TimeSettings,
        steps: Sequence[StepSpan],
        taken: Intervals,
    ) -> None:
        """Measure at least one step; `taken` are times that are already attributed."""
        kinds = stacks.kinds()
        issued = CallKind.LAUNCH if CallKind.LAUNCH in kinds else CallKind.OPERATOR
        nestings = {
            thread: stacks.nesting(thread, (CallKind.OPERATOR, CallKind.LAUNCH))
            for thread in stacks.threads
        }
        operators: list[Intervals] = []
        long: list[Intervals] = []
        leaves: dict[int, Numbers] = {}
        for thread, nesting in nestings.items():
            of_call = kinds[nesting.names]
            is_within = nesting.parents >= 0
            operators.append((nesting.starts[~is_within], nesting.ends[~is_within]))
            parents = nesting.parents[is_within]
            is_leaf = of_call == issued
            is_leaf[parents[of_call[is_within] == of_call[parents]]] = False
            leaves[thread] = nesting.starts[is_leaf]
            starts, ends, calls = nesting.innermost()
            times = np.zeros(of_call.size, np.int64)
            np.add.at(times, calls, ends - starts)
            is_long = (times > settings.launch_maximum_nanoseconds) & (of_call != CallKind.LAUNCH)
            long.append((starts[is_long[calls]], ends[is_long[calls]]))
        self._leaves = np.sort(np.concatenate([*leaves.values(), np.empty(0, np.int64)]))
        self.read_back_uses: dict[str, tuple[int, Nanoseconds]] = {}
        """Read-backs of values by origin: number and time."""
        waits, self._read_starts = self._find_reads(stacks, taken)
        marks = [mark for step in steps for mark in (step.start, step.end)]
        self._fixed = CoveredLength(marks)
        self._paused = CoveredLength(marks)
        self._fixed.add(*united(*in_order(*long, waits, taken)))
        span = np.array(marks[:1]), np.array(marks[-1:])
        starts, ends, _ = outside(span, united(*in_order(*operators, waits, taken)))
        is_pause = ends - starts >= settings.pause_minimum_nanoseconds
        pauses = starts[is_pause], ends[is_pause]
        self._paused.add(*pauses)
        self.holders: Holders = {}
        """Of pauses within steps."""
        if leaves:
            within = np.array([step.start for step in steps]), np.array([s.end for s in steps])
            first = max(leaves, key=lambda thread: leaves[thread].size)
            self.holders = holders(stacks, (first,), common(within, pauses)[:2])

    def operators(self, step: StepSpan) -> int:
        """Return the number of outermost operators."""
        return _between(self._leaves, step)

    def dispatch(self, step: StepSpan) -> Nanoseconds:
        """Return the time in short operators and between operators, without pauses."""
        length = step.end - step.start - self._fixed.length(step.start, step.end)
        return max(0, length - self.paused(step))

    def paused(self, step: StepSpan) -> Nanoseconds:
        """Return the time in pauses between operators."""
        return self._paused.length(step.start, step.end)

    def read_backs(self, step: StepSpan) -> int:
        """Return the number of read-backs."""
        return _between(self._read_starts, step)

    def _find_reads(self, stacks: CallStacks, taken: Intervals) -> tuple[Intervals, Numbers]:
        """Return the waits for values, and the times of read-backs."""
        # Optimizers count steps in host tensors.
        optimizers = stacks.chosen(
            lambda name: name.kind is CallKind.MODULE and name.name.startswith("Optimizer.")
        )
        apart = united(*in_order(taken, optimizers))
        spans: list[tuple[Nanoseconds, Nanoseconds]] = []
        reads: list[Nanoseconds] = []
        awaits: Nanoseconds | None = None
        until: Nanoseconds = -LATEST
        for start, end, name in sorted(stacks.read_backs(is_read_back)):
            # Without an operator in between, the second of two waits for nothing more.
            before = np.searchsorted(self._leaves, (start, until))
            is_new = until == -LATEST or before[0] > before[1]
            until = max(until, end)
            is_await = _AWAIT in name
            spans.append((start if awaits is None or is_new or not is_await else awaits, end))
            if is_await:
                awaits = start
            place = np.searchsorted(apart[1], start + 1, side="right")
            is_apart = place == apart[0].size or apart[0][place] >= start + 1
            if is_new and is_apart:
                count, time = self.read_back_uses.get(name, (0, 0))
                self.read_back_uses[name] = count + 1, time + end - start
                reads.append(start)
        starts, ends = np.array(spans, np.int64).reshape(-1, 2).T
        return (starts, ends), np.array(reads, np.int64)


def _between(moments: Numbers, step: StepSpan) -> int:
    begin, end = np.searchsorted(moments, (step.start, step.end)).tolist()
    return int(end - begin)


def holders(stacks: CallStacks, threads: Iterable[int], times: Intervals) -> Holders:
    """Return what the first thread with frames did at some times, sorted and disjoint.

    The innermost frame that users can change counts, with the number of times it was active.
    """
    names = stacks.names()
    for thread in threads:
        nesting = stacks.nesting(thread, (CallKind.LINE, CallKind.MODULE))
        starts, ends, calls = nesting.innermost()
        begins, untils, parts, places = common((starts, ends), times)
        if begins.size:
            calls = calls[parts]
            of_call = {
                call: _holder(call, nesting, names, are_frames_own=stacks.are_frames_own)
                for call in np.unique(calls).tolist()
            }
            numbers = {name: number for number, name in enumerate(dict.fromkeys(of_call.values()))}
            column = np.array([numbers[of_call[call]] for call in calls.tolist()])
            pairs = np.unique(np.stack((column, places)), axis=1)
            counts = np.bincount(pairs[0]).tolist()
            sums = summed(column, untils - begins)
            return {
                name: (counts[number], time)
                for name, (number, time, _) in zip(numbers, sums, strict=True)
            }
    return {}


def _holder(call: int, nesting: Nesting, names: Sequence[str], *, are_frames_own: bool) -> str:
    chain = [call]
    while (parent := int(nesting.parents[chain[-1]])) >= 0:
        chain.append(parent)
    frames = [names[nesting.names[row]] for row in chain]
    file, is_line, _ = frames[-1].partition("(")
    of_file = "" if are_frames_own or not is_line else file
    file_frames = (name for name in frames if ": <" not in name and name.startswith(of_file))
    return next(file_frames, frames[-1])
