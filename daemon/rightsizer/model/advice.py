"""Advice: a published finding with its lifecycle, its events, and its state as last scraped."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct, field

from rightsizer.model.finding import Finding, Severity
from rightsizer.model.units import Nanoseconds
from rightsizer.model.workload import WorkloadClass


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


class Measurement(Struct, frozen=True):
    """Figures of a workload over a span."""

    gpus: float
    """Held GPUs; MIG instances by their share."""
    waste_ratio: float
    """Share of the known time, 0 to 1."""
    watts: float | None
    """All GPUs together; `None` if no energy was measured."""
    harms: Mapping[str, float] = {}
    """Shares of the known time with an adverse condition, 0 to 1, by name."""
    boards: tuple[str, ...] = ()
    """Board and MIG profile of each device, sorted."""
    devices: tuple[str, ...] = ()
    """Uuids, sorted."""
    workload_class: str = WorkloadClass.UNKNOWN

    @property
    def wasted_gpus(self) -> float:
        """Wasted time in GPUs."""
        return self.gpus * self.waste_ratio


class Baseline(Struct, frozen=True):
    """Measurements before any action."""

    workload: Measurement
    peers: Mapping[str, float] = {}
    """Waste ratios of other workloads of the class, by key."""


class Advice(Struct, frozen=True):
    """A finding with its history, and what the ledger remembers of it.

    Times are wall time in nanoseconds since the epoch. Only the ledger gives the fields from
    `quiet_since` on; elsewhere they have their defaults.
    """

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
    quiet_since: Nanoseconds | None = None
    """Time since which nothing recent supports it."""
    seen: Nanoseconds = 0
    """Time when its workload was last judged."""
    opening_confidence: float = field(default=0.0, name="confidence")
    long_seconds: float = 0.0
    """Long span of the rule when opened."""
    highest_severity: Severity = field(default=Severity.LOW, name="severity")
    """Highest severity reported."""
    severity_since: Nanoseconds = 0
    baseline: Baseline | None = None
    """Measurements before the change; `None` if there were none."""
    baseline_since: Nanoseconds = 0
    trial_since: Nanoseconds | None = None
    """Start of the trial; `None` without a trial, or after its verdict."""
    trial_seconds: float = 0.0

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
