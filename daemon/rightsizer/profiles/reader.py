"""What reads one kind of file."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rightsizer.domain.profile import Profile, ProfileFormat
from rightsizer.profiles.read_limits import FileLimits, ReadLimits

__all__ = ["FileLimits", "Head", "ProfileReader", "ReadLimits"]


@dataclass(frozen=True, slots=True)
class Head:
    """The beginning of a file, unpacked if it was packed: formats are told by it."""

    name: str
    """The file's name."""
    data: bytes
    is_packed: bool = False
    is_folder: bool = False


@dataclass(frozen=True, slots=True)
class ProfileReader:
    """A format: how it is told, and how it is read."""

    format: ProfileFormat
    recognizes: Callable[[Head], bool]
    """By content alone; names lie."""
    read: Callable[[Path, ReadLimits], Profile]
    """Streams; raises `ProfileError` where the file is no such profile, or broken."""
