"""Limits of documents that others write: size, items, and processor time to read them."""

import time
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from rightsizer.model.errors import DocumentError

LINE_MAXIMUM: Final = 16384
"""Characters of a line; parsers of labels take time with the square of a line's length.
Source: names of Kubernetes have 253 characters at most, and exporters add a dozen labels."""
_ITEMS_PER_LOOK: Final = 16
_SHARE_SECONDS: Final = 0.001
"""Source: a fifth of the interpreter's own switching interval, for which others wait."""
_SEPARATORS: Final = (b",", b"[", b"{")


class DocumentLimits(Struct, frozen=True):
    """What a document of others may take of this process."""

    bytes_maximum: int
    items_maximum: int
    item: str
    """Plural noun for messages, such as `lines`."""
    seconds_maximum: float = 5.0
    """Processor time to read it.
    Source: seven times what a page of 5,000 new series took on one core (0.7 s)."""


class DocumentReading:
    """Progress of reading one document, counted by its parser.

    A parser shares its interpreter with the thread that samples: it pauses for as long as it works.
    """

    def __init__(
        self,
        document: str,
        limits: DocumentLimits,
        *,
        pause: Callable[[float], object] = time.sleep,
        now: Callable[[], float] = time.thread_time,
    ) -> None:
        """Begin; `document` names it in messages, `now` is the processor time of this thread."""
        self._document = document
        self._limits = limits
        self._pause = pause
        self._now = now
        self._began = self._resumed = now()
        self._items = 0
        self._next_look = _ITEMS_PER_LOOK

    def check_size(self, size_bytes: int) -> None:
        """Raise `DocumentError` for a document of more bytes than allowed."""
        if size_bytes > self._limits.bytes_maximum:
            raise self._excess(f"more than {self._limits.bytes_maximum} bytes")

    def check_items(self, items: int) -> None:
        """Raise `DocumentError` for more items than allowed, before any is read."""
        if items > self._limits.items_maximum:
            raise self._excess(f"more than {self._limits.items_maximum} {self._limits.item}")

    def count(self, items: int = 1) -> None:
        """Count items that are read; raise `DocumentError` beyond a limit."""
        self._items += items
        if self._items < self._next_look:
            return
        self.check_items(self._items)
        self._next_look = self._items + _ITEMS_PER_LOOK
        now = self._now()
        if now - self._began > self._limits.seconds_maximum:
            raise self._excess(
                f"so much that reading it takes more than {self._limits.seconds_maximum:g} s"
            )
        if now - self._resumed >= _SHARE_SECONDS:
            self._pause(now - self._resumed)
            self._resumed = self._now()

    def _excess(self, what: str) -> DocumentError:
        return DocumentError(f"{self._document} has {what}")


def check_json(body: bytes, reading: DocumentReading) -> None:
    """Raise `DocumentError` for a JSON text of more bytes or values than allowed, unparsed.

    Parsing cannot be interrupted, and may take a hundred bytes for each of the text's.
    """
    reading.check_size(len(body))
    reading.check_items(sum(map(body.count, _SEPARATORS)))
