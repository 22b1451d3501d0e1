"""What a range is about, told by the names that frameworks and people give to ranges."""

import re
from typing import Final

from rightsizer.domain.profile import SpanKind

__all__ = ["is_step", "range_kind", "range_name"]

_COUNTED: Final = re.compile(r", (?:seq|op_id|sizes|input_op_ids) = .*", re.DOTALL)
"""What PyTorch's `emit_nvtx` appends, by which every range would have a name of its own."""
_PATH: Final = re.compile(r"(?:[A-Za-z]:)?(?:[/\\][^\s/\\,;:'\"()\[\]]+){2,}")
_STEP: Final = re.compile(
    r"(?:(?:train|training|eval|evaluation|inference|global|profiler|decode|engine|model)"
    r"[ _\-.:/]*)?(?:step|iteration|iter|batch)(?:[ _\-#:=.(\[]*\d.*)?",
    re.IGNORECASE,
)
_LOADER: Final = re.compile(
    r"data[ _\-.]?load|data[ _\-.]?(?:fetch|wait|time|iter)|dataloader"
    r"|(?:load|get|next|fetch|fetching|read)[ _\-.]?(?:the )?(?:next )?"
    r"(?:batch|data|inputs?|samples?)\b"
    r"|batch[ _\-.]?(?:load|fetch|generat)|input[ _\-.]?pipeline|prefetch",
    re.IGNORECASE,
)
_CHECKPOINT: Final = re.compile(
    r"check[ _\-]?point|ckpt|torch\.save|(?:save|saving|restore|restoring)[ _\-.]?"
    r"(?:the )?(?:model|state|weights|optimizer)",
    re.IGNORECASE,
)
_RECOMPUTATION: Final = re.compile(
    r"checkpoint_?(?:function|wrap)|activation|recomput|gradient[ _\-]?check|checkpointed",
    re.IGNORECASE,
)
"""Checkpoints of activations are computation and never reach a disk."""
_SYNCHRONIZATION: Final = re.compile(r"synchroni[sz]|\bbarrier\b", re.IGNORECASE)


def range_name(text: str) -> str:
    """The name without what makes each range different, and without folders."""
    return _PATH.sub(_last_part, _COUNTED.sub("", text)).strip()


def range_kind(name: str) -> SpanKind:
    """What a range of this name is about; an annotation where the name tells nothing more."""
    if _LOADER.search(name):
        return SpanKind.LOADER
    if _CHECKPOINT.search(name) and not _RECOMPUTATION.search(name):
        return SpanKind.CHECKPOINT
    if _SYNCHRONIZATION.search(name):
        return SpanKind.SYNCHRONIZATION
    return SpanKind.ANNOTATION


def is_step(name: str) -> bool:
    """Whether a range of this name is one turn of the program's main loop."""
    return _STEP.fullmatch(name) is not None


def _last_part(path: re.Match[str]) -> str:
    return re.split(r"[/\\]", path[0])[-1]
