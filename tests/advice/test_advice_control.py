"""The API of single items: explained to any client, changed on the node alone."""

import json
from http import HTTPStatus
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from fake_ledger import FakeLedger
from rightsizer.advice.policy import RuleTree
from rightsizer.model.advice import AdviceState
from rightsizer.web.advice_api import AdviceApi
from rightsizer.web.message import SocketPeer, WebRequest, WebResponse
from rightsizer.web.router import Router

NAMES: Final = {"GPU-0": "GPU 0"}
PEER: Final = SocketPeer(pid=4711, uid=1000, gid=100)


class AdviceApiFixture:
    """A router with these routes and a fake ledger behind them."""

    def __init__(self) -> None:
        self.ledger = FakeLedger()
        self.claims: list[tuple[object, ...]] = []
        api = AdviceApi(
            self.ledger, RuleTree(), lambda *claim: self.claims.append(claim), lambda: NAMES
        )
        self._router = Router(api.routes)

    def ask(
        self, path: str, body: bytes | None = None, peer: SocketPeer | None = PEER
    ) -> tuple[HTTPStatus, str]:
        """The status and text of the response; a request with a body is a POST."""
        method = "GET" if body is None else "POST"
        answer: WebResponse = self._router.answer(
            WebRequest(method, path, body=body or b"", peer=peer)
        )
        return answer.status, answer.body.decode()


def test_anybody_may_have_advice_explained() -> None:
    """With the whole object, the reasoning and the lifecycle."""
    status, text = AdviceApiFixture().ask("/api/v1/advice/a1b2c3", peer=None)
    document = json.loads(text)

    assert status == HTTPStatus.OK
    assert document["advice"]["id"] == "a1b2c3"
    assert document["lifecycle"]["state"] == "active"
    assert document["names"] == NAMES


@pytest.mark.parametrize(
    ("verb", "state"),
    [
        ("claim", AdviceState.CLAIMED),
        ("dismiss", AdviceState.DISMISSED),
        ("snooze", AdviceState.SNOOZED),
    ],
)
def test_local_user_may_decide_on_advice(verb: str, state: AdviceState) -> None:
    """The decision is passed on unchanged, and logged with its user."""
    fixture = AdviceApiFixture()
    body = json.dumps({"actor": "ana", "why": "moving\nit", "for": "7d"}).encode()
    with capture_logs() as logs:
        status, text = fixture.ask(f"/api/v1/advice/a1b2c3/{verb}", body)

    assert status == HTTPStatus.OK
    assert json.loads(text)["advice"]["state"] == state
    assert fixture.ledger.acts == [("a1b2c3", state, "ana", "moving it", 7 * 86400.0)]
    assert [(log["event"], log["actor"]) for log in logs] == [(f"{verb}_requested", "ana")]


def test_anonymous_local_request_is_named_by_the_kernel() -> None:
    """The user at the other end of the socket."""
    fixture = AdviceApiFixture()
    with capture_logs():
        fixture.ask("/api/v1/advice/a1b2c3/claim", b"{}")

    assert fixture.ledger.acts == [("a1b2c3", AdviceState.CLAIMED, "uid:1000", "", None)]


@pytest.mark.parametrize(("verb", "is_claim"), [("claim", True), ("snooze", False)])
def test_a_claim_is_reported_with_who_the_kernel_says_it_is(verb: str, *, is_claim: bool) -> None:
    """Beside the name in the request; actions on claims use the kernel's."""
    fixture = AdviceApiFixture()
    with capture_logs():
        fixture.ask(f"/api/v1/advice/a1b2c3/{verb}", b'{"actor": "root"}')

    received = [(actor, peer, identity) for _, actor, peer, identity in fixture.claims]
    assert received == ([("root", PEER, None)] if is_claim else [])


def test_over_tcp_nothing_is_changed() -> None:
    """The refusal names the remedy."""
    fixture = AdviceApiFixture()
    status, text = fixture.ask("/api/v1/advice/a1b2c3/claim", b"{}", peer=None)

    assert status == HTTPStatus.FORBIDDEN
    assert "path.api_socket" in text
    assert fixture.ledger.acts == []


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("a1b2c4/claim", HTTPStatus.NOT_FOUND, "did you mean a1b2c3?"),
        ("zzzzzz/claim", HTTPStatus.NOT_FOUND, "open is a1b2c3"),
        ("d4e5f6/claim", HTTPStatus.CONFLICT, "closed already: dismissed by ana"),
        ("%2e%2e/claim", HTTPStatus.NOT_FOUND, "there is no advice '..'"),
        ("a1b2c3/approve", HTTPStatus.NOT_FOUND, "there is nothing at"),
        ("/claim", HTTPStatus.NOT_FOUND, "there is nothing at"),
    ],
)
def test_impossible_decision_is_refused_with_the_reason(
    path: str, status: HTTPStatus, said: str
) -> None:
    """Similar ids, who closed it, or that there is no such path."""
    fixture = AdviceApiFixture()
    found, text = fixture.ask(f"/api/v1/advice/{path}", b"{}")

    assert found == status
    assert said in text
    assert fixture.ledger.acts == []


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"[]", "no JSON object"),
        (b"{", "not JSON"),
        (b'{"who": "x"}', "'who' is not a field; choose from actor, why, for"),
        (b'{"why": 3}', "why: 3 is no text"),
        (b'{"for": 7}', "write it like '7d'"),
        (b'{"for": "0s"}', "is not between"),
        (b'{"for": "2y"}', "is not between"),
        (json.dumps({"why": "x" * 1001}).encode(), "longer than 1000"),
    ],
)
def test_a_body_that_is_wrong_is_refused(body: bytes, said: str) -> None:
    """With the name of the field, before any change."""
    fixture = AdviceApiFixture()
    status, text = fixture.ask("/api/v1/advice/a1b2c3/claim", body)

    assert status == HTTPStatus.BAD_REQUEST
    assert said in text
    assert fixture.ledger.acts == []


@given(name=st.text(max_size=30), body=st.binary(max_size=60) | st.text(max_size=60))
def test_no_request_breaks_it(name: str, body: bytes | str) -> None:
    """Any request gets an ordinary response."""
    raw: Any = body if isinstance(body, bytes) else json.dumps({"why": body}).encode()
    path = "".join(char if char.isalnum() else f"%{ord(char) % 256:02x}" for char in name)
    with capture_logs():
        status, _ = AdviceApiFixture().ask(f"/api/v1/advice/{path}/snooze", raw)

    assert status in (HTTPStatus.NOT_FOUND, HTTPStatus.BAD_REQUEST)
