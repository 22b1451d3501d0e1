"""Storage of captures below the drop folder: created, measured, expired."""

import os
import secrets
import shutil
import stat
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from rightsizer.model.errors import RightsizerError
from rightsizer.model.units import Nanoseconds, seconds
from rightsizer.profiler.capture.repository import CaptureRecord
from rightsizer.profiler.capture.settings import CaptureStorageSettings

_SHARED: Final = stat.S_ISGID | stat.S_IRWXU | stat.S_IRWXG | stat.S_IROTH | stat.S_IXOTH
"""What a capture's folder has of the drop folder's mode: a group may write into it, never all."""


def new_id(now: Nanoseconds) -> str:
    """What a capture, and its folder, is called."""
    when = datetime.fromtimestamp(seconds(now), UTC)
    return f"capture-{when:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"


class CaptureStorage:
    """Room for captures, and only for them: whatever else lies in the drop folder stays."""

    def __init__(self, folder: Path, settings: CaptureStorageSettings) -> None:
        """Room below a folder, which may not be there yet."""
        self._folder, self._settings = folder, settings

    def make(self, capture_id: str) -> Path:
        """A folder for one capture.

        Raises:
            RightsizerError: it cannot be made.
        """
        path = self._folder / capture_id
        try:
            path.mkdir(mode=0o750)
            path.chmod(self._folder.stat().st_mode & _SHARED | stat.S_IRWXU)
        except OSError as error:
            raise RightsizerError(
                f"profiles.drop_folder.path: no folder can be made in '{self._folder}': "
                f"{(error.strerror or str(error)).lower()}; let the agent's user write into it"
            ) from None
        return path

    def size_bytes(self, capture_id: str) -> int:
        """What a capture has written; 0 where there is nothing."""
        total = 0
        with suppress(OSError):  # Of what goes away meanwhile nothing is left to count.
            for _, _, names, place in os.fwalk(self._folder / capture_id, follow_symlinks=False):
                for name in names:
                    with suppress(OSError):
                        total += os.stat(name, dir_fd=place, follow_symlinks=False).st_size
        return total

    def why_too_much(self, capture_id: str) -> str | None:
        """What one capture alone has used up, `None` while it has not."""
        quota_bytes = self._settings.quota_bytes
        if self.size_bytes(capture_id) <= quota_bytes:
            return None
        return (
            f"wrote more than {quota_bytes} bytes, and was ended; record a shorter time, or raise "
            "profiles.capture.room.quota"
        )

    def why_none(self, kept: Iterable[CaptureRecord]) -> str | None:
        """Why there is no room for another capture, `None` where there is."""
        taken = sum(self.size_bytes(each.id) for each in kept)
        if taken >= self._settings.quota_bytes:
            return f"captures take {taken} bytes, and profiles.capture.room.quota allows no more"
        try:
            disk = os.statvfs(self._folder)
        except OSError as error:
            return f"the drop folder cannot be looked at: {(error.strerror or str(error)).lower()}"
        free = disk.f_bavail / disk.f_blocks if disk.f_blocks else 0.0
        if free < self._settings.minimum_free_ratio:
            return f"the file system of the drop folder is nearly full: {free:.0%} are free"
        return None

    def prune(
        self, records: Iterable[CaptureRecord], now: Nanoseconds, *, by_age: bool
    ) -> tuple[str, ...]:
        """Delete what is too old or too much, oldest first; the ids of the captures deleted.

        Those of which something is still expected stay; age counts where the clock can be trusted.
        """
        records = tuple(records)
        sizes = {each.id: self.size_bytes(each.id) for each in records}
        total = sum(sizes.values())
        deleted = []
        for each in records:
            is_old = by_age and seconds(now - each.started) > self._settings.kept_for
            if not each.outcome.is_final or not (is_old or total > self._settings.quota_bytes):
                continue
            if self._delete(each.id):
                deleted.append(each.id)
                total -= sizes[each.id]
        return tuple(deleted)

    def _delete(self, capture_id: str) -> bool:
        """Whether there was a folder of ours that is gone now."""
        path = self._folder / capture_id
        with suppress(OSError):
            status = path.lstat()
            if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid():
                shutil.rmtree(path, ignore_errors=True)
                return not path.exists()
        return False
