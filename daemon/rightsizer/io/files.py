"""Files that appear whole or not at all, and files owned by one process."""

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

from rightsizer.model.errors import HistoryError, RightsizerError
from rightsizer.model.frozen import dataclass

_FOLDER_MODE: Final = 0o700
_FILE_MODE: Final = 0o600
_GROUP_MAY_ENTER: Final = 0o050
_GROUP_MAY_READ: Final = 0o040


@dataclass(frozen=True, slots=True)
class Called:
    """How messages call a file, its writer, and the setting that names it."""

    what: str
    setting: str
    writer: str


HISTORY: Final = Called("history", "history.path", "agent")


def private_folder(path: Path) -> None:
    """Make a folder and those above it where they are not there; ours, it is closed to others."""
    with contextlib.suppress(FileExistsError):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(_FOLDER_MODE | (_GROUP_MAY_ENTER if _has_state_folder() else 0))


def private_file(path: Path) -> None:
    """Make an empty file where there is none, which is closed to others whatever the umask.

    Of a systemd service its group may read it: the service's folder admits that group alone.
    """
    if not path.exists():
        mode = _FILE_MODE | (_GROUP_MAY_READ if _has_state_folder() else 0)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, mode))


def _has_state_folder() -> bool:
    """Whether systemd made this process a folder, with the mode that its unit asks for."""
    return bool(os.environ.get("STATE_DIRECTORY"))


class Ownership:
    """The right to write a file, held by one process at a time."""

    def __init__(self, path: Path, called: Called = HISTORY) -> None:
        """Take it.

        Raises:
            HistoryError: another process has it.
            OSError: the place cannot be written.
        """
        self._path, self._called = path, called
        self._lock_path = Path(f"{path}.lock")
        self._file: IO[str] | None = self._take()

    @property
    def holds(self) -> bool:
        """Whether others still find the lock: it was not deleted along with what it guards."""
        return self._file is not None and self._is_the_file(self._file)

    def release(self, *, remove: bool = False) -> None:
        """Let others write; take the lock file away too where nothing is left to own."""
        if self._file is None:
            return
        if remove:
            self._lock_path.unlink(missing_ok=True)
        self._file.close()
        self._file = None

    def _take(self) -> IO[str]:
        # Between opening and locking, the former owner may have taken its file away.
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
        return file

    def _is_the_file(self, file: IO[str]) -> bool:
        try:
            return os.path.samestat(os.fstat(file.fileno()), self._lock_path.stat())
        except FileNotFoundError:
            return False


@contextlib.contextmanager
def whole_file(path: Path, what: str) -> Iterator[IO[bytes]]:
    """A file written beside its place and put there in the end; on any error, nowhere.

    Raises:
        RightsizerError: the place cannot be written, or the disk is full; it says what it is.
    """
    try:
        if path.is_dir():  # Perhaps the folder `.`, beside which no name can be made.
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
        file = partial.open("wb")
        try:
            yield file
            file.flush()
            # A rename may reach the disk before what was written.
            os.fsync(file.fileno())
            file.close()
            partial.replace(path)
        finally:
            # What a full disk did not take is of no use.
            with contextlib.suppress(OSError):
                file.close()
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise RightsizerError(
            f"{what} '{path}' cannot be written: {error.strerror}; name a file in a folder that "
            "exists, is writable and has room"
        ) from None
