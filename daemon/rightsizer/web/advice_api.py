"""HTTP API of a recommendation: explain, claim, dismiss, snooze."""

from collections.abc import Callable, Sequence
from functools import partial
from http import HTTPStatus
from typing import Final, Protocol

from rightsizer.io.log import logger
from rightsizer.io.near import near_words
from rightsizer.model.advice import Advice, AdviceState
from rightsizer.report.explanation import explain_advice
from rightsizer.report.json_encoder import encode_advice
from rightsizer.web.message import (
    SocketPeer,
    WebRequest,
    WebResponse,
    duration_of,
    fields_of,
    text_of,
)
from rightsizer.web.router import Route

ACTS: Final = {
    "claim": AdviceState.CLAIMED,
    "dismiss": AdviceState.DISMISSED,
    "snooze": AdviceState.SNOOZED,
}
"""Verbs of people, and the states they lead to."""
_FIELDS: Final = ("actor", "why", "for")
_LONGEST_TEXT: Final = 1000
_NEAR: Final = 3
_ONE: Final = "/api/v1/advice/{id}"

ClaimListener = Callable[[Advice, str, SocketPeer | None, str | None], object]
"""Takes the advice after a claim, the actor named by the request, and the authenticated one."""


class AdviceSource(Protocol):
    """Owner of the advice; thread-safe."""

    @property
    def advice(self) -> tuple[Advice, ...]:
        """All advice, closed included."""

    def act(
        self, advice_id: str, state: AdviceState, actor: str, why: str, for_seconds: float | None
    ) -> Advice:
        """Set the state of advice by hand, and keep it.

        Raises:
            UsageError: there is no such open advice.
        """


class AdviceApi:
    """Routes of single recommendations; those that change one are for the local socket."""

    def __init__(
        self, advisor: AdviceSource, rules: object, note_claim: ClaimListener | None = None
    ) -> None:
        self._advisor, self._note_claim = advisor, note_claim
        self.rules = rules
        """Rule settings used in explanations."""
        self._log = logger("advice")

    @property
    def routes(self) -> tuple[Route, ...]:
        """Routes of this API."""
        return (
            Route("GET", _ONE, self._one),
            *(
                Route("POST", f"{_ONE}/{verb}", partial(self._act, verb), is_local=True)
                for verb in ACTS
            ),
        )

    def _one(self, request: WebRequest) -> WebResponse:
        found = self._find(request)
        if isinstance(found, WebResponse):
            return found
        return WebResponse.of_json(explain_advice(found, self.rules))

    def _act(self, verb: str, request: WebRequest) -> WebResponse:
        fields = fields_of(request.body, _FIELDS)
        why = text_of(fields, "why", _LONGEST_TEXT)
        asking = f"uid:{request.peer.uid}" if request.peer else request.identity or "unknown"
        actor = text_of(fields, "actor", _LONGEST_TEXT) or asking
        for_seconds = duration_of(fields.get("for"))
        found = self._find(request)
        if isinstance(found, WebResponse):
            return found
        if (reason := closed_advice_message(found)) is not None:
            return WebResponse.of_text(reason, HTTPStatus.CONFLICT)
        advice = self._advisor.act(found.id, ACTS[verb], actor, why, for_seconds)
        self._log.info(
            f"{verb}_requested", id=advice.id, actor=actor, why=why, for_seconds=for_seconds
        )
        if self._note_claim is not None and advice.state is AdviceState.CLAIMED:
            self._note_claim(advice, actor, request.peer, request.identity)
        return WebResponse.of_json({"advice": encode_advice(advice)})

    def _find(self, request: WebRequest) -> Advice | WebResponse:
        advice, asked = self._advisor.advice, request.named["id"]
        if (reason := unknown_advice_message(advice, asked)) is not None:
            return WebResponse.of_text(reason, HTTPStatus.NOT_FOUND)
        return next(each for each in advice if each.id == asked)


def unknown_advice_message(advice: Sequence[Advice], asked: str) -> str | None:
    """Return the message for an unknown id, similar ones first, or `None`."""
    ids = [each.id for each in advice]
    if asked in ids:
        return None
    begun = [each for each in ids if asked and each.startswith(asked)]
    if near := near_words(asked, ids, _NEAR) or begun:
        return f"there is no advice '{asked}'; did you mean {' or '.join(near)}?"
    if not ids:
        return (
            f"there is no advice '{asked}', nor any other: the ledger is empty; let the agent run, "
            "or keep what `rightsizer advise` finds with `rightsizer advise --save`"
        )
    still_open = [each.id for each in advice if each.is_open]
    known = ", ".join(still_open[:_NEAR]) + (" and others" if len(still_open) > _NEAR else "")
    return f"there is no advice '{asked}'; open is {known or 'none'} (see `rightsizer advise`)"


def closed_advice_message(advice: Advice) -> str | None:
    """Return the message for closed advice, or `None` for open advice."""
    if advice.is_open:
        return None
    by = f" by {advice.actor}" if advice.actor else ""
    return (
        f"advice '{advice.id}' is closed already: {advice.state}{by}; see `rightsizer explain "
        f"{advice.id}`"
    )
