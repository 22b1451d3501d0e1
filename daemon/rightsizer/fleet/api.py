"""HTTP API of the fleet service, in place of a node's page."""

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Final

from rightsizer.fleet.encoder import FleetAnswer, encode_answer
from rightsizer.fleet.page import fleet_document, page_policy
from rightsizer.model.values import Nanoseconds, format_duration, seconds
from rightsizer.web.message import WebRequest, WebResponse
from rightsizer.web.router import Route

FLEET_PATH: Final = "/api/v1/fleet"
_LOOKS: Final = 3
"""Consecutive failed runs before the answer counts as too old."""


class FleetApi:
    """Page, JSON and readiness of a fleet."""

    def __init__(
        self,
        latest: Callable[[], FleetAnswer | None],
        trouble: Callable[[], str | None],
        interval_seconds: float,
        wall_time: Callable[[], Nanoseconds],
        *,
        has_plan_form: bool = False,
    ) -> None:
        self._has_plan_form = has_plan_form
        self._latest = latest
        self._trouble = trouble
        self._interval_seconds = interval_seconds
        self._wall_time = wall_time
        self._made: tuple[FleetAnswer, Mapping[str, Any], bytes] | None = None

    @property
    def routes(self) -> tuple[Route, ...]:
        """Routes of this API."""
        return (
            Route("GET", "/", self._page),
            Route("GET", "/-/ready", self._ready),
            Route("GET", FLEET_PATH, self._fleet),
        )

    def _page(self, request: WebRequest) -> WebResponse:
        if (answer := self._latest()) is None:
            return self._ready(request)
        page = self._encoded(answer)[1]
        return WebResponse(
            page, "text/html; charset=utf-8", headers={"Content-Security-Policy": page_policy()}
        )

    def _fleet(self, _: WebRequest) -> WebResponse:
        answer = self._latest()
        return WebResponse.of_json(None if answer is None else self._encoded(answer)[0])

    def _encoded(self, answer: FleetAnswer) -> tuple[Mapping[str, Any], bytes]:
        """Return JSON and page, built once for each answer and state of its advice."""
        if self._made is not None:
            last, document, page = self._made
            if last.time == answer.time and last.advice is answer.advice:
                return document, page
        document = encode_answer(answer)
        page = fleet_document(document, has_plan_form=self._has_plan_form).encode()
        self._made = answer, document, page
        return document, page

    def _ready(self, _: WebRequest) -> WebResponse:
        answer = self._latest()
        trouble = self._trouble()
        if answer is None:
            reason = trouble or "the first look at the store is under way"
        else:
            age = seconds(self._wall_time() - answer.time)
            if age <= _LOOKS * self._interval_seconds:
                return WebResponse.of_text("ready")
            why = f": {trouble}" if trouble else ""
            reason = f"the last look is {format_duration(age)} old{why}"
        return WebResponse.of_text(f"not ready: {reason}", HTTPStatus.SERVICE_UNAVAILABLE)
