"""Planes of an `XSpace`: lines, events and name tables, over a window of a file."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from struct import unpack
from typing import BinaryIO, Final, NamedTuple, TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from rightsizer.io.protobuf import (
    FIXED64,
    LENGTH,
    MORE,
    VARINT,
    ProtobufError,
    fields,
    read_header,
    read_varint,
    signed,
)
from rightsizer.profiles.columns import ends_of
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.timeline import LATEST, Numbers

_PIECE_BYTES: Final = 1 << 19
_HEADER_BYTES: Final = 20
"""Maximum of a tag and a varint, ten bytes each."""
FieldSpan: TypeAlias = tuple[int, int, int, int]
"""Field number and wire type, then value and end of an integer, or start and end."""
# Numbers of fields in xplane.proto.
SPACE_PLANES = 1
SPACE_ERRORS = 2
SPACE_WARNINGS = 3
SPACE_HOSTS = 4
PLANE_NAME = 2
PLANE_LINES = 3
PLANE_EVENT_METADATA = 4
PLANE_STAT_METADATA = 5
PLANE_STATS = 6
PLANE_FIELDS: Final = range(1, 7)
ENTRY_KEY = 1
ENTRY_VALUE = 2
METADATA_ID = 1
METADATA_NAME = 2
LINE_NAME = 2
LINE_TIMESTAMP = 3
LINE_EVENTS = 4
LINE_SHOWN_NAME = 11
LINE_FIELDS: Final = frozenset({1, 2, 3, 4, 9, 10, 11})
EVENT_METADATA = 1
EVENT_OFFSET = 2
EVENT_DURATION = 3
EVENT_STATS = 4
EVENT_OCCURRENCES = 5
EVENT_FIELDS: Final = range(1, 6)
STAT_METADATA = 1
STAT_DOUBLE = 2
STAT_UNSIGNED = 3
STAT_SIGNED = 4
STAT_TEXT = 5
STAT_REFERENCE = 7
StatValue: TypeAlias = int | float | str
_TEXT_BYTES: Final = 4000
_KEY_TAG: Final = STAT_METADATA << 3
_CORRELATION: Final = frozenset({"correlation_id"})
_EVENT_HEADER_BYTES: Final = 40
"""Above those of three tags and integers."""
PROGRAMS: Final = "/host:metadata"
"""Plane of compiled programs, without events."""
_STAT_BYTES: Final = 4000
_SHARED_MAXIMUM: Final = 50_000
"""Encoded stats whose values are kept."""
_NAMES_PER_KERNEL: Final = 10
"""Names of a plane per kernel name: operations, shapes and details are names, too."""


class FileWindow:
    """Random access to a file that is mostly read forwards.

    A memory mapping would be shorter, but kills the process if the file is truncated.
    """

    def __init__(self, file: BinaryIO, size: int, piece_bytes: int = _PIECE_BYTES) -> None:
        self._file = file
        self.size = size
        self.piece_bytes = piece_bytes
        self._start = 0
        self._piece = b""

    def slice(self, start: int, end: int) -> bytes:
        """Return the bytes of a range; fewer if the file was truncated."""
        low = start - self._start
        high = end - self._start
        if low < 0 or high > len(self._piece):
            self._start = self._file.seek(start)
            self._piece = self._file.read(max(self.piece_bytes, end - start))
            low = 0
            high = end - start
        return self._piece[low:high]


class FieldBatch(NamedTuple):
    """Fields of a message that begin in one piece of a file."""

    at: int
    """Place of the piece in the file."""
    piece: bytes
    tags: list[int]
    lows: list[int]
    """Start of the value within the piece; of an integer the value itself."""
    highs: list[int]
    """End, which may be beyond the piece."""


def field_batches(window: FileWindow, start: int, end: int) -> Iterator[FieldBatch]:
    """Yield the fields of a message in a range of a file, reading only their headers.

    Raises:
        ProtobufError: the message is cut or invalid; `at` counts from the start of the file.
    """
    at = start
    while at < end:
        piece = window.slice(at, min(end, at + max(window.piece_bytes, _HEADER_BYTES)))
        batch = FieldBatch(at, piece, [], [], [])
        last = len(piece)
        used = 0
        # A header may continue behind the piece.
        until = last if at + last >= end else last - _HEADER_BYTES + 1
        while used < until:
            tag = piece[used]
            low = used + 2
            if tag & 7 == LENGTH and tag < MORE and low <= last and piece[used + 1] < MORE:
                value = piece[used + 1]
            else:
                try:
                    tag, value, low = read_header(piece, used)
                except ProtobufError as error:
                    raise ProtobufError(str(error), at + used) from error
            batch.tags.append(tag)
            if tag & 7 == VARINT:
                used = low
                low = value
            elif at + low + value > end:
                raise ProtobufError("a field is longer than what holds it", at + low)
            else:
                used = low + value
            batch.lows.append(low)
            batch.highs.append(used)
        if not used:
            raise ProtobufError("the file ends early", at)
        yield batch
        at += used


def scan(window: FileWindow, start: int, end: int) -> Iterator[FieldSpan]:
    """Yield the same fields one by one, at places in the file; raises as `field_batches`."""
    for at, _, tags, lows, highs in field_batches(window, start, end):
        for tag, low, high in zip(tags, lows, highs, strict=True):
            yield tag >> 3, tag & 7, low if tag & 7 == VARINT else at + low, at + high


def varints(data: "NDArray[np.uint8]", places: Numbers) -> tuple[Numbers, Numbers]:
    """Read signed integers at some places; return them with their ends, at most ten bytes later."""
    values = np.zeros(places.size, np.uint64)
    ends = places.copy()
    rows = np.arange(places.size)
    for shift in range(0, 64, 7):
        read = data[ends[rows]]
        values[rows] |= (read & (MORE - 1)).astype(np.uint64) << np.uint64(shift)
        ends[rows] += 1
        rows = rows[read >= MORE]
    return values.view(np.int64), ends


class PlaneEvents(Struct, frozen=True):
    """Events of a line that follow each other, in columns."""

    keys: Numbers
    """Keys of their names."""
    starts: Numbers
    ends: Numbers
    rests: Sequence[bytes]
    """Encoded stats; most are never decoded."""
    passed: int
    """Number of others, which are of no use."""
    sums: int
    """Number of aggregates, which have no time."""


def key_bytes(key: int) -> bytes:
    """Return the encoded prefix of a stat with this key, for a fast check of events."""
    data = bytearray([_KEY_TAG])
    while key >= MORE:
        data.append(key & (MORE - 1) | MORE)
        key >>= 7
    data.append(key)
    return bytes(data)


def add_stat(
    stat: bytes, wanted: AbstractSet[int], names: Mapping[int, str], values: dict[str, StatValue]
) -> None:
    """Add the value of a stat if wanted; its key comes first.

    Raises:
        ProtobufError: it is cut or invalid.
    """
    if not stat or stat[0] != _KEY_TAG:
        return
    key, at = read_varint(stat, 1)
    if key not in wanted:
        return
    for number, wire_type, value in fields(stat[at:]):
        decoded = _value(number, wire_type, value, names)
        if decoded is not None:
            values[names.get(key, "")] = decoded


def _value(
    number: int, wire_type: int, value: int | bytes, names: Mapping[int, str]
) -> StatValue | None:
    if isinstance(value, int):
        if number == STAT_SIGNED:
            return signed(value)
        if number == STAT_REFERENCE:
            return names.get(value)
        return value if number == STAT_UNSIGNED else None
    if number == STAT_DOUBLE and wire_type == FIXED64:
        return float(unpack("<d", value)[0])
    return value[:_TEXT_BYTES].decode("utf-8", "replace") if number == STAT_TEXT else None


class XPlaneLine(Struct, frozen=True):
    """A line of a plane: a stream, a thread, or derived from them."""

    name: str
    start_nanoseconds: int
    span: tuple[int, int]


@dataclass(slots=True)
class XPlane:
    """Name, tables and stats of a plane; its lines stay in the file."""

    window: FileWindow
    span: tuple[int, int]
    name: str
    limits: ReadLimits
    unread: Counter[str]
    event_names: dict[int, str] = field(default_factory=dict)
    stat_names: dict[int, str] = field(default_factory=dict)
    own_stats: list[bytes] = field(default_factory=list)
    _correlation: re.Pattern[bytes] | None = None
    _shared: dict[tuple[frozenset[int], bytes], Mapping[str, StatValue]] = field(
        default_factory=dict
    )

    def stats(self) -> dict[str, StatValue]:
        """Return the plane's own stats."""
        values: dict[str, StatValue] = {}
        for stat in self.own_stats:
            add_stat(stat, self.stat_names.keys(), self.stat_names, values)
        return values

    def stat_ids(self, names: frozenset[str]) -> frozenset[int]:
        """Return the keys of the stats with these names."""
        return frozenset(key for key, name in self.stat_names.items() if name in names)

    def values(self, rest: bytes, wanted: frozenset[int]) -> Mapping[str, StatValue]:
        """Return the wanted stats among encoded ones by name; those that events share are kept.

        Raises:
            ProtobufError: one of them is cut or invalid.
        """
        if (cached := self._shared.get((wanted, rest))) is not None:
            return cached
        values: dict[str, StatValue] = {}
        for number, _, stat in fields(rest):
            if number == EVENT_STATS and isinstance(stat, bytes):
                add_stat(stat, wanted, self.stat_names, values)
            elif number not in EVENT_FIELDS:
                self.unread["unknown fields"] += 1
        if len(self._shared) < _SHARED_MAXIMUM:
            self._shared[wanted, rest] = values
        return values

    def correlated(self, rest: bytes) -> tuple[int | None, bytes]:
        """Return the correlation among encoded stats, and the others; `None` for none."""
        if self._correlation is None:
            keys = b"|".join(map(re.escape, map(key_bytes, self.stat_ids(_CORRELATION))))
            self._correlation = re.compile(
                b"\x22[\x00-\x7f](?:%b)[\x18\x20]([\x80-\xff]{0,8}[\x00-\x7f])" % (keys or b"(?!)")
            )
        if (match := self._correlation.search(rest)) is None:
            return None, rest
        return read_varint(match[1], 0)[0], rest[: match.start()] + rest[match.end() :]

    def lines(self) -> Iterator[XPlaneLine]:
        """Yield the lines without their events."""
        for number, wire_type, low, high in scan(self.window, *self.span):
            if number != PLANE_LINES or wire_type != LENGTH:
                continue
            name = ""
            shown = ""
            start = 0
            for inner, inner_type, first, last in scan(self.window, low, high):
                if inner == LINE_NAME and inner_type == LENGTH:
                    name = self.text(first, last)
                elif inner == LINE_SHOWN_NAME and inner_type == LENGTH:
                    shown = self.text(first, last)
                elif inner == LINE_TIMESTAMP and inner_type == VARINT:
                    start = signed(first)
                elif inner not in LINE_FIELDS:
                    self.unread["unknown fields"] += 1
            yield XPlaneLine(shown or name, start, (low, high))

    def events(
        self,
        line: XPlaneLine,
        named: frozenset[int] | None = None,
        is_marked: Callable[[bytes], Iterator[re.Match[bytes]]] = lambda _: iter(()),
    ) -> Iterator[PlaneEvents]:
        """Yield the events of a line: all, or those of some names or with marks in their stats.

        Raises:
            ProtobufError: one of them is cut or invalid.
        """
        for at, piece, *columns in field_batches(self.window, *line.span):
            spans = [
                (low, high)
                for tag, low, high in zip(*columns, strict=True)
                if tag == LINE_EVENTS << 3 | LENGTH
            ]
            lows, highs = np.array(spans, np.int64).reshape(-1, 2).T
            is_short = highs - lows <= self.limits.event_maximum_bytes
            self.unread["events that are too large"] += int(np.count_nonzero(~is_short))
            lows = lows[is_short]
            highs = highs[is_short]
            if lows.size:
                whole = piece if highs[-1] <= len(piece) else self.window.slice(at, at + highs[-1])
                rows = np.arange(lows.size)
                if named is not None:
                    keys = _first_keys(whole, lows)
                    marks = np.array([match.start() for match in is_marked(whole)], np.int64)
                    places = np.searchsorted(lows, marks, side="right") - 1
                    is_used = np.isin(keys, [*named])
                    is_used[places[(places >= 0) & (marks < highs[places])]] = True
                    rows = np.flatnonzero(is_used)
                yield _decoded(line, whole, lows[rows], highs[rows], lows.size - rows.size)

    def count(self, line: XPlaneLine) -> int:
        """Return the number of events of a line."""
        batches = field_batches(self.window, *line.span)
        return sum(batch.tags.count(LINE_EVENTS << 3 | LENGTH) for batch in batches)

    def text(self, low: int, high: int) -> str:
        """Return a name, cut to the limit."""
        # A character takes at most four bytes.
        longest = 4 * self.limits.name_maximum_characters
        return self.window.slice(low, min(high, low + longest)).decode("utf-8", "replace")

    def add_name(self, names: dict[int, str], low: int, high: int) -> None:
        """Add an entry of a map from number to named metadata."""
        key = 0
        name = ""
        for number, wire_type, first, last in scan(self.window, low, high):
            if number == ENTRY_KEY and wire_type == VARINT:
                key = first
            elif number == ENTRY_VALUE and wire_type == LENGTH:
                for inner, inner_type, start, end in scan(self.window, first, last):
                    if inner == METADATA_ID and inner_type == VARINT:
                        key = start
                    elif inner == METADATA_NAME and inner_type == LENGTH:
                        name = self.text(start, end)
        if len(names) < _NAMES_PER_KERNEL * self.limits.kernel_names_maximum:
            names[key] = name
        else:
            self.unread["names beyond those that are told apart"] += 1


def _padded(data: bytes) -> "NDArray[np.uint8]":
    return np.frombuffer(data + bytes(_EVENT_HEADER_BYTES), np.uint8)


def _first_keys(data: bytes, lows: Numbers) -> Numbers:
    """Return the keys of names that come first in events, else 0."""
    padded = _padded(data)
    return np.where(padded[lows] == EVENT_METADATA << 3, varints(padded, lows + 1)[0], 0)


def _decoded(
    line: XPlaneLine, data: bytes, lows: Numbers, highs: Numbers, passed: int
) -> PlaneEvents:
    """Decode events at some places; raises `ProtobufError` if one is cut or invalid."""
    padded = _padded(data)
    # Key of the name, offset and duration; a duration of 0 is omitted.
    keys, ends = varints(padded, lows + 1)
    is_usual = (padded[lows] == EVENT_METADATA << 3) & (padded[ends] == EVENT_OFFSET << 3)
    offsets, ends = varints(padded, ends + 1)
    lasts = (ends < highs) & (padded[ends] == EVENT_DURATION << 3)
    durations, after = varints(padded, ends + 1)
    durations *= lasts
    ends = np.where(lasts, after, ends)
    is_usual &= (ends == highs) | ((ends < highs) & (padded[ends] == EVENT_STATS << 3 | LENGTH))
    is_timed = np.ones(lows.size, bool)
    for row in np.flatnonzero(~is_usual).tolist():
        parts = fields(data[lows[row] : highs[row]])
        numbers = {number: value for number, _, value in parts if isinstance(value, int)}
        is_timed[row] = EVENT_OCCURRENCES not in numbers
        wanted = EVENT_METADATA, EVENT_OFFSET, EVENT_DURATION
        event = (signed(numbers.get(number, 0)) for number in wanted)
        keys[row], offsets[row], durations[row] = event
        ends[row] = lows[row]
    rows = np.flatnonzero(is_timed)
    start = max(-LATEST, min(line.start_nanoseconds, LATEST))
    until = ends_of(offsets, durations)
    return PlaneEvents(
        keys[rows],
        start + offsets[rows] // 1000,
        start + until[rows] // 1000,
        [
            data[low:high]
            for low, high in zip(ends[rows].tolist(), highs[rows].tolist(), strict=True)
        ],
        passed,
        lows.size - rows.size,
    )


def read_plane(
    window: FileWindow, span: tuple[int, int], limits: ReadLimits, unread: Counter[str]
) -> XPlane:
    """Read a plane without its events: its name, name tables and own stats.

    Raises:
        ProtobufError: it is cut, or no plane.
    """
    plane = XPlane(window, span, "", limits, unread)
    for number, wire_type, low, high in scan(window, *span):
        if number not in PLANE_FIELDS:
            unread["unknown fields"] += 1
        elif wire_type != LENGTH:
            continue
        elif number == PLANE_NAME:
            plane.name = plane.text(low, high)
            if plane.name == PROGRAMS:  # They may be large, and contain no times.
                break
        elif number == PLANE_EVENT_METADATA:
            plane.add_name(plane.event_names, low, high)
        elif number == PLANE_STAT_METADATA:
            plane.add_name(plane.stat_names, low, high)
        elif (
            number == PLANE_STATS
            and high - low <= _STAT_BYTES
            and len(plane.own_stats) < limits.kernel_names_maximum
        ):
            plane.own_stats.append(window.slice(low, high))
    return plane
