"""Events of host threads and GPU streams, recorded with their details."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from msgspec import Struct

from rightsizer.model.profile import CopyKind, HostMemory, SpanKind
from rightsizer.model.values import Nanoseconds
from rightsizer.profiles.call_stacks import CallKind, without_turn
from rightsizer.profiles.columns import chosen, grouped, integers
from rightsizer.profiles.names import copy_kind, is_read_back
from rightsizer.profiles.recorder import Recorder
from rightsizer.profiles.timeline import Interval, Numbers

HOST_STATS: Final = frozenset(
    ("correlation_id", "step_num", "allocator_name", "bytes_allocated", "peak_bytes_in_use")
)
_FRAME: Final = re.compile(r"^\$\S*?:\d+ ")
"""File and line that the Python tracer puts before a function's name."""
_LINE: Final = re.compile(r"^\$(\w+\.py):(\d+) (.+)")
_COMPILED: Final = "PjitFunction("
"""JAX's name of a call of a compiled function."""
_ALLOCATOR: Final = re.compile(r"^GPU_(\d+)_", re.IGNORECASE)
_ALLOCATIONS: Final = frozenset({"MemoryAllocation", "MemoryDeallocation"})
_SPANS: Final = (
    (
        SpanKind.LOADER,
        re.compile(r"(?:^|:)(IteratorGetNext\w*::DoCompute|MultiDeviceIteratorGetNext\w*)$"),
    ),
    (
        # Whole names of annotations and functions; the runtime's own are among them.
        SpanKind.LOADER,
        re.compile(r"^((?:load|get|next|fetch|wait_for)_batch|data_?load(?:er|ing)?|load_data)$"),
    ),
    (
        SpanKind.SYNCHRONIZATION,
        re.compile(
            r"(?:^|:)((?:cu|cuda|hip)\w*Synchronize\w*|BlockHostUntil\w+|block_until_ready)$"
        ),
    ),
    (
        SpanKind.CHECKPOINT,
        re.compile(
            r"(?:^|:)(SaveV2|SaveSlices|RestoreV2|MergeV2Checkpoints|"
            r"\w*(?:save|restore|write)_\w*checkpoint\w*|\w*checkpoint\w*_(?:save|restore|write)\w*)$",
            re.IGNORECASE,
        ),
    ),
)
"""By names of functions and operations; an operation's type follows a colon."""
_NOT_BUSY: Final = ("memalloc_details", "memfree_details", "memory_residency_details")
_SCOPES: Final = ("name", "level 0", "tf_op", "hlo_op", "hlo_module")
"""Origin of a kernel, most specific first: JAX, TensorFlow, XLA's own names."""
_NO_SCOPE: Final = "XlaModule"
STREAM_STATS: Final = (
    *_SCOPES,
    "kernel_details",
    "memcpy_details",
    "memset_details",
    "cuda_graph_exec_id",
    "theoretical_occupancy_pct",
    *_NOT_BUSY,
)
"""Stats of such an event that are used, beside its correlation."""
_REMEMBERED: Final = 10_000
"""Most names, scopes and details that are kept."""
_DETAIL: Final = re.compile(r"(\w+):(\S*)")
_MEMORIES: Final = {
    memory.value: memory for memory in HostMemory if memory is not HostMemory.UNKNOWN
}


def is_host_event_of_use(name: str) -> bool:
    """Whether an event of that name is useful without any stat."""
    return name in _ALLOCATIONS or _span_of(name) is not None


def record_host_event(
    recorder: Recorder,
    name: str,
    span: tuple[Nanoseconds, Nanoseconds],
    stats: Mapping[str, object],
) -> bool:
    """Record an event; return whether it was useful."""
    host_span = _span_of(name)
    if host_span is not None and host_span[0] is SpanKind.SYNCHRONIZATION:
        recorder.wait(host_span[1], span)
    elif host_span is not None:
        recorder.host_span(*host_span, span)
    is_used = host_span is not None
    if name in _ALLOCATIONS:
        is_used = _record_memory(recorder, stats, span[0]) or is_used
    if (correlation := _whole(stats.get("correlation_id"))) is not None:
        recorder.launch(correlation, span)
        is_used = True
    if (step := _whole(stats.get("step_num"))) is not None:
        recorder.step(f"{_FRAME.sub('', name)} {step}", span)
        is_used = True
    return is_used


def record_host_call(
    recorder: Recorder, thread: int, name: str, span: Interval, *, is_operation: bool
) -> bool:
    """Pass a call on if the profile has no GPU; return whether it shows the host's work."""
    stacks = recorder.stacks
    plain = _FRAME.sub("", name)
    if name.startswith(_COMPILED):
        stacks.add(thread, CallKind.LAUNCH, name, span)
    elif is_read_back(name):
        stacks.add(thread, CallKind.READ_BACK, plain, span)
    elif is_operation:
        stacks.add(thread, CallKind.OPERATOR, name, span)
    elif match := _LINE.match(name):
        stacks.are_frames_own = False
        stacks.frame(thread, f"{match[1]}({match[2]}): {match[3]}", span)
    else:
        return False
    return True


def is_host_call(name: str) -> bool:
    """Whether an event of that name is such a call, regardless of its statistics."""
    return name.startswith(_COMPILED) or bool(_LINE.match(name)) or is_read_back(name)


@lru_cache(_REMEMBERED)
def _span_of(name: str) -> tuple[SpanKind, str] | None:
    plain = _FRAME.sub("", name)
    candidates = ((kind, match[1]) for kind, pattern in _SPANS if (match := pattern.search(plain)))
    return next(candidates, None)


def _record_memory(recorder: Recorder, stats: Mapping[str, object], at: Nanoseconds) -> bool:
    """Record the allocator's own peak: what the program needs, not what it holds."""
    match = _ALLOCATOR.match(str(stats.get("allocator_name", "")))
    peak = _whole(stats.get("peak_bytes_in_use")) or _whole(stats.get("bytes_allocated"))
    if match is None or not peak:
        return False
    used = _whole(stats.get("bytes_allocated")) or peak
    recorder.memory(f"/device:GPU:{int(match[1][:6])}", used, at)
    recorder.memory(f"/device:GPU:{int(match[1][:6])}", peak)
    return True


def _whole(value: object) -> int | None:
    text = str(value)
    return int(text) if text.isdecimal() and len(text) < 19 else None  # noqa: PLR2004 - of 64 bits.


def is_stream(line: str) -> bool:
    """Whether a line is a stream; a device's other lines repeat the same time."""
    return line.startswith("Stream #")


class StreamMeaning(Struct, frozen=True, gc=False):
    """What name and stats of an event of a stream say."""

    use: str = ""
    """`kernel`, `copy` or `fill`; empty for events of memory, which are not used."""
    name: str | None = None
    """`None` for a graph."""
    occupancy_ratio: float | None = None
    frames: tuple[str, ...] | None = None
    copy: tuple[CopyKind, HostMemory] = (CopyKind.OTHER, HostMemory.UNKNOWN)
    size_bytes: int | None = None


@lru_cache(_REMEMBERED)
def stream_meaning(name: str, values: tuple[object, ...]) -> StreamMeaning:
    """Return the meaning of an event, by the values of `STREAM_STATS`."""
    stats = {
        key: str(value)
        for key, value in zip(STREAM_STATS, values, strict=True)
        if value is not None
    }
    if not stats.keys().isdisjoint(_NOT_BUSY):
        return StreamMeaning()
    word = name.lower().partition(" ")[0]
    if word.startswith("memcpy") or "memcpy_details" in stats:
        kind = copy_kind(word) if word.startswith("memcpy") else CopyKind.OTHER
        details = _details(stats.get("memcpy_details", ""))
        size = _whole(details.get("size") or details.get("num_bytes"))
        sides = (_MEMORIES.get(details.get(side, "")) for side in ("kind_src", "kind_dst"))
        memory = next(filter(None, sides), HostMemory.UNKNOWN)
        return StreamMeaning("copy", copy=(kind, memory), size_bytes=size)
    if word.startswith("memset") or "memset_details" in stats:
        return StreamMeaning("fill")
    if "cuda_graph_exec_id" in stats and "kernel_details" not in stats:
        return StreamMeaning("kernel")
    return StreamMeaning("kernel", name, _occupancy(stats), _frames(stats))


def record_stream_events(  # noqa: PLR0913, PLR0917 - a column each.
    recorder: Recorder,
    device: str,
    stream: str,
    starts: Numbers,
    ends: Numbers,
    correlations: Sequence[object],
    meanings: Sequence[StreamMeaning],
) -> int:
    """Record events of a stream; return the number of those of memory, which are not used."""
    ties = integers([*map(_whole, correlations)])
    unused = 0
    for use, rows in grouped([meaning.use for meaning in meanings]):
        devices = [device] * rows.size
        begins, untils, numbers, of_use = chosen(rows, starts, ends, ties, meanings)
        if use == "kernel":
            recorder.kernels(
                devices,
                begins,
                untils,
                numbers,
                [meaning.name for meaning in of_use],
                [stream] * rows.size,
                [meaning.occupancy_ratio for meaning in of_use],
                frames=[meaning.frames for meaning in of_use],
            )
        elif use == "copy":
            sizes = [meaning.size_bytes for meaning in of_use]
            recorder.copies(devices, begins, untils, [meaning.copy for meaning in of_use], sizes)
        elif use:
            recorder.fills(devices, begins, untils)
        else:
            unused = rows.size
    return unused


def _frames(stats: Mapping[str, str]) -> tuple[str, ...]:
    """Return the scopes that a kernel was created in; numbered layers count as one."""
    candidates = (stats.get(key, "").partition(":")[0] for key in _SCOPES)
    scope = next((candidate for candidate in candidates if candidate not in {"", _NO_SCOPE}), "")
    return tuple(filter(None, (without_turn(part).rstrip(".") for part in scope.split("/"))))


def _details(text: str) -> Mapping[str, str]:
    return dict(_DETAIL.findall(text))


def _occupancy(stats: Mapping[str, str]) -> float | None:
    """Return the launch's estimate; 0 means unknown."""
    detail = _details(stats.get("kernel_details", "")).get("occ_pct")
    text = stats.get("theoretical_occupancy_pct", detail)
    if text is None:
        return None
    try:
        percent = float(text)
    except ValueError:
        return None
    return percent / 100 if 0 < percent <= 100 else None  # noqa: PLR2004 - percent.
