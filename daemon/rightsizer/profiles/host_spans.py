"""What the host did, by kind and name."""

from collections.abc import Iterator
from typing import Final

from rightsizer.domain.profile import HostSpanUse, SpanKind
from rightsizer.domain.units import Nanoseconds, seconds
from rightsizer.profiles.intervals import Interval, union
from rightsizer.profiles.kernel_table import short_name
from rightsizer.profiles.reader import ReadLimits
from rightsizer.profiles.time_line import SpanLine

__all__ = ["HostSpans"]

_REST: Final = "(others)"
_LAID: Final = (SpanKind.LOADER, SpanKind.CHECKPOINT)


class HostSpans:
    """Sums of spans; those that a device may wait for also as lines."""

    __slots__ = ("_limits", "_lines", "_rows")

    def __init__(self, limits: ReadLimits) -> None:
        self._limits = limits
        self._rows: dict[tuple[SpanKind, str], tuple[int, Nanoseconds]] = {}
        self._lines = {kind: SpanLine() for kind in _LAID}

    def add(self, kind: SpanKind, name: str, start: Nanoseconds, end: Nanoseconds) -> None:
        """One span."""
        key = (kind, short_name(name, self._limits.name_maximum_characters))
        if key not in self._rows and len(self._rows) >= self._limits.kernel_names_maximum:
            key = (kind, _REST)
        count, total = self._rows.get(key, (0, 0))
        self._rows[key] = (count + 1, total + end - start)
        if kind in self._lines:
            self._lines[kind].add(start, end)

    def loader(self) -> Iterator[Interval]:
        """When the host was in its loader, apart from each other and in order."""
        return union(self._lines[SpanKind.LOADER].intervals())

    def checkpoints(self) -> Iterator[Interval]:
        """When it wrote or read one."""
        return union(self._lines[SpanKind.CHECKPOINT].intervals())

    def uses(self) -> tuple[HostSpanUse, ...]:
        """Longest in sum first."""
        rows = sorted(self._rows.items(), key=lambda row: (-row[1][1], row[0]))
        return tuple(
            HostSpanUse(kind=kind, name=name, count=count, seconds=seconds(total))
            for (kind, name), (count, total) in rows
        )
