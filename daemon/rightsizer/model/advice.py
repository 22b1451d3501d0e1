"""Advice: an opened finding with its lifecycle, its events, and what metrics remember of it."""

from enum import StrEnum
from typing import Final

from rightsizer.model.finding import Finding
from rightsizer.model.frozen import dataclass
from rightsizer.model.units import Nanoseconds


class AdviceState(StrEnum):
    """Where a piece of advice stands; Google Cloud's recommender uses the first words too."""

    ACTIVE = "active"
    CLAIMED = "claimed"
    SNOOZED = "snoozed"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    DISMISSED = "dismissed"
    EXPIRED = "expired"
    REGRESSED = "regressed"


OPEN_STATES: Final = frozenset(
    {AdviceState.ACTIVE, AdviceState.CLAIMED, AdviceState.SNOOZED, AdviceState.REGRESSED}
)


@dataclass(frozen=True, slots=True)
class Advice:
    """A finding with its history. Times are wall time in nanoseconds since the epoch."""

    finding: Finding
    state: AdviceState
    opened: Nanoseconds
    updated: Nanoseconds
    expires: Nanoseconds | None = None
    closed: Nanoseconds | None = None
    actor: str | None = None
    """Who claimed, snoozed or dismissed it; `None` where it was not."""
    why: str = ""
    """Why that was done, or what came of it."""
    verified: Nanoseconds | None = None
    """When before and after were compared, `None` where they were not."""
    realized_gpu_hours: float | None = None
    """What was saved within the time compared, in hours of a GPU."""

    @property
    def id(self) -> str:
        """The finding's id, stable over runs."""
        return self.finding.id

    @property
    def is_open(self) -> bool:
        """Whether it still asks for something."""
        return self.state in OPEN_STATES


class AdviceEventKind(StrEnum):
    """A change that an annotation or a webhook tells of."""

    OPENED = "opened"
    CLOSED = "closed"
    SEVERITY_UP = "severity_up"
    VERIFIED = "verified"
    REGRESSED = "regressed"
    DECIDED = "decided"
    """It was claimed or snoozed, or that was taken back: only its annotation says so."""


@dataclass(frozen=True, slots=True)
class AdviceEvent:
    """Something that happened to a piece of advice."""

    kind: AdviceEventKind
    advice: Advice
    time: Nanoseconds


@dataclass(frozen=True, slots=True)
class Scraped:
    """Open advice, as metrics had it when they were scraped last. Times are wall time."""

    id: str
    opened: Nanoseconds
    state: AdviceState
    seen: Nanoseconds
    """When it was seen so; what was decided later is not in it."""


@dataclass(frozen=True, slots=True)
class Region:
    """The region of an annotation that marks advice, from its opening on. Times are wall time."""

    advice: Advice
    """As far as the annotation tells."""
    end: Nanoseconds
    """When it was closed; while it is open this says nothing."""
    decided: Nanoseconds | None = None
    """When it was put into its state; `None` where the annotation does not tell."""
