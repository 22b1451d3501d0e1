"""Recorder of a profile's timeline, event by event; computes each device's time use."""

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import chain, compress, islice, pairwise
from typing import Any, Final

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from rightsizer.io.terminal import counted
from rightsizer.model.profile import (
    CopyKind,
    DeviceProfile,
    HostMemory,
    HostSpanUse,
    HostStep,
    ProfiledDevice,
    ProfileTimeline,
    SpanKind,
    StepUse,
)
from rightsizer.model.units import Nanoseconds, seconds
from rightsizer.profiles.attention import unfused_attention
from rightsizer.profiles.call_stacks import CallStacks, FrameTree
from rightsizer.profiles.capture_phases import CapturePhases
from rightsizer.profiles.host_line import HostLine, holders
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.names import kernel_family
from rightsizer.profiles.tables import (
    CollectiveTable,
    CopyTable,
    HostSpans,
    KernelTable,
    short_name,
)
from rightsizer.profiles.time_use import (
    FrameTimes,
    Launches,
    MeasuredLine,
    StepSpan,
    apart,
    covered,
    long_collective_starts,
    stream_lanes,
    timeline,
    timeline_edges,
)
from rightsizer.profiles.timeline import (
    LATEST,
    NO_KERNEL,
    NO_NUMBER,
    Column,
    CoveredLength,
    Interval,
    KernelLine,
    MemoryCurve,
    Numbers,
    SpanLine,
    Within,
    is_in_time,
    union,
)

_CORRELATIONS: Final = 2**62
"""Limit of correlations, above any clock; sums of two still fit a column."""

_STREAMS: Final = 255
_STREAM_CHARACTERS: Final = 40
_OTHER_STREAMS: Final = "(other streams)"
_GROUPS: Final = 255
_COLLECTIVES: Final = 200_000
"""Collectives of a device that are compared with those of other ranks."""
_NO_THREAD: Final = -1
_THREAD: Final = 0xFFFFFF
"""Mask of the thread's part in Nsight Systems' ids."""
_WORTH_NAMING: Final = 0.05
"""Share of a device's span: waits for the host whose frames are searched."""
_NOTES_PER_DEVICE: Final = 3
_OTHER_DEVICES: Final = "(other devices)"


class _Device:
    """Accumulator of one device."""

    def __init__(self, key: str, limits: ReadLimits) -> None:
        self.facts = ProfiledDevice(key)
        self.line = KernelLine()
        self.copy_line = SpanLine()
        self.fill_line = SpanLine()
        self.kernels = KernelTable(limits)
        self.copies = CopyTable()
        self.collectives = CollectiveTable()
        self.steps: list[StepSpan] = []
        self.memory = MemoryCurve()
        self.streams: dict[str, int] = {}
        self._streams_written: dict[int, int] = {}
        self.groups: dict[str, int] = {"": 0}
        self.frame_times = FrameTimes()

    def stream(self, name: str) -> int:
        """Return the number of a stream; streams beyond 255 share one."""
        if name not in self.streams and len(self.streams) >= _STREAMS:
            name = _OTHER_STREAMS
        return self.streams.setdefault(name, len(self.streams))

    def stream_of(self, written: Any) -> int:
        """Return the number of a stream, written as a number or with its name."""
        known = self._streams_written.get(written) if type(written) is int else None
        if known is None:
            name = f"stream {str(written).removeprefix('stream ')}"[:_STREAM_CHARACTERS]
            known = self.stream(name)
            if type(written) is int and len(self._streams_written) < _STREAMS:
                self._streams_written[written] = known
        return known

    def group(self, name: str) -> int:
        """Return the number of a group of ranks; groups beyond 255 count as unknown."""
        if name not in self.groups and len(self.groups) >= _GROUPS:
            name = ""
        return self.groups.setdefault(name, len(self.groups))

    def collectives_of(self, steps: Sequence[StepSpan]) -> list[dict[str, list[Interval]]]:
        """Return the collectives of each step by kernel and group, without the first of all."""
        names = self.kernels.numbered()
        groups = list(self.groups)
        starts = [step.start for step in steps]
        found: list[dict[str, list[Interval]]] = [{} for _ in steps]
        for (start, end), kernel, group in islice(self.line.collective_runs(), 1, _COLLECTIVES):
            place = bisect_right(starts, start) - 1
            if place >= 0 and start < steps[place].end and kernel != NO_KERNEL:
                key = f"{names[kernel].name} {groups[group]}".rstrip()
                found[place].setdefault(key, []).append((start, end))
        return found

    @property
    def unknown_streams(self) -> set[int]:
        """Numbers of what is no stream of its own."""
        return {self.streams.get(name, _STREAMS) for name in ("", _OTHER_STREAMS)}

    def end_overruns(self) -> Iterator[str]:
        """End what outlasts its successors, add up the kernels, and yield what was ended."""
        overruns = self.line.end_overruns(self.unknown_streams)
        self.kernels.add_runs(*self.line.runs())
        rows = self.kernels.numbered()
        for kernel, (count, time) in sorted(overruns.items(), key=lambda each: -each[1][1]):
            name = "graphs" if kernel == NO_KERNEL else rows[kernel].name
            yield (
                f"{counted(count, 'run')} of {name} on device {self.facts.key} ended after what "
                "follows on the same stream, which cannot be: each is taken to end where its "
                f"successor begins, {1000 * seconds(time):,.1f} ms less in all; do not trust its "
                "times."
            )

    @property
    def is_used(self) -> bool:
        return bool(len(self.line) or len(self.copy_line)) or self.memory.peak is not None


class Recorder:
    """Events of one profile; memory is needed for columns and names only, within limits."""

    def __init__(self, limits: ReadLimits) -> None:
        self._limits = limits
        self._devices: dict[str, _Device] = {}
        self._launches = Launches()
        self._spans = HostSpans(limits)
        self._steps: list[StepSpan] = []
        self._step_count = 0
        self._frames = FrameTree(limits)
        self.stacks = CallStacks(limits)
        """Call stacks of host threads."""
        self._captures = CapturePhases()
        self.thread_names: dict[int, str] = {}
        self.notes: list[str] = []
        """Sentences on events that contradict each other, after the devices were computed."""
        self.refused: Counter[str] = Counter()
        """Rejected events by fault."""
        self.events = 0
        """Accepted events."""

    def device(self, key: str, **facts: Any) -> None:
        """Set facts of a device: fields of `ProfiledDevice`."""
        device = self._device(key)
        device.facts = replace(device.facts, **facts)

    def kernel(  # noqa: PLR0913 - facts of a kernel in profilers.
        self,
        device: str,
        span: Interval,
        name: str,
        *,
        correlation: int | None = None,
        is_collective: bool | None = None,
        occupancy_ratio: float | None = None,
        frames: Sequence[str] | None = None,
        stream: str = "",
        group: str = "",
    ) -> None:
        """Add a run of a kernel; `None` is derived from its name, or stays unknown.

        `frames` are named from the outermost, if the profile has them with the kernel; else those
        of its launch are used.
        """
        if not self._takes("kernel", span, correlation):
            return
        into = self._device(device)
        duration = span[1] - span[0]
        row = into.kernels.row(name)
        if is_collective is not None:
            row.is_collective = is_collective
        if occupancy_ratio is not None:
            row.measure("occupancy_ratio", occupancy_ratio, duration or 1)
        into.line.add_run(
            span,
            correlation,
            kernel=row.number,
            is_collective=row.is_collective,
            stream=into.stream(stream),
            group=into.group(group),
        )
        if frames is not None:
            into.frame_times.add(self._frames.path(frames), duration)

    def kernels(  # noqa: PLR0913, PLR0917 - a column each.
        self,
        device: str,
        starts: Numbers,
        ends: Numbers,
        names: Sequence[str],
        correlations: Numbers,
        collectives: Sequence[int],
        occupancy_ratios: Sequence[float | None],
        streams: Sequence[Any],
        groups: Sequence[str],
    ) -> None:
        """Add runs of kernels in columns; `collectives` are the places of those known as such."""
        is_valid = self._are_valid("kernel", starts, ends, correlations)
        into = self._device(device)
        rows = [into.kernels.row(name) for name in names]
        for place in collectives:
            rows[place].is_collective = True
        into.line.extend_runs(
            starts[is_valid],
            ends[is_valid],
            correlations[is_valid],
            [*compress([row.number for row in rows], is_valid)],
            [*compress([row.is_collective for row in rows], is_valid)],
            [*compress([into.stream_of(stream) for stream in streams], is_valid)],
            [*compress([into.group(group) for group in groups], is_valid)],
        )
        durations = (ends - starts).tolist()
        for place, ratio in enumerate(occupancy_ratios):
            if ratio is not None and is_valid[place]:
                rows[place].measure("occupancy_ratio", ratio, durations[place] or 1)

    def collective(self, device: str, span: Interval, arguments: Mapping[str, Any]) -> None:
        """Add PyTorch's description of a collective beside its kernel."""
        if is_in_time(*span):
            self._device(device).collectives.add(arguments, span[1] - span[0])

    def graph(
        self, device: str, span: Interval, correlation: int | None = None, stream: str = ""
    ) -> None:
        """Add a graph recorded as a whole: the device is busy with unknown kernels."""
        if self._takes("graph", span, correlation):
            into = self._device(device)
            into.line.add_run(span, correlation, stream=into.stream(stream))

    def copy(
        self,
        device: str,
        span: Interval,
        kind: CopyKind,
        memory: HostMemory,
        size_bytes: int | None,
    ) -> None:
        """Add a copy from, to, or within a device."""
        if size_bytes is not None and size_bytes < 0:
            self.refused["copy of a negative size"] += 1
        elif self._takes("copy", span):
            into = self._device(device)
            into.copies.add(kind, memory, size_bytes, span[1] - span[0])
            into.copy_line.add(*span)

    def fill(self, device: str, span: Interval) -> None:
        """Add a memory fill: neither kernel nor copy, but not idle either."""
        if self._takes("fill", span):
            self._device(device).fill_line.add(*span)

    def launch(self, correlation: int, span: Interval, thread: int = -1) -> None:
        """Add a host call that launched work with the same correlation."""
        if self._takes("launch", span, correlation):
            self._launches.add(correlation, *span, self.stacks.thread(thread))

    def launches(
        self, correlations: Numbers, starts: Numbers, ends: Numbers, threads: Numbers
    ) -> None:
        """Add host calls in columns."""
        valid = self._are_valid("launch", starts, ends, correlations)
        for thread in np.unique(threads).tolist():
            if self.stacks.thread(thread) == _NO_THREAD:
                threads = np.where(threads == thread, _NO_THREAD, threads)
        self._launches.extend(correlations[valid], starts[valid], ends[valid], threads[valid])

    def capture(self, thread: int, end: str, span: Interval) -> None:
        """Add a call that begins or ends the recording of a graph: `Begin` or `End`."""
        if self._takes("capture", span):
            self._captures.mark(thread, end, span)

    def host_span(self, kind: SpanKind, name: str, span: Interval) -> None:
        """Add a span of the host."""
        if self._takes("host span", span):
            if kind is SpanKind.SYNCHRONIZATION:  # By its name alone it need not be a wait.
                self._spans.add_sum(kind, name, 1, span[1] - span[0])
            else:
                self._spans.add(kind, name, span)

    def wait(self, name: str, span: Interval) -> None:
        """Add a host call that waits for the device."""
        if self._takes("wait", span):
            self._spans.add(SpanKind.SYNCHRONIZATION, name, span)

    def step(self, name: str, span: Interval, device: str | None = None) -> None:
        """Add a step of a device, or of all devices without steps of their own."""
        if not self._takes("step", span):
            return
        self._step_count += 1
        if self._step_count > self._limits.steps_maximum:
            self.refused[f"step beyond the first {self._limits.steps_maximum}"] += 1
            return
        steps = self._steps if device is None else self._device(device).steps
        steps.append(StepSpan(*span, short_name(name, self._limits.name_maximum_characters)))

    def memory(self, device: str, used_bytes: int, at: Nanoseconds | None = None) -> None:
        """Add the memory in use at a time."""
        if used_bytes < 0:
            self.refused["memory below zero"] += 1
        elif self._device(device).memory.add(at, used_bytes):
            self.events += 1
        else:
            self.refused["memory beyond 64 bits"] += 1

    def devices(self) -> tuple[DeviceProfile, ...]:
        """Return the profiles of all devices with work."""
        used = [each for each in self._devices.values() if each.is_used]
        used.sort(key=lambda each: (each.facts.index or 0, each.facts.key))
        self.stacks.find_launches(self._launches, self._frames)
        return tuple(map(self._profile, used))

    @property
    def has_steps(self) -> bool:
        """Whether the host marked any steps."""
        return bool(self._steps)

    def host_spans(self) -> tuple[HostSpanUse, ...]:
        """Return the host spans, longest first."""
        return self._spans.uses()

    def host_steps(self, *, are_operators_known: bool = True) -> tuple[HostStep, ...]:
        """Return the steps marked by the host; none if a device has its own timeline.

        What holds their pauses and asks for values becomes a span of the host.
        """
        if any(len(each.line) for each in self._devices.values()):
            return ()
        if not (steps := apart(self._steps)):
            return ()
        kinds = SpanKind.LOADER, SpanKind.COLLECTIVE
        loader, collectives = (self._covered(kind, steps) for kind in kinds)
        found = tuple(
            HostStep(
                span.name,
                span.start,
                span.end,
                seconds(loader.length(span.start, span.end)),
                seconds(collectives.length(span.start, span.end)),
            )
            for span in steps
        )
        if not are_operators_known or not self.stacks.has_operators:
            return found
        taken = (self._spans.times(kind) for kind in (*kinds, SpanKind.CHECKPOINT))
        line = HostLine(self.stacks, self._limits.time, steps, union(merge(*taken)))
        for name, (count, time) in line.holders.items():
            self._spans.add_sum(SpanKind.PAUSE, name, count, time)
        for name, (count, time) in line.read_back_uses.items():
            self._spans.add_sum(SpanKind.SYNCHRONIZATION, name, count, time)
        return tuple(
            replace(
                host_step,
                operators=line.operators(step),
                dispatch_seconds=seconds(line.dispatch(step)),
                pause_seconds=seconds(line.paused(step)),
                read_backs=line.read_backs(step),
            )
            for host_step, step in zip(found, steps, strict=True)
        )

    def _device(self, key: str) -> _Device:
        if key not in self._devices:
            if len(self._devices) >= self._limits.devices_maximum:
                key = _OTHER_DEVICES
            self._devices.setdefault(key, _Device(key, self._limits))
        return self._devices[key]

    def _takes(self, what: str, span: Interval, correlation: int | None = None) -> bool:
        """Whether an event is valid; counted either way."""
        (start, end), fault = span, ""
        if end < start:
            fault = "of a negative duration"
        elif not is_in_time(start, end):
            fault = "out of all time"
        elif correlation is not None and not -_CORRELATIONS < correlation < _CORRELATIONS:
            fault = "with a correlation out of range"
        if fault:
            self.refused[f"{what} {fault}"] += 1
            return False
        self.events += 1
        self._limits.check_events(self.events)
        return True

    def _are_valid(
        self, what: str, starts: Numbers, ends: Numbers, correlations: Numbers
    ) -> "NDArray[np.bool_]":
        """Whether each of some events is valid; counted either way."""
        is_left = np.ones(len(starts), bool)
        is_large = (np.abs(correlations) >= _CORRELATIONS) & (correlations != NO_NUMBER)
        for fault, has_fault in (
            ("of a negative duration", ends < starts),
            ("out of all time", (starts <= -LATEST) | (ends >= LATEST)),
            ("with a correlation out of range", is_large),
        ):
            if count := int(np.count_nonzero(is_left & has_fault)):
                self.refused[f"{what} {fault}"] += count
                is_left &= ~has_fault
        self.events += int(np.count_nonzero(is_left))
        self._limits.check_events(self.events)
        return is_left

    def _profile(self, device: _Device) -> DeviceProfile:
        self.notes += islice(device.end_overruns(), _NOTES_PER_DEVICE)
        profile = DeviceProfile(
            device=device.facts,
            time=None,
            kernels=device.kernels.uses(),
            copies=device.copies.uses(),
            collectives=device.collectives.uses(),
            memory_peak_bytes=device.memory.peak,
        )
        if not len(device.line):
            return profile
        steps = apart(device.steps or self._steps)
        limits = self._limits.time
        edges = timeline_edges((*_marks(steps), *device.line.span()), limits.timeline_moments)
        phases = [*Within(self._captures.phases()).of(edges[0], edges[-1])]
        marks = [*_marks(steps), *edges, *chain.from_iterable(phases)]
        lines = device.line, device.copy_line, device.fill_line
        line = MeasuredLine(*lines, self._launches, self._spans, marks, limits)
        pauses = line.host_waits.pauses
        if sum(end - start for start, end in pauses) >= _WORTH_NAMING * (line.span[1] - line.start):
            for name, (count, time) in holders(self.stacks, line.threads, pauses).items():
                self._spans.add_sum(SpanKind.PAUSE, name, count, time)
        if phases:
            recorded = 1000 * seconds(sum(end - start for start, end in phases))
            self.notes.append(
                f"Graphs are recorded in {recorded:,.3g} ms of the time of device "
                f"{device.facts.key}, which runs none of their kernels: no verdict rests on it."
            )
        families = [kernel_family(row.name) for row in device.kernels.numbered()]
        inline = device.line.inline_collectives(device.unknown_streams)
        return replace(
            profile,
            inline_collective_seconds=seconds(inline),
            attention=unfused_attention(device.line.of_stream(), families),
            time=line.between(*line.span),
            launches=line.launches,
            steps=self._step_uses(device, line, steps),
            start=line.span[0],
            steps_time=(
                line.between(line.start, line.span[1]) if line.start < line.span[0] else None
            ),
            work_time=line.outside(phases),
            dispatch_gaps=line.host_waits.gaps(),
            host_calls=line.host_waits.calls(),
            longest_host_wait_seconds=seconds(line.host_waits.longest),
            timeline=self._timeline(device, line, edges),
            products=self.stacks.products(line.product_times),
            frames=(self._frames.uses(device.frame_times) or self._frames.uses(line.frame_times)),
        )

    def _step_uses(
        self, device: _Device, line: MeasuredLine, steps: Sequence[StepSpan]
    ) -> tuple[StepUse, ...]:
        loader = self._covered(SpanKind.LOADER, steps)
        long = long_collective_starts(
            steps,
            (interval for interval, _, _ in device.line.collective_runs()),
            self._limits.time.long_collective_minimum_ratio,
        )
        return tuple(
            StepUse(
                step.name,
                step.start,
                step.end,
                line.between(step.start, step.end),
                seconds(loader.length(step.start, step.end)),
                last,
                {key: tuple(intervals) for key, intervals in collectives.items()},
            )
            for step, last, collectives in zip(
                steps, long, device.collectives_of(steps), strict=True
            )
        )

    def _timeline(
        self, device: _Device, line: MeasuredLine, edges: Sequence[Nanoseconds]
    ) -> ProfileTimeline:
        """Return the lanes of streams and threads, and the memory, between edges."""
        return replace(
            timeline(line, edges),
            streams=stream_lanes(device.line, [*device.streams], edges),
            threads={
                self.thread_names.get(thread) or f"thread {thread & _THREAD}": covered(
                    edges, self.stacks.busy(thread), self._launches.of_thread(thread)
                )
                for thread in line.threads
                if thread != _NO_THREAD
            },
            memory_bytes=device.memory.between(edges),
        )

    def _covered(self, kind: SpanKind, steps: Iterable[StepSpan]) -> CoveredLength:
        """Return the coverage by host spans between starts and ends of steps."""
        line = CoveredLength(_marks(steps))
        line.add_all(self._spans.times(kind))
        return line


def _marks(steps: Iterable[StepSpan]) -> Iterator[Nanoseconds]:
    return chain.from_iterable((step.start, step.end) for step in steps)


class StepMarks:
    """Steps of a trace: the profiler's, else those on devices, else iterations of an engine."""

    def __init__(self, recorder: Recorder, maximum: int) -> None:
        self._recorder = recorder
        self._maximum = maximum
        self._is_marked = False
        self._on_devices: list[tuple[str, Interval, str]] = []
        self._turns: Column = array("q")

    def mark(self, name: str, span: Interval) -> None:
        """Add a step marked on the host."""
        self._is_marked = True
        self._recorder.step(name, span)

    def mark_device(self, name: str, span: Interval, device: str) -> bool:
        """Add a step marked on a device; return whether there was room."""
        has_room = len(self._on_devices) < self._maximum
        if has_room:
            self._on_devices.append((name, span, device))
        return has_room

    def begin_turn(self, start: Nanoseconds) -> None:
        """Add the start of an engine's iteration, which lasts until the next."""
        if len(self._turns) <= self._maximum:
            self._turns.append(start)

    def finish(self) -> None:
        """Record substitutes for steps if none was marked."""
        if self._is_marked:
            return
        for name, span, device in self._on_devices:
            self._recorder.step(name, span, device)
        if not self._on_devices:
            for count, turn in enumerate(pairwise(sorted(self._turns)), 1):
                self._recorder.step(f"turn {count}", turn)
