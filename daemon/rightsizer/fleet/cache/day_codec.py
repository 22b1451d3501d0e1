"""Codec of frames: a day in a few hundred bytes.

Seconds and joules keep 16 bits of mantissa (1/16 s in an hour), means and peaks 11, like blocks;
peaks are rounded up. Encoding a decoded frame gives the same bytes.
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
from rightsizer.model.values import Cause, Condition, Histogram, Measure, Resource, State, Tier

_VERSION: Final = b"\x01"
_SIZES: Final = struct.Struct("<HH")
"""Bytes of the names, and number of distributions after the numbers."""
_BIN: Final = struct.Struct("<Bf")
_LEVEL: Final = 3
"""A third of the default level's time, for 1% more size."""
_LANE: Final = 4
"""Bytes per number."""
_LOOSE: Final = 13
"""Mantissa bits dropped from means, of 23."""
_TIGHT: Final = 8
"""Mantissa bits dropped from seconds."""


def pack(frame: DayFrame) -> bytes:
    """Encode a frame, without its grid."""
    layout = frame.layout
    values = frame.values
    means = layout.additive
    peaks = layout.additive + layout.means
    # Drop insignificant bits to compress better.
    parts = (
        _cut(values[:means], _TIGHT),
        _cut(values[means:peaks], _LOOSE),
        lifted(values[peaks:]),
    )
    numbers = np.concatenate([part.ravel() for part in parts]).astype("<f4")
    # Byte planes: similar bytes are adjacent, and compress better.
    planes = numbers.view(np.uint8).reshape(-1, _LANE).T.tobytes()
    names = "\n".join(layout.columns).encode()
    written = [_SIZES.pack(len(names), len(frame.demands)), names, planes]
    for resource, histogram in sorted(frame.demands.items()):
        bins = sorted(histogram.items())
        name = resource.encode()
        written += [bytes((len(name), len(bins))), name]
        written += [_BIN.pack(*bin_weight) for bin_weight in bins]
    packer = zlib.compressobj(_LEVEL, zdict=_DICTIONARY)
    return _VERSION + packer.compress(b"".join(written)) + packer.flush()


def unpack(grid: Grid, data: bytes) -> DayFrame:
    """Decode a frame.

    Raises:
        ValueError: the bytes are no such frame, or of another version.
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
        words = np.empty((planes.shape[1], _LANE), np.uint8)
        for lane, plane in enumerate(planes):
            words[:, lane] = plane
        values = words.view("<f4").reshape(shape)
        demands = _demands(plain, end, count)
    except (zlib.error, struct.error, IndexError, ValueError) as error:
        raise ValueError(f"a track that cannot be read: {error}") from None
    return DayFrame(grid, layout, values.astype(np.float32, copy=False), demands)


def lifted(values: Floats) -> Floats:
    """Round peaks up to half floats."""
    return _cut(values, _LOOSE, up=True)


def _cut(values: Floats, bits: int, *, up: bool = False) -> Floats:
    """Round the last bits of the mantissa off; numbers must not be negative."""
    added = (1 << bits) - 1 if up else 1 << (bits - 1)
    words = np.ascontiguousarray(values, np.float32).view(np.uint32) + np.uint32(added)
    return (words & np.uint32(0xFFFFFFFF - (1 << bits) + 1)).view(np.float32)


@lru_cache(maxsize=256)
def _layout_of(names: bytes) -> FrameLayout:
    return FrameLayout.of(filter(None, names.decode().split("\n")))


def _demands(plain: bytes, place: int, count: int) -> dict[Resource, Histogram]:
    demands: dict[Resource, Histogram] = {}
    for _ in range(count):
        size = plain[place]
        bins = plain[place + 1]
        name = plain[place + 2 : place + 2 + size].decode()
        place += 2 + size
        end = place + bins * _BIN.size
        demands[Resource(name)] = Histogram(dict(_BIN.iter_unpack(plain[place:end])))
        place = end
    return demands


_RESOURCES: Final = tuple(resource for resource in Resource if resource is not Resource.MEDIA)
"""Resources of this version; later ones are stored by name, a little longer."""
_USUAL: Final[tuple[tuple[str, Iterable[str]], ...]] = (
    ("count", Tier), (ColumnKind.PRESSED, _RESOURCES), (ColumnKind.SATURATED, _RESOURCES),
    (ColumnKind.TIER, Tier), (ColumnKind.CONDITION, Condition), (ColumnKind.WASTE_JOULES, Cause),
    (ColumnKind.WASTE, Cause), (ColumnKind.STATE, State), (ColumnKind.MEAN, Measure),
    (ColumnKind.PEAK, Measure),
)  # fmt: skip
_DICTIONARY: Final = "\n".join(
    f"{kind}:{name}" for kind, names in _USUAL for name in names
).encode()
"""Names in nearly every frame; fixed, since it is part of the format version."""
