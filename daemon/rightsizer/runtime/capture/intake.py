"""Reads what lands in the drop folder, once each, and hands it to the desk of profiles."""

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

import structlog

from rightsizer.domain.errors import ProfileError, RightsizerError
from rightsizer.domain.profile import Profile
from rightsizer.profiles.reader import ReadLimits
from rightsizer.runtime.capture.book import CaptureBook, ReadFile
from rightsizer.runtime.capture.landing import Landed, look, opened
from rightsizer.runtime.capture.origin import with_origin
from rightsizer.runtime.capture.settings import DropFolderSettings
from rightsizer.runtime.capture.stationing import Taker

__all__ = ["Intake"]

_Read = Callable[[int, str, ReadLimits, DropFolderSettings, threading.Event], Profile]
_MOST_IN_A_LOOK_SECONDS: Final = 120.0
"""After which the rest waits for the next look: other jobs want the thread too."""


class Intake:
    """A look at the folder at a time; what cannot be read is said once and left where it is."""

    def __init__(
        self,
        settings: DropFolderSettings,
        limits: Callable[[], ReadLimits],
        book: CaptureBook,
        taker: Taker,
        *,
        read: _Read | None = None,
    ) -> None:
        """Nothing is known of the folder.

        Args:
            settings: Which folder, and what a file may cost.
            limits: What a file may ask of its reader, as it is configured now.
            book: Remembers what was read.
            taker: Gets what was read.
            read: Reads one file; in a process of its own unless told otherwise.
        """
        self._settings, self._limits = settings, limits
        self._book, self._taker = book, taker
        self._read_with = read
        self._before: Mapping[str, Landed] = {}
        self._stop = threading.Event()
        self._trouble: str | None = None
        self._has_too_many = False
        self._log = structlog.get_logger(component="profiles")

    @property
    def folder(self) -> Path:
        """Where profiles land."""
        return Path(self._settings.path)

    def stop(self) -> None:
        """End what is being read; it is read again after the next start."""
        self._stop.set()

    def look(self) -> None:
        """Read what has not changed since the last look, and was not read as it is now.

        Raises:
            RightsizerError: what was read could not be kept; it is read again.
        """
        found = self._found()
        if found is None:
            return
        known = self._book.files()
        self._book.forget_files(known.keys() - {each.path for each in found})
        settled = [each for each in found if each.is_as(self._before.get(each.path))]
        self._before = {each.path: each for each in found}
        fresh = [each for each in settled if not _is_known(each, known.get(each.path))]
        began = time.monotonic()
        # The ranks of one program lie beside each other and are judged together.
        for _, group in groupby(sorted(fresh, key=_place), key=lambda each: each.top):
            if self._stop.is_set() or time.monotonic() - began > _MOST_IN_A_LOOK_SECONDS:
                return
            self._take(list(group))

    def _found(self) -> list[Landed] | None:
        try:
            found, left_out = look(self.folder, self._settings.files_maximum)
        except OSError as error:
            self._say_trouble((error.strerror or str(error)).lower())
            return None
        self._say_trouble(None)
        if left_out and not self._has_too_many:
            self._log.warning(
                "drop_folder_crowded",
                left_out=left_out,
                remedy="take old files away, or raise profiles.drop_folder.files_maximum",
            )
        self._has_too_many = bool(left_out)
        return found

    def _say_trouble(self, trouble: str | None) -> None:
        if trouble is not None and trouble != self._trouble:
            self._log.warning(
                "drop_folder_unreadable",
                folder=str(self.folder),
                error=trouble,
                remedy="create it, and let the agent's user read it",
            )
        self._trouble = trouble

    def _take(self, group: Iterable[Landed]) -> None:
        asked_for = {each.id: each.devices for each in self._book.captures()}
        profiles: list[Profile] = []
        read: list[ReadFile] = []
        for each in group:
            outcome = self._one(each)
            if outcome is None:
                return  # The agent ends; nothing of this group is remembered.
            if isinstance(outcome, Profile):
                profiles.append(with_origin(outcome, asked_for.get(each.top, ())))
                read.append(_noted(each))
            else:
                self._log.warning("profile_not_read", file=each.path, reason=outcome)
                self._book.put_files([_noted(each, outcome)])
        if profiles:
            self._hand_over(profiles, read)

    def _one(self, landed: Landed) -> Profile | str | None:
        """The profile, or why there is none; `None` where the agent ends."""
        # What it takes to start a process is not loaded before there is something to read.
        from rightsizer.runtime.capture.reading import Interrupted, read_alone  # noqa: PLC0415

        if landed.refusal is not None:
            return f"{landed.name}: {landed.refusal}"
        read = self._read_with or read_alone
        try:
            descriptor = opened(self.folder, landed)
            try:
                return read(descriptor, landed.name, self._limits(), self._settings, self._stop)
            finally:
                os.close(descriptor)
        except ProfileError as error:
            return str(error)
        except OSError as error:
            return f"{landed.name}: cannot be read: {error}; let the agent start processes"
        except Interrupted:
            return None

    def _hand_over(self, profiles: Sequence[Profile], read: Sequence[ReadFile]) -> None:
        names = ",".join(each.path for each in read)
        try:
            self._taker.take(profiles)
        except RightsizerError:
            raise  # Of the disk, most likely: they are read again.
        except Exception as error:  # noqa: BLE001 - who breaks its judge must not do so each minute.
            self._log.exception("profile_not_judged", files=names)
            fault = f"broke whoever judges it: {error!r:.200}"
            self._book.put_files(
                [ReadFile(each.path, each.size_bytes, each.modified, fault) for each in read]
            )
            return
        self._book.put_files(read)
        self._log.info("profiles_read", files=names, profiles=len(profiles))


def _place(landed: Landed) -> tuple[str, str]:
    return landed.top, landed.path


def _is_known(landed: Landed, known: ReadFile | None) -> bool:
    return known is not None and (known.size_bytes, known.modified) == (
        landed.size_bytes,
        landed.modified,
    )


def _noted(landed: Landed, fault: str = "") -> ReadFile:
    return ReadFile(landed.path, landed.size_bytes, landed.modified, fault)
