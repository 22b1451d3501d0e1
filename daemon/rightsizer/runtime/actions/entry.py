"""An entry of the audit log as it is made: what was decided, by whom, and what it rested on."""

from dataclasses import dataclass

from rightsizer.advice.action import ActionVerdict
from rightsizer.domain.advice import Advice
from rightsizer.domain.units import Nanoseconds
from rightsizer.runtime.actions.book import ActionOutcome, ActionRecord
from rightsizer.runtime.actions.settings import ActionSettings

__all__ = ["Entry"]


@dataclass(frozen=True, slots=True)
class Entry:
    """What was decided of one action on one piece of advice."""

    settings: ActionSettings
    advice: Advice
    outcome: ActionOutcome
    verdict: ActionVerdict
    actor: str
    why: str = ""

    def record(
        self, entry_id: str, *, at: Nanoseconds, steady: Nanoseconds, boot: str
    ) -> ActionRecord:
        """The entry to keep.

        Args:
            entry_id: Of the entry.
            at: Wall time.
            steady: The steady clock then.
            boot: What that counts from.
        """
        finding = self.advice.finding
        return ActionRecord(
            id=entry_id,
            action=self.settings.name,
            way=self.settings.way,
            advice=self.advice.id,
            opened=self.advice.opened,
            at=at,
            outcome=self.outcome,
            verdict=self.verdict,
            actor=self.actor,
            workload=finding.workload,
            devices=finding.devices,
            reason=str(finding.reasons[0]),
            summary=finding.summary,
            confidence=finding.confidence,
            risk=str(finding.risk),
            evidence=finding.evidence,
            why=self.why,
            steady=steady,
            boot=boot,
        )
