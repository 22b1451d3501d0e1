"""What a program was doing, by the name that its framework or its author gave a span."""

import re
from typing import Final

from rightsizer.domain.profile import SpanKind

__all__ = ["python_span", "span_kind"]

_LOADER: Final = re.compile(
    r"dataloader|data_?load(?:er|ing)?\b|(?:load|get|next|wait_for)_batch\b|batch_loading",
    re.IGNORECASE,
)
_CHECKPOINT: Final = re.compile(
    r"torch\.save|(?:save|write|async_save|store)_?checkpoint|checkpoint_?(?:save|write|saving)"
    r"|\bcheckpoint(?:ing)?\b",
    re.IGNORECASE,
)
_RECOMPUTATION: Final = re.compile(r"CheckpointFunction|activation|recompute", re.IGNORECASE)
_SYNCHRONIZATION: Final = re.compile(r"synchronize", re.IGNORECASE)

_PYTHON: Final = (
    (re.compile(r"torch/serialization\.py\(\d+\): save$"), SpanKind.CHECKPOINT, "torch.save"),
    (
        re.compile(r"torch/distributed/checkpoint/\w+\.py\(\d+\): (?:async_)?save$"),
        SpanKind.CHECKPOINT,
        "torch.distributed.checkpoint.save",
    ),
)


def span_kind(name: str) -> SpanKind:
    """What kind of span an annotation is."""
    if _LOADER.search(name):
        return SpanKind.LOADER
    if _CHECKPOINT.search(name) and not _RECOMPUTATION.search(name):
        return SpanKind.CHECKPOINT
    return SpanKind.SYNCHRONIZATION if _SYNCHRONIZATION.search(name) else SpanKind.ANNOTATION


def python_span(name: str) -> tuple[SpanKind, str] | None:
    """The kind of a frame of Python, and a name without anybody's folders; most are of none."""
    if not name.endswith("save"):
        return None
    found = ((kind, said) for pattern, kind, said in _PYTHON if pattern.search(name))
    return next(found, None)
