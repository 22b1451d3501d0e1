"""Reader of one kind of file, and its bytes, unpacked as they are read."""

import codecs
import gzip
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Final, Self, TypeAlias

from rightsizer.model.errors import ProfileError
from rightsizer.model.frozen import dataclass
from rightsizer.model.profile import Profile, ProfileFormat
from rightsizer.telemetry.profiles.limits import ReadLimits

_GZIP: Final = b"\x1f\x8b"
_WIDE: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
"""How text begins that a shell of Windows wrote into a file for a program."""
_OTHERS: Final = (
    (b"PK\x03\x04", "zip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\xfd7zXZ\0", "xz"),
    (b"BZh", "bzip2"),
)
_CHUNK: Final = 2**18
_JUDGED_FROM: Final = 2**20
"""Unpacked bytes before which nothing is said of how much a file grew."""
ReadProgress: TypeAlias = Callable[[str, int, int], None]
"""Receives a file's name, how many of its bytes were read, and how many it has."""


@dataclass(frozen=True, slots=True)
class Head:
    """The beginning of a file, unpacked if it was packed: formats are told by it."""

    name: str
    """The file's name."""
    data: bytes
    is_packed: bool = False

    @property
    def text(self) -> str:
        """What it says; nothing where it is no text."""
        return "" if b"\0" in self.data else self.data.decode("utf-8-sig", "replace")


@dataclass(frozen=True, slots=True)
class ProfileReader:
    """A format: how it is told, and how it is read."""

    format: ProfileFormat
    recognizes: Callable[[Head], bool]
    """By content alone; names lie."""
    read: Callable[[Path, ReadLimits], Profile]
    """Streams; raises `ProfileError` where the file is no such profile, or broken."""


_progress: Final[ContextVar[ReadProgress]] = ContextVar("progress", default=lambda *_: None)


@contextmanager
def progress_reported(progress: ReadProgress) -> Iterator[None]:
    """Tell how far files are read within it: readers of many formats open them."""
    token = _progress.set(progress)
    try:
        yield
    finally:
        _progress.reset(token)


class Unpacked:
    """A file open for reading from its start to its end, packed by gzip or plain.

    Text of two bytes a character is given as UTF-8.
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
            raise ProfileError(
                f"{path.name}: {error.strerror or error}; name a file that can be read"
            ) from None
        self.is_packed = beginning == _GZIP
        self._unpacked = gzip.GzipFile(fileobj=self._file) if self.is_packed else self._file
        self._decoder = (
            codecs.getincrementaldecoder("utf-16")("replace") if beginning in _WIDE else None
        )
        self.unpacked_bytes = 0
        """That were read so far."""
        self.is_torn = False
        """The packed data ended, or turned into something else, before its own end."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, size: int = _CHUNK) -> bytes:
        """The next bytes, `size` at most; none at the end.

        Raises:
            ProfileError: the file is larger than allowed, grew more than allowed, or went away.
        """
        data = self._raw(size) if self._decoder is None else self._wide(size, self._decoder)
        self.unpacked_bytes += len(data)
        self._judge()
        return data

    def _wide(self, size: int, decoder: codecs.IncrementalDecoder) -> bytes:
        while True:
            # Two bytes make three of UTF-8 at most.
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
            data, self.is_torn = b"", True
        except OSError as error:
            raise ProfileError(
                f"{self._name}: {error.strerror or error} after {self._file.tell()} bytes; "
                "copy it to a disk that can be read"
            ) from None
        _progress.get()(self._name, self._file.tell(), self._size)
        return data

    def _judge(self) -> None:
        if self.unpacked_bytes > self._limits.unpacked_maximum_bytes:
            raise ProfileError(
                f"{self._name}: more than {self._limits.unpacked_maximum_bytes} bytes unpacked; "
                "record fewer steps, or raise unpacked_maximum_bytes"
            )
        if not self.is_packed or self.unpacked_bytes < _JUDGED_FROM:
            return
        used = self._file.tell()
        if self.unpacked_bytes > self._limits.expansion_maximum_ratio * max(used, 1):
            raise ProfileError(
                f"{self._name}: grew over {self._limits.expansion_maximum_ratio:g} times as it "
                f"was unpacked, after {used} bytes; unpack it yourself if you trust it"
            )


def beginning_of(path: Path, size: int) -> bytes:
    """The first bytes of a file as they are; raises `ProfileError` where it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(size)
    except OSError as error:
        raise unreadable(path, error) from None


def unreadable(path: Path, error: OSError) -> ProfileError:
    """Says that a file cannot be read, and why."""
    reason = error.strerror or str(error)
    return ProfileError(f"{path.name}: cannot be read: {reason}; name a file that can")


def other_packing(beginning: bytes) -> str:
    """How a file is packed that is not read in place; empty where it is in no such way."""
    return next((name for mark, name in _OTHERS if beginning.startswith(mark)), "")


@contextmanager
def open_unpacked(path: Path, limits: ReadLimits) -> Iterator[Unpacked]:
    """A file of which a part is of no use: who reads it to its end is told if that came too early.

    Raises:
        ProfileError: it cannot be opened, or its packed data breaks off.
    """
    with Unpacked(path, limits) as file:
        yield file
        if file.is_torn:
            raise ProfileError(
                f"{path.name}: its packed data breaks off after {file.unpacked_bytes} unpacked "
                "bytes; wait until the profiler has written it, or copy it again"
            )
