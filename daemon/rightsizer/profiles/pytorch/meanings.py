"""What category and name of an event of PyTorch's profiler say."""

import re
from typing import Final

from msgspec import Struct

from rightsizer.model.profile import CopyKind, HostMemory, SpanKind
from rightsizer.profiles.call_stacks import CallKind, CallStacks, frame_call
from rightsizer.profiles.names import (
    capture_end,
    copy_kind,
    host_memory,
    is_read_back,
    is_wait_call,
    operation,
    python_span,
)
from rightsizer.profiles.products import is_product

_READ_BACK_STARTS: Final = "<built-in method cpu", "<built-in method tolist"
_READ_BACK: Final = re.compile(r"<built-in method (\w+) of.*")
_OPERATORS: Final = ("cpu_op", "operator")
_ANNOTATION_PREFIXES: Final = (
    "ProfilerStep",
    "enumerate(DataLoader)",
    "Optimizer.",
    "DistributedDataParallel.",
    "FullyShardedDataParallel.",
    "torch.distributed.",
)
_PREFIXED: Final = re.compile(r"[a-z0-9]+_(runtime|driver|memcpy|memset)")
"""Kineto's plug-ins prefix the original names of CUDA's events by the device kind."""
_MEANINGS_MAXIMUM: Final = 100_000
_USED: Final = frozenset(
    (
        "kernel",
        "memcpy",
        "memset",
        "runtime",
        "driver",
        "user_annotation",
        "gpu_user_annotation",
        "cuda_profiler_range",
    )
)
"""Categories that are used as they are."""


class EventMeaning(Struct, frozen=True, gc=False):
    """What category and name of an event say."""

    use: str = ""
    """Category by which it is used; empty for an event that is not."""
    name: str = ""
    number: int = -1
    """Of the call on its thread's stack; -1 for none."""
    read_back: int = -1
    """Of the call's part that reads a value back."""
    span: tuple[SpanKind, str] | None = None
    copy: tuple[CopyKind, HostMemory] = (CopyKind.OTHER, HostMemory.UNKNOWN)
    is_wait: bool = False
    capture_end: str = ""
    is_copy: bool = False
    is_special: bool = False
    """Whether a call of the host is more than a launch."""
    is_product: bool = False


class EventMeanings:
    """Meanings by category and name; names of calls are numbered for their stacks."""

    def __init__(self, stacks: CallStacks) -> None:
        self._stacks = stacks
        self._meanings: dict[tuple[str | None, str | None], EventMeaning] = {}

    def of(self, category: str | None, name: str | None) -> EventMeaning:
        """Return the meaning, which is kept."""
        if (cached := self._meanings.get((category, name))) is not None:
            return cached
        if len(self._meanings) >= _MEANINGS_MAXIMUM:
            self._meanings.clear()
        meaning = self._made((category or "").lower(), name or "")
        return self._meanings.setdefault((category, name), meaning)

    def _made(self, kind: str, name: str) -> EventMeaning:
        stacks = self._stacks
        prefixed = _PREFIXED.fullmatch(kind)
        kind = prefixed[1] if prefixed else kind
        if kind == "kernel" and (other := operation(name)):
            if other not in _USED:
                return EventMeaning("named", name)
            kind = other
        # Annotations used to be operators, and those of PyTorch's own libraries are.
        if kind in _OPERATORS and name.startswith(_ANNOTATION_PREFIXES):
            kind = "user_annotation"
        if kind in _OPERATORS:
            number = stacks.number(CallKind.OPERATOR, name)
            return EventMeaning("operator", name, number, is_product=is_product(name))
        if kind == "python_function":
            call = frame_call(name)
            number = -1 if call is None else stacks.number(*call)
            may_read_back = name.startswith(_READ_BACK_STARTS) or name.endswith("synchronize")
            read_back = -1
            if may_read_back and is_read_back(name):
                plain = _READ_BACK.sub(r"Tensor.\1", name)
                read_back = stacks.number(CallKind.READ_BACK, plain)
            return EventMeaning(kind, name, number, read_back, python_span(name))
        is_wait = is_wait_call(name)
        end = capture_end(name)
        return EventMeaning(
            kind if kind in _USED else "",
            name,
            copy=(copy_kind(name), host_memory(name)),
            is_wait=is_wait,
            capture_end=end,
            is_copy="Memcpy" in name and not is_wait,
            is_special=is_wait or bool(end) or "Memcpy" in name or "Synchronize" in name,
        )
