"""Routes of the fleet's service: page, JSON and readiness, rendered once for each answer."""

import json
from http import HTTPStatus
from typing import Final

import pytest

from fleet_answers import END, fleet_answer
from node_api import node_api
from rightsizer.fleet.api import FleetApi
from rightsizer.fleet.encoder import FleetAnswer
from rightsizer.model.units import Nanoseconds, nanoseconds
from rightsizer.web.message import WebRequest, WebResponse
from rightsizer.web.router import Router, health_route

HOURLY: Final = 3600.0


class FleetApiFixture:
    """State of a service."""

    def __init__(self, answer: FleetAnswer | None = None, trouble: str | None = None) -> None:
        self.answer = answer
        self.trouble = trouble
        self.now: Nanoseconds = END
        routes = FleetApi(
            lambda: self.answer, lambda: self.trouble, HOURLY, lambda: self.now
        ).routes
        self._router = Router((health_route(lambda: None), *routes, *node_api().routes()))

    def get(self, path: str) -> WebResponse:
        """Response to a request."""
        return self._router.answer(WebRequest("GET", path))


def test_the_page_is_the_estates() -> None:
    """It replaces a node's page, and has a policy that allows no loading."""
    found = FleetApiFixture(fleet_answer()).get("/")
    assert found.status == HTTPStatus.OK
    assert b"28 GPUs in 2 pools" in found.body
    assert found.headers["Content-Security-Policy"].startswith("default-src 'none'")


def test_before_the_first_look_there_is_no_page() -> None:
    """The service is not ready, its JSON is null, and it is healthy."""
    fixture = FleetApiFixture()
    assert fixture.get("/").status == HTTPStatus.SERVICE_UNAVAILABLE
    ready = fixture.get("/-/ready")
    assert ready.status == HTTPStatus.SERVICE_UNAVAILABLE
    assert b"the first look at the store is under way" in ready.body
    assert json.loads(fixture.get("/api/v1/fleet").body) is None
    assert fixture.get("/-/healthy").status == HTTPStatus.OK


def test_a_first_look_that_fails_says_why() -> None:
    """The readiness response has the reason."""
    ready = FleetApiFixture(trouble="the store at http://x does not answer").get("/-/ready")
    assert b"not ready: the store at http://x does not answer" in ready.body


@pytest.mark.parametrize(
    ("age_seconds", "status"),
    [(0.0, HTTPStatus.OK), (3 * HOURLY, HTTPStatus.OK), (3.1 * HOURLY, HTTPStatus(503))],
)
def test_it_is_ready_for_three_intervals(age_seconds: float, status: HTTPStatus) -> None:
    """An unavailable store causes no restart; the last answer stays visible."""
    fixture = FleetApiFixture(fleet_answer(), trouble="the store is away")
    fixture.now = END + nanoseconds(age_seconds)
    ready = fixture.get("/-/ready")
    assert ready.status == status
    assert (b"the store is away" in ready.body) is (status != HTTPStatus.OK)
    assert fixture.get("/").status == HTTPStatus.OK


def test_the_json_is_that_of_the_command() -> None:
    """Recommendations have their present state."""
    fixture = FleetApiFixture(fleet_answer())
    first = json.loads(fixture.get("/api/v1/fleet").body)
    assert [each["state"] for each in first["advice"]][:2] == ["active", "claimed"]
    fixture.answer = fleet_answer(advice=())
    assert json.loads(fixture.get("/api/v1/fleet").body)["advice"] == []


def test_a_page_is_made_once_for_each_answer() -> None:
    """Reloading costs nothing; a new run or a decision renders it again."""
    fixture = FleetApiFixture(fleet_answer())
    first = fixture.get("/").body
    assert fixture.get("/").body is first
    fixture.answer = fleet_answer(time=END + nanoseconds(HOURLY))
    assert fixture.get("/").body is not first
