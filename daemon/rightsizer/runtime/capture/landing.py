"""What lies in the drop folder, and which of it may be opened."""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rightsizer.domain.errors import ProfileError
from rightsizer.domain.units import Nanoseconds

__all__ = ["Landed", "look", "opened"]

_DEEPEST: Final = 4
"""Folders within the drop folder: TensorFlow and JAX write into `plugins/profile/<time>`."""
_OPENED: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_KINDS: Final = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


@dataclass(frozen=True, slots=True)
class Landed:
    """Something in the drop folder that is no folder."""

    path: str
    """Below the folder."""
    size_bytes: int
    modified: Nanoseconds
    number: tuple[int, int]
    """Device and inode."""
    refusal: str | None = None
    """Why it is not opened, `None` where it may be."""

    @property
    def top(self) -> str:
        """The folder right below the drop folder that it is in; empty for none."""
        top, slash, _ = self.path.partition("/")
        return top if slash else ""

    @property
    def name(self) -> str:
        """Its own."""
        return self.path.rpartition("/")[2]

    def is_as(self, other: "Landed | None") -> bool:
        """Whether nobody has written to it since."""
        return other is not None and (self.size_bytes, self.modified, self.number) == (
            other.size_bytes,
            other.modified,
            other.number,
        )


def look(folder: Path, files_maximum: int) -> tuple[list[Landed], int]:
    """What is there, oldest first, and how many files were left out for being too many.

    Hidden files and folders are passed over: that is how programs name what they still write.

    Raises:
        OSError: the folder cannot be read.
    """
    found = sorted(_walk(folder), key=lambda each: (each.modified, each.path))
    return found[-files_maximum:], max(0, len(found) - files_maximum)


def opened(folder: Path, landed: Landed) -> int:
    """The file, open for reading; the very one that was looked at.

    Raises:
        ProfileError: it is another by now, or cannot be opened.
    """
    parts = landed.path.split("/")
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
            f"{landed.name}: cannot be opened: {reason}; let the agent's user read it"
        ) from None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or (status.st_dev, status.st_ino) != landed.number:
        os.close(descriptor)
        raise ProfileError(f"{landed.name}: became another file meanwhile; leave it as it is")
    return descriptor


def _walk(folder: Path) -> Iterator[Landed]:
    def refuse(error: OSError) -> None:
        if error.filename == str(folder):
            raise error

    root = str(folder)
    for here, folders, names, place in os.fwalk(root, onerror=refuse, follow_symlinks=False):
        inner = here[len(root) :].strip("/")
        depth = len(inner.split("/")) if inner else 0
        folders[:] = [each for each in folders if not each.startswith(".") and depth < _DEEPEST]
        is_open_to_all = bool(os.fstat(place).st_mode & stat.S_IWOTH)
        for name in names:
            if name.startswith("."):
                continue
            try:
                status = os.stat(name, dir_fd=place, follow_symlinks=False)
            except OSError:
                continue  # It went away meanwhile.
            path = f"{inner}/{name}" if inner else name
            yield _landed(path, status, is_open_to_all=is_open_to_all)


def _landed(path: str, status: os.stat_result, *, is_open_to_all: bool) -> Landed:
    return Landed(
        path.encode(errors="replace").decode(),
        status.st_size,
        status.st_mtime_ns,
        (status.st_dev, status.st_ino),
        _refusal(path, status, is_open_to_all=is_open_to_all),
    )


def _refusal(path: str, status: os.stat_result, *, is_open_to_all: bool) -> str | None:
    kind = stat.S_IFMT(status.st_mode)
    if kind != stat.S_IFREG:
        return f"is {_KINDS.get(kind, 'no file')}; put the file itself there"
    if not path.isprintable():
        return "its name has characters that are no text; rename it"
    # Whoever may write into a folder may put anybody's file there, by a second name.
    if is_open_to_all and (status.st_uid not in (os.geteuid(), 0) or status.st_nlink > 1):
        return (
            "belongs to somebody else, in a folder that everybody may write into; let a group "
            "write into it, and not everybody"
        )
    return None
