"""Lease requests on the local socket: permissions, form and limits."""

import grp
import json
import os
import pwd
import subprocess
import threading
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from structlog.testing import capture_logs

from api_schema import faults, json_schema_of
from broker_node import World, hgx
from managed_node import ManagedNode
from process_files import ProcessFolder
from readings import SECOND
from rightsizer.broker.api import BrokerApi, client_of, why_not_served
from rightsizer.broker.feature import closed_routes
from rightsizer.broker.lease import LeaseOwner
from rightsizer.broker.settings import BrokerSettings
from rightsizer.exposition.exposition import MetricsExposition
from rightsizer.host.process_table import ProcessTable
from rightsizer.io.local import LocalClient
from rightsizer.model.errors import AgentBusyError, UsageError
from rightsizer.web.message import SocketPeer
from rightsizer.web.server import WebServer

ME: Final = SocketPeer(os.getpid(), os.getuid(), os.getgid())
NOBODY: Final = 65534


@pytest.fixture
def managed(tmp_path: Path) -> Iterator[ManagedNode]:
    """A node of eight free GPUs."""
    with capture_logs():
        found = ManagedNode(World(hgx()), tmp_path / "broker.db", BrokerSettings(maximum_tickets=3))
        yield found
        found.manager.close()


@pytest.fixture
def stranger() -> Iterator[SocketPeer]:
    """A process of another user."""
    if os.getuid() != 0:
        pytest.skip("only root can start a process of another user")
    with subprocess.Popen(["sleep", "60"], user=NOBODY) as process:
        yield SocketPeer(process.pid, NOBODY, NOBODY)
        process.kill()


def test_answers_are_as_described(managed: ManagedNode) -> None:
    """From request to return; a repeated request with an id gets the same lease."""
    schema = json_schema_of("POST", "/api/v1/leases")
    waits = managed.asked({"gpus": 2, "id": "abcdefgh", "for": "4h", "priority": -1}, ME)
    assert list(faults(waits, schema)) == []
    assert not waits["is_granted"]
    managed.manager.turn()
    granted = managed.asked({"gpus": 2, "id": "abcdefgh"}, ME)
    assert list(faults(granted, schema)) == []
    assert len(granted["lease"]["uuids"]) == 2
    assert granted["lease"]["numa_nodes"] == [0]
    assert len(managed.manager.overview.state.leases) == 1
    path = "/api/v1/leases/abcdefgh"
    assert json.loads(managed.ask("GET", path, peer=ME).body) == granted
    managed.asked({"gpus": 8}, ME)
    managed.manager.turn()
    everything = json.loads(managed.ask("GET", "/api/v1/broker", peer=ME).body)
    assert list(faults(everything, json_schema_of("GET", "/api/v1/broker"))) == []
    assert [each["gpus"] for each in everything["queue"]] == [8]
    body = {"gpus": 2, "in": "2d", "for": "1h", "id": "resresres"}
    answer = managed.ask("POST", "/api/v1/reservations", body, ME)
    assert answer.status == HTTPStatus.OK, answer.body
    kept = json.loads(answer.body)
    assert list(faults(kept, json_schema_of("POST", "/api/v1/reservations"))) == []
    assert kept["starts"] - managed.clock.wall / SECOND == pytest.approx(2 * 86400.0)
    for method, target in (("DELETE", "/api/v1/reservations/resresres"), ("DELETE", path)):
        over = managed.ask(method, target, peer=ME)
        described = json_schema_of(method, f"{target.rpartition('/')[0]}/{{id}}")
        assert list(faults(json.loads(over.body), described)) == []
        assert managed.ask(method, target, peer=ME).status == HTTPStatus.NOT_FOUND


def test_ended_lease_stays_ended(tmp_path: Path) -> None:
    """The client sees who ended it, also after the agent's restart, and gets no second one.

    After returning a lease itself, the client may request it again.
    """
    with subprocess.Popen(["sleep", "60"]) as process, capture_logs():
        mine = SocketPeer(process.pid, os.getuid(), os.getgid())
        managed = ManagedNode(World(hgx()), tmp_path / "broker.db")
        managed.asked({"id": "leaselease", "gpus": 8}, mine)
        managed.manager.turn()
        for each in ("waitswaits", "backagain"):
            managed.asked({"id": each}, mine)
        over = managed.ask("DELETE", "/api/v1/leases/leaselease", peer=ME)
        assert managed.ask("DELETE", "/api/v1/leases/waitswaits", peer=ME).status == HTTPStatus.OK
        assert managed.ask("DELETE", "/api/v1/leases/backagain", peer=mine).status == HTTPStatus.OK
        managed.manager.close()
        managed = ManagedNode(World(hgx()), tmp_path / "broker.db")
        user = pwd.getpwuid(os.getuid()).pw_name
        for each, what in (("leaselease", "lease"), ("waitswaits", "ticket")):
            done = "ended" if what == "lease" else "withdrawn"
            expected = f"{what} {each} was {done} by {user}\n".encode()
            look = managed.ask("GET", f"/api/v1/leases/{each}", peer=mine)
            assert (look.status, look.body) == (HTTPStatus.GONE, expected)
            again = managed.ask("POST", "/api/v1/leases", {"id": each}, mine)
            assert (again.status, again.body) == (HTTPStatus.CONFLICT, expected)
        managed.asked({"id": "backagain"}, mine)
        managed.manager.close()
        process.kill()
    assert f"process {process.pid}" in json.loads(over.body)["message"]


def test_lease_of_another_user_is_not_accessible(
    managed: ManagedNode, stranger: SocketPeer
) -> None:
    """It can be neither read, returned nor requested again, except by root."""
    managed.asked({"id": "ofrootofroot"}, ME)
    managed.manager.turn()
    path = "/api/v1/leases/ofrootofroot"
    assert managed.ask("GET", path, peer=stranger).status == HTTPStatus.NOT_FOUND
    refusal = managed.ask("DELETE", path, peer=stranger)
    assert refusal.status == HTTPStatus.CONFLICT
    assert b"its owner or an operator can end it" in refusal.body
    again = managed.ask("POST", "/api/v1/leases", {"id": "ofrootofroot"}, stranger)
    assert b"another user" in again.body
    high = managed.ask("POST", "/api/v1/leases", {"priority": 5}, stranger)
    assert b"priority 5 is not for" in high.body
    for_root = {"for": "1h", "user": "root"}
    assert (
        b"cannot reserve for root"
        in managed.ask("POST", "/api/v1/reservations", for_root, stranger).body
    )
    managed.asked({"id": "ofnobody"}, stranger)
    assert managed.ask("DELETE", "/api/v1/leases/ofnobody", peer=ME).status == HTTPStatus.OK
    assert managed.manager.overview.state.lease("ofrootofroot") is not None


def test_nobody_is_whom_he_says_he_is(managed: ManagedNode, tmp_path: Path) -> None:
    """The kernel decides; an invisible pid, or one of another user, is refused."""
    liar = managed.ask("POST", "/api/v1/leases", {"pid": 1, "uid": 0}, ME)
    assert liar.status == HTTPStatus.BAD_REQUEST
    assert b"'pid' is not a field" in liar.body
    unseen = managed.ask("GET", "/api/v1/broker", peer=SocketPeer(0, 0, 0))
    assert b"cannot be seen by the agent" in unseen.body
    assert managed.ask("GET", "/api/v1/broker").status == HTTPStatus.FORBIDDEN
    table = ProcessTable(ProcessFolder(tmp_path / "proc").path)
    processes = ProcessFolder(tmp_path / "proc")
    processes.start(7, started=100)
    assert client_of(SocketPeer(7, os.getuid(), 0), table).started_ticks == 100
    with pytest.raises(UsageError, match="is not the one that has asked"):
        client_of(SocketPeer(7, os.getuid() + 1, 0), table)
    user = table.user
    # The pid is reused during the check.
    table.user = lambda pid: (user(pid), processes.start(pid, started=200))[0]  # type: ignore[method-assign]  # As another process would.
    with pytest.raises(UsageError, match="is not the one that has asked"):
        client_of(SocketPeer(7, os.getuid(), 0), table)


def test_one_who_may_not_ask_any_more_can_still_give_back(
    managed: ManagedNode, stranger: SocketPeer
) -> None:
    """Reading stays possible too; new leases and reservations are refused."""
    managed.asked({"id": "ofnobody"}, stranger)
    managed.manager.turn()
    managed.settings = replace(managed.settings, users=("ada",))
    for path in ("/api/v1/leases", "/api/v1/reservations"):
        refusal = managed.ask("POST", path, {"for": "1h"}, stranger)
        assert refusal.status == HTTPStatus.CONFLICT
        assert b"broker.users" in refusal.body
    assert managed.ask("GET", "/api/v1/leases/ofnobody", peer=stranger).status == HTTPStatus.OK
    assert managed.ask("DELETE", "/api/v1/leases/ofnobody", peer=stranger).status == HTTPStatus.OK
    assert not managed.manager.overview.state.leases


def test_operators_say_who_may_ask() -> None:
    """By users and groups; without a list, anyone who can open the socket may."""
    ada = LeaseOwner(1000, "ada", 1, 1)
    assert why_not_served(ada, BrokerSettings()) is None
    assert why_not_served(ada, BrokerSettings(users=("ada",))) is None
    by_group = BrokerSettings(groups=("research",))
    assert why_not_served(ada, by_group, lambda _: frozenset({"research"})) is None
    assert "broker.users" in str(why_not_served(ada, by_group, lambda _: frozenset()))
    assert why_not_served(LeaseOwner(0, "root", 1, 1), BrokerSettings(users=("ada",))) is None
    operators = BrokerSettings(users=("bo",), operator_groups=("wheel",))
    assert why_not_served(replace(ada, groups=("wheel",)), operators) is None
    assert why_not_served(ada, operators) is not None


def test_operators_are_known_by_their_groups(stranger: SocketPeer, tmp_path: Path) -> None:
    """By the name service, and only groups named in the settings.

    They end others' leases, reserve for others and go first; no one else does.
    """
    (group,) = {grp.getgrgid(pwd.getpwuid(NOBODY).pw_gid).gr_name}
    with capture_logs():
        managed = ManagedNode(
            World(hgx()), tmp_path / "broker.db", BrokerSettings(operator_groups=("x", group))
        )
        managed.asked({"id": "ofrootofroot"}, ME)
        managed.asked({"id": "alsoofroot", "gpus": 8}, ME)
        managed.manager.turn()
        path = "/api/v1/leases/ofrootofroot"
        assert managed.ask("GET", path, peer=stranger).status == HTTPStatus.OK
        reserve = {"for": "1h", "in": "2d", "user": "root", "id": "resresres"}
        made = managed.ask("POST", "/api/v1/reservations", reserve, stranger)
        assert made.status == HTTPStatus.OK, made.body
        managed.asked({"priority": 5, "id": "beforeothers"}, stranger)
        for target in (path, "/api/v1/leases/alsoofroot", "/api/v1/reservations/resresres"):
            assert managed.ask("DELETE", target, peer=stranger).status == HTTPStatus.OK
        managed.manager.close()


def test_only_groups_that_matter_are_looked_up() -> None:
    """Without operator groups, a directory service gets no queries."""
    asked: list[str] = []

    def groups_of(user: str) -> frozenset[str]:
        asked.append(user)
        return frozenset({"wheel", "research"})

    table = ProcessTable(Path("/proc"))
    assert client_of(ME, table, (), groups_of).groups == ()
    assert not asked
    assert client_of(ME, table, ("wheel", "staff"), groups_of).groups == ("wheel",)


def test_groups_that_are_not_named_operate_nothing(
    managed: ManagedNode, stranger: SocketPeer
) -> None:
    """Not even the socket's group: by default root alone operates the broker."""
    assert BrokerSettings().operator_groups == ()
    managed.asked({"id": "ofrootofroot"}, ME)
    refusal = managed.ask("DELETE", "/api/v1/leases/ofrootofroot", peer=stranger)
    assert b"its owner or an operator can end it" in refusal.body


def test_a_full_queue_is_said_to_be(managed: ManagedNode) -> None:
    """With a status that does not blame the request."""
    for _ in range(3):
        managed.asked({}, ME)
    full = managed.ask("POST", "/api/v1/leases", {}, ME)
    assert full.status == HTTPStatus.CONFLICT
    assert full.body == b"3 tickets wait already, as many as allowed; ask again later\n"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"[" * 100_000, "the body is not JSON"),
        (b"\xff\xfe", "the body is not JSON"),
        (b"[]", "no JSON object"),
        (b'{"gpus": ' + b"9" * 5000 + b"}", "the body is not JSON"),
        ({"gpus": 10**300}, "gpus: '9999"),
        ({"gpus": -1}, "gpus: '-1' is no number from 1 to 1024"),
        ({"gpus": 1.5}, "gpus: 1.5 is no text"),
        ({"gpus": "x" * 10**5}, "gpus: longer than"),
        ({"memory": "-1GiB"}, "memory: "),
        ({"memory": {"a": 1}}, "memory: "),
        ({"priority": True}, "priority: is no whole number"),
        ({"priority": 10**18}, "priority: is no whole number"),
        ({"for": "-1h"}, "for: "),
        ({"for": 4}, "for: 4 is not a duration"),
        ({"id": "../../etc"}, "id: write 8 to 32"),
        ({"id": "A" * 10}, "id: write 8 to 32"),
        ({"command": "rm"}, "'command' is not a field"),
    ],
)
def test_invalid_request_is_refused_by_name(managed: ManagedNode, body: Any, message: str) -> None:
    """Nothing is changed."""
    answer = managed.ask("POST", "/api/v1/leases", body, ME)
    assert answer.status == HTTPStatus.BAD_REQUEST
    assert message in answer.body.decode()
    assert not managed.manager.overview.state.tickets


@given(
    body=st.one_of(
        st.binary(max_size=60),
        st.dictionaries(
            st.sampled_from(
                ["gpus", "memory", "share", "mig", "for", "in", "id", "user", "priority"]
            ),
            st.one_of(
                st.none(),
                st.booleans(),
                st.integers(),
                st.text(),
                st.lists(st.integers()),
                st.floats(),
            ),
        ).map(lambda fields: json.dumps(fields).encode()),
    ),
    target=st.sampled_from(["/api/v1/leases", "/api/v1/reservations"]),
)
def test_any_body_gets_an_answer(
    tmp_path_factory: pytest.TempPathFactory, body: bytes, target: str
) -> None:
    """It is never an internal error."""
    with capture_logs() as logs:
        managed = ManagedNode(World(hgx(2)), tmp_path_factory.mktemp("any") / "broker.db")
        answer = managed.ask("POST", target, body, ME)
        managed.manager.close()
    assert answer.status in {HTTPStatus.OK, HTTPStatus.BAD_REQUEST, HTTPStatus.CONFLICT}
    assert not [log for log in logs if log["event"] == "request_failed"]


def served(managed: ManagedNode, path: Path) -> WebServer:
    """The routes on a real socket."""
    table = ProcessTable(Path("/proc"))
    api = BrokerApi(managed.manager, table, managed.clock, lambda: managed.settings)
    server = WebServer(
        (),
        latest=lambda: None,
        exposition=MetricsExposition(lambda: None),
        local_socket=str(path),
        local_routes=api.routes,
    )
    server.start()
    return server


def test_two_hundred_clients_at_once_all_get_their_place(tmp_path: Path) -> None:
    """Refused clients retry; no one gets two."""
    settings = BrokerSettings(maximum_tickets_per_user=1000)
    with capture_logs():
        managed = ManagedNode(World(hgx(2)), tmp_path / "broker.db", settings)
        server = served(managed, tmp_path / "api.sock")
        answers: list[Any] = []
        never = threading.Event()

        def ask(number: int) -> None:
            client = LocalClient(tmp_path / "api.sock")
            while True:
                try:
                    answers.append(client.post("/api/v1/leases", {"id": f"client{number:06}"}))
                except AgentBusyError:
                    never.wait(0.05)
                else:
                    return

        crowd = [threading.Thread(target=ask, args=(number,)) for number in range(200)]
        for each in crowd:
            each.start()
        for each in crowd:
            each.join(60)
        server.stop()
        managed.manager.close()
    assert len(answers) == 200
    assert len(managed.manager.overview.state.tickets) == 200


def test_the_socket_is_for_its_user_and_group(tmp_path: Path, managed: ManagedNode) -> None:
    """Another user cannot connect, whatever the folder's mode."""
    if os.getuid() != 0:
        pytest.skip("only root can start a process of another user")
    server = served(managed, tmp_path / "api.sock")
    tmp_path.chmod(0o755)
    try:
        assert (tmp_path / "api.sock").stat().st_mode & 0o777 == 0o660
        assert "PermissionError" in connected(tmp_path)
        (tmp_path / "api.sock").chmod(0o666)
        assert connected(tmp_path) == ""
    finally:
        server.stop()


def connected(folder: Path) -> str:
    """The error when an unprivileged user connects to the socket in a folder."""
    program = "import socket; socket.socket(socket.AF_UNIX).connect('api.sock')"
    # By a relative name, since the folders above belong to root alone.
    done = subprocess.run(
        ["python3", "-c", program],
        cwd=folder,
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stderr


def test_an_agent_that_lends_nothing_says_so_everywhere(managed: ManagedNode) -> None:
    """At each path of an enabled broker."""
    open_paths = {(route.method, route.path) for route in _api(managed).routes}
    assert {(route.method, route.path) for route in closed_routes()} == open_paths
    assert all(route.is_local for route in closed_routes())


def _api(managed: ManagedNode) -> BrokerApi:
    return BrokerApi(
        managed.manager, ProcessTable(Path("/proc")), managed.clock, lambda: managed.settings
    )
