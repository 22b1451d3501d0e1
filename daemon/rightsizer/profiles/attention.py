"""Attention that is not fused, by the order of kernels on their streams."""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from rightsizer.model.profile import AttentionUse, KernelFamily
from rightsizer.model.values import Nanoseconds, seconds

_BETWEEN: Final = frozenset({KernelFamily.ELEMENTWISE, KernelFamily.COPY})
"""Scale, mask, dropout and casts."""


class _Pass(Struct):
    """What ran on a stream since its last product of matrices."""

    product: Nanoseconds
    score: Nanoseconds = 0
    has_softmax: bool = False


def unfused_attention(
    runs: Iterable[tuple[int, int, Nanoseconds]], families: Sequence[KernelFamily]
) -> AttentionUse | None:
    """Sum the passes of attention.

    Args:
        runs: Stream, kernel and duration of each run by start.
        families: By number of kernel; other numbers are no single kernel.

    Returns:
        `None` where no softmax runs between two products, but for elementwise operators and copies.
    """
    if KernelFamily.SOFTMAX not in families:
        return None
    open_passes: dict[int, _Pass] = {}
    passes = 0
    score: Nanoseconds = 0
    product: Nanoseconds = 0
    for stream, kernel, duration in runs:
        family = families[kernel] if kernel >= 0 else KernelFamily.OTHER
        opened = open_passes.get(stream)
        if family is KernelFamily.MATRIX_PRODUCT:
            if opened is not None and opened.has_softmax:
                passes += 1
                score += opened.score
                product += opened.product + duration
            open_passes[stream] = _Pass(duration)
        elif opened is not None and (family in _BETWEEN or family is KernelFamily.SOFTMAX):
            opened.score += duration
            opened.has_softmax |= family is KernelFamily.SOFTMAX
        else:
            open_passes.pop(stream, None)
    return AttentionUse(passes, seconds(score), seconds(product)) if passes else None
