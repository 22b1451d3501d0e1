"""The audit log as a file that only grows: a line of JSON for each thing that happened."""

import json
import os
from pathlib import Path
from typing import Final

from rightsizer.domain.errors import RightsizerError
from rightsizer.publish.json_form import Form

__all__ = ["Journal"]

_FLAGS: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_MODE: Final = 0o640


class Journal:
    """Appends whole lines; on the disk when `write` returns. Opened anew, so that it may rotate."""

    def __init__(self, path: Path | None) -> None:
        """A file that need not be there yet, or none."""
        self._path = path

    def write(self, form: Form) -> None:
        """Add a line.

        Raises:
            RightsizerError: it cannot be written.
        """
        if self._path is None:
            return
        line = json.dumps(form, separators=(",", ":"), default=str).encode() + b"\n"
        try:
            file = os.open(self._path, _FLAGS, _MODE)
            try:
                if os.write(file, line) < len(line):
                    os.write(file, b"\n")  # What follows begins a line of its own.
                    raise OSError(0, "there is no room for a whole line")
                os.fsync(file)
            finally:
                os.close(file)
        except OSError as error:
            raise RightsizerError(
                f"acting.audit_file '{self._path}' cannot be written: {error.strerror or error}; "
                "let the agent's user write it, and make room"
            ) from None
