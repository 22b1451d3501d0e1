"""Files: written atomically, private, locked by one process, or packed."""

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

from msgspec import Struct

from rightsizer.model.errors import HistoryError, RightsizerError

_FOLDER_MODE: Final = 0o700
_FILE_MODE: Final = 0o600
_GROUP_MAY_ENTER: Final = 0o050
_GROUP_MAY_READ: Final = 0o040
_DOCUMENT_BYTES_MAXIMUM: Final = 2**20
"""What a ConfigMap of Kubernetes holds."""
_LOCK_PATIENCE_SECONDS: Final = 10.0
"""Source: assumed; a file that is added to is written in milliseconds."""
_LOCK_POLL_SECONDS: Final = 0.01


_PACKINGS: Final = (
    ("zip", "unzip", 0, b"PK\x03\x04"),
    ("zstd", "zstd -d", 0, b"\x28\xb5\x2f\xfd"),
    ("xz", "xz -d", 0, b"\xfd7zXZ\0"),
    ("bzip2", "bzip2 -d", 0, b"BZh"),
    ("tar", "tar -xf", 257, b"ustar"),
)
"""Name, command, and where which bytes are."""


def packing_of(beginning: bytes) -> tuple[str, str] | None:
    """Return how a file is packed, and the command that unpacks it; gzip is not among them."""
    for name, command, place, mark in _PACKINGS:
        if beginning.startswith(mark, place):
            return name, command
    return None


class Called(Struct, frozen=True):
    """Name of a file in messages, its writer, and its setting."""

    what: str
    setting: str
    writer: str


HISTORY: Final = Called("history", "history.path", "agent")


def private_folder(path: Path) -> None:
    """Create a directory and its parents if missing; the directory itself is private."""
    with contextlib.suppress(FileExistsError):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(_FOLDER_MODE | (_GROUP_MAY_ENTER if _has_state_folder() else 0))


def is_there(path: Path) -> bool:
    """Return whether a path exists.

    Raises:
        PermissionError: a folder above it is closed, which is no absence; `Path.exists` says that
            it is since Python 3.14.
    """
    try:
        path.stat()
    except PermissionError:
        raise
    except (OSError, ValueError):
        return False
    return True


def is_closed(path: Path) -> bool:
    """Return whether this user may not read a file that is there, or not see whether one is."""
    try:
        return is_there(path) and not os.access(path, os.R_OK)
    except PermissionError:
        return True


def file_bytes(path: Path, maximum_bytes: int = _DOCUMENT_BYTES_MAXIMUM) -> bytes:
    """Read a document, but no pipe that has a path: a writer may never come.

    Raises:
        OSError: it is such a pipe, too large, or cannot be read.
    """
    # One of the shell, `<(...)`, leads to no path.
    if Path(os.path.realpath(path)).is_fifo():
        raise OSError(errno.EINVAL, "is a pipe")
    with path.open("rb") as file:
        content = file.read(maximum_bytes + 1)
    if len(content) > maximum_bytes:
        # A reload of 50 MB of comments stopped sampling for 13 s.
        raise OSError(errno.EFBIG, f"has more than {maximum_bytes} bytes")
    return content


def private_file(path: Path) -> None:
    """Create an empty private file if missing, regardless of the umask.

    As a systemd service, let its group read the file: the state directory admits only that group.
    """
    if not path.exists():
        mode = _FILE_MODE | (_GROUP_MAY_READ if _has_state_folder() else 0)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, mode))


def _has_state_folder() -> bool:
    """Whether systemd created a state directory with the mode of the unit."""
    return bool(os.environ.get("STATE_DIRECTORY"))


class Ownership:
    """Exclusive lock for writing a file."""

    def __init__(self, path: Path, called: Called = HISTORY) -> None:
        """Acquire the lock.

        Raises:
            HistoryError: locked by another process.
            OSError: the lock file cannot be written.
        """
        self._path = path
        self._called = called
        self._lock_path = Path(f"{path}.lock")
        self._file: IO[str] | None = self._take()

    @property
    def holds(self) -> bool:
        """Whether the lock file is still in place, and was not deleted with the files it guards."""
        return self._file is not None and self._is_the_file(self._file)

    def release(self, *, remove: bool = False) -> None:
        """Release the lock; with `remove` also delete the lock file."""
        if self._file is None:
            return
        if remove:
            self._lock_path.unlink(missing_ok=True)
        self._file.close()
        self._file = None

    def _take(self) -> IO[str]:
        # Between opening and locking, the former owner may have deleted the file.
        while not self._is_the_file(file := self._locked()):
            file.close()
        file.seek(0)
        file.truncate()
        file.write(str(os.getpid()))
        file.flush()
        return file

    def _locked(self) -> IO[str]:
        private_file(self._lock_path)
        descriptor = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE)
        file = os.fdopen(descriptor, "r+", encoding="utf-8")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = file.read().strip() or "unknown"
            file.close()
            raise HistoryError(
                f"{self._called.what} '{self._path}' is being written by process {owner}; stop "
                f"that {self._called.writer}, or give this one another {self._called.setting}"
            ) from None
        except OSError:
            file.close()
            raise
        return file

    def _is_the_file(self, file: IO[str]) -> bool:
        try:
            return os.path.samestat(os.fstat(file.fileno()), self._lock_path.stat())
        except FileNotFoundError:
            return False


@contextlib.contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Keep others that lock a folder out of it; the lock leaves no file, and ends with its process.

    Raises:
        RightsizerError: another process keeps it.
        OSError: the folder cannot be read.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        deadline = time.monotonic() + _LOCK_PATIENCE_SECONDS
        while not _takes_lock(descriptor):
            if time.monotonic() >= deadline:
                raise RightsizerError(
                    f"folder '{folder}' is locked by another process since "
                    f"{_LOCK_PATIENCE_SECONDS:g} s; end it ('fuser -v {folder}' names it), and try "
                    "again"
                )
            time.sleep(_LOCK_POLL_SECONDS)
        yield
    finally:
        os.close(descriptor)


def _takes_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def whole_file(path: Path, what: str, *, locks_folder: bool = False) -> Iterator[IO[bytes]]:
    """Write a file atomically: under a temporary name, renamed at the end, removed on error.

    `locks_folder`: what the file is to hold depends on what it holds, and is read within.

    Raises:
        RightsizerError: the file cannot be written, or the disk is full; `what` names it.
    """
    try:
        if path.is_dir():  # For example `.`, which has no sibling name.
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        with locked_folder(path.parent) if locks_folder else contextlib.nullcontext():
            partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
            file = partial.open("wb")
            try:
                yield file
                file.flush()
                # The rename may reach the disk before the data.
                os.fsync(file.fileno())
                file.close()
                partial.replace(path)
            finally:
                # Discard a partial file, e.g. after a full disk.
                with contextlib.suppress(OSError):
                    file.close()
                partial.unlink(missing_ok=True)
    except OSError as error:
        raise RightsizerError(
            f"{what} '{path}' cannot be written: {error.strerror}; name a file in a folder that "
            "exists, is writable and has room"
        ) from None
