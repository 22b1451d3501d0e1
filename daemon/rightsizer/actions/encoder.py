"""JSON encoder of audit entries and of the state of actions."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from rightsizer.actions.proposals import ActionProposal
from rightsizer.actions.repository import ActionRecord
from rightsizer.actions.settings import ActionSettings
from rightsizer.model.frozen import dataclass
from rightsizer.model.units import Nanoseconds, seconds
from rightsizer.report.json_encoder import Form


def record_form(record: ActionRecord) -> Form:
    """All that is kept of it, but for processes and clocks; times in seconds since the epoch."""
    return {
        "id": record.id,
        "action": record.action,
        "way": record.way,
        "advice": record.advice,
        "workload": record.workload,
        "devices": list(record.devices),
        "reason": record.reason,
        "summary": record.summary,
        "confidence": record.confidence,
        "risk": record.risk,
        "evidence": dict(record.evidence),
        "actor": record.actor,
        "at": seconds(record.at),
        "ended": _time(record.ended),
        "outcome": record.outcome,
        "verdict": record.verdict,
        "why": record.why,
        "status": record.status,
        "said": record.said,
        "result": record.result,
        "result_why": record.result_why,
        "result_at": _time(record.result_at),
    }


def _time(time: Nanoseconds | None) -> float | None:
    return None if time is None else seconds(time)


@dataclass(frozen=True, slots=True)
class ActionState:
    """As it stands."""

    actions: Sequence[ActionSettings] = ()
    suspended: AbstractSet[str] = frozenset()
    proposals: Sequence[ActionProposal] = ()
    """What the last look made of open advice."""
    records: Sequence[ActionRecord] = ()


def state_form(state: ActionState) -> Form:
    """The same as plain values for JSON; entries latest first."""
    return {
        "actions": [_action(each, state.suspended) for each in state.actions],
        "proposals": [_proposal(each) for each in state.proposals],
        "entries": [_entry(each) for each in reversed(state.records)],
    }


def _action(settings: ActionSettings, suspended: AbstractSet[str]) -> Form:
    return {
        "name": settings.name,
        "mode": settings.mode,
        "way": settings.way,
        "reasons": list(settings.reasons),
        "is_suspended": settings.name in suspended,
    }


def _proposal(proposal: ActionProposal) -> Form:
    return {
        "action": proposal.action or None,
        "advice": proposal.advice.id,
        "workload": proposal.advice.finding.workload,
        "verdict": proposal.verdict,
        "why": proposal.why,
    }


def _entry(record: ActionRecord) -> Form:
    """Without what a program said: it may name whatever it likes, and the API may be open."""
    form = record_form(record)
    del form["said"]
    return form
