"""Watcher of the drop folder: each readable file is read once and passed on."""

import os
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.io.log import logger
from rightsizer.model.profile import DeviceProfile, Profile
from rightsizer.model.values import Nanoseconds, ProfileError, RightsizerError
from rightsizer.profiler.capture.repository import CaptureRepository, ReadFile
from rightsizer.profiler.capture.settings import DropFolderSettings
from rightsizer.profiles.limits import ReadLimits

_DEEPEST: Final = 4
"""Depth of folders: TensorFlow and JAX write into `plugins/profile/<time>`."""
_OPENED: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_KINDS: Final = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_Read = Callable[[int, str, ReadLimits, DropFolderSettings, threading.Event], Profile]
_MOST_IN_A_LOOK_SECONDS: Final = 120.0
"""Time after which the rest waits for the next run, since other jobs need the thread."""


def with_origin(profile: Profile, devices: Sequence[str]) -> Profile:
    """Fill missing GPU uuids of a profile, by order, from the GPUs that its workload held.

    A program limited to its own GPUs numbers them from 0, so its numbers may mean other GPUs of the
    node. For one that sees all GPUs the uuid may be that of another of its GPUs; the workload is
    right in both cases.
    """

    def named(profiled: DeviceProfile) -> DeviceProfile:
        place = 0 if len(devices) == 1 else profiled.device.index
        if profiled.device.uuid or place is None or not 0 <= place < len(devices):
            return profiled
        return replace(profiled, device=replace(profiled.device, uuid=devices[place]))

    return replace(profile, devices=tuple(map(named, profile.devices)))


class DroppedFile(Struct, frozen=True):
    """An entry of the drop folder that is no folder."""

    path: str
    """Relative to the drop folder."""
    size_bytes: int
    modified: Nanoseconds
    number: tuple[int, int]
    """Device and inode."""
    refusal: str | None = None
    """Why it must not be opened, or `None`."""

    @property
    def top(self) -> str:
        """Name of the top-level folder it is in; empty for none."""
        top, slash, _ = self.path.partition("/")
        return top if slash else ""

    @property
    def name(self) -> str:
        """Name without folders."""
        return self.path.rpartition("/")[2]

    @property
    def state(self) -> tuple[int, Nanoseconds, tuple[int, int]]:
        """Changes when the file is written or replaced."""
        return self.size_bytes, self.modified, self.number


def scan_folder(folder: Path, files_maximum: int) -> tuple[list[DroppedFile], int]:
    """Return the files, oldest first, and the number of files beyond the maximum.

    Hidden files and folders are skipped: programs use such names while they write.

    Raises:
        OSError: the folder cannot be read.
    """
    files = sorted(_walk(folder), key=lambda file: (file.modified, file.path))
    return files[-files_maximum:], max(0, len(files) - files_maximum)


def open_dropped(folder: Path, dropped: DroppedFile) -> int:
    """Open a scanned file for reading, checked to be the same file.

    Raises:
        ProfileError: it was replaced, or cannot be opened.
    """
    parts = dropped.path.split("/")
    try:
        place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for part in parts[:-1]:
                inner = os.open(part, _OPENED | os.O_DIRECTORY, dir_fd=place)
                os.close(place)
                place = inner
            descriptor = os.open(parts[-1], _OPENED, dir_fd=place)
        finally:
            os.close(place)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ProfileError(
            f"{dropped.name}: cannot be opened: {reason}; let the agent's user read it"
        ) from None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or (status.st_dev, status.st_ino) != dropped.number:
        os.close(descriptor)
        raise ProfileError(f"{dropped.name}: became another file meanwhile; leave it as it is")
    return descriptor


def _walk(folder: Path) -> Iterator[DroppedFile]:
    def refuse(error: OSError) -> None:
        if error.filename == str(folder):
            raise error

    root = str(folder)
    for here, folders, names, place in os.fwalk(root, onerror=refuse, follow_symlinks=False):
        inner = here[len(root) :].strip("/")
        depth = len(inner.split("/")) if inner else 0
        folders[:] = [name for name in folders if not name.startswith(".") and depth < _DEEPEST]
        holder = os.fstat(place)
        for name in names:
            if name.startswith("."):
                continue
            try:
                status = os.stat(name, dir_fd=place, follow_symlinks=False)
            except OSError:
                continue  # Removed meanwhile.
            path = f"{inner}/{name}" if inner else name
            yield DroppedFile(
                path.encode(errors="replace").decode(),
                status.st_size,
                status.st_mtime_ns,
                (status.st_dev, status.st_ino),
                _refusal(path, status, holder),
            )


def _refusal(path: str, status: os.stat_result, folder: os.stat_result) -> str | None:
    if (kind := stat.S_IFMT(status.st_mode)) != stat.S_IFREG:
        return f"is {_KINDS.get(kind, 'no file')}; put the file itself there"
    if not path.isprintable():
        return "its name has characters that are no text; rename it"
    # In a world-writable folder users can hard-link files of others.
    is_open_to_all = bool(folder.st_mode & stat.S_IWOTH)
    if is_open_to_all and (status.st_uid not in (os.geteuid(), 0) or status.st_nlink > 1):
        return (
            "belongs to another user, in a folder that all may write into; let a group "
            "write into it, and not everybody"
        )
    # The creator of a hard link is unknown, and access control lists extend the group.
    is_folder_its_owners = not folder.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and (
        folder.st_uid in (0, status.st_uid)
    )
    if status.st_nlink > 1 and not (status.st_mode & stat.S_IROTH or is_folder_its_owners):
        return (
            "is a hard link, and not everybody who may write into its folder could read it; put "
            "a copy there"
        )
    return None


class DropFolderWatcher:
    """Reads the folder at intervals; unreadable files are logged once and left in place."""

    def __init__(
        self,
        settings: DropFolderSettings,
        limits: Callable[[], ReadLimits],
        repository: CaptureRepository,
        take: Callable[[Sequence[Profile]], object],
        *,
        read: _Read | None = None,
    ) -> None:
        self._settings = settings
        self._limits = limits
        self._repository = repository
        self._take_profiles = take
        self._reader = read
        self._before: Mapping[str, tuple[object, ...]] = {}
        self._stop = threading.Event()
        self._trouble: str | None = None
        self._has_too_many = False
        self._log = logger("profiles")

    @property
    def folder(self) -> Path:
        """Folder in which profiles arrive."""
        return Path(self._settings.path)

    def stop(self) -> None:
        """Abort the current read; the file is read again after the next start."""
        self._stop.set()

    def poll(self) -> None:
        """Read files that are unchanged since the last run and not read in their current state.

        Raises:
            RightsizerError: results could not be stored; the files are read again.
        """
        if (files := self._found()) is None:
            return
        read_files = self._repository.files()
        self._repository.forget_files(read_files.keys() - {file.path for file in files})
        before = self._before
        self._before = {file.path: file.state for file in files}
        read = {(file.path, file.size_bytes, file.modified) for file in read_files.values()}
        fresh = [
            file
            for file in files
            if before.get(file.path) == file.state
            and (file.path, file.size_bytes, file.modified) not in read
        ]
        began = time.monotonic()
        # Ranks of one program are in the same folder and are judged together.
        for _, group in groupby(sorted(fresh, key=attrgetter("top", "path")), attrgetter("top")):
            if self._stop.is_set() or time.monotonic() - began > _MOST_IN_A_LOOK_SECONDS:
                return
            self._take(list(group))

    def _found(self) -> list[DroppedFile] | None:
        try:
            files, left_out = scan_folder(self.folder, self._settings.files_maximum)
        except OSError as error:
            before = self._trouble
            self._trouble = (error.strerror or str(error)).lower()
            if self._trouble != before:
                remedy = "create it, and let the agent's user read it"
                fields = {"folder": str(self.folder), "error": self._trouble, "remedy": remedy}
                self._log.warning("drop_folder_unreadable", **fields)
            return None
        self._trouble = None
        if left_out and not self._has_too_many:
            self._log.warning(
                "drop_folder_crowded",
                left_out=left_out,
                remedy="take old files away, or raise profiles.drop_folder.files_maximum",
            )
        self._has_too_many = bool(left_out)
        return files

    def _take(self, group: Iterable[DroppedFile]) -> None:
        asked_for = {record.id: record.devices for record in self._repository.records()}
        profiles: list[Profile] = []
        read: list[ReadFile] = []
        for file in group:
            if (outcome := self._read(file)) is None:
                return  # The agent ends; nothing of this group is remembered.
            if isinstance(outcome, Profile):
                profiles.append(with_origin(outcome, asked_for.get(file.top, ())))
                read.append(_entry_of(file))
            else:
                self._log.warning("profile_not_read", file=file.path, reason=outcome)
                self._repository.put_files([_entry_of(file, outcome)])
        if not profiles:
            return
        names = ",".join(read_file.path for read_file in read)
        try:
            self._take_profiles(profiles)
        except RightsizerError:
            raise  # Probably a disk error: they are read again.
        except Exception as error:  # noqa: BLE001 - a profile that breaks its judge must not do so each minute.
            self._log.exception("profile_not_judged", files=names)
            fault = f"broke the rule that judges it: {error!r:.200}"
            self._repository.put_files(replace(read_file, fault=fault) for read_file in read)
            return
        self._repository.put_files(read)
        self._log.info("profiles_read", files=names, profiles=len(profiles))

    def _read(self, dropped: DroppedFile) -> Profile | str | None:
        """Return the profile, or why there is none; `None` if the agent stops."""
        # Imported on use: process handling is not needed before a file arrives.
        from rightsizer.profiler.capture.isolated_reader import ReadInterrupted, read_isolated  # noqa: PLC0415

        if dropped.refusal is not None:
            return f"{dropped.name}: {dropped.refusal}"
        read = self._reader or read_isolated
        try:
            descriptor = open_dropped(self.folder, dropped)
            try:
                return read(descriptor, dropped.name, self._limits(), self._settings, self._stop)
            finally:
                os.close(descriptor)
        except ProfileError as error:
            return str(error)
        except OSError as error:
            return f"{dropped.name}: cannot be read: {error}; let the agent start processes"
        except ReadInterrupted:
            return None


def _entry_of(dropped: DroppedFile, fault: str = "") -> ReadFile:
    return ReadFile(dropped.path, dropped.size_bytes, dropped.modified, fault)
