"""Tables of kernels, copies, collectives and host spans: counts, times and bandwidth."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple
from zlib import crc32

import numpy as np

from rightsizer.model.profile import (
    CollectiveUse,
    CopyKind,
    CopyUse,
    HostMemory,
    HostSpanUse,
    KernelCounters,
    KernelFamily,
    KernelUse,
    SpanKind,
)
from rightsizer.model.values import NANOSECONDS_PER_SECOND, Nanoseconds, seconds
from rightsizer.profiles.columns import Texts, chosen, coded, grouped, summed
from rightsizer.profiles.json_events import whole_number
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.names import (
    collective_kind,
    is_collective,
    kernel_family,
    uses_tensor_cores,
)
from rightsizer.profiles.timeline import Interval, Intervals, NamedLine, Numbers, united

_COUNTERS: Final = frozenset(struct_field for struct_field in KernelCounters.__struct_fields__)
_REST: Final = "(others)"
_LAID: Final = (
    SpanKind.LOADER,
    SpanKind.CHECKPOINT,
    SpanKind.COLLECTIVE,
    SpanKind.SYNCHRONIZATION,
)


def short_name(name: str, maximum: int) -> str:
    """Cut a name to a displayable length; a checksum keeps it unique."""
    if len(name) <= maximum:
        return name
    mark = f"...{crc32(name.encode(errors='replace')):08x}"
    return name[: maximum - len(mark)] + mark


@dataclass(slots=True)
class KernelRow:
    """All runs of kernels with one name, in its table's unit of time."""

    name: str
    is_collective: bool
    uses_tensor_cores: bool | None
    number: int
    """Place in its table."""
    count: int = 0
    total: float = 0
    _shortest: float | None = None
    _longest: float = 0
    _figures: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    _stalls: dict[str, float] = field(default_factory=dict)

    def add(self, duration: float) -> None:
        """Add a run."""
        if self._shortest is None or duration < self._shortest:
            self._shortest = duration
        self._longest = max(self._longest, duration)
        self.count += 1
        self.total += duration

    def add_sum(self, count: int, total: float, extremes: tuple[float, float] | None) -> None:
        """Add several runs, with their extremes if known."""
        self.count += count
        self.total += total
        for extreme in extremes or ():
            self._shortest = extreme if self._shortest is None else min(self._shortest, extreme)
            self._longest = max(self._longest, extreme)

    def measure(self, figure: str, value: Any, weight: float) -> None:
        """Add a measurement of runs, by field name in `KernelUse` or its counters."""
        total, weights = self._figures.get(figure, (0, 0))
        self._figures[figure] = (total + value * weight, weights + weight)

    def stall(self, why: str, weight: float) -> None:
        """Add a share of the time of some runs in which warps were stalled."""
        self._stalls[why] = self._stalls.get(why, 0.0) + weight

    def use(self, per_second: int) -> KernelUse:
        """Return the totals; `per_second` is the number of time units a second."""
        means = {name: float(total / weight) for name, (total, weight) in self._figures.items()}
        counted: dict[str, Any] = {name: means.pop(name) for name in _COUNTERS & means.keys()}
        if self._stalls:
            why, time = max(self._stalls.items(), key=lambda stall: stall[1])
            counted |= {"stall": why, "stall_ratio": min(1.0, time / (self.total or 1e-9))}
        return KernelUse(
            self.name,
            self.count,
            self.total / per_second,
            (self._shortest or 0) / per_second,
            self._longest / per_second,
            self.is_collective,
            self.uses_tensor_cores,
            family=KernelFamily.COLLECTIVE if self.is_collective else kernel_family(self.name),
            counters=KernelCounters(**counted) if counted else None,
            **means,
        )


class KernelTable:
    """Kernels of one device."""

    def __init__(self, limits: ReadLimits, per_second: int = NANOSECONDS_PER_SECOND) -> None:
        self._limits = limits
        self._per_second = per_second
        self._rows: dict[str, KernelRow] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def row(self, name: str) -> KernelRow:
        """Return the row of a name; the name also tells collectives and units."""
        if len(name) > self._limits.name_maximum_characters:
            name = short_name(name, self._limits.name_maximum_characters)
        if (kernel_row := self._rows.get(name)) is not None:
            return kernel_row
        collective = is_collective(name)
        tensor_cores = uses_tensor_cores(name)
        if len(self._rows) >= self._limits.kernel_names_maximum:
            name = f"(other {'collectives' if collective else 'kernels'})"
            tensor_cores = None
        return self._rows.setdefault(
            name, KernelRow(name, collective, tensor_cores, len(self._rows))
        )

    def add_runs(self, numbers: Numbers, durations: Numbers) -> None:
        """Add runs by numbers of rows."""
        if not numbers.size:
            return
        ordered = np.argsort(numbers, kind="stable")
        lengths = durations[ordered]
        used, begins, counts = np.unique(numbers[ordered], return_index=True, return_counts=True)
        rows = self.numbered()
        sums = (way.reduceat(lengths, begins) for way in (np.add, np.minimum, np.maximum))
        columns = (column.tolist() for column in (used, counts, *sums))
        for number, count, total, shortest, longest in zip(*columns, strict=True):
            rows[number].add_sum(count, total, (shortest, longest))

    def numbered(self) -> Sequence[KernelRow]:
        """Return the rows by their numbers."""
        return [*self._rows.values()]

    def uses(self) -> tuple[KernelUse, ...]:
        """Return the kernels, longest first."""
        used = (row for row in self._rows.values() if row.count)
        ranked = sorted(used, key=lambda row: (-row.total, row.name))
        return tuple(row.use(self._per_second) for row in ranked)


class CopyTable:
    """Copies of one device."""

    def __init__(self) -> None:
        self._rows: dict[tuple[CopyKind, HostMemory], tuple[int, int | None, Nanoseconds]] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def add(
        self,
        kind: CopyKind,
        memory: HostMemory,
        size: int | None,
        duration: Nanoseconds,
        count: int = 1,
    ) -> None:
        """Add one or several copies; the size of all is unknown if that of any is."""
        copies, total_bytes, total = self._rows.get((kind, memory), (0, 0, 0))
        whole = None if size is None or total_bytes is None else total_bytes + size
        self._rows[kind, memory] = (copies + count, whole, total + duration)

    def uses(self) -> tuple[CopyUse, ...]:
        """Return the copies, longest first."""
        rows = sorted(self._rows.items(), key=lambda row: (-row[1][2], row[0]))
        return tuple(
            CopyUse(kind, memory, count, size, seconds(total))
            for (kind, memory), (count, size, total) in rows
        )


_ELEMENT_BYTES: Final[Mapping[str, int]] = {
    **dict.fromkeys(("double", "long", "int64", "uint64", "complexfloat"), 8),
    **dict.fromkeys(("float", "int", "int32", "uint32"), 4),
    **dict.fromkeys(("half", "bfloat16", "short"), 2),
    **dict.fromkeys(("char", "byte", "bool", "float8_e4m3fn", "float8_e5m2"), 1),
}
_SIZE_CLASS_BITS: Final = 2
"""Sizes within a factor of four form one class."""
_KINDS_MAXIMUM: Final = 200


class _SizeClass(NamedTuple):
    kind: str
    group_size: int
    bits: int


class CollectiveTable:
    """Collectives of one device, as PyTorch describes those of NCCL and RCCL."""

    def __init__(self) -> None:
        self._rows: dict[_SizeClass, list[float]] = {}

    def add(self, arguments: Mapping[str, Any], duration: Nanoseconds) -> None:
        """Add one call; ignored without its size or group."""
        kind = collective_kind(str(arguments.get("Collective name", "")))
        group = whole_number(arguments.get("Group size"))
        element = _ELEMENT_BYTES.get(str(arguments.get("dtype", "")).lower())
        counts = (whole_number(arguments.get(f"{way} msg nelems")) for way in ("In", "Out"))
        size = max((elements or 0 for elements in counts), default=0) * (element or 0)
        if not kind or not group or group < 2 or size <= 0 or duration <= 0:  # noqa: PLR2004 - a pair.
            return
        key = _SizeClass(kind, group, size.bit_length() // _SIZE_CLASS_BITS)
        if key in self._rows or len(self._rows) < _KINDS_MAXIMUM:
            row = self._rows.setdefault(key, [0, 0, 0, 0])
            row[0] += 1
            row[1] += size
            row[2] += duration
            row[3] = max(row[3], _on_the_bus(kind, size, group) / duration)

    def uses(self) -> tuple[CollectiveUse, ...]:
        """Collectives by total time, longest first."""
        ranked = sorted(self._rows.items(), key=lambda row: (-row[1][2], row[0]))
        return tuple(
            CollectiveUse(
                key.kind,
                key.group_size,
                int(count),
                size / count,
                seconds(int(duration)),
                _on_the_bus(key.kind, size, key.group_size) / duration * NANOSECONDS_PER_SECOND,
                best * NANOSECONDS_PER_SECOND,
            )
            for key, (count, size, duration, best) in ranked
        )


def _on_the_bus(kind: str, size: float, group: int) -> float:
    """Return what each rank sends, by the factors of NCCL's own tests."""
    if kind == "all_reduce":
        return 2.0 * size * (group - 1) / group
    if kind in {"all_gather", "reduce_scatter", "all_to_all"}:
        return size * (group - 1) / group
    return size


class HostSpans:
    """Sums of host spans; those that a device may wait for also as timelines."""

    def __init__(self, limits: ReadLimits) -> None:
        self._limits = limits
        self._rows: dict[tuple[SpanKind, str], int] = {}
        self._sums: list[tuple[int, Nanoseconds]] = []
        """Number and time by row."""
        self._lines = {kind: NamedLine() for kind in _LAID}

    def extend(
        self,
        starts: Numbers,
        ends: Numbers,
        kinds: Texts,
        names: Texts,
        *,
        are_waits: bool,
    ) -> None:
        """Add spans; a synchronization by its name alone need not be a wait."""
        for kind, rows in grouped(kinds):
            begins, untils, of_kind = chosen(rows, starts, ends, coded(names))
            column = of_kind.array(partial(self._row, kind))
            for number, time, count in summed(column, untils - begins):
                self._add(number, count, time)
            if kind in self._lines and (are_waits or kind is not SpanKind.SYNCHRONIZATION):
                self._lines[kind].extend(begins, untils, column)

    def add_sum(self, kind: SpanKind, name: str, count: int, total: Nanoseconds) -> None:
        """Add several spans without times."""
        self._add(self._row(kind, name), count, total)

    def _add(self, row: int, count: int, total: Nanoseconds) -> None:
        calls, time = self._sums[row]
        self._sums[row] = calls + count, time + total

    def _row(self, kind: SpanKind, name: str) -> int:
        key = (kind, short_name(name, self._limits.name_maximum_characters))
        if key not in self._rows and len(self._rows) >= self._limits.kernel_names_maximum:
            key = (kind, _REST)
        if key not in self._rows:
            self._rows[key] = len(self._sums)
            self._sums.append((0, 0))
        return self._rows[key]

    def times(self, kind: SpanKind) -> Intervals:
        """Return the disjoint times of spans of a kind, in order."""
        return united(*self._lines[kind].read()[:2])

    def runs(self, kind: SpanKind) -> Iterator[tuple[Interval, str]]:
        """Yield each span of a kind by start, with its name."""
        names = self.names()
        for start, end, row in zip(*map(np.ndarray.tolist, self._lines[kind].read()), strict=True):
            yield (start, end), names[row]

    def named(self, kind: SpanKind) -> tuple[Numbers, Numbers, Numbers]:
        """Return the same with rows of names; of two at once, the one that began first."""
        return self._lines[kind].named()

    def names(self) -> Sequence[str]:
        """Return the names by row."""
        return [name for _, name in self._rows]

    def uses(self) -> tuple[HostSpanUse, ...]:
        """Return the spans, longest first."""
        rows = zip(self._rows, self._sums, strict=True)
        return tuple(
            HostSpanUse(kind, name, count, seconds(total))
            for (kind, name), (count, total) in sorted(rows, key=lambda row: (-row[1][1], row[0]))
        )
