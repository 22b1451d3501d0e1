"""What the agent and the process that reads one file tell each other."""

from dataclasses import dataclass

from rightsizer.domain.profile import Profile
from rightsizer.profiles.reader import ReadLimits

__all__ = ["Answer", "Task"]


@dataclass(frozen=True, slots=True)
class Task:
    """What to read."""

    path: str
    """A way to the open file that was handed over, under the name that it goes by."""
    name: str
    limits: ReadLimits
    memory_bytes: int
    cpu_seconds: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of it: one of the two."""

    profile: Profile | None
    fault: str = ""
