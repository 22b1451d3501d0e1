"""Local socket of the agent: its file, permissions, and peer credentials."""

import contextlib
import errno
import fcntl
import os
import socket
import stat
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rightsizer.io.log import logger
from rightsizer.model.values import RightsizerError
from rightsizer.web.message import SocketPeer

_log: Final = logger("web")
_MODE: Final = 0o660
_BACKLOG: Final = 128
"""With a full queue connecting fails at once, whereas over TCP it would wait."""
_PATH_LIMIT_BYTES: Final = 107
"""The kernel's limit of a socket path."""
_OTHER: Final = "choose another place with path.api_socket, or '' for none"


class LocalSocket:
    """A Unix socket file, accessible to its user and group only."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._bound: os.stat_result | None = None
        self._trouble: str | None = None

    def start(self) -> socket.socket:
        """Listen; if that is prevented, return a socket that accepts nothing until `renew` does."""
        try:
            return self.listen()
        except RightsizerError as error:
            self._trouble = str(error)
            _log.warning("local_socket_unavailable", error=self._trouble)
            return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)

    def renew(self) -> socket.socket | None:
        """Listen if the file is missing or was replaced; what prevents that is logged once."""
        if self._is_there():
            self._trouble = None
            return None
        reason = "it could not be made before" if self._bound is None else "its file was deleted"
        try:
            renewed = self.listen()
        except RightsizerError as error:
            if str(error) != self._trouble:
                self._trouble = str(error)
                _log.warning("local_socket_lost", error=self._trouble)
            return None
        _log.warning("local_socket_renewed", path=str(self.path), reason=reason)
        return renewed

    def listen(self) -> socket.socket:
        """Listen, replacing the socket of a dead process if there is one.

        Raises:
            RightsizerError: it failed; the message names the path and the remedy.
        """
        if len(os.fsencode(self.path)) > _PATH_LIMIT_BYTES:
            raise RightsizerError(
                f"{self.path} is longer than the {_PATH_LIMIT_BYTES} bytes that the path of a "
                f"socket may have; {_OTHER}"
            )
        bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with _held(self.path.parent):
                self._clear()
                # The file never has wider permissions, whatever the umask ...
                os.fchmod(bound.fileno(), _MODE)
                bound.bind(str(self.path))
                self._bound = self.path.lstat()
                # ... and no client can connect before they are complete.
                self.path.chmod(_MODE)
                bound.listen(_BACKLOG)
        except BaseException as error:
            bound.close()
            if isinstance(error, OSError):
                raise RightsizerError(_remedy(error, self.path)) from None
            raise
        return bound

    def remove(self) -> None:
        """Delete the file, unless it belongs to another process by now."""
        if self._is_there():
            with contextlib.suppress(OSError):
                self.path.unlink()
        self._bound = None

    def _is_there(self) -> bool:
        """Whether the file is the one that was made here."""
        with contextlib.suppress(OSError):
            return self._bound is not None and os.path.samestat(self.path.lstat(), self._bound)
        return False

    def _clear(self) -> None:
        """Delete the socket that a killed agent left behind."""
        try:
            status = self.path.lstat()
        except FileNotFoundError:
            return
        if not stat.S_ISSOCK(status.st_mode):
            raise RightsizerError(f"{self.path} is no socket and is left as it is; {_OTHER}")
        if _is_answered(self.path):
            raise RightsizerError(
                f"{self.path}: another process listens there (`ss -lxp` names it); stop it, or "
                f"{_OTHER}"
            )
        self.path.unlink()


def peer_of(connection: socket.socket) -> SocketPeer | None:
    """Return the peer's credentials from the kernel; `None` over TCP."""
    if connection.family != socket.AF_UNIX:
        return None
    struct_format = "3i"
    raw = connection.getsockopt(
        socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize(struct_format)
    )
    return SocketPeer(*struct.unpack(struct_format, raw))


@contextlib.contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Lock the folder against other agents that start."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        # Two agents starting together would both find a dead socket and replace it.
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


def _is_answered(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        # A full queue fails at once, and still means a listener.
        probe.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            try:
                probe.connect(str(path))
            except ConnectionRefusedError:
                return False
    return True


def _remedy(error: OSError, path: Path) -> str:
    folder = path.parent
    if error.errno in {errno.ENOENT, errno.ENOTDIR}:
        return (
            f"{path}: there is no folder {folder}; create it for the user that the agent runs as "
            f"(systemd does, by RuntimeDirectory=), or {_OTHER}"
        )
    if error.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
        return (
            f"{path} may not be made by user {os.geteuid()} ({error.strerror}); give {folder} to "
            f"that user, or {_OTHER}"
        )
    if error.errno == errno.EAGAIN:
        return f"{path}: another process is about to listen in {folder}; {_OTHER}"
    return f"{path}: {error.strerror}; {_OTHER}"
