"""Advice: a published finding with its lifecycle, its events, and its state as last scraped."""

from enum import StrEnum
from typing import Final

from msgspec import Struct

from rightsizer.model.finding import Finding
from rightsizer.model.units import Nanoseconds


class AdviceState(StrEnum):
    """Lifecycle state of a recommendation; the first words are Google Cloud's too."""

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


class Advice(Struct, frozen=True):
    """A finding with its history. Times are wall time in nanoseconds since the epoch."""

    finding: Finding
    state: AdviceState
    opened: Nanoseconds
    updated: Nanoseconds
    expires: Nanoseconds | None = None
    closed: Nanoseconds | None = None
    actor: str | None = None
    """User who claimed, snoozed or dismissed it, or `None`."""
    why: str = ""
    """Reason given for that decision, or the outcome."""
    verified: Nanoseconds | None = None
    """When usage before and after was compared, or `None`."""
    realized_gpu_hours: float | None = None
    """GPU-hours saved within the compared time."""

    @property
    def id(self) -> str:
        """The finding's id, stable over runs."""
        return self.finding.id

    @property
    def is_open(self) -> bool:
        """Whether it still requires action."""
        return self.state in OPEN_STATES


class AdviceEventKind(StrEnum):
    """Change that triggers an annotation or a webhook."""

    OPENED = "opened"
    CLOSED = "closed"
    SEVERITY_UP = "severity_up"
    VERIFIED = "verified"
    REGRESSED = "regressed"
    DECIDED = "decided"
    """Claimed, snoozed, or such a decision reverted; published as an annotation only."""


class AdviceEvent(Struct, frozen=True):
    """Event in the life of a recommendation."""

    kind: AdviceEventKind
    advice: Advice
    time: Nanoseconds


class Scraped(Struct, frozen=True):
    """Open recommendation as last scraped by Prometheus. Times are wall time."""

    id: str
    opened: Nanoseconds
    state: AdviceState
    seen: Nanoseconds
    """Time of that sample; later decisions are not reflected."""


class Region(Struct, frozen=True):
    """Grafana region annotation of a recommendation, from its opening on. Times are wall time."""

    advice: Advice
    """As far as the annotation records it."""
    end: Nanoseconds
    """Time of closing; meaningless while it is open."""
    decided: Nanoseconds | None = None
    """Time of its last state change, or `None` if the annotation does not record it."""
