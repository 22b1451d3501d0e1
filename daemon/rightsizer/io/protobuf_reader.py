"""Protobuf wire format, read only: fields by number, within bounds."""

from collections.abc import Iterator
from typing import Final

_VARINT: Final = 0
_EIGHT_BYTES: Final = 1
_LENGTH: Final = 2
_FOUR_BYTES: Final = 5
_FIXED_SIZES: Final = {_EIGHT_BYTES: 8, _FOUR_BYTES: 4}
_VARINT_BYTES_MAXIMUM: Final = 10


class ProtobufError(Exception):
    """The bytes are no protobuf message."""


class ProtobufFields:
    """Reads messages and counts what it reads, since an empty field takes but two bytes."""

    def __init__(self, fields_maximum: int) -> None:
        """Refuses to read more than so many fields over all messages."""
        self._fields_maximum = fields_maximum
        self._left = fields_maximum

    def messages(self, data: memoryview, number: int) -> Iterator[memoryview]:
        """The values of a field that holds messages, texts or bytes, in their order.

        Raises:
            ProtobufError: the bytes are no message, or hold more fields than allowed.
        """
        position = 0
        while position < len(data):
            self._count()
            key, position = _varint(data, position)
            kind = key & 7
            if kind == _VARINT:
                _, position = _varint(data, position)
                continue
            if kind == _LENGTH:
                size, position = _varint(data, position)
            elif kind in _FIXED_SIZES:
                size = _FIXED_SIZES[kind]
            else:
                raise ProtobufError(f"wire type {kind} is not in use")
            if size > len(data) - position:
                raise ProtobufError(f"a field of {size} bytes ends beyond its message")
            if kind == _LENGTH and key >> 3 == number:
                yield data[position : position + size]
            position += size

    def text(self, data: memoryview, number: int) -> str:
        """The last value of a field that holds a text, empty where there is none.

        Raises:
            ProtobufError: as for messages, or the text is not UTF-8.
        """
        value = ""
        for found in self.messages(data, number):
            try:
                value = str(found, "utf-8")
            except UnicodeDecodeError:
                raise ProtobufError("a text is not UTF-8") from None
        return value

    def _count(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise ProtobufError(f"it holds more than {self._fields_maximum} fields")


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    """A number of seven bits a byte, and where it ends."""
    value = 0
    for offset in range(_VARINT_BYTES_MAXIMUM):
        if position + offset >= len(data):
            raise ProtobufError("it breaks off within a number")
        byte = data[position + offset]
        value |= (byte & 0x7F) << (7 * offset)
        if byte < 0x80:  # noqa: PLR2004 - the format's own mark of a last byte.
            return value, position + offset + 1
    raise ProtobufError("a number has more than ten bytes")
