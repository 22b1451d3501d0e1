"""Lines and CSV records of a text file that anybody may have written, one at a time."""

import csv
from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rightsizer.profiles.packed import Unpacked, open_unpacked
from rightsizer.profiles.reader import ReadLimits

__all__ = ["PrintedText"]

_BYTE_ORDER_MARK: Final = "\ufeff"
_PIECE_BYTES: Final = 1 << 16
_JOINED_LINES: Final = 50
"""Over how many lines a quoted name may go on; beyond, its quote was never meant to close."""


class PrintedText:
    """A text file, plain or gzip, in lines and records of bounded length."""

    def __init__(self, path: Path, limits: ReadLimits) -> None:
        self._path, self._limits = path, limits
        self.unread: Counter[str] = Counter()
        """Lines that were passed over, by what was wrong with them."""
        self._ahead: deque[str] = deque()

    def lines(self) -> Iterator[str]:
        """Every line, without its end and a byte order mark.

        Raises:
            ProfileError: the file cannot be opened or unpacked, or it is larger than allowed.
        """
        self._ahead.clear()
        with open_unpacked(self._path, self._limits) as file:
            fresh = self._fresh_lines(file)
            while True:
                if self._ahead:
                    yield self._ahead.popleft()
                elif (line := next(fresh, None)) is not None:
                    yield line
                else:
                    return

    def record(self, line: str, lines: Iterator[str]) -> list[str] | None:
        """The fields of a record that begins with `line`; `None`, counted, where it is none.

        A field in quotes may hold line ends. Where the quotes never close, the following lines
        are given back to `lines`.
        """
        joined = [line]
        quotes, size = line.count('"'), len(line)
        while (
            quotes % 2 and len(joined) < _JOINED_LINES and size < self._limits.event_maximum_bytes
        ):
            following = next(lines, None)
            if following is None:
                break
            joined.append(following)
            quotes, size = quotes + following.count('"'), size + len(following)
        if quotes % 2:
            self._ahead.extendleft(reversed(joined[1:]))
            self.unread["line with an open quote"] += 1
            return None
        try:
            return next(csv.reader(["\n".join(joined)]))
        except (csv.Error, StopIteration):
            self.unread["line that is no CSV"] += 1
            return None

    def _fresh_lines(self, file: Unpacked) -> Iterator[str]:
        is_first = True
        for data in self._pieces(file):
            line = data.decode("utf-8", "replace").rstrip("\r")
            yield line.removeprefix(_BYTE_ORDER_MARK) if is_first else line
            is_first = False

    def _pieces(self, file: Unpacked) -> Iterator[bytes]:
        """The file between its line feeds, without what is too long."""
        held, is_passing = b"", False
        while data := file.read(_PIECE_BYTES):
            *whole, held = (held + data).split(b"\n")
            if is_passing and whole:
                whole, is_passing = whole[1:], False
            yield from whole
            if len(held) > self._limits.event_maximum_bytes or is_passing:
                self.unread["line that is too long"] += not is_passing
                held, is_passing = b"", True
        if held:
            yield held
