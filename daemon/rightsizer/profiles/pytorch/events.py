"""Events of PyTorch's profiler in batches, passed to a recorder."""

import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from msgspec import Struct

from rightsizer.model.profile import CopyKind, HostMemory
from rightsizer.model.values import Nanoseconds, ProfileError
from rightsizer.profiles.call_stacks import CallKind, without_turn
from rightsizer.profiles.columns import ends_of
from rightsizer.profiles.json_events import (
    TraceEvent,
    moment,
    nanoseconds_of,
    number,
    percent,
    whole_number,
    whole_numbers,
)
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.lost_kernels import LostKernels
from rightsizer.profiles.names import is_turn, span_kind
from rightsizer.profiles.products import tensor_product
from rightsizer.profiles.pytorch.meanings import EventMeaning, EventMeanings
from rightsizer.profiles.pytorch.step_marks import StepMarks
from rightsizer.profiles.recorder import Recorder
from rightsizer.profiles.tables import KernelTable
from rightsizer.profiles.time_use import Launches
from rightsizer.profiles.timeline import NO_NUMBER, Column, Interval, MemoryCurve, Numbers

_UNNAMED: Final = ("", "__missing__")
_TENSOR: Final = re.compile(r"pipe_tensor|hmma|imma|inst_executed_op_\w*mma")
_MEASURED: Final = (
    ("compute_ratio", re.compile(r"^sm__throughput\..*pct")),
    ("dram_ratio", re.compile(r"^(?:gpu__dram|dram)__?throughput\..*pct")),
    ("occupancy_ratio", re.compile(r"^sm__warps_active\..*pct")),
)

_Arguments: TypeAlias = Mapping[str, Any]

_STEP: Final = re.compile(r"ProfilerStep\s*#")
_ENGINE_TURN: Final = "turn of the engine"
_AWAITED: Final = (CopyKind.DEVICE_TO_HOST, HostMemory.PAGEABLE)
_AWAITED_COPY: Final = "copy to pageable memory"
_OCCUPANCY: Final = "est. achieved occupancy %"
_CATEGORIES_MAXIMUM: Final = 64
_MOMENTS: Final = ("i", "I", "C")
_CATEGORY_MAXIMUM: Final = 40
_NO_ARGUMENTS: Final[Mapping[str, Any]] = {}


class _Spans(Struct, frozen=True):
    """Events of one meaning, in their order in the file."""

    places: Numbers
    """Places among the events of the batch."""
    events: Sequence[TraceEvent]
    meanings: Sequence[EventMeaning]
    starts: Numbers
    ends: Numbers

    def chosen(self, rows: Sequence[int]) -> "_Spans":
        """Return some of them."""
        return _Spans(
            self.places[rows],
            [self.events[row] for row in rows],
            [self.meanings[row] for row in rows],
            self.starts[rows],
            self.ends[rows],
        )

    def rows(self) -> Iterator[tuple[TraceEvent, EventMeaning, Interval]]:
        """Yield each with its span."""
        intervals = zip(self.starts.tolist(), self.ends.tolist(), strict=True)
        return zip(self.events, self.meanings, intervals, strict=True)


class _Threads(dict[tuple[Any, Any], int]):
    """Numbers of threads by process and thread, which may be texts or numbers."""

    def __init__(self, names: dict[int, str]) -> None:
        super().__init__()
        self._names = names

    def __missing__(self, key: tuple[Any, Any]) -> int:
        plain = str(key[0]), str(key[1])
        if plain in self:
            number = self[key] = self[plain]
        elif len(self._names) < _CATEGORIES_MAXIMUM:
            number = self[key] = self[plain] = len(self._names)
            self._names[number] = f"thread {plain[1]}"[:_CATEGORY_MAXIMUM]
        else:
            number = _CATEGORIES_MAXIMUM
        return number

    def of(self, events: Iterable[TraceEvent]) -> Numbers:
        """Return the numbers of events."""
        return np.array([self[event.pid, event.tid] for event in events], np.int64)


class PyTorchEvents:
    """Passes events to a recorder; unused ones are counted by category."""

    def __init__(self, recorder: Recorder, limits: ReadLimits) -> None:
        self._recorder = recorder
        self._limits = limits
        self._steps = StepMarks(recorder, limits.steps_maximum)
        self._memory: dict[str, MemoryCurve] = {}
        self._held: list[TraceEvent] = []
        self._events: Sequence[TraceEvent] = ()
        """Those of the batch, and the one after them."""
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
        self._threads = _Threads(recorder.thread_names)
        self._process: str | None = None
        self._awaited: Column = array("q")
        """Correlations of copies that block the host, whatever their call's name."""
        self.latest: Nanoseconds = 0
        """Latest start of an event."""
        self._takers: Mapping[str, Callable[[_Spans], None]] = {
            "named": self._named,
            "operator": self._operators,
            "python_function": self._frames,
            "kernel": self._kernels,
            "memcpy": self._copies,
            "memset": self._fills,
            "runtime": self._host_calls,
            "driver": self._host_calls,
            "user_annotation": self._annotations,
            "gpu_user_annotation": self._device_annotations,
            "cuda_profiler_range": self._counted_ranges,
        }
        """By category."""
        self._meanings = EventMeanings(recorder.stacks)
        self._calls: list[tuple[Numbers, Numbers, Numbers, Numbers, Numbers]] = []
        """Place, thread, number, start and end of calls of the batch."""

    def take(self, batch: Sequence[TraceEvent]) -> None:
        """Take events, but for the last, whose correlation the next one may hold."""
        events = [*self._held, *batch]
        self._held = [events[-1]]
        self._take_whole(events, len(events) - 1)

    def _take_whole(self, events: Sequence[TraceEvent], count: int) -> None:
        """Take the first events; the one after them may explain the last."""
        self._events = events
        rows = [
            row
            for row, event in enumerate(events[:count])
            if event.ph == "X" and event.cat is not None
        ]
        others = [event for event in events[:count] if event.ph != "X" or event.cat is None]
        self._take_moments(others)
        spans = [events[row] for row in rows]
        meanings = [self._meanings.of(event.cat, event.name) for event in spans]
        groups = defaultdict[str, list[int]](list)
        for row, meaning in enumerate(meanings):
            groups[meaning.use].append(row)
        self._pass_over(str(spans[row].cat) for row in groups.pop("", ()))
        if not groups:
            return
        starts = nanoseconds_of([event.ts for event in spans])
        durations = nanoseconds_of([event.dur for event in spans])
        # CUPTI writes 0 for lost times.
        is_timed = (starts != NO_NUMBER) & (durations != NO_NUMBER) & ((starts | durations) != 0)
        every = _Spans(np.array(rows), spans, meanings, starts, ends_of(starts, durations))
        for use, group in groups.items():
            timed = group if is_timed.all() else [row for row in group if is_timed[row]]
            if len(timed) < len(group):
                lost = (spans[row].cat for row in group if not is_timed[row])
                self._pass_over(f"{category} without a time" for category in lost)
            if timed:
                chosen = every.chosen(timed)
                self.latest = max(self.latest, int(chosen.starts.max()))
                self._takers[use](chosen)
        self._record_calls()

    def _take_moments(self, events: Sequence[TraceEvent]) -> None:
        categories = Counter(
            (event.cat, event.ph, event.name == "[memory]" and event.ph in _MOMENTS)
            for event in events
        )
        for (category, phase, is_memory), count in categories.items():
            if not is_memory:
                self._pass_over([f"phase {phase}" if category is None else category], count)
        if any(is_memory for _, _, is_memory in categories):
            totals = (e for e in events if e.name == "[memory]" and e.ph in _MOMENTS)
            self._pass_over("[memory]" for event in totals if not self._memory_total(event))

    def finish(self) -> None:
        """Record what depends on all events: steps known from devices only, memory totals."""
        self._take_whole(self._held, len(self._held))
        rows = self._copy_calls.rows(np.array(self._awaited))
        _, starts, ends, threads = (column[rows[rows >= 0]] for column in self._copy_calls.read())
        stacks = self._recorder.stacks
        number = stacks.number(CallKind.WAIT, _AWAITED_COPY)
        stacks.extend_waits(threads, [number] * threads.size, starts, ends)
        self._steps.finish()
        used = tuple(self.used_devices)
        for key, curve in self._memory.items():
            # ROCm numbers devices differently for memory and kernels.
            owner = used[0] if key not in used and len(used) == 1 else key
            for at, total in curve.points():
                self._recorder.memory(owner, total, at)

    def _pass_over(self, categories: Iterable[str | None], count: int = 1) -> None:
        for category in categories:
            name = str(category)[:_CATEGORY_MAXIMUM]
            if name not in self.unread and len(self.unread) >= _CATEGORIES_MAXIMUM:
                name = "other categories"
            self.unread[name] += count

    def _named(self, spans: _Spans) -> None:
        self._pass_over(event.name for event in spans.events)

    def _devices(self, spans: _Spans, every: Sequence[_Arguments]) -> Sequence[str]:
        """Return the keys of devices, which are noted as used."""
        written = [arguments.get("device") for arguments in every]
        pids = [event.pid for event in spans.events]
        pairs = [*zip(map(_plain, written), pids, strict=True)]
        keys = {
            (device, pid): str(pid if device is None else device)[:_CATEGORY_MAXIMUM]
            for device, pid in dict.fromkeys(pairs)
        }
        for key in keys.values():
            if len(self.used_devices) < self._limits.devices_maximum:
                self.used_devices[key] = None
        return [keys[pair] for pair in pairs]

    def _kernels(self, spans: _Spans) -> None:
        every = [*map(_arguments, spans.events)]
        correlations = whole_numbers([arguments.get("correlation") for arguments in every])
        correlations[correlations == 0] = NO_NUMBER  # ROCm writes 0 for unknown ones.
        for row in np.flatnonzero(correlations == NO_NUMBER).tolist():
            correlations[row] = self._tied(spans.events[row], int(spans.places[row]))
        self.lost.runs(correlations)
        devices = self._devices(spans, every)
        names = [meaning.name for meaning in spans.meanings]
        collectives = [row for row, arguments in enumerate(every) if "Collective name" in arguments]
        for row in collectives:
            span = int(spans.starts[row]), int(spans.ends[row])
            self._recorder.collective(devices[row], span, every[row])
        streams = [
            _plain(arguments.get("stream", event.tid))
            for arguments, event in zip(every, spans.events, strict=True)
        ]
        texts = {
            stream: f"stream {str(stream).removeprefix('stream ')}"[:_CATEGORY_MAXIMUM]
            for stream in dict.fromkeys(streams)
        }
        self._recorder.kernels(
            devices,
            spans.starts,
            spans.ends,
            correlations,
            names,
            [texts[stream] for stream in streams],
            # An estimate of 0, as for kernels with much shared memory, is none.
            [percent(arguments.get(_OCCUPANCY)) or None for arguments in every],
            [_group(arguments) for arguments in every],
            collectives={names[row] for row in collectives},
        )

    def _tied(self, kernel: TraceEvent, place: int) -> int:
        """Return the correlation in the flow event that follows, as ROCm wrote it until 2024."""
        for arrow in self._events[place + 1 : place + 2]:
            is_beside = (arrow.pid, arrow.tid, arrow.ts) == (kernel.pid, kernel.tid, kernel.ts)
            if arrow.ph == "f" and is_beside:
                return int(whole_numbers([arrow.id])[0])
        return NO_NUMBER

    def _copies(self, spans: _Spans) -> None:
        every = [*map(_arguments, spans.events)]
        kinds = [meaning.copy for meaning in spans.meanings]
        correlations = whole_numbers([arguments.get("correlation") for arguments in every])
        is_awaited = np.array([kind == _AWAITED for kind in kinds])
        is_awaited &= (correlations != NO_NUMBER) & (correlations != 0)
        self._awaited.frombytes(correlations[is_awaited].tobytes())
        sizes = [whole_number(arguments.get("bytes")) for arguments in every]
        self.copies_without_size += sizes.count(None)
        devices = self._devices(spans, every)
        self._recorder.copies(devices, spans.starts, spans.ends, kinds, sizes)

    def _fills(self, spans: _Spans) -> None:
        devices = self._devices(spans, [*map(_arguments, spans.events)])
        self._recorder.fills(devices, spans.starts, spans.ends)

    def _host_calls(self, spans: _Spans) -> None:
        self.has_gpu = True
        correlations = whole_numbers(
            [_arguments(event).get("correlation") for event in spans.events]
        )
        is_tied = (correlations != NO_NUMBER) & (correlations != 0)
        threads = self._threads.of(spans.events)
        special = [row for row, meaning in enumerate(spans.meanings) if meaning.is_special]
        if special:
            is_tied[special] &= ["Synchronize" not in spans.meanings[row].name for row in special]
        columns = correlations, spans.starts, spans.ends, threads
        for row in special:
            meaning = spans.meanings[row]
            span = int(spans.starts[row]), int(spans.ends[row])
            thread = int(threads[row])
            if meaning.is_wait:
                self._recorder.stacks.add(thread, CallKind.WAIT, meaning.name, span)
            if meaning.capture_end:
                self._recorder.capture(thread, meaning.capture_end, span)
            if is_tied[row] and meaning.is_copy:
                self._copy_calls.extend(*(column[row : row + 1] for column in columns))
        tied = np.flatnonzero(is_tied).tolist()
        for process in {spans.events[row].pid: None for row in tied}:
            self._refuse_merged(process)
        self.lost.calls(
            [spans.meanings[row].name for row in tied], correlations[tied], spans.starts[tied]
        )
        launches = [row for row in tied if not spans.meanings[row].capture_end]
        if launches:
            self._recorder.launches(*(column[launches] for column in columns))
        for row in np.flatnonzero(~is_tied).tolist():
            if not (spans.meanings[row].is_wait or spans.meanings[row].capture_end):
                self._pass_over([spans.events[row].cat])

    def _refuse_merged(self, process: Any) -> None:
        """Raise for launches of a second process: numbers and steps would clash."""
        if self._process is None:
            self._process = str(process)
        elif str(process) != self._process:
            raise ProfileError(
                "traces of several processes were merged in it, whose launches and steps cannot be "
                "told apart; name the files of the ranks, as many as there are"
            )

    def _annotations(self, spans: _Spans) -> None:
        rows: list[int] = []
        numbers: list[int] = []
        for row, (_, meaning, span) in enumerate(spans.rows()):
            name = meaning.name
            if _STEP.match(name):
                self._steps.mark(name, span)
                continue
            if is_turn(name):
                # Names contain requests, and would each get a row.
                name = _ENGINE_TURN
                self._steps.begin_turn(span[0])
            part = without_turn(name)
            self._recorder.host_span(span_kind(name), part, span)
            rows.append(row)
            numbers.append(self._recorder.stacks.number(CallKind.MODULE, part))
        if rows:
            self._call_later(spans.chosen(rows), np.array(numbers))

    def _operators(self, spans: _Spans) -> None:
        numbers = [meaning.number for meaning in spans.meanings]
        for row, meaning in enumerate(spans.meanings):
            if meaning.is_product:
                product = tensor_product(meaning.name, _arguments(spans.events[row]))
                if product is not None:
                    stacks = self._recorder.stacks
                    numbers[row] = stacks.number(CallKind.OPERATOR, meaning.name, product)
        self._call_later(spans, np.array(numbers))

    def _frames(self, spans: _Spans) -> None:
        for row, meaning in enumerate(spans.meanings):
            if meaning.span is not None:
                span = int(spans.starts[row]), int(spans.ends[row])
                self._recorder.host_span(*meaning.span, span)
            elif meaning.number < 0 and meaning.read_back < 0:
                self._pass_over([spans.events[row].cat])
        for numbers in (
            np.array([meaning.number for meaning in spans.meanings]),
            np.array([meaning.read_back for meaning in spans.meanings]),
        ):
            if (rows := np.flatnonzero(numbers >= 0)).size:
                self._call_later(spans.chosen(rows.tolist()), numbers[rows])

    def _call_later(self, spans: _Spans, numbers: Numbers) -> None:
        threads = self._threads.of(spans.events)
        self._calls.append((spans.places, threads, numbers, spans.starts, spans.ends))

    def _record_calls(self) -> None:
        """Record the calls of the batch in their order, by which equal ones are nested."""
        if self._calls:
            places, *columns = (np.concatenate(parts) for parts in zip(*self._calls, strict=True))
            rows = np.argsort(places, kind="stable")
            self._recorder.stacks.extend(*(column[rows] for column in columns))
            self._calls.clear()

    def _device_annotations(self, spans: _Spans) -> None:
        for row, (event, meaning, span) in enumerate(spans.rows()):
            is_step = bool(_STEP.match(meaning.name))
            (device,) = (
                self._devices(spans.chosen([row]), [_arguments(event)]) if is_step else ("",)
            )
            if not (is_step and self._steps.mark_device(meaning.name, span, device)):
                self._pass_over([event.cat])

    def _counted_ranges(self, spans: _Spans) -> None:
        for event, meaning, (start, end) in spans.rows():
            if end < start:
                self._pass_over([event.cat])
                continue
            self.range_count += 1
            row = self.ranges.row("(unnamed)" if meaning.name in _UNNAMED else meaning.name)
            row.add(end - start)
            for metric, written in _arguments(event).items():
                if (value := number(written)) is None:
                    continue
                if _TENSOR.search(metric):
                    row.uses_tensor_cores = value > 0 or row.uses_tensor_cores is True
                for ratio, pattern in _MEASURED:
                    if pattern.search(metric):
                        row.measure(ratio, value / 100, 1)

    def _memory_total(self, event: TraceEvent) -> bool:
        arguments = _arguments(event)
        at = moment(event.ts)
        if arguments.get("Device Type") in (0, None):
            return False
        total = whole_number(arguments.get("Total Allocated"))
        if at is None or total is None or total < 0:
            return False
        key = str(arguments.get("Device Id"))[:_CATEGORY_MAXIMUM]
        if key not in self._memory and len(self._memory) >= _CATEGORIES_MAXIMUM:
            return False
        return self._memory.setdefault(key, MemoryCurve()).add(at, total)


def _arguments(event: TraceEvent) -> _Arguments:
    return event.args if type(event.args) is dict else _NO_ARGUMENTS


def _plain(value: Any) -> Any:
    """Return a number or a text, which every value has."""
    return value if value is None or type(value) in {int, str} else str(value)


def _group(arguments: _Arguments) -> str:
    """Return the group of ranks of a collective; empty where it is not told."""
    if "Process Group Ranks" not in arguments and "Process Group Name" not in arguments:
        return ""
    ranks = str(arguments.get("Process Group Ranks") or "")
    name = str(arguments.get("Process Group Name") or "")
    return ranks if ranks and len(ranks) <= _CATEGORY_MAXIMUM else name[:_CATEGORY_MAXIMUM]
