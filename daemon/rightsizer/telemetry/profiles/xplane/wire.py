"""Protobuf wire format over a window of a file: tags, varints, lengths."""

from collections.abc import Iterator
from typing import BinaryIO, Final, TypeAlias

_PIECE_BYTES: Final = 1 << 20


class FileWindow:
    """Random access to a file that is read mostly forwards.

    A mapping of the file would be shorter, and kill the process when somebody cuts the file short.
    """

    def __init__(self, file: BinaryIO, size: int, piece_bytes: int = _PIECE_BYTES) -> None:
        self._file = file
        self.size = size
        self._piece_bytes = piece_bytes
        self._start = 0
        self._piece = b""

    def slice(self, start: int, end: int) -> bytes:
        """The bytes of a stretch; fewer where the file has become shorter."""
        low = start - self._start
        high = end - self._start
        if low < 0 or high > len(self._piece):
            self._load(start, max(self._piece_bytes, end - start))
            low, high = 0, end - start
        return self._piece[low:high]

    def ahead(self, start: int, end: int, at_least: int) -> bytes:
        """As much of a stretch as is in memory at a time; `at_least` so many bytes of it."""
        self._load(start, min(max(self._piece_bytes, at_least), end - start))
        return self._piece

    def _load(self, start: int, size: int) -> None:
        self._start = start
        self._file.seek(start)
        self._piece = self._file.read(size)


VARINT: Final = 0
FIXED64: Final = 1
LENGTH: Final = 2
FIXED32: Final = 5

_MASK: Final = 2**64 - 1
_MORE: Final = 0x80
"""The bit of a byte that says that an integer goes on."""
_LONGEST_SHIFT: Final = 63
_HEADER_BYTES: Final = 20
"""A tag and an integer of ten bytes each, the longest there are."""
_SIZES: Final = {FIXED64: 8, FIXED32: 4}

Stretch: TypeAlias = tuple[int, int, int, int]
"""Number and wire type of a field; an integer's value and its end, else its start and end."""


class XPlaneWireError(ValueError):
    """Bytes that are no such message; `at` counts from where the message begins."""

    def __init__(self, what: str, at: int) -> None:
        super().__init__(what)
        self.at = at


def signed(value: int) -> int:
    """An `int64` as it travels: negative ones have the highest bit."""
    return value - 2**64 if value >> _LONGEST_SHIFT else value


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """An integer of variable length, and where it ends.

    Raises:
        XPlaneWireError: the bytes end within it, or it does not end.
    """
    try:
        value = data[at]
        at += 1
        if value < _MORE:
            return value, at
        value &= 0x7F
        for shift in range(7, _LONGEST_SHIFT + 1, 7):
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < _MORE:
                return value & _MASK, at
    except IndexError:
        raise XPlaneWireError("it ends within an integer", at) from None
    raise XPlaneWireError("an integer is longer than ten bytes", at)


def fields(data: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """Number, wire type and value of each field; bytes for all but integers.

    Raises:
        XPlaneWireError: the bytes are cut, or no message.
    """
    at, end = 0, len(data)
    while at < end:
        tag = data[at]
        if tag < _MORE:
            at += 1
        else:
            tag, at = read_varint(data, at)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == VARINT:
            value, at = read_varint(data, at)
            yield number, wire_type, value
            continue
        if wire_type == LENGTH:
            size, at = read_varint(data, at)
        else:
            size = _fixed_size(wire_type, at)
        if size > end - at:
            raise XPlaneWireError("a field is longer than what holds it", at)
        yield number, wire_type, data[at : at + size]
        at += size


def scan(window: FileWindow, start: int, end: int) -> Iterator[Stretch]:
    """The fields of a message that is a stretch of a file; nothing but their headers is read.

    Raises:
        XPlaneWireError: the stretch is cut, or no message; `at` counts from the file's beginning.
    """
    at = start
    while at < end:
        header = window.slice(at, min(at + _HEADER_BYTES, end))
        try:
            tag, used = read_varint(header, 0)
            number, wire_type = tag >> 3, tag & 7
            if wire_type == VARINT:
                value, used = read_varint(header, used)
                at += used
                yield number, wire_type, value, at
                continue
            if wire_type == LENGTH:
                size, used = read_varint(header, used)
            else:
                size = _fixed_size(wire_type, 0)
        except XPlaneWireError as error:
            raise XPlaneWireError(str(error), at) from error
        at += used
        if size > end - at:
            raise XPlaneWireError("a field is longer than what holds it", at)
        yield number, wire_type, at, at + size
        at += size


def others(window: FileWindow, start: int, end: int, number: int) -> Iterator[Stretch]:
    """The fields of a stretch as `scan` has them, but for the messages of that number.

    Raises:
        XPlaneWireError: as `scan` does.
    """
    passed = number << 3 | LENGTH
    at = _behind(window, start, end, passed)
    while at < end:
        found = next(scan(window, at, end))
        yield found
        at = _behind(window, found[3], end, passed)


def _behind(window: FileWindow, at: int, end: int, tag: int) -> int:
    """Where the first field begins that does not have this tag."""
    while at < end:
        piece = window.ahead(at, end, _HEADER_BYTES)
        last, used = len(piece), 0
        is_last = at + last >= end
        while used < last and (is_last or last - used >= _HEADER_BYTES):
            if piece[used] != tag:
                return at + used
            if used + 1 < last and piece[used + 1] < _MORE:
                used += 2 + piece[used + 1]
            else:
                _, size, body = _header(piece, used, at)
                used = body + size
            if at + used > end:
                raise XPlaneWireError("a field is longer than what holds it", at)
        if not used:
            raise XPlaneWireError("the file ends early", at)
        at += used
    return at


def messages(
    window: FileWindow, start: int, end: int, number: int, longest: int
) -> Iterator[bytes | None]:
    """The fields of that number in a stretch of a file; `None` for one that is too long to keep.

    Raises:
        XPlaneWireError: as `scan` does.
    """
    wanted = number << 3 | LENGTH
    at = start
    while at < end:
        piece = window.ahead(at, end, _HEADER_BYTES)
        last, used = len(piece), 0
        is_last = at + last >= end
        while used < last and (is_last or last - used >= _HEADER_BYTES):
            tag, body = piece[used], used + 2
            if tag != wanted or used + 1 >= last or piece[used + 1] >= _MORE:
                tag, size, body = _header(piece, used, at)
            else:
                size = piece[used + 1]
            used = body + size
            if at + used > end:
                raise XPlaneWireError("a field is longer than what holds it", at + body)
            if tag != wanted:
                continue
            if size > longest:
                yield None
            else:
                yield piece[body:used] if used <= last else window.slice(at + body, at + used)
        if not used:
            raise XPlaneWireError("the file ends early", at)
        at += used


def _header(piece: bytes, used: int, at: int) -> tuple[int, int, int]:
    """Tag, size and start of a field; an integer is none of its size."""
    try:
        tag, body = read_varint(piece, used)
        wire_type = tag & 7
        if wire_type == VARINT:
            _, body = read_varint(piece, body)
            return tag, 0, body
        if wire_type == LENGTH:
            size, body = read_varint(piece, body)
            return tag, size, body
        return tag, _fixed_size(wire_type, used), body
    except XPlaneWireError as error:
        raise XPlaneWireError(str(error), at + used) from error


def _fixed_size(wire_type: int, at: int) -> int:
    size = _SIZES.get(wire_type)
    if size is None:
        raise XPlaneWireError(f"there is no wire type {wire_type}", at)
    return size
