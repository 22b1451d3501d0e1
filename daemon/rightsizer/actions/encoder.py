"""JSON encoder of audit entries and of the state of actions."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from msgspec import Struct

from rightsizer.actions.proposals import ActionProposal
from rightsizer.actions.repository import ActionRecord
from rightsizer.actions.settings import ActionSettings
from rightsizer.io.codec import JsonObject, plain_fields
from rightsizer.model.values import seconds

_KEPT: Final = (
    "id",
    "action",
    "way",
    "advice",
    "workload",
    "devices",
    "reason",
    "summary",
    "confidence",
    "risk",
    "evidence",
    "actor",
    "at",
    "ended",
    "outcome",
    "verdict",
    "why",
    "status",
    "said",
    "result",
    "result_why",
    "result_at",
)
_TIMES: Final = ("at", "ended", "result_at")


def encode_record(record: ActionRecord) -> JsonObject:
    """Encode an entry, except processes and clocks; times in seconds since the epoch."""
    document: JsonObject = {name: getattr(record, name) for name in _KEPT}
    times = {name: document[name] for name in _TIMES if document[name] is not None}
    return document | {name: seconds(time) for name, time in times.items()}


class ActionState(Struct, frozen=True):
    """Current state of all actions."""

    actions: Sequence[ActionSettings] = ()
    suspended: AbstractSet[str] = frozenset()
    proposals: Sequence[ActionProposal] = ()
    """Decisions of the last pass on open advice."""
    records: Sequence[ActionRecord] = ()


def encode_state(state: ActionState) -> JsonObject:
    """Encode the state; latest entries first."""
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
                "savings": plain_fields(proposal.advice.finding.savings),
                "verdict": proposal.verdict,
                "why": proposal.why,
            }
            for proposal in state.proposals
        ],
        # The output of a program may contain anything, and the API may be public.
        "entries": [
            {key: value for key, value in encode_record(record).items() if key != "said"}
            for record in reversed(state.records)
        ],
    }
