"""What became of looking at a seat for a request: free, or what is in the way."""

from dataclasses import dataclass
from enum import StrEnum

from rightsizer.placement.seat import Seat

__all__ = ["Obstacle", "Verdict"]


class Obstacle(StrEnum):
    """Why a seat cannot be given; stable words for programs."""

    DIVIDED = "divided"
    """A GPU that is divided into MIG instances."""
    PROFILE = "profile"
    """Not the MIG profile that was asked for."""
    DOWN = "down"
    """It does not answer, sleeps, was let go, or its hardware is in trouble."""
    UNHEALTHY = "unhealthy"
    """A condition that holds at present."""
    RESERVED = "reserved"
    MEMORY = "memory"
    """Too little of it, or nobody knows how much."""
    LEASED = "leased"
    HELD = "held"
    HELD_IDLE = "held_idle"
    """Held, and nothing has run: it could be reclaimed, and is not taken."""
    ALLOCATED = "allocated"
    """A scheduler has given it, and no process is there."""
    BUSY = "busy"
    """At work for somebody whom nobody sees."""
    UNKNOWN = "unknown"
    """Nobody knows whether something is on it."""
    NEEDS = "needs"
    """What is on it needs too much, or was not measured for long enough."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a seat can be given to a request."""

    seat: Seat
    obstacle: Obstacle | None = None
    """`None` where it can."""
    why: str = ""
    """A clause for a person: `held by train-llm`; with an obstacle only."""
    is_certain: bool = True
    """Whether its state was measured; otherwise it only looks empty."""
    is_shared: bool = False
    """Whether other work is on it."""
    memory_left_bytes: float | None = None
    """What the request may use at most; `None` where nobody knows or nothing is left."""

    @property
    def is_free(self) -> bool:
        """Whether nothing is in the way."""
        return self.obstacle is None
