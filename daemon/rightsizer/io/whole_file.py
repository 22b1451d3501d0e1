"""A file that appears under its name only when it is whole."""

import contextlib
import errno
import os
from pathlib import Path
from types import TracebackType
from typing import IO

from rightsizer.model.errors import RightsizerError


class WholeFile:
    """Written beside its place, and put there in the end; where something goes wrong, nowhere."""

    def __init__(self, path: Path, what: str) -> None:
        """A file to be.

        Args:
            path: Its place.
            what: What it is, for whoever reads an error.
        """
        self._path, self._what = path, what

    def __enter__(self) -> IO[bytes]:
        """Begin.

        Raises:
            RightsizerError: the place cannot be written.
        """
        try:
            if self._path.is_dir():  # Perhaps the folder `.`, beside which no name can be made.
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            self._partial = self._path.with_name(f".{self._path.name}.{os.getpid()}.partial")
            self._file = self._partial.open("wb")
        except OSError as error:
            raise self._explained(error) from None
        return self._file

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Put the file in its place, or take it away.

        Raises:
            RightsizerError: the disk is full.
        """
        try:
            if kind is None:
                self._file.flush()
                # A rename may reach the disk before what was written.
                os.fsync(self._file.fileno())
                self._file.close()
                self._partial.replace(self._path)
            elif isinstance(error, OSError):
                raise self._explained(error) from None
        except OSError as trouble:
            raise self._explained(trouble) from None
        finally:
            # What a full disk did not take is of no use to anybody.
            with contextlib.suppress(OSError):
                self._file.close()
            self._partial.unlink(missing_ok=True)

    def _explained(self, error: OSError) -> RightsizerError:
        return RightsizerError(
            f"{self._what} '{self._path}' cannot be written: {error.strerror}; name a file in a "
            "folder that exists, is writable and has room"
        )
