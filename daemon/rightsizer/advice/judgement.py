"""A rule's verdict on a workload, with what the ledger needs to act on it."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from rightsizer.advice.exclusion import Exclusion
from rightsizer.advice.rules.rule import Conduct
from rightsizer.domain.finding import Finding
from rightsizer.domain.units import Nanoseconds
from rightsizer.domain.workload import Workload

__all__ = ["Judgement"]


@dataclass(frozen=True, slots=True)
class Judgement:
    """A rule's verdict on a workload, with what the ledger needs to act on it."""

    finding: Finding
    key: str
    """The workload's, or the device's."""
    conduct: Conduct
    may_open: bool
    """True long enough, recently, and with enough confidence."""
    still_holds: bool | None
    """Whether recent time still supports it; `None` where that cannot be said."""
    workload: Workload | None = None
    exclusions: tuple[Exclusion, ...] = ()
    """What an operator does not want to hear of this workload."""
    is_held_back: bool = False
    """Whether another rule's verdict on the workload contradicts it."""

    def exclusion_of(self, finding: Finding, now: Nanoseconds) -> Exclusion | None:
        """What keeps a finding on the workload from being advice, if anything."""
        return next((each for each in self.exclusions if each.holds(finding, now)), None)

    def settled(
        self,
        short: Finding | None,
        relaxed: Callable[[], Finding | None],
        known_seconds: float,
    ) -> "Judgement":
        """The same, by what the rule says of recent time: what is true of both spans may open.

        Args:
            short: The verdict on the short span; `None` where there is none.
            relaxed: Gives that by a lower threshold, which what passes the threshold passes too.
            known_seconds: Known time of the long span.
        """
        finding, conduct = self.finding, self.conduct
        if finding.is_complaint and short is not None and short.is_complaint:
            return replace(
                self,
                may_open=known_seconds >= conduct.minimum_known_seconds
                and finding.confidence >= conduct.minimum_confidence_ratio,
                still_holds=True,
            )
        lower = relaxed()
        if lower is None or lower.abstained is not None:
            return self
        return replace(self, still_holds=lower.is_complaint)

    def held_back(self, why: str) -> "Judgement":
        """The same, which another rule's verdict keeps from being advice: it closes, too."""
        return replace(
            self,
            finding=_noted(self.finding, "held_back", why),
            may_open=False,
            still_holds=False,
            is_held_back=True,
        )

    def under(self, exclusions: tuple[Exclusion, ...], now: Nanoseconds) -> "Judgement":
        """The same, where an operator does not want to hear of some findings."""
        judgement = replace(self, exclusions=exclusions)
        found = judgement.exclusion_of(self.finding, now) if self.finding.is_complaint else None
        if found is None:
            return judgement
        return replace(
            judgement, finding=_noted(self.finding, "excluded", str(found)), may_open=False
        )


def _noted(finding: Finding, name: str, what: str) -> Finding:
    return replace(finding, evidence={**finding.evidence, name: what})
