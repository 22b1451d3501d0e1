"""Who may change an agent with a broker over its socket."""

import os
import pwd
from http import HTTPStatus
from typing import Final

import pytest

from rightsizer.broker.operators import may_operate
from rightsizer.broker.settings import BrokerSettings
from rightsizer.host.process_table import user_name
from rightsizer.web.message import SocketPeer, WebRequest, WebResponse
from rightsizer.web.router import Route, Router

NOBODY: Final = pwd.getpwuid(65534)
PEER: Final = SocketPeer(1, NOBODY.pw_uid, NOBODY.pw_gid)
AGENT: Final = 4711


@pytest.mark.parametrize(
    ("settings", "approvers", "may"),
    [
        (BrokerSettings(), (), False),
        # Those who may lease may do no more.
        (BrokerSettings(users=(NOBODY.pw_name,)), (), False),
        (BrokerSettings(operators=("root", NOBODY.pw_name)), (), True),
        (BrokerSettings(operator_groups=("wheel",)), (), True),
        (BrokerSettings(operator_groups=("staff",)), (), False),
        (BrokerSettings(), (NOBODY.pw_name,), True),
        (BrokerSettings(), (f"user:{NOBODY.pw_name}",), False),
    ],
)
def test_operators_are_named_by_the_settings(
    settings: BrokerSettings, approvers: tuple[str, ...], *, may: bool
) -> None:
    """By user, by group, or as approvers of actions."""
    groups = {NOBODY.pw_name: frozenset({"wheel"})}
    found = may_operate(
        PEER, settings, approvers, groups_of=lambda user: groups[user], own_uid=AGENT
    )
    assert found is may


def test_root_and_the_agent_operate() -> None:
    """Whatever the settings say."""
    settings = BrokerSettings(operators=())
    assert may_operate(SocketPeer(1, 0, 0), settings, own_uid=AGENT)
    assert may_operate(SocketPeer(1, AGENT, 0), settings, own_uid=AGENT)
    assert may_operate(SocketPeer(1, os.getuid(), 0), settings)
    assert not may_operate(SocketPeer(1, AGENT + 1, 0), settings, own_uid=AGENT)
    assert user_name(AGENT + 1) not in settings.operators


def test_route_is_closed_to_users_unless_it_is_for_them() -> None:
    """A route that somebody adds is closed; over TCP others decide."""

    def answer(_: WebRequest) -> WebResponse:
        return WebResponse.of_text("done")

    router = Router(
        (
            Route("POST", "/new", answer),
            Route("GET", "/read", answer),
            Route("DELETE", "/own", answer, is_local=True, is_for_users=True),
        ),
        may_operate=lambda peer: peer.uid == 0,
    )

    def status(method: str, path: str, peer: SocketPeer | None) -> HTTPStatus:
        return router.answer(WebRequest(method, path, peer=peer)).status

    assert status("POST", "/new", PEER) == HTTPStatus.FORBIDDEN
    assert status("POST", "/new", SocketPeer(1, 0, 0)) == HTTPStatus.OK
    assert status("POST", "/new", None) == HTTPStatus.OK
    assert status("GET", "/read", PEER) == HTTPStatus.OK
    assert status("HEAD", "/read", PEER) == HTTPStatus.OK
    assert status("DELETE", "/own", PEER) == HTTPStatus.OK
