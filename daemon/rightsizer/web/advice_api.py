"""HTTP API of a recommendation: explain, claim, dismiss, snooze."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, Protocol

from rightsizer.advice.lookup import find_advice
from rightsizer.io.log import logger
from rightsizer.model.advice import Advice, AdviceState
from rightsizer.report.advice_document import advice_document
from rightsizer.report.explanation import explain_advice
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
            AbsentError: there is no such advice.
            RefusedError: it is closed.
        """


class AdviceApi:
    """Routes of single recommendations; those that change one are for the local socket."""

    def __init__(
        self,
        advisor: AdviceSource,
        rules: object,
        note_claim: ClaimListener | None = None,
        names: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        """Create it; `names` returns the display names of devices, by uuid."""
        self._advisor = advisor
        self._note_claim = note_claim
        self._names = names
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
        advice = find_advice(self._advisor.advice, request.named["id"])
        return WebResponse.of_json(explain_advice(advice, self.rules, names=self._names()))

    def _act(self, verb: str, request: WebRequest) -> WebResponse:
        fields = fields_of(request.body, _FIELDS)
        why = text_of(fields, "why", _LONGEST_TEXT)
        asking = f"uid:{request.peer.uid}" if request.peer else request.identity or "unknown"
        actor = text_of(fields, "actor", _LONGEST_TEXT) or asking
        for_seconds = duration_of(fields.get("for"))
        advice = self._advisor.act(request.named["id"], ACTS[verb], actor, why, for_seconds)
        self._log.info(
            f"{verb}_requested", id=advice.id, actor=actor, why=why, for_seconds=for_seconds
        )
        if self._note_claim is not None and advice.state is AdviceState.CLAIMED:
            self._note_claim(advice, actor, request.peer, request.identity)
        return WebResponse.of_json({"advice": advice_document(advice)})
