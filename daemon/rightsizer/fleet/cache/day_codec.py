"""Codec of frames: a day in a few hundred bytes, and back.

Seconds and joules keep 16 bits of their mantissa (a sixteenth of a second of an hour), means and
peaks 11, as blocks do; a peak is never below what it was. What was read back is written alike.
"""

from __future__ import annotations

import struct
import sys
import zlib
from array import array
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from rightsizer.fleet.cache.day_frame import ColumnKind, DayFrame, FrameLayout, Grid
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


def pack(frame: DayFrame) -> bytes:
    """A frame as bytes, without its grid."""
    layout, values, count = frame.layout, frame.values, frame.grid.count
    means, peaks = layout.additive * count, (layout.additive + layout.means) * count
    # Without bits that no reader needs, so that they compress.
    rounded = _cut(values[:means], _TIGHT) + _cut(values[means:peaks], _LOOSE)
    data = _little(rounded + lifted(values[peaks:])).tobytes()
    # The first bytes of all numbers, then the second ones: what is alike stands together.
    planes = (data[place::_LANE] for place in range(_LANE))
    names = "\n".join(layout.columns).encode()
    parts = [_SIZES.pack(len(names), len(frame.demands)), names, *planes]
    for resource, histogram in sorted(frame.demands.items()):
        bins = sorted(histogram.items())
        name = resource.encode()
        parts += [bytes((len(name), len(bins))), name]
        parts += [_BIN.pack(*each) for each in bins]
    packer = zlib.compressobj(_LEVEL, zdict=_DICTIONARY)
    return _VERSION + packer.compress(b"".join(parts)) + packer.flush()


def unpack(grid: Grid, data: bytes) -> DayFrame:
    """The frame that `pack` wrote.

    Raises:
        ValueError: the bytes are not such a frame, or one of another version.
    """
    if data[:1] != _VERSION:
        raise ValueError("a track of another version")
    try:
        plain = zlib.decompressobj(zdict=_DICTIONARY).decompress(data[1:])
        size, count = _SIZES.unpack_from(plain)
        layout = _layout_of(plain[_SIZES.size : _SIZES.size + size])
        start = _SIZES.size + size
        end = start + len(layout.columns) * grid.count * _LANE
        planes, each = plain[start:end], len(plain[start:end]) // _LANE
        lanes = bytearray(each * _LANE)
        for place in range(_LANE):
            lanes[place::_LANE] = planes[place * each : (place + 1) * each]
        values = _little(array("f", bytes(lanes)))
        demands = _demands(plain, end, count)
    except (zlib.error, struct.error, IndexError) as error:
        raise ValueError(f"a track that cannot be read: {error}") from None
    if len(values) != len(layout.columns) * grid.count:
        raise ValueError("a track that is cut off")
    return DayFrame(grid, layout, values, demands)


def lifted(values: array[float]) -> array[float]:
    """Peaks as half floats hold them, none below what it was."""
    return _cut(values, _LOOSE, up=True)


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


def _little(values: array[float]) -> array[float]:
    if sys.byteorder == "little":
        return values
    swapped = values[:]
    swapped.byteswap()
    return swapped


@lru_cache(maxsize=256)
def _layout_of(names: bytes) -> FrameLayout:
    return FrameLayout.of(filter(None, names.decode().split("\n")))


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


_RESOURCES: Final = tuple(each for each in Resource if each is not Resource.MEDIA)
"""Those of the version; a later one is stored by its name, and a little longer."""
_USUAL: Final[tuple[tuple[ColumnKind, Iterable[str]], ...]] = (
    (ColumnKind.COUNT, Tier), (ColumnKind.PRESSED, _RESOURCES), (ColumnKind.SATURATED, _RESOURCES),
    (ColumnKind.TIER, Tier), (ColumnKind.CONDITION, Condition), (ColumnKind.WASTE_JOULES, Cause),
    (ColumnKind.WASTE, Cause), (ColumnKind.STATE, State), (ColumnKind.MEAN, Measure),
    (ColumnKind.PEAK, Measure),
)  # fmt: skip
_DICTIONARY: Final = "\n".join(kind.column(name) for kind, each in _USUAL for name in each).encode()
"""The names that nearly every frame has; it belongs to the version, so that no new one joins."""
