"""The bytes of a file, of which one piece is in memory at a time."""

from typing import BinaryIO, Final

__all__ = ["Window"]

_PIECE_BYTES: Final = 1 << 20


class Window:
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
