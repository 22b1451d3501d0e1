"""A day of a subject in a few hundred bytes, and back.

Seconds and joules keep 16 bits of their mantissa (a sixteenth of a second of an hour), means and
peaks 11, as blocks do; a peak is never below what it was. What was read back is written alike.
"""

from __future__ import annotations

import struct
import sys
import zlib
from array import array
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import chain
from typing import Final

from rightsizer.fleet.cache.day_frame import (
    ColumnKind,
    DayColumn,
    DayFrame,
    FrameLayout,
    Grid,
    SubjectDay,
)
from rightsizer.model.block import Measure
from rightsizer.model.histogram import Histogram
from rightsizer.model.state import Cause, Condition, Resource, State, Tier

_VERSION: Final = b"\x01"
_SIZES: Final = struct.Struct("<HH")
"""Bytes of the names, and how many distributions follow the numbers."""
_BIN: Final = struct.Struct("<Bf")
_LEVEL: Final = 3
"""A third of the time of the usual one, and a hundredth larger."""
_LANE: Final = 4
"""Bytes of a number."""
_LOOSE: Final = 13
"""Bits that a mean does without, of the 23 of a mantissa."""
_TIGHT: Final = 8
"""Bits that seconds do without."""
_WHOLE: Final = frozenset({ColumnKind.COUNT})


def encode(track: SubjectDay) -> bytes:
    """A track as bytes; its subject and its grid stand beside them."""
    return pack(DayFrame.of(track))


def decode(subject: str, grid: Grid, data: bytes) -> SubjectDay:
    """The track that `encode` wrote.

    Raises:
        ValueError: the bytes are not such a track, or one of another version.
    """
    return unpack(grid, data).track(subject)


def pack(sheet: DayFrame) -> bytes:
    """A sheet as bytes."""
    names = _names_of(sheet.layout)
    parts = [_SIZES.pack(len(names), len(sheet.demands)), names, _planes(_rounded(sheet))]
    for resource, histogram in sorted(sheet.demands.items()):
        bins = sorted(histogram.items())
        name = resource.encode()
        parts += [bytes((len(name), len(bins))), name]
        parts.append(_bins(len(bins)).pack(*chain.from_iterable(bins)))
    packer = zlib.compressobj(_LEVEL, zdict=_DICTIONARY)
    return _VERSION + packer.compress(b"".join(parts)) + packer.flush()


def unpack(grid: Grid, data: bytes) -> DayFrame:
    """The sheet that `pack` wrote.

    Raises:
        ValueError: the bytes are not such a sheet, or one of another version.
    """
    if data[:1] != _VERSION:
        raise ValueError("a track of another version")
    try:
        plain = zlib.decompressobj(zdict=_DICTIONARY).decompress(data[1:])
        size, count = _SIZES.unpack_from(plain)
        layout = _layout_of(plain[_SIZES.size : _SIZES.size + size])
        start = _SIZES.size + size
        end = start + len(layout.columns) * grid.count * _LANE
        values = _from_planes(plain[start:end])
        demands = _demands(plain, end, count)
    except (zlib.error, struct.error, IndexError) as error:
        raise ValueError(f"a track that cannot be read: {error}") from None
    if len(values) != len(layout.columns) * grid.count:
        raise ValueError("a track that is cut off")
    return DayFrame(grid, layout, values, demands)


@lru_cache(maxsize=128)
def _bins(count: int) -> struct.Struct:
    """So many bins, one after the other."""
    return struct.Struct("<" + "Bf" * count)


def lifted(values: array[float]) -> array[float]:
    """Peaks as half floats hold them, none below what it was."""
    return _cut(values, _LOOSE, up=True)


def _rounded(sheet: DayFrame) -> array[float]:
    """The numbers without what nobody needs of them, so that they compress."""
    layout, count = sheet.layout, sheet.grid.count
    means, peaks = layout.additive * count, (layout.additive + layout.means) * count
    whole = sum(column.kind in _WHOLE for column in layout.columns) * count
    # In the order of their names, counts stand among what adds up.
    found = (
        _cut(sheet.values[:means], _TIGHT)
        if not whole
        else _cut_but_whole(sheet, layout.additive, count)
    )
    found += _cut(sheet.values[means:peaks], _LOOSE)
    found += lifted(sheet.values[peaks:])
    return found


def _cut_but_whole(sheet: DayFrame, columns: int, count: int) -> array[float]:
    found = array("f")
    for place, column in enumerate(sheet.layout.columns[:columns]):
        part = sheet.values[place * count : (place + 1) * count]
        found += part if column.kind in _WHOLE else _cut(part, _TIGHT)
    return found


def _cut(values: array[float], bits: int, *, up: bool = False) -> array[float]:
    """All numbers, none of which is negative, with the last bits of their mantissa rounded off.

    The bytes are one large integer, which adds and masks all of them at once.
    """
    size = len(values)
    added = _lanes(size, (1 << bits) - 1 if up else 1 << (bits - 1))
    packed = int.from_bytes(values.tobytes(), sys.byteorder)
    cut = (packed + added) & _lanes(size, 0xFFFFFFFF - (1 << bits) + 1)
    return array("f", cut.to_bytes(size * _LANE, sys.byteorder))


@lru_cache(maxsize=64)
def _lanes(size: int, bits: int) -> int:
    """The same bits in the place of each number."""
    return int.from_bytes(bits.to_bytes(_LANE, "little") * size, "little")


def _planes(values: array[float]) -> bytes:
    """The first bytes of all numbers, then the second ones: what is alike stands together."""
    data = _little(values).tobytes()
    return b"".join(data[place::_LANE] for place in range(_LANE))


def _from_planes(data: bytes) -> array[float]:
    size, rest = divmod(len(data), _LANE)
    if rest:
        raise IndexError("cut off")
    found = bytearray(len(data))
    for place in range(_LANE):
        found[place::_LANE] = data[place * size : (place + 1) * size]
    return _little(array("f", bytes(found)))


def _little(values: array[float]) -> array[float]:
    if sys.byteorder == "little":
        return values
    swapped = values[:]
    swapped.byteswap()
    return swapped


@lru_cache(maxsize=256)
def _names_of(layout: FrameLayout) -> bytes:
    return "\n".join(map(str, layout.columns)).encode()


@lru_cache(maxsize=256)
def _layout_of(names: bytes) -> FrameLayout:
    return FrameLayout.of(DayColumn.parse(name) for name in names.decode().split("\n") if name)


def _demands(plain: bytes, place: int, count: int) -> dict[Resource, Histogram]:
    found: dict[Resource, Histogram] = {}
    for _ in range(count):
        size, bins = plain[place], plain[place + 1]
        name = plain[place + 2 : place + 2 + size].decode()
        place += 2 + size
        end = place + bins * _BIN.size
        found[Resource(name)] = Histogram(dict(_BIN.iter_unpack(plain[place:end])))
        place = end
    return found


def _dictionary() -> bytes:
    """The names that nearly every track has; it belongs to the version."""
    words: Mapping[ColumnKind, Iterable[str]] = {
        ColumnKind.COUNT: Tier,
        ColumnKind.PRESSED: Resource,
        ColumnKind.SATURATED: Resource,
        ColumnKind.TIER: Tier,
        ColumnKind.CONDITION: Condition, ColumnKind.WASTE_JOULES: Cause, ColumnKind.WASTE: Cause,
        ColumnKind.STATE: State, ColumnKind.MEAN: Measure, ColumnKind.PEAK: Measure,
    }  # fmt: skip
    return "\n".join(f"{kind}:{name}" for kind, names in words.items() for name in names).encode()


_DICTIONARY: Final = _dictionary()
