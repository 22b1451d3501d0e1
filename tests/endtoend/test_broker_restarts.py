"""Leases survive the agent's death, a lost file and vanished clients."""

import json
import os
import signal
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_process import AgentProcess, agent_process, eventually, run_rightsizer
from lent_place import Place, children_of, is_there, pid_in
from run_commands import RunCommands, run_commands


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunCommands]:
    """Starts and ends runs."""
    with run_commands(tmp_path_factory.mktemp("runs")) as started:
        yield started


def test_a_killed_agent_ends_no_lease(tmp_path: Path, commands: RunCommands) -> None:
    """The run continues meanwhile, and the waiting client waits on."""
    place = Place(tmp_path, commands)
    with agent_process(tmp_path, config=place.config) as agent:
        run = place.run("--gpus", "2", "--", "sleep", "600")
        lease = place.works(run)
        waiting = place.run("--", "echo", "mine at last")
        place.waits(waiting)
        agent.end(signal.SIGKILL)
    assert is_there(run.pid)
    with agent_process(tmp_path, config=place.config) as agent:
        assert [(each["id"], each["uuids"]) for each in place.leases()] == [
            (lease["id"], lease["uuids"])
        ]
        assert len(place.broker()["queue"]) == 1
        _served(agent)
        assert len(place.leases()) == 1
        assert "mine at last" not in waiting.said
        run.signal(signal.SIGTERM)
        assert run.wait() == 128 + signal.SIGTERM
        assert waiting.wait() == 0
        eventually(lambda: agent.metric("rightsizer_broker_grants_total") == 1)
        assert {event["reason"] for event in agent.events("broker_ended")} == {"given_back"}
    assert "mine at last\n" in waiting.said


def test_the_holder_of_a_gpu_that_falls_off_the_bus_is_notified_and_gets_another(
    tmp_path: Path, commands: RunCommands
) -> None:
    """In its own `run`, the queue, the log and the metrics, and across the agent's restart."""
    place = Place(tmp_path, commands)
    config = place.config.replace("enabled: true", "enabled: true, lost_grace: 0s")
    with agent_process(tmp_path, config=config) as agent:
        run = place.run("--", "sleep", "600")
        lease = place.works(run)
        agent.end(signal.SIGKILL)
    gpu = int(lease["labels"][0].removeprefix("GPU "))
    node = tmp_path / "node.yaml"
    node.write_text(node.read_text() + f"faults: [{{kind: loss, gpus: [{gpu}], after: 0s}}]\n")
    with agent_process(tmp_path, config=config) as agent:
        eventually(lambda: f"lease {lease['id']} has lost" in run.said)
        other = f"GPU {1 - gpu}"
        eventually(lambda: f"{other}; end your command and start it again" in run.said)
        shown = run_rightsizer("queue", *place.socket).stdout
        assert f"  Lease {lease['id']} has lost " in shown
        assert {event["level"] for event in agent.events("broker_gpu_lost")} == {"warning"}
        eventually(lambda: agent.metric("rightsizer_broker_lost_gpus") == 1)
        run.signal(signal.SIGTERM)
        assert run.wait() == 128 + signal.SIGTERM
        again = place.run("--reservation", f"{lease['id']}r", "--", "true")
        assert again.wait() == 0
    assert other in again.said


def _served(agent: AgentProcess) -> None:
    """Wait until the agent has run some more steps."""
    before = agent.json("/api/v1/report")
    since = before["generation"] if before else 0
    eventually(
        lambda: (agent.json("/api/v1/report") or {"generation": 0})["generation"] > since + 3
    )


def test_without_a_file_the_processes_tell_their_leases(
    tmp_path: Path, commands: RunCommands
) -> None:
    """If their environment is readable, as for root and their own user."""
    place = Place(tmp_path, commands)
    with agent_process(tmp_path, config=place.config) as agent:
        run = place.run("--gpus", "1", "--", "sleep", "600")
        lease = place.works(run)
        agent.end(signal.SIGKILL)
    for file in tmp_path.glob("broker.db*"):
        file.unlink()
    with agent_process(tmp_path, config=place.config):
        found = eventually(place.leases)
        assert [(each["id"], each["uuids"]) for each in found] == [(lease["id"], lease["uuids"])]
        run.signal(signal.SIGTERM)
        run.wait()
        eventually(place.nothing_is_lent)


def test_an_orphan_without_a_mark_keeps_its_lease_over_a_restart(
    tmp_path: Path, commands: RunCommands
) -> None:
    """Its run is killed, then the agent; only the broker's file assigns it to its lease."""
    place = Place(tmp_path, commands)
    note = tmp_path / "pid"
    with agent_process(tmp_path, config=place.config) as agent:
        run = place.run(
            "--gpus",
            "2",
            "--",
            "env",
            "-i",
            "sh",
            "-c",
            f"(setsid sh -c 'echo $$ > {note}; exec sleep 300' &) ; exec sleep 300",
        )
        lease = place.held(run)
        orphan = pid_in(note)
        eventually(lambda: orphan in saved_pids(tmp_path))
        command = next(each for each in children_of(run.pid) if each != orphan)
        run.signal(signal.SIGKILL)
        assert run.wait() == -signal.SIGKILL
        os.kill(command, signal.SIGKILL)
        agent.end(signal.SIGKILL)
    with agent_process(tmp_path, config=place.config) as agent:
        _served(agent)
        assert [(each["id"], each["uuids"]) for each in place.leases()] == [
            (lease["id"], lease["uuids"])
        ]
        assert is_there(orphan)
        waiting = place.run("--", "true")
        place.waits(waiting)
        os.kill(orphan, signal.SIGKILL)
        assert waiting.wait() == 0
        assert [event["reason"] for event in agent.events("broker_ended")][:1] == ["died"]


def saved_pids(folder: Path) -> set[int]:
    """Pids of leases in the broker's file."""
    return {pid for document in saved_leases(folder) for pid, _ in document["kin"]["processes"]}


def saved_leases(folder: Path) -> list[Any]:
    """Leases in the broker's file, while an agent writes it."""
    uri = f"{(folder / 'broker.db').as_uri()}?mode=ro"
    connection = sqlite3.connect(uri, uri=True)
    try:
        rows = connection.execute("SELECT form FROM item WHERE kind = 'lease'").fetchall()
    finally:
        connection.close()
    return [json.loads(document) for (document,) in rows]


def test_a_reload_changes_how_many_processes_are_looked_at(
    tmp_path: Path, commands: RunCommands
) -> None:
    """Of a lease's forty, twenty are kept; then all of them."""
    place = Place(tmp_path, commands)
    config = place.config.replace("enabled: true", "enabled: true, processes_maximum: 20")
    with agent_process(tmp_path, config=config) as agent:
        forty = "for each in $(seq 40); do sleep 120 & done; wait"
        run = place.run("--gpus", "1", "--", "sh", "-c", forty)
        place.works(run)
        eventually(lambda: len(saved_pids(tmp_path)) == 20)
        (tmp_path / "rightsizer.yaml").write_text(place.config)
        agent.process.send_signal(signal.SIGHUP)
        # The run, its shell, and their children.
        eventually(lambda: len(saved_pids(tmp_path)) == 42)
        os.killpg(run.pid, signal.SIGTERM)
        run.wait()
        eventually(place.nothing_is_lent)


def test_one_who_is_ended_while_he_waits_leaves_nothing_behind(
    tmp_path: Path, commands: RunCommands
) -> None:
    """Neither a ticket, nor a lease that was granted but not yet reported."""
    place = Place(tmp_path, commands)
    with agent_process(tmp_path, config=place.config):
        holder = place.run("--gpus", "2", "--", "sleep", "600")
        place.works(holder)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            waiting = place.run("--", "true")
            place.waits(waiting)
            waiting.signal(number)
            assert waiting.wait() in {-number, 128 + number}
            assert not place.broker()["queue"]
        holder.signal(signal.SIGTERM)
        holder.wait()
        eventually(place.nothing_is_lent)
