"""Protobuf wire format in memory: tags, varints, fields of a message."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

from rightsizer.io.document import DocumentReading

VARINT: Final = 0
FIXED64: Final = 1
LENGTH: Final = 2
FIXED32: Final = 5

MORE: Final = 0x80
"""Continuation bit of a varint."""
_MASK: Final = 2**64 - 1
_LONGEST_SHIFT: Final = 63
_SIZES: Final = {FIXED64: 8, FIXED32: 4}

_Bytes = TypeVar("_Bytes", bytes, memoryview)


class ProtobufError(ValueError):
    """Invalid message, raised by all functions here.

    `at` is the offset from the start of the message.
    """

    def __init__(self, what: str, at: int = 0) -> None:
        super().__init__(what)
        self.at = at


def signed(value: int) -> int:
    """Convert a varint to a signed `int64`, whose negative values have the highest bit set."""
    return value - 2**64 if value >> _LONGEST_SHIFT else value


def read_varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """Read a varint; return it with its end."""
    try:
        value = data[at]
        at += 1
        if value < MORE:
            return value, at
        value &= 0x7F
        for shift in range(7, _LONGEST_SHIFT + 1, 7):
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < MORE:
                return value & _MASK, at
    except IndexError:
        raise ProtobufError("it ends within an integer", at) from None
    raise ProtobufError("an integer is longer than ten bytes", at)


def read_header(data: bytes | memoryview, at: int) -> tuple[int, int, int]:
    """Read a field's header: tag, value of a varint or size of the rest, and end."""
    tag, at = read_varint(data, at)
    if (wire_type := tag & 7) in {VARINT, LENGTH}:
        return tag, *read_varint(data, at)
    if wire_type not in _SIZES:
        raise ProtobufError(f"there is no wire type {wire_type}", at)
    return tag, _SIZES[wire_type], at


def fields(data: _Bytes) -> Iterator[tuple[int, int, int | _Bytes]]:
    """Iterate over number, wire type and value of each field; bytes except for varints."""
    at = 0
    end = len(data)
    while at < end:
        tag, value, at = read_header(data, at)
        if tag & 7 == VARINT:
            yield tag >> 3, VARINT, value
            continue
        if value > end - at:
            raise ProtobufError("a field is longer than what holds it", at)
        yield tag >> 3, tag & 7, data[at : at + value]
        at += value


class ProtobufFields:
    """Reader of messages that counts fields, since an empty field takes only two bytes."""

    def __init__(self, reading: DocumentReading) -> None:
        """Count the fields read over all messages."""
        self._reading = reading

    def messages(self, data: memoryview) -> Iterator[tuple[int, memoryview]]:
        """Number and value of each field of messages, texts or bytes, in order."""
        for number, wire_type, value in fields(data):
            self._reading.count()
            if wire_type == LENGTH and not isinstance(value, int):
                yield number, value

    def read(self, data: memoryview) -> defaultdict[int, list[memoryview]]:
        """The same by number."""
        messages_by_number: defaultdict[int, list[memoryview]] = defaultdict(list)
        for number, value in self.messages(data):
            messages_by_number[number].append(value)
        return messages_by_number


def last_text(values: Sequence[memoryview]) -> str:
    """Last value of a text field; empty if absent."""
    try:
        texts = [str(value, "utf-8") for value in values]
    except UnicodeDecodeError:
        raise ProtobufError("a text is not UTF-8") from None
    return texts[-1] if texts else ""
