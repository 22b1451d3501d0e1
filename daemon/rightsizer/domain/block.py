"""Blocks: what each five minutes came to, packed, so that a month of them is a few hundred KiB.

A block keeps the mean and the peak of each measure. Blocks join by putting them side by side;
those of the same five minutes (a restart divides them) are made one when they are read.
"""

import math
import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby, pairwise
from typing import Final, Self

from rightsizer.domain.histogram import Histogram
from rightsizer.domain.units import NANOSECONDS_PER_SECOND, Nanoseconds

__all__ = ["BLOCK_SPAN", "Block", "Blocks", "Measure"]

BLOCK_SPAN: Final[Nanoseconds] = 300 * NANOSECONDS_PER_SECOND


class Measure(StrEnum):
    """What is kept of a block: shares of a device, which add up over a workload's devices."""

    BUSY = "busy"
    """Share of time with a kernel resident."""
    COMPUTE = "compute"
    """The upper bound of the compute share: `sm_work`, or what stands for it without profiling."""
    COMPUTE_AT_LEAST = "compute_at_least"
    """The lower bound: the largest pipe, of what is achievable, at the clock that ran."""
    MEMORY_BANDWIDTH = "memory_bandwidth"
    MEMORY = "memory"
    MEMORY_BYTES = "memory_bytes"
    PCIE = "pcie"
    NVLINK = "nvlink"


_MEASURES: Final = tuple(Measure)
"""Their order is that of the record; new ones need a new form of window."""
_RECORD: Final = struct.Struct(f">IH{2 * len(_MEASURES)}e")
"""Number of the block since the epoch, known tenths of a second, then means and peaks."""
_SIZE: Final = _RECORD.size
_NUMBER_BYTES: Final = 4
_NUMBER: Final = struct.Struct(f">I{_SIZE - _NUMBER_BYTES}x")
_HALF: Final = struct.Struct(">e")
_HALF_BITS: Final = struct.Struct(">H")
_MOST_HALF: Final = 65504.0
_MOST_TENTHS: Final = 65535
_TENTHS: Final = 10
_UNITS: Final = {Measure.MEMORY_BYTES: 2.0**30}
"""What a packed one stands for, so that half a float can hold it."""


@dataclass(frozen=True, slots=True)
class Block:
    """Five minutes of one measure."""

    start: Nanoseconds
    """Wall time, a multiple of `BLOCK_SPAN`."""
    known_seconds: float
    mean: float
    """Over the known time, idle time included; to a thousandth of itself."""
    peak: float
    """The largest reading; never below it, and at most a thousandth above."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """Any number of blocks, in the order of time. Joining them in any order gives the same."""

    data: bytes = b""

    @classmethod
    def of_one(
        cls,
        start: Nanoseconds,
        known_seconds: float,
        means: Mapping[Measure, float],
        peaks: Mapping[Measure, float],
    ) -> Self:
        """A single block; measures that are unknown are left out."""
        values = []
        for measure in _MEASURES:
            unit = _UNITS.get(measure, 1.0)
            known = measure in means
            values.append(min(_MOST_HALF, means[measure] / unit) if known else math.nan)
            values.append(_not_below(peaks[measure] / unit) if known else math.nan)
        tenths = min(_MOST_TENTHS, round(known_seconds * _TENTHS))
        return cls(_RECORD.pack(start // BLOCK_SPAN, tenths, *values))

    @classmethod
    def from_columns(cls, data: bytes) -> Self:
        """The blocks that `columns` wrote.

        Raises:
            ValueError: the bytes are not whole blocks.
        """
        count, rest = divmod(len(data), _SIZE)
        if rest:
            raise ValueError("a window's blocks are cut off")
        return cls(b"".join(data[place::count] for place in range(count)))

    def columns(self) -> bytes:
        """The same bytes turned on their side: what changes little stands together."""
        return b"".join(self.data[place::_SIZE] for place in range(_SIZE))

    @classmethod
    def joined(cls, parts: Iterable["Blocks"]) -> Self:
        """All the blocks of some."""
        chunks = sorted(part.data for part in parts if part.data)
        if all(
            one[-_SIZE:][:_NUMBER_BYTES] < other[:_NUMBER_BYTES] for one, other in pairwise(chunks)
        ):
            return cls(b"".join(chunks))
        return cls(b"".join(sorted(record for chunk in chunks for record in _records(chunk))))

    def between(self, start: Nanoseconds, end: Nanoseconds) -> "Blocks":
        """The blocks that begin in a span of time."""
        first, last = -(-start // BLOCK_SPAN), -(-end // BLOCK_SPAN)
        numbers = [record[0] for record in _NUMBER.iter_unpack(self.data)]
        low, high = bisect_left(numbers, first), bisect_left(numbers, last)
        return Blocks(self.data[low * _SIZE : high * _SIZE])

    def shifted(self, time: Nanoseconds) -> "Blocks":
        """The same blocks at another time, which counts in whole blocks."""
        by = time // BLOCK_SPAN
        return Blocks(
            b"".join(
                _RECORD.pack(number + by, *values)
                for number, *values in _RECORD.iter_unpack(self.data)
            )
        )

    def of(self, measure: Measure) -> tuple[Block, ...]:
        """The blocks in which a measure is known, oldest first, one for each five minutes."""
        return tuple(self.each(measure))

    def each(self, measure: Measure) -> Iterator[Block]:
        """The same one by one, for a month of them takes room."""
        place, unit = 2 + 2 * _MEASURES.index(measure), _UNITS.get(measure, 1.0)
        known = (
            Block(
                record[0] * BLOCK_SPAN,
                record[1] / _TENTHS,
                record[place] * unit,
                record[place + 1] * unit,
            )
            for record in _RECORD.iter_unpack(self.data)
            if not math.isnan(record[place])
        )
        return (_as_one(list(same)) for _, same in groupby(known, _start))

    def peaks(self, measure: Measure) -> Histogram:
        """How many blocks peaked at each percent; of measures that are ratios."""
        found = Histogram()
        for block in self.each(measure):
            found.add(block.peak, 1.0)
        return found

    def __bool__(self) -> bool:
        return bool(self.data)


def _records(data: bytes) -> Iterator[bytes]:
    return (data[place : place + _SIZE] for place in range(0, len(data), _SIZE))


def _start(block: Block) -> Nanoseconds:
    return block.start


def _as_one(parts: list[Block]) -> Block:
    if len(parts) == 1:
        return parts[0]
    known = sum(part.known_seconds for part in parts)
    weighted = sum(part.mean * part.known_seconds for part in parts)
    mean = weighted / known if known else sum(part.mean for part in parts) / len(parts)
    return Block(parts[0].start, known, mean, max(part.peak for part in parts))


def _not_below(value: float) -> float:
    """The least half float that is not below a value, as far as they go."""
    value = min(_MOST_HALF, value)
    half = _HALF.pack(value)
    if _HALF.unpack(half)[0] >= value:
        return value
    (bits,) = _HALF_BITS.unpack(half)
    return float(_HALF.unpack(_HALF_BITS.pack(bits + 1))[0])
