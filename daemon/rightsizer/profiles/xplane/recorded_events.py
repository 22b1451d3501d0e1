"""Events of host threads and GPU streams, recorded with their details."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from rightsizer.model.profile import CopyKind, HostMemory, SpanKind
from rightsizer.model.units import Nanoseconds
from rightsizer.profiles.call_stacks import CallKind, without_turn
from rightsizer.profiles.names import copy_kind, is_read_back
from rightsizer.profiles.recorder import Recorder
from rightsizer.profiles.timeline import Interval

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
_NOT_BUSY: Final = frozenset(("memalloc_details", "memfree_details", "memory_residency_details"))
_SCOPES: Final = ("name", "level 0", "tf_op", "hlo_op", "hlo_module")
"""Origin of a kernel, most specific first: JAX, TensorFlow, XLA's own names."""
_NO_SCOPE: Final = "XlaModule"
STREAM_STATS: Final = frozenset(
    {
        *_SCOPES,
        "kernel_details",
        "memcpy_details",
        "memset_details",
        "cuda_graph_exec_id",
        "correlation_id",
        "theoretical_occupancy_pct",
        *_NOT_BUSY,
    }
)
"""Stats of such an event that are used."""
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


def record_stream_event(  # noqa: PLR0913, PLR0917 - facts in both forms of a trace.
    recorder: Recorder,
    device: str,
    name: str,
    span: tuple[Nanoseconds, Nanoseconds],
    stats: Mapping[str, object],
    stream: str = "",
) -> bool:
    """Record an event; return false for events of memory, which are not used."""
    if not _NOT_BUSY.isdisjoint(stats):
        return False
    correlation = _whole(stats.get("correlation_id"))
    word = name.lower().partition(" ")[0]
    if word.startswith("memcpy") or "memcpy_details" in stats:
        kind = copy_kind(word) if word.startswith("memcpy") else CopyKind.OTHER
        details = _details(str(stats.get("memcpy_details", "")))
        size = _whole(details.get("size") or details.get("num_bytes"))
        sides = (_MEMORIES.get(details.get(side, "")) for side in ("kind_src", "kind_dst"))
        memory = next(filter(None, sides), HostMemory.UNKNOWN)
        recorder.copy(device, span, kind, memory, size)
    elif word.startswith("memset") or "memset_details" in stats:
        recorder.fill(device, span)
    elif "cuda_graph_exec_id" in stats and "kernel_details" not in stats:
        recorder.kernel(device, span, None, correlation=correlation, stream=stream)
    else:
        occupancy = _occupancy(stats)
        recorder.kernel(
            device,
            span,
            name,
            correlation=correlation,
            occupancy_ratio=occupancy,
            frames=_frames(tuple(str(stats.get(key, "")) for key in _SCOPES)),
            stream=stream,
        )
    return True


@lru_cache(_REMEMBERED)
def _frames(origins: tuple[str, ...]) -> tuple[str, ...]:
    """Return the scopes that a kernel was created in; numbered layers count as one."""
    candidates = (origin.partition(":")[0] for origin in origins)
    scope = next((candidate for candidate in candidates if candidate not in {"", _NO_SCOPE}), "")
    return tuple(filter(None, (without_turn(part).rstrip(".") for part in scope.split("/"))))


@lru_cache(_REMEMBERED)
def _details(text: str) -> Mapping[str, str]:
    return dict(_DETAIL.findall(text))


def _occupancy(stats: Mapping[str, object]) -> float | None:
    """Return the launch's estimate; 0 means unknown."""
    detail = _details(str(stats.get("kernel_details", ""))).get("occ_pct")
    text = stats.get("theoretical_occupancy_pct", detail)
    if text is None:
        return None
    try:
        percent = float(str(text))
    except ValueError:
        return None
    return percent / 100 if 0 < percent <= 100 else None  # noqa: PLR2004 - percent.
