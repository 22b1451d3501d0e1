"""Copies by where from and where to."""

from rightsizer.domain.profile import CopyKind, CopyUse, HostMemory
from rightsizer.domain.units import Nanoseconds, seconds

__all__ = ["CopyTable"]


class CopyTable:
    """The copies of one device."""

    __slots__ = ("_rows",)

    def __init__(self) -> None:
        self._rows: dict[tuple[CopyKind, HostMemory], tuple[int, int, Nanoseconds]] = {}

    def add(self, kind: CopyKind, memory: HostMemory, size: int, duration: Nanoseconds) -> None:
        """One copy."""
        count, total_bytes, total = self._rows.get((kind, memory), (0, 0, 0))
        self._rows[kind, memory] = (count + 1, total_bytes + size, total + duration)

    def uses(self) -> tuple[CopyUse, ...]:
        """Longest in sum first."""
        rows = sorted(self._rows.items(), key=lambda row: (-row[1][2], row[0]))
        return tuple(
            CopyUse(kind=kind, memory=memory, count=count, bytes=size, seconds=seconds(total))
            for (kind, memory), (count, size, total) in rows
        )
