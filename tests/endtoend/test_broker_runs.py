"""`rightsizer run` with a real agent and real processes: leases survive faults."""

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_process import agent_process, eventually, run_rightsizer
from api_schema import faults, json_schema_of
from lent_place import Place, children_of, is_there, pid_in
from run_commands import RunCommands, run_commands


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunCommands]:
    """Starts and ends runs."""
    with run_commands(tmp_path_factory.mktemp("runs")) as started:
        yield started


@pytest.fixture(scope="module")
def lent(tmp_path_factory: pytest.TempPathFactory, commands: RunCommands) -> Iterator[Place]:
    """An agent with a broker, for tests that leave it unchanged."""
    place = Place(tmp_path_factory.mktemp("lent"), commands)
    with agent_process(place.folder, config=place.config) as agent:
        eventually(lambda: '"is_met":true' in agent.get("/api/v1/place?gpus=2")[1])
        yield place


@pytest.fixture(autouse=True)
def _all_is_given_back(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "lent" in request.fixturenames:
        eventually(request.getfixturevalue("lent").nothing_is_lent)


def test_a_command_sees_its_gpus_and_answers_by_its_own_status(lent: Place) -> None:
    """By uuid, in bus order, with the lease's id; they are returned afterwards."""
    run = lent.run("--gpus", "2", "--", "sh", "-c", "env; exit 7")
    assert run.wait() == 7
    seen = dict(line.split("=", 1) for line in run.said.splitlines() if "=" in line)
    uuids = seen["CUDA_VISIBLE_DEVICES"].split(",")
    assert len(uuids) == 2
    assert all(uuid.startswith("GPU-") for uuid in uuids)
    assert seen["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert f"lease {seen['RIGHTSIZER_LEASE']}: GPU 0, GPU 1" in run.said
    assert not any(name.startswith("CUDA_MPS") for name in seen)
    eventually(lent.nothing_is_lent)


def test_signals_are_passed_on_and_end_as_a_shell_tells(lent: Place) -> None:
    """To the command alone; a fatal signal gives 128 plus its number."""
    ended = lent.run(
        "--", "sh", "-c", "trap 'exit 9' TERM; echo ready; while :; do sleep 0.05; done"
    )
    eventually(lambda: "ready" in ended.said)
    ended.signal(signal.SIGTERM)
    killed = lent.run("--", "sleep", "60")
    lent.works(killed)
    killed.signal(signal.SIGUSR1)
    assert ended.wait() == 9
    assert killed.wait() == 128 + signal.SIGUSR1


def test_command_that_cannot_run_returns_its_gpus(lent: Place) -> None:
    """126 and 127, as in shells; an impossible request is refused immediately."""
    absent = lent.run("--", "no-such-program")
    forbidden = lent.run("--", str(lent.folder / "node.yaml"))
    hopeless = lent.run("--gpus", "9", "--", "true")
    assert absent.wait() == 127
    assert forbidden.wait() == 126
    assert hopeless.wait() == 125
    assert "no-such-program: No such file or directory" in absent.said
    assert "9 GPUs are asked for" in hopeless.said


def test_one_who_waits_is_told_why_and_gets_his_turn(lent: Place) -> None:
    """In order of arrival, as shown by `queue`; an impatient client leaves."""
    first = lent.run("--gpus", "2", "--", "sh", "-c", "while ! [ -e go ]; do sleep 0.05; done")
    lent.held(first)
    second = lent.run("--gpus", "2", "--quiet", "--", "echo", "second has them")
    eventually(lambda: len(lent.broker()["queue"]) == 1)
    third = lent.run("--", "echo", "third has one")
    lent.waits(third)
    impatient = lent.run("--no-wait", "--", "true")
    assert impatient.wait() == 125
    assert "nothing was free at once" in impatient.said
    leaving = lent.run("--wait-at-most", "1s", "--", "true")
    shown = run_rightsizer("queue", *lent.socket).stdout
    assert first.pid in {lease["pid"] for lease in lent.leases()}
    assert [line.split()[0] for line in shown.split("Queue\n")[1].splitlines()[1:3]] == ["1", "2"]
    assert not lent.client.get("/api/v1/place?gpus=1")["is_met"]
    document = lent.broker()
    assert list(faults(document, json_schema_of("GET", "/api/v1/broker"))) == []
    assert leaving.wait() == 125
    first.signal(signal.SIGTERM)
    assert first.wait() == 128 + signal.SIGTERM
    assert (second.wait(), third.wait()) == (0, 0)
    assert "second has them\n" in second.said
    assert "third has one\n" in third.said


def test_a_killed_run_keeps_its_lease_as_long_as_anything_of_it_runs(
    lent: Place, tmp_path: Path
) -> None:
    """A daemon after a double fork, in a session of its own, holds the GPUs to its end."""
    note = tmp_path / "pid"
    run = lent.run(
        "--gpus",
        "2",
        "--",
        "sh",
        "-c",
        f"(setsid sh -c 'echo $$ > {note}; exec sleep 60' &) ; while :; do sleep 0.1; done",
    )
    lent.held(run)
    daemon = pid_in(note)
    next_one = lent.run("--", "true")
    lent.waits(next_one)
    command = children_of(run.pid)[0]
    run.signal(signal.SIGKILL)
    assert run.wait() == -signal.SIGKILL
    os.kill(command, signal.SIGKILL)
    eventually(lambda: not is_there(command))
    before = lent.client.get("/api/v1/report")["generation"]
    eventually(lambda: lent.client.get("/api/v1/report")["generation"] >= before + 5)
    assert [lease["pid"] for lease in lent.leases()] == [run.pid]
    assert is_there(daemon)
    os.kill(daemon, signal.SIGKILL)
    assert next_one.wait() == 0


def test_processes_left_by_a_command_hold_the_lease(lent: Place, tmp_path: Path) -> None:
    """The run waits for them, and returns the command's own status."""
    note = tmp_path / "pid"
    run = lent.run("--", "sh", "-c", f"(setsid sh -c 'echo $$ > {note}; exec sleep 60' &) ; exit 3")
    daemon = pid_in(note)
    eventually(lambda: "what it started has not" in run.said)
    assert lent.leases()
    os.kill(daemon, signal.SIGKILL)
    assert run.wait() == 3


def test_gpus_are_reserved_and_drawn_on(lent: Place) -> None:
    """By its id; others cannot use them, and it can be canceled."""
    made = run_rightsizer("reserve", "--gpus", "2", "--for", "1h", "--json", *lent.socket)
    document = json.loads(made.stdout)
    assert list(faults(document, json_schema_of("POST", "/api/v1/reservations"))) == []
    other = lent.run("--no-wait", "--", "true")
    assert other.wait() == 125
    own = lent.run("--gpus", "2", "--reservation", document["id"], "--", "true")
    assert own.wait() == 0
    assert run_rightsizer("cancel", document["id"], *lent.socket).stdout == (
        f"Reservation {document['id']} was taken back.\n"
    )


def test_a_ticket_that_somebody_withdraws_is_not_asked_for_again(lent: Place) -> None:
    """The waiting client ends with the author's name; its command never runs."""
    first = lent.run("--gpus", "2", "--", "sleep", "60")
    lent.works(first)
    second = lent.run("--", "echo", "second has one")
    lent.waits(second)
    (ticket,) = lent.broker()["queue"]
    done = run_rightsizer("cancel", ticket["id"], *lent.socket)
    assert done.stdout == f"Ticket {ticket['id']} is over: it was withdrawn.\n"
    assert second.wait() == 125
    assert f"ticket {ticket['id']} was withdrawn by {ticket['user']}\n" in second.said
    first.signal(signal.SIGTERM)
    assert first.wait() == 128 + signal.SIGTERM
    assert lent.nothing_is_lent()
    assert "second has one" not in second.said


def test_a_lease_that_somebody_ends_leaves_its_command_alone(lent: Place) -> None:
    """Both sides learn that it runs on without reserved GPUs."""
    run = lent.run("--", "sh", "-c", "while ! [ -e goes-on ]; do sleep 0.05; done; exit 5")
    lease = lent.works(run)
    (command,) = children_of(run.pid)
    before = lent.client.get("/api/v1/report")["generation"]
    eventually(lambda: lent.client.get("/api/v1/report")["generation"] >= before + 5)
    done = run_rightsizer("cancel", lease["id"], *lent.socket)
    assert "what runs goes on, and no GPU is kept for it any more: processes" in done.stdout
    assert {str(run.pid), str(command)} <= set(re.findall(r"[0-9]+", done.stdout))
    assert not lent.leases()
    eventually(lambda: f"lease {lease['id']} was ended by {lease['user']}: what runs" in run.said)
    assert is_there(command)
    run.signal(signal.SIGTERM)
    assert run.wait() == 128 + signal.SIGTERM


def test_a_reservation_that_is_in_the_way_is_named(lent: Place) -> None:
    """To a client with a long request: when it begins, and which limit would fit."""
    made = run_rightsizer(
        "reserve", "--gpus", "1", "--in", "14h", "--for", "1h", "--json", *lent.socket
    )
    document = json.loads(made.stdout)
    assert document["message"].startswith("1 GPU is kept for ")
    long = lent.run("--gpus", "2", "--no-wait", "--", "true")
    assert long.wait() == 125
    short = lent.run("--gpus", "2", "--no-wait", "--time-limit", "13h", "--", "true")
    assert short.wait() == 0
    named = (
        f"1 is kept for reservation {document['id']} of {document['user']}, which begins in 14 h"
    )
    assert f"{named}; with --time-limit 13h or less it would do\n" in long.said
    placed = run_rightsizer("place", "--gpus", "2", *lent.socket)
    assert f"reservation {document['id']}" in placed.stdout
    more = run_rightsizer("reserve", "--gpus", "2", "--in", "14h", "--for", "1h", *lent.socket)
    assert more.returncode == 1
    assert "1 of 2 asked for is known to be free then" in more.stderr
    run_rightsizer("cancel", document["id"], *lent.socket)


def test_an_agent_that_lends_nothing_says_how_to_change_that(
    tmp_path: Path, commands: RunCommands
) -> None:
    """Without an agent, the message says so."""
    place = Place(tmp_path, commands)
    assert place.run("--", "true").wait() == 125
    config = place.config.replace("enabled: true", "enabled: false")
    with agent_process(tmp_path, config=config):
        off = place.run("--", "true")
        assert off.wait() == 125
    assert "broker: {enabled: true}" in off.said
    assert not list(tmp_path.glob("broker.db*"))
