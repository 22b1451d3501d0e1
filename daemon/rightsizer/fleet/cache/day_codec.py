"""Codec of frames: a day in a few hundred bytes, and back.

Seconds and joules keep 16 bits of their mantissa (a sixteenth of a second of an hour), means and
peaks 11, as blocks do; a peak is never below what it was. What was read back is written alike.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

import numpy as np

from rightsizer.fleet.cache.day_frame import ColumnKind, DayFrame, Floats, FrameLayout
from rightsizer.fleet.cache.grid import Grid
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
    layout, values = frame.layout, frame.values
    means, peaks = layout.additive, layout.additive + layout.means
    # Without bits that no reader needs, so that they compress.
    parts = (
        _cut(values[:means], _TIGHT),
        _cut(values[means:peaks], _LOOSE),
        lifted(values[peaks:]),
    )
    numbers = np.concatenate([part.ravel() for part in parts]).astype("<f4")
    # The first bytes of all numbers, then the second ones: what is alike stands together.
    planes = numbers.view(np.uint8).reshape(-1, _LANE).T.tobytes()
    names = "\n".join(layout.columns).encode()
    written = [_SIZES.pack(len(names), len(frame.demands)), names, planes]
    for resource, histogram in sorted(frame.demands.items()):
        bins = sorted(histogram.items())
        name = resource.encode()
        written += [bytes((len(name), len(bins))), name]
        written += [_BIN.pack(*each) for each in bins]
    packer = zlib.compressobj(_LEVEL, zdict=_DICTIONARY)
    return _VERSION + packer.compress(b"".join(written)) + packer.flush()


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
        shape = len(layout.columns), grid.count
        end = start + math.prod(shape) * _LANE
        planes = np.frombuffer(plain[start:end], np.uint8).reshape(_LANE, -1)
        values = np.stack([*planes], axis=1).view("<f4").reshape(shape)
        demands = _demands(plain, end, count)
    except (zlib.error, struct.error, IndexError, ValueError) as error:
        raise ValueError(f"a track that cannot be read: {error}") from None
    return DayFrame(grid, layout, values.astype(np.float32, copy=False), demands)


def lifted(values: Floats) -> Floats:
    """Peaks as half floats hold them, none below what it was."""
    return _cut(values, _LOOSE, up=True)


def _cut(values: Floats, bits: int, *, up: bool = False) -> Floats:
    """All numbers, none of which is negative, with the last bits of their mantissa rounded off."""
    added = (1 << bits) - 1 if up else 1 << (bits - 1)
    words = np.ascontiguousarray(values, np.float32).view(np.uint32) + np.uint32(added)
    return (words & np.uint32(0xFFFFFFFF - (1 << bits) + 1)).view(np.float32)


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
