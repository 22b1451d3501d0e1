"""What the host did, by kind and name."""

from rightsizer.domain.profile import HostSpanUse, SpanKind
from rightsizer.domain.units import Nanoseconds, seconds
from rightsizer.profiles.kernel_table import short_name
from rightsizer.profiles.reader import ReadLimits
from rightsizer.profiles.time_line import SpanLine

__all__ = ["HostSpans"]

_REST = "(others)"


class HostSpans:
    """Sums of spans; those of the loader also as a line, for steps to be laid on."""

    __slots__ = ("_limits", "_rows", "loader")

    def __init__(self, limits: ReadLimits) -> None:
        self._limits = limits
        self._rows: dict[tuple[SpanKind, str], tuple[int, Nanoseconds]] = {}
        self.loader = SpanLine()

    def add(self, kind: SpanKind, name: str, start: Nanoseconds, end: Nanoseconds) -> None:
        """One span."""
        key = (kind, short_name(name, self._limits.name_maximum_characters))
        if key not in self._rows and len(self._rows) >= self._limits.kernel_names_maximum:
            key = (kind, _REST)
        count, total = self._rows.get(key, (0, 0))
        self._rows[key] = (count + 1, total + end - start)
        if kind is SpanKind.LOADER:
            self.loader.add(start, end)

    def uses(self) -> tuple[HostSpanUse, ...]:
        """Longest in sum first."""
        rows = sorted(self._rows.items(), key=lambda row: (-row[1][1], row[0]))
        return tuple(
            HostSpanUse(kind=kind, name=name, count=count, seconds=seconds(total))
            for (kind, name), (count, total) in rows
        )
