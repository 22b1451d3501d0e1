"""Requests to release the GPUs: what is accepted, refused and reported."""

import json
import threading
from http import HTTPStatus
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from readings import EPOCH, MINUTE, SECOND
from rightsizer.agent.local_api import ControlRoutes
from rightsizer.agent.settings import Settings
from rightsizer.agent.sources import live_source
from rightsizer.io.clock import FastClock
from rightsizer.telemetry.source import ReleasableResource, ReleaseController, ReleaseRequest
from rightsizer.web.message import SocketPeer, WebRequest, WebResponse
from rightsizer.web.router import Router

PEER: Final = SocketPeer(pid=4711, uid=1000, gid=100)
POST_RELEASE: Final = "/api/v1/release"
POST_RESUME: Final = "/api/v1/resume"
GET_RELEASES: Final = "/api/v1/releases"


class Steady(FastClock):
    """A fast clock with the wall clock a minute ahead of the monotonic one."""

    def wall_time(self) -> int:
        """A minute later."""
        return self.time() + MINUTE


class ControlFixture:
    """Control routes with their dependencies, and a source that releases on request."""

    def __init__(self) -> None:
        self.clock = Steady(EPOCH)
        self.controls = ReleaseController(self.clock)
        self.let_go: set[ReleasableResource] = set()
        self.routes = ControlRoutes(self.controls, self.clock, self._still_held).routes
        self._router = Router(self.routes)

    def _still_held(self, release: ReleaseRequest) -> str | None:
        return None if release.held in self.let_go else f"2 handles of the {release.held}"

    def answer(self, path: str, body: bytes) -> WebResponse:
        """The response to a request over the local socket."""
        method = "GET" if path == GET_RELEASES else "POST"
        return self._router.answer(WebRequest(method, path, body=body, peer=PEER))

    def ask(self, path: str, **fields: Any) -> Any:
        """The content of a successful response."""
        response = self.answer(path, json.dumps(fields).encode())
        assert response.status == HTTPStatus.OK
        return json.loads(response.body)

    def releases(self) -> list[dict[str, Any]]:
        """The current releases."""
        found: list[dict[str, Any]] = self.ask(GET_RELEASES)["releases"]
        return found

    def pass_time(self, duration: int) -> None:
        """Let time pass."""
        self.clock.wait_until(self.clock.time() + duration, threading.Event())


@pytest.fixture
def control() -> ControlFixture:
    """Controls without a release."""
    return ControlFixture()


def test_all_of_them_are_for_the_local_socket_alone(control: ControlFixture) -> None:
    """Over TCP no one may change anything, or learn who made a request."""
    assert all(route.is_local for route in control.routes)


def test_a_release_reaches_the_source_and_is_reported(control: ControlFixture) -> None:
    """Times are wall time, in seconds since the epoch."""
    answer = control.ask(POST_RELEASE, **{"held": "gpus", "for": "30m"})
    release = control.controls.released(ReleasableResource.GPUS)

    assert release == ReleaseRequest(ReleasableResource.GPUS, EPOCH, EPOCH + 30 * MINUTE)
    assert answer == {
        "held": "gpus",
        "since": (EPOCH + MINUTE) / SECOND,
        "until": (EPOCH + 31 * MINUTE) / SECOND,
        "is_done": False,
        "still_held": "2 handles of the gpus",
    }
    assert control.releases() == [answer]
    assert control.controls.released(ReleasableResource.COUNTERS) is None


def test_release_is_done_when_the_source_says_so(control: ControlFixture) -> None:
    """Separately: released counters say nothing about the GPUs."""
    control.ask(POST_RELEASE, held="counters")
    control.ask(POST_RELEASE, held="gpus")
    control.let_go.add(ReleasableResource.COUNTERS)

    assert {release["held"]: release["is_done"] for release in control.releases()} == {
        "gpus": False,
        "counters": True,
    }


def test_a_release_without_a_time_stays_until_it_is_taken_back(control: ControlFixture) -> None:
    """However long that is."""
    control.ask(POST_RELEASE, **{"held": "gpus", "for": None})
    control.pass_time(10**6 * MINUTE)
    assert [release["until"] for release in control.releases()] == [None]

    assert control.ask(POST_RESUME, held="gpus") == {"resumed": ["gpus"]}
    assert control.releases() == []


def test_a_release_whose_time_is_up_is_gone(control: ControlFixture) -> None:
    """No request is needed to end it."""
    control.ask(POST_RELEASE, **{"held": "counters", "for": "5m"})
    control.pass_time(5 * MINUTE)

    assert control.releases() == []
    assert control.ask(POST_RESUME, held="counters") == {"resumed": []}


@pytest.mark.parametrize("body", [b"", b"{}", b'{"held": null}'])
def test_resuming_without_a_name_takes_all_back(control: ControlFixture, body: bytes) -> None:
    """Convenient in a hurry."""
    for held in ReleasableResource:
        control.ask(POST_RELEASE, held=held)

    assert json.loads(control.answer(POST_RESUME, body).body) == {"resumed": ["gpus", "counters"]}
    assert [control.controls.released(held) for held in ReleasableResource] == [None, None]


def test_one_who_changes_something_is_in_the_log(control: ControlFixture) -> None:
    """With user and process as reported by the kernel; reading leaves no line."""
    with capture_logs() as logs:
        control.ask(POST_RELEASE, **{"held": "gpus", "for": "90s"})
        control.releases()
        control.ask(POST_RESUME)

    assert logs == [
        {
            "event": "release_requested",
            "log_level": "info",
            "component": "control",
            "held": "gpus",
            "for_seconds": 90.0,
            "uid": 1000,
            "pid": 4711,
        },
        {
            "event": "resume_requested",
            "log_level": "info",
            "component": "control",
            "resumed": "gpus",
            "uid": 1000,
            "pid": 4711,
        },
    ]


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        (POST_RELEASE, b"", "held: null is nothing that the agent holds; choose from gpus, count"),
        (POST_RELEASE, b"gpus", "the body is not JSON"),
        (POST_RELEASE, b"\xff{}", "the body is not JSON"),
        (POST_RELEASE, b"[" * 60000, "the body is not JSON"),
        (POST_RELEASE, b'["gpus"]', 'the body is no JSON object; write it like {"held": "gpus"}'),
        (POST_RELEASE, b'{"held": "gpu"}', 'held: "gpu" is nothing that the agent holds'),
        (POST_RELEASE, b'{"held": []}', "held: [] is nothing that the agent holds"),
        (POST_RELEASE, b'{"held": "gpus", "fro": 1}', "'fro' is not a field; choose from held, fo"),
        (POST_RELEASE, b'{"\\ud800": 1}', r"'\ud800' is not a field"),
        (POST_RELEASE, b'{"held": "gpus", "for": 30}', "for: 30 is not a duration; write it like"),
        (POST_RELEASE, b'{"held": "gpus", "for": "soon"}', "for: 'soon' is not a duration"),
        (POST_RELEASE, b'{"held": "gpus", "for": "0s"}', "for: '0s' is not between 0 s and 366 d"),
        (POST_RELEASE, b'{"held": "gpus", "for": "9y"}', "leave it out to release until it"),
        (POST_RESUME, b'{"held": "gpus", "for": "1s"}', "'for' is not a field; choose from held"),
    ],
)
def test_invalid_request_is_named_and_changes_nothing(
    control: ControlFixture, path: str, body: bytes, words: str
) -> None:
    """Neither the requests nor the log."""
    control.controls.release(ReleasableResource.COUNTERS)
    with capture_logs() as logs:
        response = control.answer(path, body)

    assert response.status == HTTPStatus.BAD_REQUEST
    assert words in response.body.decode()
    assert [release["held"] for release in control.releases()] == ["counters"]
    assert logs == []


def test_the_source_obeys_the_controls_that_the_socket_has() -> None:
    """New controls request nothing."""
    own = live_source(Settings(), FastClock(EPOCH))
    own.source.close()

    assert [own.controls.released(held) for held in ReleasableResource] == [None, None]
    assert own.source.still_held(own.controls.release(ReleasableResource.GPUS))


JSON: Final = st.recursive(
    st.none()
    | st.booleans()
    | st.floats()
    | st.text()
    | st.just("gpus")
    | st.just("9" * 400 + "y"),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.sampled_from(["held", "for"]) | st.text(), inner)
    ),
)


@given(JSON.map(json.dumps).map(str.encode) | st.binary(max_size=100))
def test_arbitrary_request_is_answered_or_refused(body: bytes) -> None:
    """With a valid release or with a reason, and never otherwise."""
    control = ControlFixture()
    response = control.answer(POST_RELEASE, body)

    if response.status == HTTPStatus.OK:
        assert control.releases() == [json.loads(response.body)]
    else:
        assert response.status == HTTPStatus.BAD_REQUEST
        assert response.body.strip()
        assert control.releases() == []
