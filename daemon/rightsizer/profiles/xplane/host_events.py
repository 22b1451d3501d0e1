"""Events on threads of the host that tell why a GPU waited."""

import re
from collections.abc import Mapping
from typing import Final

from rightsizer.domain.profile import SpanKind
from rightsizer.domain.units import Nanoseconds
from rightsizer.profiles.recorder import Recorder

__all__ = ["HOST_STATS", "is_host_event_of_use", "record_host_event"]

HOST_STATS: Final = frozenset(
    {
        *("correlation_id", "step_num"),
        *("allocator_name", "bytes_allocated", "peak_bytes_in_use"),
    }
)
_FRAME: Final = re.compile(r"^\$\S*?:\d+ ")
"""What the Python tracer puts before a function's name: the file, which is nobody's concern."""
_ALLOCATOR: Final = re.compile(r"^GPU_(\d+)_", re.IGNORECASE)
_ALLOCATIONS: Final = frozenset({"MemoryAllocation", "MemoryDeallocation"})
_SPANS: Final = (
    (
        SpanKind.LOADER,
        re.compile(r"(?:^|:)(IteratorGetNext\w*::DoCompute|MultiDeviceIteratorGetNext\w*)$"),
    ),
    (
        # As people name their own annotations and functions, whole: the runtime's are among them.
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
"""By the names of functions and operations; an operation's type stands behind a colon."""


def is_host_event_of_use(name: str) -> bool:
    """Whether an event of that name tells something without any stat."""
    return name in _ALLOCATIONS or _span_of(name) is not None


def record_host_event(
    recorder: Recorder,
    name: str,
    start: Nanoseconds,
    end: Nanoseconds,
    stats: Mapping[str, object],
) -> bool:
    """Hands an event on; whether it is of any use here."""
    span = _span_of(name)
    if span is not None:
        recorder.host_span(*span, start, end)
    is_used = span is not None
    if name in _ALLOCATIONS:
        is_used = _record_memory(recorder, stats) or is_used
    correlation = _whole(stats.get("correlation_id"))
    if correlation is not None:
        recorder.launch(correlation, start, end)
        is_used = True
    step = _whole(stats.get("step_num"))
    if step is not None:
        recorder.step(f"{_FRAME.sub('', name)} {step}", start, end)
        is_used = True
    return is_used


def _span_of(name: str) -> tuple[SpanKind, str] | None:
    plain = _FRAME.sub("", name)
    for kind, pattern in _SPANS:
        found = pattern.search(plain)
        if found is not None:
            return kind, found[1]
    return None


def _record_memory(recorder: Recorder, stats: Mapping[str, object]) -> bool:
    """The allocator's own peak, which is what the program needs, not what it holds."""
    found = _ALLOCATOR.match(str(stats.get("allocator_name", "")))
    peak = _whole(stats.get("peak_bytes_in_use")) or _whole(stats.get("bytes_allocated"))
    if found is None or not peak:
        return False
    recorder.memory(f"/device:GPU:{int(found[1][:6])}", peak)
    return True


def _whole(value: object) -> int | None:
    text = str(value)
    return int(text) if text.isdecimal() and len(text) < 19 else None  # noqa: PLR2004 - of 64 bits.
