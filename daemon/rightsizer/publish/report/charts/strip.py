"""A strip: what a device mostly did, from left to right."""

from collections.abc import Mapping, Sequence
from itertools import groupby

from rightsizer.publish.report.charts.svg import box, figure

__all__ = ["strip"]


def strip(name: str, cells: Sequence[str], words: Mapping[str, str]) -> str:
    """Cells of equal length; equal neighbors are drawn as one."""
    paths: dict[str, list[str]] = {}
    place = 0
    for group, same in groupby(cells):
        length = len(list(same))
        paths.setdefault(group, []).append(box(place, 0, length, 10))
        place += length
    told = ", ".join(
        f"mostly {words[group]} in {cells.count(group)} of {len(cells)}" for group in paths
    )
    drawn = [f'<path class="g-{group}" d="{"".join(d)}"/>' for group, d in paths.items()]
    return figure((max(1, len(cells)), 10), name, told, drawn, "strip")
