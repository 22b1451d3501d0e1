"""Planes of an `XSpace`: lines, events and name tables, over a window of a file."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from struct import unpack
from typing import BinaryIO, Final, TypeAlias

from msgspec import Struct

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
from rightsizer.profiles.limits import ReadLimits

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
_USUAL: Final = re.compile(
    # Key of the name, offset and duration; a duration of 0 is omitted.
    rb"\x08([\x80-\xff]{0,9}[\x00-\x7f])\x10([\x80-\xff]{0,9}[\x00-\x7f])"
    rb"(?:\x18([\x80-\xff]{0,9}[\x00-\x7f]))?(?=\x22|$)",
    re.DOTALL,
)
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


def scan(window: FileWindow, start: int, end: int) -> Iterator[FieldSpan]:
    """Yield the fields of a message in a range of a file, reading only their headers.

    Raises:
        ProtobufError: the message is cut or invalid; `at` counts from the start of the file.
    """
    at = start
    while at < end:
        piece = window.slice(at, min(end, at + max(window.piece_bytes, _HEADER_BYTES)))
        last = len(piece)
        used = 0
        is_last = at + last >= end
        while used < last and (is_last or last - used >= _HEADER_BYTES):
            tag = piece[used]
            body = used + 2
            if tag & 7 == LENGTH and tag < MORE and body <= last and piece[used + 1] < MORE:
                value = piece[used + 1]
            else:
                try:
                    tag, value, body = read_header(piece, used)
                except ProtobufError as error:
                    raise ProtobufError(str(error), at + used) from error
            low = at + body
            if tag & 7 == VARINT:
                used = body
                yield tag >> 3, VARINT, value, low
                continue
            used = body + value
            if at + used > end:
                raise ProtobufError("a field is longer than what holds it", low)
            yield tag >> 3, tag & 7, low, at + used
        if not used:
            raise ProtobufError("the file ends early", at)
        at += used


def messages(
    window: FileWindow, start: int, end: int, number: int, longest: int
) -> Iterator[bytes | None]:
    """Yield the fields of a number in a range, `None` for those too long; raises as `scan`."""
    for field_number, wire_type, low, high in scan(window, start, end):
        if field_number == number and wire_type == LENGTH:
            yield window.slice(low, high) if high - low <= longest else None


class PlaneEvent(Struct, frozen=True):
    """An event; picoseconds since its line's start."""

    metadata: int
    """Key of its name."""
    offset_picoseconds: int | None
    """`None` for an aggregate of events, which has no time."""
    duration_picoseconds: int
    rest: bytes
    """Encoded stats; most are never decoded."""


def read_event(data: bytes) -> PlaneEvent:
    """Decode an event; raises `ProtobufError` if it is cut or invalid."""
    usual = _USUAL.match(data)
    if usual is not None:
        metadata, _ = read_varint(usual[1], 0)
        offset, _ = read_varint(usual[2], 0)
        duration = 0 if usual[3] is None else read_varint(usual[3], 0)[0]
        return PlaneEvent(metadata, signed(offset), signed(duration), data[usual.end() :])
    numbers = {number: value for number, _, value in fields(data) if isinstance(value, int)}
    offset_or_none = None if EVENT_OCCURRENCES in numbers else signed(numbers.get(EVENT_OFFSET, 0))
    duration = signed(numbers.get(EVENT_DURATION, 0))
    return PlaneEvent(numbers.get(EVENT_METADATA, 0), offset_or_none, duration, data)


def event_key(data: bytes) -> int:
    """Return the key of an event's name if it comes first, else 0; raises `ProtobufError`."""
    return read_varint(data, 1)[0] if data[:1] == b"\x08" else 0


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

    def values(self, event: PlaneEvent, wanted: frozenset[int]) -> dict[str, StatValue]:
        """Return the wanted stats of an event by name.

        Raises:
            ProtobufError: one of them is cut or invalid.
        """
        values: dict[str, StatValue] = {}
        for number, _, stat in fields(event.rest):
            if number == EVENT_STATS and isinstance(stat, bytes):
                values.update(self._value(stat, wanted))
            elif number not in EVENT_FIELDS:
                self.unread["unknown fields"] += 1
        return values

    def _value(self, stat: bytes, wanted: frozenset[int]) -> Mapping[str, StatValue]:
        """Return a stat by name, if wanted; those that events share are kept."""
        if (cached := self._shared.get((wanted, stat))) is not None:
            return cached
        values: dict[str, StatValue] = {}
        add_stat(stat, wanted, self.stat_names, values)
        if len(self._shared) < _SHARED_MAXIMUM:
            self._shared[wanted, stat] = values
        return values

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

    def messages(self, line: XPlaneLine) -> Iterator[bytes]:
        """Yield the encoded events of a line; those too large are counted."""
        longest = self.limits.event_maximum_bytes
        for data in messages(self.window, *line.span, LINE_EVENTS, longest):
            if data is None:
                self.unread["events that are too large"] += 1
            else:
                yield data

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
