"""Wire format of protocol buffers, in memory and in a file."""

import io
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profile_xplane import length_field, number_field, varint
from rightsizer.io.protobuf import FIXED32, FIXED64, LENGTH, VARINT, ProtobufError, fields, signed
from rightsizer.profiles.xplane.plane import FileWindow, scan

Field: TypeAlias = tuple[int, int, int | bytes]

NUMBERS = st.integers(1, 2**29 - 1) | st.just(4)
FIELDS: st.SearchStrategy[list[Field]] = st.lists(
    st.one_of(
        st.tuples(NUMBERS, st.just(VARINT), st.integers(0, 2**64 - 1)),
        st.tuples(NUMBERS, st.just(LENGTH), st.binary(max_size=40)),
        st.tuples(NUMBERS, st.just(FIXED64), st.binary(min_size=8, max_size=8)),
        st.tuples(NUMBERS, st.just(FIXED32), st.binary(min_size=4, max_size=4)),
    ),
    max_size=8,
)


def written(message: list[Field]) -> bytes:
    """The encoded message."""
    parts: list[bytes] = []
    for number, wire_type, value in message:
        if isinstance(value, int):
            parts.append(number_field(number, value))
        elif wire_type == LENGTH:
            parts.append(length_field(number, value))
        else:
            parts.append(varint(number << 3 | wire_type) + value)
    return b"".join(parts)


def scanned(data: bytes, piece_bytes: int = 1 << 20) -> list[Field]:
    """The same through a file, with little of it in memory."""
    window = FileWindow(io.BytesIO(data), len(data), piece_bytes)
    return [
        (number, wire_type, low if wire_type == VARINT else window.slice(low, high))
        for number, wire_type, low, high in scan(window, 0, len(data))
    ]


@given(FIELDS, st.integers(1, 64))
def test_written_message_is_read_back(message: list[Field], piece_bytes: int) -> None:
    """From memory and from a file in pieces of any size."""
    assert list(fields(written(message))) == message
    assert scanned(written(message), piece_bytes) == message


@given(FIELDS, st.data())
def test_a_cut_message_ends_at_a_field_or_is_refused(
    message: list[Field], data: st.DataObject
) -> None:
    """Fields before the cut are read; nothing is invented."""
    whole = written(message)
    cut = whole[: data.draw(st.integers(0, len(whole)))]
    for walk in (lambda: list(fields(cut)), lambda: scanned(cut)):
        at = 0
        try:
            assert walk() == message[: len(walk())]
        except ProtobufError as error:
            at = error.at
        assert 0 <= at <= len(cut)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_refused(data: bytes) -> None:
    """Both ways agree."""
    try:
        parsed = list(fields(data))
    except ProtobufError:
        with pytest.raises(ProtobufError):
            scanned(data)
    else:
        assert scanned(data) == parsed


@given(st.integers(-(2**63), 2**63 - 1))
def test_negative_numbers_come_back(value: int) -> None:
    """They are encoded as 64 bits."""
    ((_, _, travelled),) = fields(number_field(1, value))
    assert isinstance(travelled, int)
    assert signed(travelled) == value


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\x0a\xff\xff\xff\xff\x7fabc", "longer than what holds it"),
        (b"\x08" + b"\xff" * 10 + b"\x01", "longer than ten bytes"),
        (b"\x0b", "no wire type 3"),
        (b"\x0c", "no wire type 4"),
        (b"\x08\x80", "ends within an integer"),
        (b"\x09abc", "longer than what holds it"),
    ],
)
def test_invalid_message_is_refused_with_the_reason(data: bytes, words: str) -> None:
    """Covers lengths beyond the end, endless integers, and obsolete groups."""
    for walk in (lambda: list(fields(data)), lambda: scanned(data)):
        with pytest.raises(ProtobufError, match=words):
            walk()


@given(st.binary(max_size=300), st.integers(1, 50), st.data())
def test_a_window_gives_every_stretch(
    content: bytes, piece_bytes: int, data: st.DataObject
) -> None:
    """Forward, backward and longer than its piece."""
    window = FileWindow(io.BytesIO(content), len(content), piece_bytes)
    places = st.integers(0, len(content))
    for _ in range(5):
        low, high = sorted((data.draw(places), data.draw(places)))
        assert window.slice(low, high) == content[low:high]


def test_a_window_over_a_file_that_was_cut_short() -> None:
    """It returns the rest, and the reader reports a truncated field."""
    whole = written([(1, LENGTH, b"x" * 50), (2, LENGTH, b"y" * 50)])
    window = FileWindow(io.BytesIO(whole[:60]), len(whole), 16)
    assert len(window.slice(52, 104)) == 8
    with pytest.raises(ProtobufError):
        list(scan(FileWindow(io.BytesIO(whole[:52]), len(whole), 16), 0, len(whole)))
