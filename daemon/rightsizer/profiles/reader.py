"""Interface of profile readers, and access to a file's unpacked bytes."""

import codecs
import gzip
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Final, Self, TypeAlias

from msgspec import Struct

from rightsizer.model.profile import Profile, ProfileFormat
from rightsizer.model.values import ProfileError
from rightsizer.profiles.limits import ReadLimits

_GZIP: Final = b"\x1f\x8b"
_WIDE: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
"""Byte order marks of text redirected by a Windows shell."""
_CHUNK: Final = 2**18
_JUDGED_FROM: Final = 2**20
"""Unpacked bytes from which the expansion ratio is checked."""
NO_EVENTS: Final = (
    "a trace without events; record again, with steps between the profiler's start and its stop"
)
ReadProgress: TypeAlias = Callable[[str, int, int], None]
"""Receives a file's name, the bytes read, and its size."""


class Head(Struct, frozen=True):
    """Beginning of a file, unpacked, by which its format is detected."""

    name: str
    """Name of the file."""
    data: bytes
    is_packed: bool = False

    @property
    def text(self) -> str:
        """Its text; empty for binary data."""
        return "" if b"\0" in self.data else self.data.decode("utf-8-sig", "replace")


class ProfileReader(Struct, frozen=True):
    """A format: detection and reading."""

    format: ProfileFormat
    recognizes: Callable[[Head], bool]
    """Detects by content only; file names are unreliable."""
    read: Callable[[Path, ReadLimits], Profile]
    """Streams a file; raises `ProfileError`, without its name, if broken or another format."""


_progress: Final[ContextVar[ReadProgress]] = ContextVar("progress", default=lambda *_: None)


@contextmanager
def progress_reported(progress: ReadProgress) -> Iterator[None]:
    """Report the progress of files read within the block, by any reader."""
    token = _progress.set(progress)
    try:
        yield
    finally:
        _progress.reset(token)


class Unpacked:
    """File opened for sequential reading, unpacked if gzip.

    UTF-16 text is converted to UTF-8.
    """

    def __init__(self, path: Path, limits: ReadLimits) -> None:
        self._name = path.name
        self._limits = limits
        try:
            self._file = path.open("rb")
            self._size = os.fstat(self._file.fileno()).st_size
            beginning = self._file.read(2)
            self._file.seek(0)
        except OSError as error:
            raise unreadable(error) from None
        self.is_packed = beginning == _GZIP
        self._unpacked = gzip.GzipFile(fileobj=self._file) if self.is_packed else self._file
        self._decoder = (
            codecs.getincrementaldecoder("utf-16")("replace") if beginning in _WIDE else None
        )
        self.unpacked_bytes = 0
        """Bytes read so far."""
        self.is_torn = False
        """Whether packed data ended early or was followed by other data."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, size: int = _CHUNK) -> bytes:
        """Return the next bytes, at most `size`; empty at the end.

        Raises:
            ProfileError: the file exceeds a limit, or is gone.
        """
        data = self._raw(size) if self._decoder is None else self._wide(size, self._decoder)
        self.unpacked_bytes += len(data)
        self._judge()
        return data

    def _wide(self, size: int, decoder: codecs.IncrementalDecoder) -> bytes:
        while True:
            # Two bytes become at most three in UTF-8.
            data = self._raw(max(size // 2, 2))
            text = decoder.decode(data, final=not data)
            if text or not data:
                return text.encode("utf-8", "replace")

    def _raw(self, size: int) -> bytes:
        if self.is_torn:
            return b""
        try:
            data = self._unpacked.read1(size)
        except (EOFError, zlib.error, gzip.BadGzipFile):
            data = b""
            self.is_torn = True
        except OSError as error:
            raise ProfileError(
                f"{error.strerror or error} after {self._file.tell()} bytes; copy it to a disk "
                "that can be read"
            ) from None
        _progress.get()(self._name, self._file.tell(), self._size)
        return data

    def _judge(self) -> None:
        self._limits.check_size(self.unpacked_bytes)
        if not self.is_packed or self.unpacked_bytes < _JUDGED_FROM:
            return
        used = self._file.tell()
        if self.unpacked_bytes > self._limits.expansion_maximum_ratio * max(used, 1):
            raise ProfileError(
                f"grew over {self._limits.expansion_maximum_ratio:g} times as it was unpacked, "
                f"after {used} bytes; unpack it yourself if you trust it"
            )


def beginning_of(path: Path, size: int) -> bytes:
    """Return the first raw bytes of a file; raises `ProfileError` if unreadable."""
    try:
        with path.open("rb") as file:
            return file.read(size)
    except OSError as error:
        raise unreadable(error) from None


def unreadable(error: OSError) -> ProfileError:
    """Build the error for an unreadable file."""
    return ProfileError(f"{error.strerror or error}; name a file that can be read")


@contextmanager
def open_unpacked(path: Path, limits: ReadLimits) -> Iterator[Unpacked]:
    """Open a file; at its end, raise if packed data was incomplete.

    Raises:
        ProfileError: it cannot be opened, or its packed data breaks off.
    """
    with Unpacked(path, limits) as file:
        yield file
        if file.is_torn:
            raise ProfileError(
                f"its packed data breaks off after {file.unpacked_bytes} unpacked bytes; wait "
                "until the profiler has written it, or copy it again"
            )
