"""A piece of advice with what the ledger knows of it beside."""

from dataclasses import dataclass, replace

from rightsizer.advice.verification import Baseline
from rightsizer.domain.advice import Advice, AdviceState
from rightsizer.domain.finding import Finding, Severity
from rightsizer.domain.units import Nanoseconds, nanoseconds

__all__ = ["Record"]

_SEVERITIES = tuple(Severity)


@dataclass(frozen=True, slots=True)
class Record:
    """A piece of advice with what the ledger knows of it beside."""

    advice: Advice
    key: str
    quiet_since: Nanoseconds | None = None
    """Since when nothing recent supports it."""
    seen: Nanoseconds = 0
    """When its workload was last judged."""
    confidence: float = 0.0
    """That it was opened with."""
    long_seconds: float = 0.0
    """The rule's long span when it was opened."""
    severity: Severity = Severity.LOW
    """The highest that was told."""
    severity_since: Nanoseconds = 0
    baseline: Baseline | None = None
    """How things stood before; `None` where nothing was measured."""
    baseline_since: Nanoseconds = 0
    trial_since: Nanoseconds | None = None
    """Since when it is tried out; `None` where it is not, or the verdict is in."""
    trial_seconds: float = 0.0
    """Time to compare before and after."""

    @property
    def due(self) -> Nanoseconds | None:
        """When before and after can be compared, `None` where they will not be."""
        if self.trial_since is None:
            return None
        return self.trial_since + nanoseconds(self.trial_seconds)

    def refreshed(
        self, finding: Finding, short_seconds: float, now: Nanoseconds
    ) -> tuple["Record", bool]:
        """With what is found now, and whether it is more severe than was told before.

        It rises at most once in each short span, so that a load at the border does not nag.
        """
        is_worse = _SEVERITIES.index(finding.severity) > _SEVERITIES.index(self.severity)
        may_rise = now - self.severity_since >= nanoseconds(short_seconds)
        if is_worse and not may_rise:
            finding = replace(finding, severity=self.severity)
        has_risen = is_worse and may_rise
        advice = replace(_awake(self.advice, now), finding=finding, updated=now)
        return replace(
            self,
            advice=advice,
            seen=now,
            severity=finding.severity if has_risen else self.severity,
            severity_since=now if has_risen else self.severity_since,
        ), has_risen

    def closed(self, state: AdviceState, now: Nanoseconds, why: str = "") -> "Record":
        """As it ends, of itself."""
        advice = replace(
            self.advice,
            state=state,
            updated=now,
            closed=now,
            expires=None,
            why=why or self.advice.why,
        )
        return replace(self, advice=advice, quiet_since=None, trial_since=None)


def _awake(advice: Advice, now: Nanoseconds) -> Advice:
    """The advice, active again where its snooze is over."""
    if advice.state is AdviceState.SNOOZED and advice.expires is not None and now >= advice.expires:
        return replace(advice, state=AdviceState.ACTIVE, expires=None)
    return advice
