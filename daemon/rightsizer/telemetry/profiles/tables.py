"""Tables of kernels, copies and host spans: how often, how long."""

from collections.abc import Iterator
from typing import Final
from zlib import crc32

from rightsizer.model.profile import CopyKind, CopyUse, HostMemory, HostSpanUse, KernelUse, SpanKind
from rightsizer.model.units import Nanoseconds, seconds
from rightsizer.telemetry.profiles.limits import ReadLimits
from rightsizer.telemetry.profiles.names import is_collective, uses_tensor_cores
from rightsizer.telemetry.profiles.time_line import Interval, SpanLine, union


def short_name(name: str, maximum: int) -> str:
    """A name cut to what a page can show, and still told apart from others with its beginning."""
    if len(name) <= maximum:
        return name
    mark = f"...{crc32(name.encode(errors='replace')):08x}"
    return name[: maximum - len(mark)] + mark


class KernelRow:
    """All runs of the kernels of one name."""

    __slots__ = (
        "_longest",
        "_occupancy_sum",
        "_occupancy_weight",
        "_shortest",
        "count",
        "is_collective",
        "name",
        "total",
        "uses_tensor_cores",
    )

    def __init__(self, name: str, *, collective: bool, tensor_cores: bool | None) -> None:
        self.name = name
        self.is_collective = collective
        self.uses_tensor_cores = tensor_cores
        self.count = 0
        self.total: Nanoseconds = 0
        self._shortest: Nanoseconds = 0
        self._longest: Nanoseconds = 0
        self._occupancy_sum = 0.0
        self._occupancy_weight = 0

    def add(self, duration: Nanoseconds, occupancy_ratio: float | None) -> None:
        """One run; its occupancy counts by how long it ran."""
        if not self.count or duration < self._shortest:
            self._shortest = duration
        self._longest = max(self._longest, duration)
        self.count += 1
        self.total += duration
        if occupancy_ratio is not None:
            weight = duration or 1
            self._occupancy_sum += occupancy_ratio * weight
            self._occupancy_weight += weight

    def use(self) -> KernelUse:
        """What it comes to."""
        return KernelUse(
            name=self.name,
            count=self.count,
            seconds=seconds(self.total),
            shortest_seconds=seconds(self._shortest),
            longest_seconds=seconds(self._longest),
            is_collective=self.is_collective,
            uses_tensor_cores=self.uses_tensor_cores,
            occupancy_ratio=(
                self._occupancy_sum / self._occupancy_weight if self._occupancy_weight else None
            ),
        )


class KernelTable:
    """The kernels of one device."""

    __slots__ = ("_limits", "_rows")

    def __init__(self, limits: ReadLimits) -> None:
        self._limits = limits
        self._rows: dict[str, KernelRow] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def row(
        self, name: str, *, collective: bool | None = None, tensor_cores: bool | None = None
    ) -> KernelRow:
        """The row of a name; what is not known of it is told by the name."""
        if len(name) > self._limits.name_maximum_characters:
            name = short_name(name, self._limits.name_maximum_characters)
        row = self._rows.get(name) or self._made(name)
        if collective is not None:
            row.is_collective = collective
        if tensor_cores is not None:
            row.uses_tensor_cores = tensor_cores
        return row

    def uses(self) -> tuple[KernelUse, ...]:
        """Longest in sum first."""
        return tuple(row.use() for row in self._by_time())

    def _by_time(self) -> Iterator[KernelRow]:
        used = (row for row in self._rows.values() if row.count)
        return iter(sorted(used, key=lambda row: (-row.total, row.name)))

    def _made(self, name: str) -> KernelRow:
        collective = is_collective(name)
        if len(self._rows) < self._limits.kernel_names_maximum:
            row = KernelRow(name, collective=collective, tensor_cores=uses_tensor_cores(name))
            self._rows[name] = row
            return row
        rest = "(other collectives)" if collective else "(other kernels)"
        return self._rows.setdefault(
            rest, KernelRow(rest, collective=collective, tensor_cores=None)
        )


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
