"""What became of calling somebody for a profile."""

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Called", "CaptureOutcome"]


class CaptureOutcome(StrEnum):
    """Where a capture stands, or how it ended."""

    RUNNING = "running"
    CALLED = "called"
    """Whoever was called has taken it; the profile is still to land."""
    LANDED = "landed"
    """A profile of it was read."""
    EMPTY = "empty"
    """None came, or none that can be read."""
    FAILED = "failed"
    """Whoever was called refused, or failed."""
    TIMED_OUT = "timed_out"
    INTERRUPTED = "interrupted"
    """The agent ended meanwhile."""

    @property
    def is_final(self) -> bool:
        """Whether nothing more will become of it."""
        return self not in (CaptureOutcome.RUNNING, CaptureOutcome.CALLED)

    @property
    def is_fruitful(self) -> bool:
        """Whether a profile came of it, or still may."""
        return self in (CaptureOutcome.RUNNING, CaptureOutcome.CALLED, CaptureOutcome.LANDED)


@dataclass(frozen=True, slots=True)
class Called:
    """An answer."""

    outcome: CaptureOutcome
    detail: str = ""
    """What became of it in our words, which anybody may read; a line or two."""
    said: str = ""
    """What a program said, for the log alone: it may name whatever it likes."""
    is_recorded: bool = False
    """Whether the recording is over; it may only have been asked for."""
