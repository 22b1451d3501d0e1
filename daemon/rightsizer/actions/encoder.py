"""JSON documents of audit entries and of the state of actions."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct

from rightsizer.actions.proposals import ActionProposal
from rightsizer.actions.repository import ActionEntry, ActionRecord
from rightsizer.actions.settings import ActionSettings
from rightsizer.model.values import optional_seconds, seconds


def record_document(record: ActionRecord) -> dict[str, object]:
    """Return an entry as others may see it; times in seconds since the epoch."""
    return {name: getattr(record, name) for name in ActionEntry.__struct_fields__} | {
        "at": seconds(record.at),
        "ended": optional_seconds(record.ended),
        "result_at": optional_seconds(record.result_at),
    }


class ActionState(Struct, frozen=True):
    """Current state of all actions."""

    actions: Sequence[ActionSettings] = ()
    suspended: AbstractSet[str] = frozenset()
    proposals: Sequence[ActionProposal] = ()
    """Decisions of the last pass on open advice."""
    records: Sequence[ActionRecord] = ()


def state_document(state: ActionState) -> dict[str, object]:
    """Return the state; latest entries first."""
    return {
        "actions": [
            {name: getattr(action, name) for name in ("name", "mode", "way", "reasons")}
            | {"is_suspended": action.name in state.suspended}
            for action in state.actions
        ],
        "proposals": [
            {
                "action": proposal.action or None,
                "advice": proposal.advice.id,
                "workload": proposal.advice.finding.workload,
                "reasons": proposal.advice.finding.reasons,
                "summary": proposal.advice.finding.summary,
                "devices": proposal.advice.finding.devices,
                "exclusive_group": proposal.advice.finding.exclusive_group,
                "savings": proposal.advice.finding.savings,
                "verdict": proposal.verdict,
                "why": proposal.why,
            }
            for proposal in state.proposals
        ],
        # The output of a program may contain anything, and the API may be public.
        "entries": [
            {key: value for key, value in record_document(record).items() if key != "said"}
            for record in reversed(state.records)
        ],
    }
