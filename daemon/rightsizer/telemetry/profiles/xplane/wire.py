"""Protobuf messages over a window of a file."""

from collections.abc import Iterator
from typing import BinaryIO, Final, TypeAlias

from rightsizer.io.protobuf import LENGTH, MORE, VARINT, ProtobufError, read_header

_PIECE_BYTES: Final = 1 << 20


class FileWindow:
    """Random access to a file that is read mostly forwards.

    A mapping of the file would be shorter, and kill the process where the file is cut short.
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


_HEADER_BYTES: Final = 20
"""A tag and an integer of ten bytes each, the longest there are."""

Stretch: TypeAlias = tuple[int, int, int, int]
"""Number and wire type of a field; an integer's value and its end, else its start and end."""


def scan(window: FileWindow, start: int, end: int) -> Iterator[Stretch]:
    """The fields of a message that is a stretch of a file; nothing but their headers is read.

    Raises:
        ProtobufError: the stretch is cut, or no message; `at` counts from the file's beginning.
    """
    at = start
    while at < end:
        piece = window.slice(at, min(at + _HEADER_BYTES, end))
        tag, value, used = _header(piece, 0, at)
        number, wire_type, at = tag >> 3, tag & 7, at + used
        if wire_type == VARINT:
            yield number, wire_type, value, at
            continue
        if value > end - at:
            raise ProtobufError("a field is longer than what holds it", at)
        yield number, wire_type, at, at + value
        at += value


def others(window: FileWindow, start: int, end: int, number: int) -> Iterator[Stretch]:
    """The fields of a stretch as `scan` has them, but for the messages of that number.

    Raises:
        ProtobufError: as `scan` does.
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
            if used + 1 < last and piece[used + 1] < MORE:
                used += 2 + piece[used + 1]
            else:
                _, size, body = _body(piece, used, at)
                used = body + size
            if at + used > end:
                raise ProtobufError("a field is longer than what holds it", at)
        if not used:
            raise ProtobufError("the file ends early", at)
        at += used
    return at


def messages(
    window: FileWindow, start: int, end: int, number: int, longest: int
) -> Iterator[bytes | None]:
    """The fields of that number in a stretch of a file; `None` for one that is too long to keep.

    Raises:
        ProtobufError: as `scan` does.
    """
    wanted = number << 3 | LENGTH
    at = start
    while at < end:
        piece = window.ahead(at, end, _HEADER_BYTES)
        last, used = len(piece), 0
        is_last = at + last >= end
        while used < last and (is_last or last - used >= _HEADER_BYTES):
            tag, body = piece[used], used + 2
            if tag != wanted or used + 1 >= last or piece[used + 1] >= MORE:
                tag, size, body = _body(piece, used, at)
            else:
                size = piece[used + 1]
            used = body + size
            if at + used > end:
                raise ProtobufError("a field is longer than what holds it", at + body)
            if tag != wanted:
                continue
            if size > longest:
                yield None
            else:
                yield piece[body:used] if used <= last else window.slice(at + body, at + used)
        if not used:
            raise ProtobufError("the file ends early", at)
        at += used


def _header(piece: bytes, used: int, at: int) -> tuple[int, int, int]:
    """As `read_header` has it, of a piece of a file that begins at a place."""
    try:
        return read_header(piece, used)
    except ProtobufError as error:
        raise ProtobufError(str(error), at + used) from error


def _body(piece: bytes, used: int, at: int) -> tuple[int, int, int]:
    """Tag, size and start of a field's value; an integer is none of its size."""
    tag, size, body = _header(piece, used, at)
    return tag, 0 if tag & 7 == VARINT else size, body
