"""Reader of PyTorch's profiler: Kineto's JSON, plain or packed, with or without counters."""

import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

from rightsizer.model.errors import ProfileError
from rightsizer.model.profile import (
    CopyKind,
    DeviceProfile,
    HostMemory,
    Profile,
    ProfiledDevice,
    ProfileFormat,
)
from rightsizer.model.units import Nanoseconds
from rightsizer.profiles.call_stacks import CallKind, without_turn
from rightsizer.profiles.json_events import (
    Event,
    JsonEvents,
    microseconds,
    number,
    percent,
    whole_number,
)
from rightsizer.profiles.kineto_header import HEADER_KEYS, TraceHeader
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.lost_kernels import LostKernels
from rightsizer.profiles.names import (
    capture_end,
    copy_kind,
    host_memory,
    is_read_back,
    is_turn,
    is_wait_call,
    operation,
    python_span,
    span_kind,
)
from rightsizer.profiles.products import tensor_product
from rightsizer.profiles.reader import ProfileReader
from rightsizer.profiles.recorder import Recorder, StepMarks
from rightsizer.profiles.tables import KernelTable
from rightsizer.profiles.time_use import Launches
from rightsizer.profiles.timeline import Column, Interval, MemoryCurve

NO_EVENTS: Final = (
    "a trace without events; record again, with steps between the profiler's start and its stop"
)
_UNNAMED: Final = ("", "__missing__")
_TENSOR: Final = re.compile(r"pipe_tensor|hmma|imma|inst_executed_op_\w*mma")
_MEASURED: Final = (
    ("compute_ratio", re.compile(r"^sm__throughput\..*pct")),
    ("dram_ratio", re.compile(r"^(?:gpu__dram|dram)__?throughput\..*pct")),
    ("occupancy_ratio", re.compile(r"^sm__warps_active\..*pct")),
)

_Arguments: TypeAlias = Mapping[str, Any]
_Handler: TypeAlias = Callable[[Event, _Arguments, Interval], bool]

_READ_BACK_STARTS: Final = "<built-in method cpu", "<built-in method tolist"
_READ_BACK: Final = re.compile(r"<built-in method (\w+) of.*")
_STEP: Final = re.compile(r"ProfilerStep\s*#")
_ENGINE_TURN: Final = "turn of the engine"
_AWAITED: Final = (CopyKind.DEVICE_TO_HOST, HostMemory.PAGEABLE)
_AWAITED_COPY: Final = "copy to pageable memory"
_OPERATORS: Final = ("cpu_op", "operator")
_ANNOTATION_PREFIXES: Final = ("ProfilerStep", "enumerate(DataLoader)", "Optimizer.")
_PREFIXED: Final = re.compile(r"[a-z0-9]+_(runtime|driver|memcpy|memset)")
"""Kineto's plug-ins prefix the original names of CUDA's events by the device kind."""
_OCCUPANCY: Final = "est. achieved occupancy %"
_CATEGORIES_MAXIMUM: Final = 64
_CATEGORY_MAXIMUM: Final = 40
_NO_ARGUMENTS: Final[Mapping[str, Any]] = {}
_JSON: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*[{\[]")
_MARKS: Final = re.compile(
    rb'"(?:schemaVersion|deviceProperties|distributedInfo|baseTimeNanoseconds)"\s*:'
    rb'|"cat"\s*:\s*"(?:cpu_op|fwdbwd|ac2g|gpu_mem(?:cpy|set)|cuda_profiler_range'
    rb"|(?:cuda|hip|xpu|mtia|privateuse1)_(?:runtime|driver)"
    rb'|python_function|user_annotation|gpu_user_annotation|Operator|Runtime|Kernel|kernel)"'
    rb"|ProfilerStep#"
)


class PyTorchEvents:
    """Passes events to a recorder; unused ones are counted by category."""

    def __init__(self, recorder: Recorder, limits: ReadLimits) -> None:
        self._recorder = recorder
        self._limits = limits
        self._steps = StepMarks(recorder, limits.steps_maximum)
        self._memory: dict[str, MemoryCurve] = {}
        self._untied: tuple[Event, Callable[..., None]] | None = None
        self.ranges = KernelTable(limits)
        self.range_count = 0
        """Kernels of a profile with counters instead of a timeline."""
        self.unread: Counter[str] = Counter()
        """By category."""
        self.used_devices: dict[str, None] = {}
        """Devices with work, in order of appearance."""
        self.copies_without_size = 0
        """Some of ROCm's."""
        self.has_gpu = False
        """Whether the host called the runtime of one."""
        self.lost = LostKernels()
        self._copy_calls = Launches()
        self._copy_threads: dict[int, int] = {}
        self._threads: dict[tuple[str, str], int] = {}
        self._process: str | None = None
        self._awaited: Column = array("q")
        """Correlations of copies that block the host, whatever their call's name."""
        self.latest: Nanoseconds = 0
        """Latest start of an event."""
        self._handlers: dict[str, _Handler] = {
            "kernel": self._kernel,
            "memcpy": self._copy,
            "memset": self._fill,
            "runtime": self._call,
            "driver": self._call,
            "user_annotation": self._annotation,
            "gpu_user_annotation": self._device_annotation,
            "python_function": self._frame,
            "cuda_profiler_range": self._counted_range,
        }

    def take(self, event: Event) -> None:
        """Take an event."""
        category = event.get("cat")
        phase = event.get("ph")
        if self._untied is not None:
            self._tie(event)
        if phase == "X" and isinstance(category, str):
            self._complete(event, category)
        elif event.get("name") == "[memory]" and phase in ("i", "I", "C"):
            if not self._memory_total(event):
                self._pass_over("[memory]")
        else:
            self._pass_over(category if isinstance(category, str) else f"phase {phase}")

    def finish(self) -> None:
        """Record what depends on all events: steps known from devices only, memory totals."""
        self._tie({})
        for correlation in self._awaited:
            if (row := self._copy_calls.row(correlation)) is not None:
                thread = self._copy_threads[correlation]
                span = self._copy_calls.span(row)
                self._recorder.stacks.add(thread, CallKind.WAIT, _AWAITED_COPY, span)
        for name, span in self._recorder.stacks.waits():
            self._recorder.wait(name, span)
        self._steps.finish()
        used = tuple(self.used_devices)
        for key, curve in self._memory.items():
            # ROCm numbers devices differently for memory and kernels.
            owner = used[0] if key not in used and len(used) == 1 else key
            for at, total in curve.points():
                self._recorder.memory(owner, total, at)

    def _complete(self, event: Event, category: str) -> None:
        handler = self._handler(event, category)
        if handler is None:
            self._pass_over(category)
            return
        start = microseconds(event.get("ts"))
        duration = microseconds(event.get("dur", 0))
        if start is None or duration is None or start == duration == 0:
            # CUPTI writes 0 for lost times.
            self._pass_over(f"{category} without a time")
            return
        self.latest = max(self.latest, start)
        arguments = event.get("args")
        if not isinstance(arguments, dict):
            arguments = _NO_ARGUMENTS
        if not handler(event, arguments, (start, start + duration)):
            self._pass_over(category)

    def _handler(self, event: Event, category: str) -> _Handler | None:
        kind = category.lower()
        if kind in _OPERATORS:
            # Annotations used to be operators.
            is_annotation = _name(event).startswith(_ANNOTATION_PREFIXES)
            return self._annotation if is_annotation else self._operator
        handler = self._handlers.get(kind)
        if handler is None and (prefixed := _PREFIXED.fullmatch(kind)):
            handler = self._handlers[prefixed[1]]
            if len(self._handlers) < _CATEGORIES_MAXIMUM:
                self._handlers[kind] = handler
        return handler

    def _thread(self, event: Event) -> int:
        key = str(event.get("pid")), str(event.get("tid"))
        if key not in self._threads and len(self._threads) >= _CATEGORIES_MAXIMUM:
            return len(self._threads)
        number = self._threads.setdefault(key, len(self._threads))
        self._recorder.thread_names.setdefault(number, f"thread {key[1]}"[:_CATEGORY_MAXIMUM])
        return number

    def _pass_over(self, category: str) -> None:
        name = category[:_CATEGORY_MAXIMUM]
        if name not in self.unread and len(self.unread) >= _CATEGORIES_MAXIMUM:
            name = "other categories"
        self.unread[name] += 1

    def _device(self, event: Event, arguments: Mapping[str, Any]) -> str:
        found = arguments.get("device")
        key = str(event.get("pid") if found is None else found)[:_CATEGORY_MAXIMUM]
        if len(self.used_devices) < self._limits.devices_maximum:
            self.used_devices[key] = None
        return key

    def _kernel(self, event: Event, arguments: _Arguments, span: Interval) -> bool:
        name = _name(event)
        if other := operation(name):
            if (handler := self._handlers.get(other)) is not None:
                return handler(event, arguments, span)
            self._pass_over(name)
            return True
        device = self._device(event, arguments)
        if "Collective name" in arguments:
            self._recorder.collective(device, span, arguments)
        record = partial(
            self._recorder.kernel,
            device,
            span,
            name,
            is_collective=True if "Collective name" in arguments else None,
            # An estimate of 0, as for kernels with much shared memory, is none.
            occupancy_ratio=percent(arguments.get(_OCCUPANCY)) or None,
            stream=_stream(event, arguments),
            group=_group(arguments),
        )
        if (correlation := _correlation(arguments)) is not None:
            self.lost.run(correlation)
            record(correlation=correlation)
        else:
            self._untied = (event, record)
        return True

    def _tie(self, following: Event) -> None:
        """Record a kernel without correlation; until 2024 ROCm put it into the next flow event."""
        if self._untied is None:
            return
        (event, record), self._untied = self._untied, None
        is_arrow = following.get("ph") == "f" and all(
            following.get(key) == event.get(key) for key in ("pid", "tid", "ts")
        )
        correlation = whole_number(following.get("id")) if is_arrow else None
        self.lost.run(correlation)
        record(correlation=correlation)

    def _copy(self, event: Event, arguments: _Arguments, span: Interval) -> bool:
        name = _name(event)
        device = self._device(event, arguments)
        kind = copy_kind(name)
        memory = host_memory(name)
        correlation = _correlation(arguments)
        if (kind, memory) == _AWAITED and correlation is not None:
            self._awaited.append(correlation)
        size = whole_number(arguments.get("bytes"))
        self.copies_without_size += size is None
        self._recorder.copy(device, span, kind, memory, size)
        return True

    def _fill(self, event: Event, arguments: _Arguments, span: Interval) -> bool:
        self._recorder.fill(self._device(event, arguments), span)
        return True

    def _call(self, event: Event, arguments: _Arguments, span: Interval) -> bool:
        name = _name(event)
        correlation = _correlation(arguments)
        self.has_gpu = True
        if is_wait := is_wait_call(name):
            self._recorder.stacks.add(self._thread(event), CallKind.WAIT, name, span)
        if end := capture_end(name):
            self._recorder.capture(self._thread(event), end, span)
        if correlation is None or "Synchronize" in name:
            return is_wait or bool(end)
        self._refuse_merged(str(event.get("pid")))
        self.lost.call(name, correlation, span[0])
        if not end:
            self._recorder.launch(correlation, span, self._thread(event))
        if "Memcpy" in name and not is_wait:
            self._copy_calls.add(correlation, *span)
            self._copy_threads[correlation] = self._thread(event)
        return True

    def _refuse_merged(self, process: str) -> None:
        """Raise for launches of a second process: numbers and steps would clash."""
        if self._process is None:
            self._process = process
        elif process != self._process:
            raise ProfileError(
                "traces of several processes were merged in it, whose launches and steps cannot be "
                "told apart; name the files of the ranks, as many as there are"
            )

    def _annotation(self, event: Event, _: _Arguments, span: Interval) -> bool:
        name = _name(event)
        if _STEP.match(name):
            self._steps.mark(name, span)
        else:
            if is_turn(name):
                # Names contain requests, and would each get a row.
                name = _ENGINE_TURN
                self._steps.begin_turn(span[0])
            part = without_turn(name)
            self._recorder.host_span(span_kind(name), part, span)
            self._recorder.stacks.add(self._thread(event), CallKind.MODULE, part, span)
        return True

    def _operator(self, event: Event, arguments: _Arguments, span: Interval) -> bool:
        name = _name(event)
        product = tensor_product(_name(event), arguments)
        self._recorder.stacks.add(self._thread(event), CallKind.OPERATOR, name, span, product)
        return True

    def _frame(self, event: Event, _: _Arguments, span: Interval) -> bool:
        name = _name(event)
        stacks = self._recorder.stacks
        is_kept = stacks.frame(self._thread(event), name, span)
        may_read_back = name.startswith(_READ_BACK_STARTS) or name.endswith("synchronize")
        if may_read_back and is_read_back(name):
            read = _READ_BACK.sub(r"Tensor.\1", name)
            stacks.add(self._thread(event), CallKind.READ_BACK, read, span)
            is_kept = True
        if found := python_span(name):
            self._recorder.host_span(*found, span)
        return is_kept or found is not None

    def _device_annotation(self, event: Event, arguments: _Arguments, span: Interval) -> bool:
        name = _name(event)
        return bool(_STEP.match(name)) and self._steps.mark_device(
            name, span, self._device(event, arguments)
        )

    def _counted_range(self, event: Event, arguments: _Arguments, span: Interval) -> bool:
        start, end = span
        if end < start:
            return False
        self.range_count += 1
        name = _name(event)
        row = self.ranges.row("(unnamed)" if name in _UNNAMED else name)
        row.add(end - start)
        for metric, written in arguments.items():
            if (value := number(written)) is None:
                continue
            if _TENSOR.search(metric):
                row.uses_tensor_cores = value > 0 or row.uses_tensor_cores is True
            for ratio, pattern in _MEASURED:
                if pattern.search(metric):
                    row.measure(ratio, value / 100, 1)
        return True

    def _memory_total(self, event: Event) -> bool:
        arguments = event.get("args")
        at = microseconds(event.get("ts"))
        if not isinstance(arguments, dict) or arguments.get("Device Type") in (0, None):
            return False
        total = whole_number(arguments.get("Total Allocated"))
        if at is None or total is None or total < 0:
            return False
        key = str(arguments.get("Device Id"))[:_CATEGORY_MAXIMUM]
        if key not in self._memory and len(self._memory) >= _CATEGORIES_MAXIMUM:
            return False
        return self._memory.setdefault(key, MemoryCurve()).add(at, total)


def _correlation(arguments: Mapping[str, Any]) -> int | None:
    """Return the correlation of a call with its launch; ROCm writes 0 for unknown."""
    return whole_number(arguments.get("correlation")) or None


def _group(arguments: _Arguments) -> str:
    """Return the group of ranks of a collective; empty where it is not told."""
    ranks = str(arguments.get("Process Group Ranks") or "")
    name = str(arguments.get("Process Group Name") or "")
    return ranks if ranks and len(ranks) <= _CATEGORY_MAXIMUM else name[:_CATEGORY_MAXIMUM]


def _stream(event: Event, arguments: Mapping[str, Any]) -> str:
    """Return the stream; old files have only a thread of that name."""
    found = arguments.get("stream", event.get("tid"))
    return f"stream {str(found).removeprefix('stream ')}"[:_CATEGORY_MAXIMUM]


def _name(event: Event) -> str:
    name = event.get("name")
    return name if isinstance(name, str) else ""


def _read(path: Path, limits: ReadLimits) -> Profile:
    trace = JsonEvents(path, limits, keep=HEADER_KEYS)
    recorder = Recorder(limits)
    events = PyTorchEvents(recorder, limits)
    for event in trace:
        events.take(event)
    events.finish()
    if not trace.count and not trace.fault:
        raise ProfileError(NO_EVENTS)
    header = TraceHeader(trace.values)
    for key in events.used_devices:
        recorder.device(key, **header.facts(key))
    devices = recorder.devices()
    if not devices and events.range_count:
        # Ranges have no device.
        device = ProfiledDevice("0", **header.facts("0"))
        devices = (DeviceProfile(device, time=None, kernels=events.ranges.uses()),)
    # Operators launched on a GPU only last as long as their launches.
    has_gpu = bool(header.devices or events.has_gpu)
    lacks_steps = recorder.stacks.has_operators and not recorder.has_steps
    host_steps = recorder.host_steps(are_operators_known=not has_gpu)
    return Profile(
        format=ProfileFormat.PYTORCH,
        source=path.name,
        version=header.version,
        start=header.start(events.latest),
        rank=header.rank,
        world_size=header.world_size,
        devices=devices,
        host_spans=recorder.host_spans(),
        host_steps=host_steps,
        events=trace.count,
        unread=dict(sum((events.unread, trace.unread, recorder.refused), Counter())),
        notes=(
            *recorder.notes,
            *_notes(trace, events, devices, has_gpu=has_gpu, lacks_steps=lacks_steps),
        ),
        is_whole=not trace.fault and events.lost.is_whole,
    )


def _notes(
    trace: JsonEvents,
    events: PyTorchEvents,
    devices: tuple[DeviceProfile, ...],
    *,
    has_gpu: bool,
    lacks_steps: bool,
) -> Iterator[str]:
    if trace.fault:
        yield f"Not whole: {trace.fault}; what came before is shown."
    else:
        yield from events.lost.notes
    if events.range_count:
        yield (
            f"Hardware counters of {events.range_count} kernel runs in place of a timeline: "
            "times of kernels are those of the profiler's ranges, and idle time is not known."
        )
    elif not any(device.time for device in devices):
        yield (
            "No kernel in it: it was recorded without a GPU, with host activities only, or on a "
            "device whose events are not read."
        )
        if has_gpu:
            yield events.lost.all_lost_text or (
                "A GPU is listed or was called: what operators of the host launched there was not "
                "recorded; profile with ProfilerActivity.CUDA (XPU) too."
            )
        elif lacks_steps:
            yield (
                "No step is marked, by which the host's own time could be judged; give the "
                "profiler a schedule, without which it marks none, and call its step() after each."
            )
    if events.copies_without_size:
        yield f"The sizes of {events.copies_without_size} copies are not in it."


PYTORCH: Final = ProfileReader(
    ProfileFormat.PYTORCH,
    lambda head: bool(_JSON.match(head.data) and _MARKS.search(head.data)),
    _read,
)
