"""Meaning of the names of kernels, copies, host spans and ranges."""

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final, TypeVar

from rightsizer.io.yaml import load_beside
from rightsizer.model.profile import CopyKind, HostMemory, KernelFamily, SpanKind

_KindT = TypeVar("_KindT", bound=StrEnum)
_PATTERNS: Final[Mapping[str, Any]] = load_beside(__file__, "names.yaml")


def _compiled(patterns: Iterable[str], flags: re.RegexFlag = re.IGNORECASE) -> re.Pattern[str]:
    return re.compile("|".join(patterns), flags)


def _any_of(name: str) -> re.Pattern[str]:
    return _compiled(_PATTERNS[name])


def _kinds(name: str, enum: type[_KindT]) -> tuple[tuple[re.Pattern[str], _KindT], ...]:
    return tuple((_compiled(patterns), enum(kind)) for kind, patterns in _PATTERNS[name].items())


_COLLECTIVE: Final = _any_of("collective")
_MATRIX_UNITS: Final = _compiled(_PATTERNS["matrix_units"], re.NOFLAG)
_OTHER_UNITS: Final = _any_of("other_units")
_FAMILIES: Final = _kinds("families", KernelFamily)
_KINDS: Final = _kinds("copies", CopyKind)
_COLLECTIVE_KINDS, _ARCHITECTURES, _OPERATIONS = (
    tuple((name, _compiled(patterns)) for name, patterns in _PATTERNS[table].items())
    for table in ("collective_kinds", "architectures", "operations")
)
_MEMORIES: Final = _kinds("memories", HostMemory)
_REMEMBERED: Final = 10_000
"""Most names of kernels whose operations are kept."""
_ALLOCATION: Final = r"(?:cuda|cu|hip)(?:Free|Malloc|MemAlloc|MemFree)(?:_v\d+)?(?!\w)"
"""Allocating and freeing memory waits for an idle device."""
_ALLOCATION_CALL: Final = re.compile(_ALLOCATION)
_WAIT_CALL: Final = re.compile(
    rf"(?:cuda|cu|hip)(?:\w*Synchronize|Memcpy(?!\w*Async))|{_ALLOCATION}"
    r"|ur(?:QueueFinish|EventWait)|ze\w*Synchronize"
)
_CAPTURE_CALL: Final = re.compile(r"(?:cuda|cu|hip)Stream(?P<end>Begin|End)Capture")
_SPANS: Final = ("loader", "checkpoint", "recomputation", "synchronization")
_ANNOTATIONS, _RANGES = (
    tuple(_any_of(f"{name}{suffix}") for name in _SPANS) for suffix in ("", "_range")
)
_PYTHON: Final = (
    (re.compile(r"torch/serialization\.py\(\d+\): save$"), SpanKind.CHECKPOINT, "torch.save"),
    (
        re.compile(r"torch/distributed/checkpoint/\w+\.py\(\d+\): (?:async_)?save$"),
        SpanKind.CHECKPOINT,
        "torch.distributed.checkpoint.save",
    ),
)
_COUNTED: Final = re.compile(rb", (?:seq|op_id|sizes|input_op_ids) = [^\0]*")
"""Appended by PyTorch's `emit_nvtx`, which makes every range's name unique."""
_PATH: Final = re.compile(r"(?:[A-Za-z]:)?(?:[/\\][^\s/\\,;:'\"()\[\]]+){2,}")
_COLLECTIVE_ANNOTATION: Final = _any_of("collective_annotation")
_STEP: Final = _any_of("step")
_TURN: Final = _any_of("turn")
_READ_BACK = _any_of("read_back")
_OF_A_GPU = _any_of("of_a_gpu")


def is_collective(name: str) -> bool:
    """Whether a kernel moves data between devices, for all of them."""
    return _COLLECTIVE.search(name) is not None


def collective_kind(name: str) -> str:
    """Return the kind of collective; empty if its name does not show it."""
    return next((kind for kind, pattern in _COLLECTIVE_KINDS if pattern.search(name)), "")


def kernel_architecture(name: str) -> str:
    """Return the architecture that it was written for; empty if its name does not show it."""
    return next(
        (architecture for architecture, pattern in _ARCHITECTURES if pattern.search(name)), ""
    )


def uses_tensor_cores(name: str) -> bool | None:
    """Whether a kernel uses matrix units; `None` if the name does not tell."""
    if is_collective(name):
        return False
    if _MATRIX_UNITS.search(name):
        return True
    return False if _OTHER_UNITS.search(name) else None


def kernel_family(name: str) -> KernelFamily:
    """Return the family of a kernel."""
    if is_collective(name):
        return KernelFamily.COLLECTIVE
    families = (family for pattern, family in _FAMILIES if pattern.search(name))
    return next(families, KernelFamily.OTHER)


@lru_cache(_REMEMBERED)
def operation(name: str) -> str:
    """Return what else than a kernel a name among kernels is; empty for a kernel."""
    return next((kind for kind, pattern in _OPERATIONS if pattern.search(name)), "")


def copy_kind(name: str) -> CopyKind:
    """Return the direction of a copy."""
    return next((kind for pattern, kind in _KINDS if pattern.search(name)), CopyKind.OTHER)


def host_memory(name: str) -> HostMemory:
    """Return the kind of host memory; unknown for ROCm."""
    memories = (memory for pattern, memory in _MEMORIES if pattern.search(name))
    return next(memories, HostMemory.UNKNOWN)


def is_wait_call(name: str) -> bool:
    """Whether a call of CUDA, HIP or Intel blocks until the device has finished something."""
    return _WAIT_CALL.match(name) is not None


def is_allocation(name: str) -> bool:
    """Whether a wait is for memory that is allocated or freed; frames may follow its name."""
    return _ALLOCATION_CALL.match(name) is not None


def capture_end(name: str) -> str:
    """Return `Begin` or `End` for a call that begins or ends recording a graph, else nothing."""
    call = _CAPTURE_CALL.match(name)
    return call["end"] if call else ""


def span_kind(name: str) -> SpanKind:
    """Return the kind of an annotation's span."""
    if _COLLECTIVE_ANNOTATION.search(name):
        return SpanKind.COLLECTIVE
    return _kind_by(_ANNOTATIONS, name)


def python_span(name: str) -> tuple[SpanKind, str] | None:
    """Return kind and name without folders of a Python frame; `None` for most frames."""
    if not name.endswith("save"):
        return None
    return next(((kind, said) for pattern, kind, said in _PYTHON if pattern.search(name)), None)


def range_name(text: str) -> str:
    """Return the name of a range without unique parts and folders."""
    return range_names([text.encode(errors="replace")])[0]


def range_names(texts: Sequence[bytes]) -> Sequence[str]:
    """Return the names of several ranges; zeros in them become blanks."""
    joined = b"\0".join(texts)
    if joined.count(b"\0") >= len(texts):
        joined = b"\0".join(text.replace(b"\0", b" ") for text in texts)
    names = _COUNTED.sub(b"", joined).split(b"\0") if texts else ()
    return [*map(_without_folders, names)]


@lru_cache(_REMEMBERED)
def _without_folders(name: bytes) -> str:
    plain = name.decode(errors="replace")
    return _PATH.sub(lambda path: re.split(r"[/\\]", path[0])[-1], plain).strip()


@lru_cache(_REMEMBERED)
def range_kind(name: str) -> SpanKind:
    """Return the kind of a range; an annotation if its name tells nothing more."""
    return _kind_by(_RANGES, name)


def _kind_by(patterns: Iterable[re.Pattern[str]], name: str) -> SpanKind:
    loader, checkpoint, recomputation, synchronization = patterns
    if loader.search(name):
        return SpanKind.LOADER
    if checkpoint.search(name) and not recomputation.search(name):
        return SpanKind.CHECKPOINT
    return SpanKind.SYNCHRONIZATION if synchronization.search(name) else SpanKind.ANNOTATION


def is_read_back(name: str) -> bool:
    """Whether a host call reads a value that a device has to compute first."""
    return _READ_BACK.search(name) is not None


def is_of_a_gpu(operator: str) -> bool:
    """Whether an operator runs only on a GPU."""
    return _OF_A_GPU.search(operator) is not None


def is_turn(name: str) -> bool:
    """Whether an annotation begins an iteration of a serving engine's loop."""
    return _TURN.fullmatch(name) is not None


@lru_cache(_REMEMBERED)
def is_step(name: str) -> bool:
    """Whether a range is an iteration of the program's main loop."""
    return _STEP.fullmatch(name) is not None
