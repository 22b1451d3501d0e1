"""Limits of documents that others write."""

import pytest

from rightsizer.io.document import DocumentLimits, DocumentReading, check_json
from rightsizer.model.errors import DocumentError

LIMITS = DocumentLimits(1000, 100, "lines", seconds_maximum=2.0)


class Processor:
    """Processor time, and the pauses of a reading."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.pauses: list[float] = []

    def reading(self) -> DocumentReading:
        """A reading that works and pauses here."""
        return DocumentReading(
            "the page", LIMITS, pause=self.pauses.append, now=lambda: self.seconds
        )


def test_document_with_more_items_is_rejected() -> None:
    """By the number in the document, or as they are read."""
    reading = Processor().reading()
    reading.check_items(100)
    with pytest.raises(DocumentError, match="the page has more than 100 lines"):
        reading.check_items(101)
    reading.count(99)
    with pytest.raises(DocumentError, match="more than 100 lines"):
        reading.count(20)


def test_document_that_takes_longer_is_rejected() -> None:
    """It is read no further, wherever it is."""
    processor = Processor()
    reading = processor.reading()
    processor.seconds = 1.9
    reading.count(20)
    processor.seconds = 2.1
    with pytest.raises(DocumentError, match="takes more than 2 s"):
        reading.count(20)


def test_reading_pauses_as_long_as_it_works() -> None:
    """Half of the interpreter stays for the thread that samples; short work needs no pause."""
    processor = Processor()
    reading = processor.reading()
    for _ in range(48):
        processor.seconds += 0.001
        reading.count()
    assert sum(processor.pauses) == pytest.approx(processor.seconds)
    reading = processor.reading()
    processor.pauses.clear()
    for _ in range(48):
        reading.count()
    assert processor.pauses == []


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (b"[" + b" " * 1000 + b"]", "more than 1000 bytes"),
        (b"[" * 101, "more than 100 lines"),
        (b"[" + b"{}," * 90 + b"{}]", "more than 100 lines"),
    ],
)
def test_json_beyond_a_limit_is_rejected_before_it_is_parsed(body: bytes, fault: str) -> None:
    """A parser in C cannot be stopped, and makes objects of two bytes each."""
    with pytest.raises(DocumentError, match=fault):
        check_json(body, Processor().reading())
    check_json(b'[{"Id": "a", "Names": ["b"]}]', Processor().reading())
