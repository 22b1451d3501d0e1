"""Kernels by name: how often, how long, and what the name tells."""

from collections.abc import Iterator
from zlib import crc32

from rightsizer.domain.profile import KernelUse
from rightsizer.domain.units import Nanoseconds, seconds
from rightsizer.profiles.kernel_names import is_collective, uses_tensor_cores
from rightsizer.profiles.reader import ReadLimits

__all__ = ["KernelRow", "KernelTable", "short_name"]


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
