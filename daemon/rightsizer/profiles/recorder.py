"""Recorder of a profile's timeline in columns; computes each device's time use."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, Final

import numpy as np
from msgspec.structs import replace

from rightsizer.model.profile import (
    CopyKind,
    DeviceProfile,
    HostMemory,
    HostSpanUse,
    HostStep,
    ProfileTimeline,
    SpanKind,
    StepUse,
)
from rightsizer.model.values import Nanoseconds, seconds
from rightsizer.profiles.attention import unfused_attention
from rightsizer.profiles.call_stacks import CallStacks, FrameTree
from rightsizer.profiles.capture_phases import CapturePhases
from rightsizer.profiles.columns import EventRows, Texts, Values, chosen, grouped, integers
from rightsizer.profiles.device_events import DeviceEvents
from rightsizer.profiles.host_line import HostLine, holders
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.names import kernel_family
from rightsizer.profiles.tables import HostSpans, short_name
from rightsizer.profiles.time_use import (
    Launches,
    MeasuredLine,
    StepSpan,
    apart,
    collectives_by_step,
    covered,
    long_collective_starts,
    stream_lanes,
    timeline,
    timeline_edges,
)
from rightsizer.profiles.timeline import (
    LATEST,
    NO_NUMBER,
    CoveredLength,
    Interval,
    KernelLine,
    common,
    in_order,
    is_in_time,
    united,
)

_CORRELATIONS: Final = 2**62
"""Limit of correlations, above any clock; sums of two still fit a column."""

_NO_THREAD: Final = -1
_THREAD: Final = 0xFFFFFF
"""Mask of the thread's part in Nsight Systems' ids."""
_WORTH_NAMING: Final = 0.05
"""Share of a device's span: waits for the host whose frames are searched."""
_NOTES_PER_DEVICE: Final = 3
_OTHER_DEVICES: Final = "(other devices)"


class Recorder:
    """Events of one profile; memory is needed for columns and names only, within limits."""

    def __init__(self, limits: ReadLimits) -> None:
        self._limits = limits
        self._devices: dict[str, DeviceEvents] = {}
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
        self._refused: Counter[str] = Counter()
        self._events = 0
        self._rows: Mapping[Callable[..., None], EventRows] = {
            take: EventRows(take)
            for take in (
                self.kernels, self.copies, self.fills, self.launches, self.host_spans_of,
                self.waits,
            )
        }  # fmt: skip

    @property
    def refused(self) -> Counter[str]:
        """Rejected events by fault."""
        self.flush()
        return self._refused

    @property
    def events(self) -> int:
        """Number of accepted events."""
        self.flush()
        return self._events

    def device(self, key: str, **facts: Any) -> None:
        """Set facts of a device: fields of `ProfiledDevice`."""
        device = self._device(key)
        device.facts = replace(device.facts, **facts)

    def kernels(  # noqa: PLR0913, PLR0917 - a column each.
        self,
        devices: Texts,
        starts: Values,
        ends: Values,
        correlations: Values,
        names: Texts,
        streams: Texts,
        occupancy_ratios: Sequence[float | None] | None = None,
        groups: Texts | None = None,
        frames: Sequence[Sequence[str] | None] | None = None,
        collectives: Collection[str] = (),
    ) -> None:
        """Add runs of kernels, and of graphs recorded as a whole, which have no names.

        `frames` are named from the outermost, if the profile has them with the kernels; else those
        of their launches are used. `collectives` are names known as such.
        """
        for device, columns in self._taken(
            "kernel", starts, ends, correlations, devices, names, streams, occupancy_ratios,
            groups, frames,
        ):  # fmt: skip
            self._device(device).add_kernels(self._frames, collectives, *columns)

    def copies(
        self,
        devices: Texts,
        starts: Values,
        ends: Values,
        kinds: Texts,
        sizes: Values,
    ) -> None:
        """Add copies from, to, or within devices, of kind and memory."""
        lengths = integers(sizes)
        is_sound = (lengths >= 0) | (lengths == NO_NUMBER)
        if count := int(np.count_nonzero(~is_sound)):
            self._refused["copy of a negative size"] += count
        columns = chosen(
            np.flatnonzero(is_sound), lengths, integers(starts), integers(ends), devices, kinds
        )
        lengths, begins, untils, devices, kinds = columns
        for device, columns in self._taken("copy", begins, untils, None, devices, kinds, lengths):
            into = self._device(device)
            begins, untils, _, kinds_there, sizes_there = columns
            into.copied.extend(begins, untils)
            for kind, rows in grouped(kinds_there):
                times, of_kind = chosen(rows, untils - begins, sizes_there)
                size = None if NO_NUMBER in of_kind else sum(of_kind.tolist())
                into.copies.add(kind[0], kind[1], size, int(times.sum()), rows.size)

    def fills(self, devices: Texts, starts: Values, ends: Values) -> None:
        """Add memory fills: neither kernels nor copies, but not idle either."""
        for device, (begins, untils, _) in self._taken("fill", starts, ends, None, devices):
            self._device(device).filled.extend(begins, untils)

    def launches(self, correlations: Values, starts: Values, ends: Values, threads: Values) -> None:
        """Add host calls that launched work with the same correlations."""
        columns = self._valid("launch", starts, ends, correlations, integers(threads))
        begins, untils, ties, numbers = columns
        self._launches.extend(ties, begins, untils, self.stacks.bounded(numbers))

    def host_spans_of(self, starts: Values, ends: Values, kinds: Texts, names: Texts) -> None:
        """Add spans of the host."""
        begins, untils, _, *columns = self._valid("host span", starts, ends, None, kinds, names)
        self._spans.extend(begins, untils, *columns, are_waits=False)

    def waits(self, starts: Values, ends: Values, names: Texts) -> None:
        """Add host calls that wait for the device."""
        begins, untils, _, texts = self._valid("wait", starts, ends, None, names)
        kinds = [SpanKind.SYNCHRONIZATION] * len(texts)
        self._spans.extend(begins, untils, kinds, texts, are_waits=True)

    def kernel(  # noqa: PLR0913 - facts of a kernel in profilers.
        self,
        device: str,
        span: Interval,
        name: str | None,
        *,
        correlation: int | None = None,
        occupancy_ratio: float | None = None,
        frames: Sequence[str] | None = None,
        stream: str = "",
    ) -> None:
        """Add a run of a kernel, or of a graph without a name."""
        self._rows[self.kernels].add(
            device, *span, correlation, name, stream, occupancy_ratio, "", frames
        )

    def copy(
        self,
        device: str,
        span: Interval,
        kind: CopyKind,
        memory: HostMemory,
        size_bytes: int | None,
    ) -> None:
        """Add a copy from, to, or within a device."""
        self._rows[self.copies].add(device, *span, (kind, memory), size_bytes)

    def fill(self, device: str, span: Interval) -> None:
        """Add a memory fill."""
        self._rows[self.fills].add(device, *span)

    def launch(self, correlation: int, span: Interval, thread: int = -1) -> None:
        """Add a host call that launched work with the same correlation."""
        self._rows[self.launches].add(correlation, *span, thread)

    def host_span(self, kind: SpanKind, name: str, span: Interval) -> None:
        """Add a span of the host."""
        self._rows[self.host_spans_of].add(*span, kind, name)

    def wait(self, name: str, span: Interval) -> None:
        """Add a host call that waits for the device."""
        self._rows[self.waits].add(*span, name)

    def flush(self) -> None:
        """Take the events that were given one by one."""
        for rows in self._rows.values():
            rows.flush()
        self.stacks.flush()

    def collective(self, device: str, span: Interval, arguments: Mapping[str, Any]) -> None:
        """Add PyTorch's description of a collective beside its kernel."""
        if is_in_time(*span):
            self._device(device).collectives.add(arguments, span[1] - span[0])

    def capture(self, thread: int, end: str, span: Interval) -> None:
        """Add a call that begins or ends the recording of a graph: `Begin` or `End`."""
        if self._is_valid("capture", span):
            self._captures.mark(thread, end, span)

    def step(
        self, name: str, span: Interval, device: str | None = None, *, is_counted: bool = False
    ) -> None:
        """Add a step of a device, or of all without their own; it may be counted as a span."""
        if not self._is_valid("step", span):
            return
        self._events -= is_counted
        self._step_count += 1
        if self._step_count > self._limits.steps_maximum:
            self._refused[f"step beyond the first {self._limits.steps_maximum}"] += 1
            return
        steps = self._steps if device is None else self._device(device).steps
        steps.append(StepSpan(*span, short_name(name, self._limits.name_maximum_characters)))

    def memory(self, device: str, used_bytes: int, at: Nanoseconds | None = None) -> None:
        """Add the memory in use at a time."""
        if used_bytes < 0:
            self._refused["memory below zero"] += 1
        elif self._device(device).memory.add(at, used_bytes):
            self._events += 1
        else:
            self._refused["memory beyond 64 bits"] += 1

    def devices(self) -> tuple[DeviceProfile, ...]:
        """Return the profiles of all devices with work."""
        self.flush()
        for columns in self.stacks.waits():
            self.waits(*columns)
        used = [device for device in self._devices.values() if device.is_used]
        used.sort(key=lambda device: (device.facts.index or 0, device.facts.key))
        self.stacks.find_launches(self._launches, self._frames)
        return tuple(map(self._profile, used))

    @property
    def has_steps(self) -> bool:
        """Whether the host marked any steps."""
        return bool(self._steps)

    def host_spans(self) -> tuple[HostSpanUse, ...]:
        """Return the host spans, longest first."""
        self.flush()
        return self._spans.uses()

    def host_steps(self, *, are_operators_known: bool = True) -> tuple[HostStep, ...]:
        """Return the steps marked by the host; none if a device has its own timeline.

        What holds their pauses and asks for values becomes a span of the host.
        """
        self.flush()
        if any(len(device.runs) for device in self._devices.values()):
            return ()
        if not (steps := apart(self._steps)):
            return ()
        kinds = SpanKind.LOADER, SpanKind.COLLECTIVE, SpanKind.CHECKPOINT
        loader, collectives, checkpoints = (self._covered(kind, steps) for kind in kinds)
        matched = collectives_by_step(steps, self._spans.runs(SpanKind.COLLECTIVE))
        host_steps = tuple(
            HostStep(
                span.name,
                span.start,
                span.end,
                seconds(loader.length(span.start, span.end)),
                seconds(collectives.length(span.start, span.end)),
                seconds(checkpoints.length(span.start, span.end)),
                of_step,
            )
            for span, of_step in zip(steps, matched, strict=True)
        )
        if not are_operators_known or not self.stacks.has_operators:
            return host_steps
        taken = map(self._spans.times, kinds)
        line = HostLine(self.stacks, self._limits.time, steps, united(*in_order(*taken)))
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
            for host_step, step in zip(host_steps, steps, strict=True)
        )

    def _device(self, key: str) -> DeviceEvents:
        if key not in self._devices:
            if len(self._devices) >= self._limits.devices_maximum:
                key = _OTHER_DEVICES
            self._devices.setdefault(key, DeviceEvents(key, self._limits))
        return self._devices[key]

    def _is_valid(self, what: str, span: Interval) -> bool:
        return bool(self._valid(what, span[:1], span[1:], None)[0].size)

    def _valid(
        self, what: str, starts: Values, ends: Values, correlations: Values | None, *more: Any
    ) -> tuple[Any, ...]:
        """Return the columns without impossible events; they are counted either way."""
        begins = integers(starts)
        untils = integers(ends)
        ties = np.full(begins.size, NO_NUMBER) if correlations is None else integers(correlations)
        is_left = np.ones(begins.size, bool)
        for fault, has_fault in (
            ("out of all time", (begins <= -LATEST) | (untils >= LATEST)),
            ("of a negative duration", untils < begins),
            (
                "with a correlation out of range",
                (np.abs(ties) >= _CORRELATIONS) & (ties != NO_NUMBER),
            ),
        ):
            if count := int(np.count_nonzero(is_left & has_fault)):
                self._refused[f"{what} {fault}"] += count
                is_left &= ~has_fault
        rows = np.flatnonzero(is_left)
        self._events += rows.size
        self._limits.check_events(self._events)
        return chosen(rows, begins, untils, ties, *more)

    def _taken(
        self, what: str, starts: Values, ends: Values, correlations: Values | None, *more: Any
    ) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """Yield the columns of each device, without its own."""
        begins, untils, ties, devices, *rest = self._valid(what, starts, ends, correlations, *more)
        for device, rows in grouped(devices):
            yield device, chosen(rows, begins, untils, ties, *rest)

    def _profile(self, device: DeviceEvents) -> DeviceProfile:
        kernels, overruns = device.line()
        self.notes += islice(overruns, _NOTES_PER_DEVICE)
        profile = DeviceProfile(
            device=device.facts,
            time=None,
            kernels=device.kernels.uses(),
            copies=device.copies.uses(),
            collectives=device.collectives.uses(),
            memory_peak_bytes=device.memory.peak,
        )
        if not len(device.runs):
            return profile
        steps = apart(device.steps or self._steps)
        limits = self._limits.time
        edges = timeline_edges((*_marks(steps), *kernels.span), limits.timeline_moments)
        span = np.array(edges[:1]), np.array(edges[-1:])
        phases = common(span, self._captures.phases())[:2]
        marks = [*_marks(steps), *edges, *np.append(*phases).tolist()]
        copies, fills = device.copied.read(), device.filled.read()
        line = MeasuredLine(kernels, copies, fills, self._launches, self._spans, marks, limits)
        pauses = line.host_waits.pauses
        if int((pauses[1] - pauses[0]).sum()) >= _WORTH_NAMING * (line.span[1] - line.start):
            for name, (count, time) in holders(self.stacks, line.threads, pauses).items():
                self._spans.add_sum(SpanKind.PAUSE, name, count, time)
        if phases[0].size:
            recorded = 1000 * seconds(int((phases[1] - phases[0]).sum()))
            self.notes.append(
                f"Graphs are recorded in {recorded:,.3g} ms of the time of device "
                f"{device.facts.key}, which runs none of their kernels: no verdict rests on it."
            )
        families = [kernel_family(row.name) for row in device.kernels.numbered()]
        inline = kernels.inline_collectives(device.unknown_streams)
        return replace(
            profile,
            inline_collective_seconds=seconds(inline),
            attention=unfused_attention(kernels.of_stream(), families),
            time=line.between(*line.span),
            launches=line.counter.use,
            steps=self._step_uses(device, kernels, line, steps),
            start=line.span[0],
            steps_time=(
                line.between(line.start, line.span[1]) if line.start < line.span[0] else None
            ),
            work_time=line.outside(phases),
            dispatch_gaps=line.host_waits.gaps(),
            host_calls=line.host_waits.calls(),
            longest_host_wait_seconds=seconds(line.host_waits.longest),
            timeline=self._timeline(device, kernels, line, edges),
            products=self.stacks.products(line.counter.product_times),
            frames=(
                self._frames.uses(device.frame_times) or self._frames.uses(line.counter.frame_times)
            ),
        )

    def _step_uses(
        self,
        device: DeviceEvents,
        kernels: KernelLine,
        line: MeasuredLine,
        steps: Sequence[StepSpan],
    ) -> tuple[StepUse, ...]:
        loader = self._covered(SpanKind.LOADER, steps)
        long = long_collective_starts(
            steps,
            kernels.chosen(kernels.is_collective),
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
                collectives,
            )
            for step, last, collectives in zip(
                steps,
                long,
                collectives_by_step(steps, device.collective_runs(kernels)),
                strict=True,
            )
        )

    def _timeline(
        self,
        device: DeviceEvents,
        kernels: KernelLine,
        line: MeasuredLine,
        edges: Sequence[Nanoseconds],
    ) -> ProfileTimeline:
        """Return the lanes of streams and threads, and the memory, between edges."""
        return replace(
            timeline(line, edges),
            streams=stream_lanes(kernels, [*device.streams], edges),
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
        line.add(*self._spans.times(kind))
        return line


def _marks(steps: Iterable[StepSpan]) -> Iterator[Nanoseconds]:
    return chain.from_iterable((step.start, step.end) for step in steps)
