"""Five-minute blocks: mean and peak of each measure, packed."""

import math
import struct
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cached_property, partial
from itertools import groupby, pairwise, repeat
from operator import attrgetter, gt
from typing import Any, Final, NamedTuple, Self, overload

from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds

BLOCK_SPAN: Final[Nanoseconds] = 300 * NANOSECONDS_PER_SECOND


class LazyColumn(Sequence[float]):
    """Column of known length, decoded on first access."""

    def __init__(self, length: int, read: Callable[[], Sequence[float]]) -> None:
        self._length = length
        self._read = read

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[float]:
        return iter(self._values)

    @overload
    def __getitem__(self, place: int) -> float: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[float]: ...
    def __getitem__(self, place: int | slice) -> float | Sequence[float]:
        return self._values[place]

    @cached_property
    def _values(self) -> Sequence[float]:
        return self._read()

    def part(self, inside: slice) -> Sequence[float]:
        """Some of the values, as cheap to sum up as all."""
        return self._values[inside]

    def total(self) -> float:
        """Sum of the values."""
        return sum(self._values)

    def maximum(self) -> float | None:
        """Largest value; `None` without any."""
        return max(self._values, default=None)

    def count_above(self, limit: float) -> int:
        """Number of values above a limit."""
        return count_above(self._values, limit)

    def below(self, limit: float) -> bytes:
        """1 for each value below a limit, else 0."""
        return bytes([value < limit for value in self._values])


def count_above(values: Sequence[float], limit: float) -> int:
    """Number of values above a limit."""
    if isinstance(values, LazyColumn):
        return values.count_above(limit)
    return sum(map(gt, values, repeat(limit)))


class Measure(StrEnum):
    """Measures kept per block: ratios of a device that add up over a workload's devices."""

    BUSY = "busy"
    """Share of time with a kernel resident."""
    COMPUTE = "compute"
    """Upper bound of the compute ratio: `sm_work`, or its substitute without profiling."""
    COMPUTE_AT_LEAST = "compute_at_least"
    """Lower bound: the busiest pipe over the achievable peak, at the actual clock."""
    MEMORY_BANDWIDTH = "memory_bandwidth"
    MEMORY = "memory"
    MEMORY_BYTES = "memory_bytes"
    PCIE = "pcie"
    NVLINK = "nvlink"


_MEASURES: Final = tuple(Measure)
"""In record order; adding a measure requires a new window format."""
_RECORD: Final = struct.Struct(f">IH{2 * len(_MEASURES)}e")
"""Block number since the epoch, known time in tenths of a second, then means and peaks."""
_PLACES: Final = {measure: 6 + 4 * place for place, measure in enumerate(_MEASURES)}
"""Offset of each measure's mean within a record; its peak follows."""
_SIZE: Final = _RECORD.size
_NUMBER_BYTES: Final = 4
_HALF: Final = struct.Struct(">e")
_HALF_BITS: Final = struct.Struct(">H")
_MOST_HALF: Final = 65504.0
_NO_NUMBERS: Final = (0x7C, 0x7D, 0x7E, 0x7F, 0xFC, 0xFD, 0xFE, 0xFF)
"""First bytes of half floats that are infinite or NaN (IEEE 754, all exponent bits set)."""
_MOST_TENTHS: Final = 65535
_TENTHS: Final = 10
BLOCK_UNITS: Final = {Measure.MEMORY_BYTES: 2.0**30}
"""Unit of the packed value, so that a half float can hold it."""


class Block(NamedTuple):
    """One measure over five minutes."""

    start: Nanoseconds
    """Wall time, a multiple of `BLOCK_SPAN`."""
    known_seconds: float
    mean: float
    """Over the known time, idle time included; rounded to 0.1 % of its value."""
    peak: float
    """Largest reading, rounded up by at most 0.1 %."""


class Series(NamedTuple):
    """Columns of one measure's blocks, oldest first, at most one per five minutes."""

    numbers: Sequence[int]
    """Block numbers since the epoch."""
    known_seconds: Sequence[float]
    means: Sequence[float]
    peaks: Sequence[float]

    @classmethod
    def of(cls, blocks: Iterable[Block]) -> Self:
        """Build columns from blocks in chronological order."""
        kept = list(blocks)
        return cls(
            [block.start // BLOCK_SPAN for block in kept],
            [block.known_seconds for block in kept],
            [block.mean for block in kept],
            [block.peak for block in kept],
        )

    @property
    def total_seconds(self) -> float:
        """Known time of all blocks."""
        seconds = self.known_seconds
        return seconds.total() if isinstance(seconds, LazyColumn) else sum(seconds)

    @property
    def peak(self) -> float | None:
        """Largest peak; `None` without blocks."""
        peaks = self.peaks
        return peaks.maximum() if isinstance(peaks, LazyColumn) else max(peaks, default=None)

    def part(self, inside: slice) -> Self:
        """Some of the blocks."""
        columns = (
            column.part(inside) if isinstance(column, LazyColumn) else column[inside]
            for column in self[1:]
        )
        return type(self)(self.numbers[inside], *columns)

    def means_below(self, limit: float) -> bytes:
        """1 for each mean below a limit, else 0."""
        means = self.means
        if isinstance(means, LazyColumn):
            return means.below(limit)
        return bytes([mean < limit for mean in means])

    @property
    def starts(self) -> list[Nanoseconds]:
        """Start of each block, wall time."""
        return [number * BLOCK_SPAN for number in self.numbers]

    def parts(self, span: Nanoseconds) -> Iterator[tuple[int, slice]]:
        """Split into aligned periods of whole blocks, such as hours or days.

        Yields each period's number since the epoch and its slice of the columns.
        """
        period_blocks = span // BLOCK_SPAN
        first = 0
        while first < len(self.numbers):
            part = self.numbers[first] // period_blocks
            last = bisect_left(self.numbers, (part + 1) * period_blocks, first)
            yield part, slice(first, last)
            first = last


class Blocks:
    """Packed blocks in chronological order. Joining is independent of the order of the parts."""

    __slots__ = ("_data",)

    def __init__(self, data: bytes = b"") -> None:
        self._data = data

    @property
    def data(self) -> bytes:
        """Records of fixed size."""
        return self._data

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.data == other.data

    def __hash__(self) -> int:
        return hash(self.data)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.data!r})"

    @classmethod
    def of_one(
        cls,
        start: Nanoseconds,
        known_seconds: float,
        means: Mapping[Measure, float],
        peaks: Mapping[Measure, float],
    ) -> Self:
        """Pack a single block; omit unknown measures."""
        values = []
        for measure in _MEASURES:
            unit = BLOCK_UNITS.get(measure, 1.0)
            is_known = measure in means
            values.append(min(_MOST_HALF, means[measure] / unit) if is_known else math.nan)
            values.append(_not_below(peaks[measure] / unit) if is_known else math.nan)
        tenths = min(_MOST_TENTHS, round(known_seconds * _TENTHS))
        return cls(_RECORD.pack(start // BLOCK_SPAN, tenths, *values))

    @classmethod
    def from_columns(cls, data: bytes) -> Self:
        """Decode the output of `columns`.

        Raises:
            ValueError: the bytes are not whole blocks.
        """
        if not data:
            return cls()
        count, rest = divmod(len(data), _SIZE)
        if rest:
            raise ValueError("a window's blocks are cut off")
        records = bytearray(len(data))
        for place in range(_SIZE):
            records[place::_SIZE] = data[place * count : (place + 1) * count]
        return cls(bytes(records))

    def columns(self) -> bytes:
        """Transpose to byte columns, which compress better because neighbors are alike."""
        return b"".join(self.data[place::_SIZE] for place in range(_SIZE)) if self.data else b""

    @classmethod
    def joined(cls, parts: Iterable["Blocks"]) -> Self:
        """Merge several into one."""
        chunks = sorted(part.data for part in parts if part.data)
        data = b"".join(chunks)
        size = _NUMBER_BYTES
        if all(one[-_SIZE:][:size] < other[:size] for one, other in pairwise(chunks)):
            return cls(data)
        return cls(b"".join(sorted(data[at : at + _SIZE] for at in range(0, len(data), _SIZE))))

    def between(self, start: Nanoseconds, end: Nanoseconds) -> "Blocks":
        """Select the blocks that begin in a time range."""
        if not self.data:
            return self
        first = -(-start // BLOCK_SPAN)
        last = -(-end // BLOCK_SPAN)
        if first <= self._number(0) and self._number(len(self.data) - _SIZE) < last:
            return self
        numbers = _column(self.data, 0, "I")
        low = bisect_left(numbers, first)
        high = bisect_left(numbers, last)
        return Blocks(self.data[low * _SIZE : high * _SIZE])

    def _number(self, place: int) -> int:
        return int.from_bytes(self.data[place : place + _NUMBER_BYTES])

    def of(self, measure: Measure) -> tuple[Block, ...]:
        """Blocks with a known value of a measure, oldest first, one per five minutes."""
        return tuple(self.each(measure))

    def each(self, measure: Measure) -> Iterator[Block]:
        """Iterate over the same blocks lazily, since a month of them takes much memory."""
        series = self.series(measure)
        return map(Block, series.starts, series.known_seconds, series.means, series.peaks)

    def series(self, measure: Measure) -> Series:
        """The same blocks as columns, the fast way to process many."""
        data = self.data
        place = _PLACES[measure]
        # A first byte of a NaN may be present: take the slow path that checks each value.
        first_bytes = data[place::_SIZE]
        may_lack = any(number in first_bytes for number in _NO_NUMBERS)
        if may_lack or _may_repeat(data[_NUMBER_BYTES - 1 :: _SIZE]):
            return _cleaned(data, measure)
        unit = BLOCK_UNITS.get(measure)
        count = len(data) // _SIZE
        return Series(
            numbers=_column(data, 0, "I"),
            known_seconds=LazyColumn(count, partial(_known_seconds, data)),
            means=LazyColumn(count, partial(_in_units, data, place, unit)),
            peaks=LazyColumn(count, partial(_in_units, data, place + 2, unit)),
        )

    def __bool__(self) -> bool:
        return bool(self.data)


def _column(data: bytes, place: int, code: str) -> tuple[Any, ...]:
    """Unpack one field of all records at once."""
    size = struct.calcsize(code)
    cut = bytearray(len(data) // _SIZE * size)
    for at in range(size):
        cut[at::size] = data[place + at :: _SIZE]
    return struct.unpack(f">{len(cut) // size}{code}", cut)


def _may_repeat(last_bytes: bytes) -> bool:
    """Check the last bytes of the numbers for possibly duplicate neighbors."""
    differences = int.from_bytes(last_bytes[:-1]) ^ int.from_bytes(last_bytes[1:])
    return len(last_bytes) > 1 and 0 in differences.to_bytes(len(last_bytes) - 1)


def _in_units(data: bytes, place: int, unit: float | None) -> Sequence[float]:
    values = _column(data, place, "e")
    return values if unit is None else [value * unit for value in values]


def _known_seconds(data: bytes) -> Sequence[float]:
    """Share the few distinct values, since most blocks are known in full."""
    tenths = _column(data, _NUMBER_BYTES, "H")
    lengths = {tenth: tenth / _TENTHS for tenth in set(tenths)}
    if len(lengths) == 1:
        return tuple(lengths.values()) * len(tenths)
    return tuple(map(lengths.__getitem__, tenths))


def _cleaned(data: bytes, measure: Measure) -> Series:
    """Drop blocks with an unknown measure and merge duplicates of the same five minutes."""
    place = _PLACES[measure]
    unit = BLOCK_UNITS.get(measure, 1.0)
    columns = [
        _column(data, *layout) for layout in ((0, "I"), (4, "H"), (place, "e"), (place + 2, "e"))
    ]
    blocks = (
        Block(number * BLOCK_SPAN, tenths / _TENTHS, mean * unit, peak * unit)
        for number, tenths, mean, peak in zip(*columns, strict=True)
        if not math.isnan(mean)
    )
    return Series.of(_as_one(list(same)) for _, same in groupby(blocks, attrgetter("start")))


def _as_one(parts: list[Block]) -> Block:
    if len(parts) == 1:
        return parts[0]
    known_seconds = sum(part.known_seconds for part in parts)
    weighted = sum(part.mean * part.known_seconds for part in parts)
    mean = (
        weighted / known_seconds if known_seconds else sum(part.mean for part in parts) / len(parts)
    )
    return Block(parts[0].start, known_seconds, mean, max(part.peak for part in parts))


def _not_below(value: float) -> float:
    """Smallest half float not below a value, up to the largest finite one."""
    value = min(_MOST_HALF, value)
    half = _HALF.pack(value)
    if _HALF.unpack(half)[0] >= value:
        return value
    (bits,) = _HALF_BITS.unpack(half)
    return float(_HALF.unpack(_HALF_BITS.pack(bits + 1))[0])
