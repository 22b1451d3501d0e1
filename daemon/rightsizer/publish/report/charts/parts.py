"""The memory of a model as one bar: its parts, what stays free, and how far it may be off."""

from collections.abc import Mapping
from typing import Final

from rightsizer.publish.report.charts.svg import box, figure

__all__ = ["PARTS", "memory_bar"]

PARTS: Final[Mapping[str, str]] = {
    "weights": "weights",
    "kv_cache": "KV cache",
    "activations": "activations",
    "gradients": "gradients",
    "optimizer": "optimizer",
    "overhead": "overhead",
}
_GIB: Final = 2.0**30


def memory_bar(name: str, memory: Mapping[str, float], usable_bytes: float | None) -> str:
    """Parts from left to right; the line is what the GPU has, the whisker where it may end.

    Args:
        name: Of what.
        memory: Bytes by `<part>_bytes`, and the ends of the total.
        usable_bytes: `None` where it is not known.
    """
    total, high = memory["total_bytes"], memory["total_bytes_high"]
    scale = 100 / max(total, high, usable_bytes or 0.0, 1.0)
    drawn, reached, told = [], 0.0, []
    for part, words in PARTS.items():
        width = memory[f"{part}_bytes"] * scale
        if width > 0:
            drawn.append(f'<path class="m-{part}" d="{box(reached, 0, width, 10)}"/>')
            told.append(f"{words} {memory[f'{part}_bytes'] / _GIB:.1f} GiB")
            reached += width
    low = memory["total_bytes_low"] * scale
    drawn.append(f'<path class="whisker" d="{box(low, 4.2, high * scale - low, 1.6)}"/>')
    if usable_bytes is not None:
        drawn.append(f'<path class="capacity" d="M{usable_bytes * scale:.4g} 0V10"/>')
    return figure((100, 10), name, ", ".join(told), drawn, "split fit")
