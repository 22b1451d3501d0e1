"""Protocol of the isolated reader: a task and its answer, which go over its pipes as JSON."""

from rightsizer.model.frozen import dataclass
from rightsizer.model.profile import Profile
from rightsizer.telemetry.profiles.limits import ReadLimits


@dataclass(frozen=True, slots=True)
class ReaderTask:
    """What to read."""

    path: str
    """A way to the open file that was handed over, under the name that it goes by."""
    name: str
    limits: ReadLimits
    memory_bytes: int
    cpu_seconds: int


@dataclass(frozen=True, slots=True)
class ReaderAnswer:
    """What came of it: one of the two."""

    profile: Profile | None
    fault: str = ""
