"""What the API says of actions: which there are, what they did, and what they would not do."""

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from rightsizer.advice.action import Proposal
from rightsizer.publish.json_form import Form
from rightsizer.publish.web.message import Request, Response
from rightsizer.publish.web.routes import Route, Site
from rightsizer.runtime.actions.book import ActionRecord
from rightsizer.runtime.actions.form import record_form
from rightsizer.runtime.actions.settings import ActionSettings

__all__ = ["ACTIONS_PATH", "ActionRoutes", "ActionState", "state_form"]

ACTIONS_PATH: Final = "/api/v1/actions"


@dataclass(frozen=True, slots=True)
class ActionState:
    """What there is to tell."""

    actions: Sequence[ActionSettings] = ()
    suspended: AbstractSet[str] = frozenset()
    proposals: Sequence[Proposal] = ()
    """What the last look made of open advice."""
    records: Sequence[ActionRecord] = ()


class ActionRoutes:
    """Answers from what is remembered; names neither commands nor addresses."""

    def __init__(self, state: Callable[[], ActionState]) -> None:
        """A route over whoever knows; asked from any thread."""
        self._state = state

    @property
    def routes(self) -> tuple[Route, ...]:
        """Where it is served."""
        return (Route("GET", ACTIONS_PATH, self._answer),)

    def _answer(self, site: Site, request: Request) -> Response:
        del site, request
        return Response.of_json(state_form(self._state()))


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
