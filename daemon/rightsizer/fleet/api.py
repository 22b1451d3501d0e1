"""What the fleet's service answers in place of a node's page."""

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Final

from rightsizer.fleet.encoder import FleetAnswer, encode_answer
from rightsizer.fleet.page import fleet_document
from rightsizer.model.advice import Advice
from rightsizer.model.frozen import dataclass
from rightsizer.model.units import Nanoseconds, format_duration, seconds
from rightsizer.web.message import WebRequest, WebResponse
from rightsizer.web.router import Route, Router

_LOOKS: Final = 3
"""Looks that may fail one after the other before what is shown counts as too old."""
_POLICY: Final = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}


@dataclass(frozen=True, slots=True)
class _Made:
    """An answer in the forms that are served."""

    time: Nanoseconds
    advice: tuple[Advice, ...]
    form: Mapping[str, Any]
    page: bytes


class FleetApi:
    """The page, the JSON and the readiness of an estate."""

    def __init__(
        self,
        latest: Callable[[], FleetAnswer | None],
        trouble: Callable[[], str | None],
        interval_seconds: Callable[[], float],
        wall_time: Callable[[], Nanoseconds],
    ) -> None:
        """Routes over whatever the last look found.

        Args:
            latest: The last look's answer, `None` before the first.
            trouble: Why the last look failed, `None` where it did not.
            interval_seconds: How often it looks.
            wall_time: The clock that answers are of.
        """
        self._latest, self._trouble = latest, trouble
        self._interval_seconds, self._wall_time = interval_seconds, wall_time
        self._made: _Made | None = None

    @property
    def routes(self) -> tuple[Route, ...]:
        """Where they are served."""
        return (
            Route("GET", "/", self._page),
            Route("GET", "/-/ready", self._ready),
            Route("GET", "/api/v1/fleet", self._fleet),
        )

    def _page(self, site: Router, request: WebRequest) -> WebResponse:
        del site, request
        answer = self._latest()
        if answer is None:
            return WebResponse.of_text(self._why_not_ready() or "", HTTPStatus.SERVICE_UNAVAILABLE)
        page = self._made_of(answer).page
        return WebResponse(page, "text/html; charset=utf-8", headers=dict(_POLICY))

    def _fleet(self, site: Router, request: WebRequest) -> WebResponse:
        del site, request
        answer = self._latest()
        return WebResponse.of_json(None if answer is None else self._made_of(answer).form)

    def _made_of(self, answer: FleetAnswer) -> "_Made":
        """The forms, made once for each answer and for what became of its advice since."""
        made = self._made
        if made is None or made.time != answer.time or made.advice is not answer.advice:
            form = encode_answer(answer)
            page = fleet_document(form).encode()
            made = self._made = _Made(answer.time, answer.advice, form, page)
        return made

    def _ready(self, site: Router, request: WebRequest) -> WebResponse:
        del site, request
        reason = self._why_not_ready()
        if reason is None:
            return WebResponse.of_text("ready")
        return WebResponse.of_text(reason, HTTPStatus.SERVICE_UNAVAILABLE)

    def _why_not_ready(self) -> str | None:
        answer, trouble = self._latest(), self._trouble()
        if answer is None:
            return f"not ready: {trouble or 'the first look at the store is under way'}"
        age = seconds(self._wall_time() - answer.time)
        if age > _LOOKS * self._interval_seconds():
            why = f": {trouble}" if trouble else ""
            return f"not ready: the last look is {format_duration(age)} old{why}"
        return None
