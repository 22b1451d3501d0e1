"""What there is to tell of actions: which there are, what they did, and would not do."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from rightsizer.advice.action import Proposal
from rightsizer.publish.json_form import Form
from rightsizer.runtime.actions.book import ActionRecord
from rightsizer.runtime.actions.form import record_form
from rightsizer.runtime.actions.settings import ActionSettings

__all__ = ["ActionState", "state_form"]


@dataclass(frozen=True, slots=True)
class ActionState:
    """As it stands."""

    actions: Sequence[ActionSettings] = ()
    suspended: AbstractSet[str] = frozenset()
    proposals: Sequence[Proposal] = ()
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


def _proposal(proposal: Proposal) -> Form:
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
