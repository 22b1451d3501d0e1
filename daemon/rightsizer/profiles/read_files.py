"""What came of reading several files: the profiles, and the files of folders that are broken."""

from dataclasses import dataclass

from rightsizer.domain.errors import ProfileError
from rightsizer.domain.profile import Profile

__all__ = ["BrokenFile", "ReadFiles"]


@dataclass(frozen=True, slots=True)
class BrokenFile:
    """A file of a folder that is a profile and cannot be read."""

    source: str
    """Its path within the folder that was named."""
    reason: str
    """What is wrong with it, where, and what to do."""


@dataclass(frozen=True, slots=True)
class ReadFiles:
    """All that could be read, and what could not."""

    profiles: tuple[Profile, ...]
    broken: tuple[BrokenFile, ...] = ()

    def strict(self) -> tuple[Profile, ...]:
        """The profiles, where none is missing.

        Raises:
            ProfileError: a file was broken; the first is named.
        """
        if self.broken:
            first = self.broken[0]
            raise ProfileError(f"{first.source}: {first.reason}")
        return self.profiles
