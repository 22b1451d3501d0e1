"""What the API says of one piece of advice, and what it lets people do with it."""

from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Final, Protocol

import structlog

from rightsizer.domain.advice import Advice, AdviceState
from rightsizer.edge.near import near_words
from rightsizer.publish.explanation.explanation import explain_advice
from rightsizer.publish.json_form import advice_form
from rightsizer.publish.web.message import Peer, Request, Response
from rightsizer.publish.web.routes import Handle, Route, Site
from rightsizer.runtime.request_body import duration_of, fields_of, text_of

__all__ = ["ACTS", "AdviceRoutes", "Advisor", "NoteClaim", "why_closed", "why_unknown"]

ACTS: Final = {
    "claim": AdviceState.CLAIMED,
    "dismiss": AdviceState.DISMISSED,
    "snooze": AdviceState.SNOOZED,
}
"""What a person may do, and the state that it leads to."""
_FIELDS: Final = ("actor", "why", "for")
_LONGEST_TEXT: Final = 1000
_NEAR: Final = 3

NoteClaim = Callable[[Advice, str, Peer | None, str | None], object]
"""Told the advice as a claim left it, the actor's name in the request, and who asked in truth."""


class Advisor(Protocol):
    """Whoever keeps the advice; safe to ask from any thread."""

    @property
    def advice(self) -> tuple[Advice, ...]:
        """All of it, what was closed too."""

    def act(
        self,
        advice_id: str,
        state: AdviceState,
        actor: str,
        why: str,
        for_seconds: float | None,
    ) -> Advice:
        """Put advice into a state by hand, and keep it so.

        Raises:
            UsageError: there is no such open advice.
        """


class AdviceRoutes:
    """Answers about single pieces of advice; what changes one is for the local socket alone."""

    def __init__(
        self, advisor: Advisor, rules: object, note_claim: NoteClaim | None = None
    ) -> None:
        """Routes over an advisor.

        Args:
            advisor: Who keeps the advice.
            rules: The rules' settings by name, for the thresholds of an explanation.
            note_claim: Told of each claim once it holds, with who asked for it.
        """
        self._advisor, self._rules, self._note_claim = advisor, rules, note_claim
        self._log = structlog.get_logger(component="advice")

    @property
    def routes(self) -> tuple[Route, ...]:
        """Where they are served."""
        return (
            Route("GET", "/api/v1/advice/{id}", self._one),
            *(
                Route("POST", f"/api/v1/advice/{{id}}/{verb}", self._act(verb), is_local=True)
                for verb in ACTS
            ),
        )

    def explain_by(self, rules: object) -> None:
        """Explain by other settings of the rules from now on."""
        self._rules = rules

    def _one(self, site: Site, request: Request) -> Response:
        del site
        found = self._find(request)
        if isinstance(found, Response):
            return found
        return Response.of_json(explain_advice(found, self._rules))

    def _act(self, verb: str) -> Handle:
        def handle(site: Site, request: Request) -> Response:
            del site
            return self._carry_out(verb, request)

        return handle

    def _carry_out(self, verb: str, request: Request) -> Response:
        fields = fields_of(request.body, _FIELDS)
        why = text_of(fields, "why", _LONGEST_TEXT)
        actor = text_of(fields, "actor", _LONGEST_TEXT) or _name_of(request.peer)
        for_seconds = duration_of(fields.get("for"))
        found = self._find(request)
        if isinstance(found, Response):
            return found
        if (reason := why_closed(found)) is not None:
            return Response.of_text(reason, HTTPStatus.CONFLICT)
        advice = self._advisor.act(found.id, ACTS[verb], actor, why, for_seconds)
        self._log.info(
            f"{verb}_requested", id=advice.id, actor=actor, why=why, for_seconds=for_seconds
        )
        if self._note_claim is not None and advice.state is AdviceState.CLAIMED:
            self._note_claim(advice, actor, request.peer, request.identity)
        return Response.of_json({"advice": advice_form(advice)})

    def _find(self, request: Request) -> Advice | Response:
        advice, asked = self._advisor.advice, request.named["id"]
        if (reason := why_unknown(advice, asked)) is not None:
            return Response.of_text(reason, HTTPStatus.NOT_FOUND)
        return next(each for each in advice if each.id == asked)


def why_unknown(advice: Sequence[Advice], asked: str) -> str | None:
    """What to say where there is no advice with an id, those that look like it first."""
    ids = [each.id for each in advice]
    if asked in ids:
        return None
    near = near_words(asked, ids, _NEAR) or [
        each for each in ids if asked and each.startswith(asked)
    ]
    if near:
        return f"there is no advice '{asked}'; did you mean {' or '.join(near)}?"
    still_open = [each.id for each in advice if each.is_open]
    known = ", ".join(still_open[:_NEAR]) + (" and others" if len(still_open) > _NEAR else "")
    if not ids:
        return (
            f"there is no advice '{asked}', nor any other: the ledger is empty; let the agent run, "
            "or keep what `rightsizer advise` finds with `rightsizer advise --save`"
        )
    return f"there is no advice '{asked}'; open is {known or 'none'} (see `rightsizer advise`)"


def why_closed(advice: Advice) -> str | None:
    """What to say of advice that nobody can act on any more, `None` where one can."""
    if advice.is_open:
        return None
    by = f" by {advice.actor}" if advice.actor else ""
    return (
        f"advice '{advice.id}' is closed already: {advice.state}{by}; see `rightsizer explain "
        f"{advice.id}`"
    )


def _name_of(peer: Peer | None) -> str:
    return "unknown" if peer is None else f"uid:{peer.uid}"
