"""The manager: saved before announced, and granted only on observed GPUs."""

import json
import resource
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from broker_node import World, client, hgx, ticket
from managed_node import ManagedNode
from readings import DAY, HOUR, SECOND
from rightsizer.broker.lease import (
    BrokerEvent,
    EventKind,
    GpuRequest,
    LeaseProcesses,
    LeaseRecord,
    Reservation,
)
from rightsizer.broker.lease_encoder import lease_answer_document
from rightsizer.broker.repository import decode_item
from rightsizer.broker.service import notice_body
from rightsizer.io.codec import plain
from rightsizer.model.errors import RightsizerError

FULL_DISK = Path(__file__).parents[1] / "support" / "full_broker_disk.py"


@pytest.fixture
def managed(tmp_path: Path) -> Iterator[ManagedNode]:
    """A node of two free GPUs."""
    with capture_logs():
        found = ManagedNode(World(hgx(2)), tmp_path / "broker.db")
        yield found
        found.manager.close()


def test_a_ticket_is_granted_at_the_next_look(managed: ManagedNode) -> None:
    """With its slots; a second one waits, with its position and the reason."""
    managed.manager.ask(ticket("a", gpus=2))
    managed.manager.ask(ticket("b"))
    assert managed.manager.woken.is_set()
    assert managed.manager.overview.why_waiting("b") == "the broker has not looked at it yet"
    managed.manager.turn()
    scheduling = managed.manager.overview
    assert [lease.id for lease in scheduling.state.leases] == ["a"]
    assert scheduling.place_of("b") == 1
    assert "0 of 2 can be given" in str(scheduling.why_waiting("b"))
    assert managed.manager.metrics() == {
        "rightsizer_broker_grants_total": 1.0,
        "rightsizer_broker_wait_seconds_total": 0.0,
        "rightsizer_broker_leases": 1.0,
        "rightsizer_broker_queue_length": 1.0,
        "rightsizer_broker_lost_gpus": 0.0,
    }


def test_nothing_is_granted_blindly(managed: ManagedNode) -> None:
    """Without a snapshot all wait, with the reason; dead clients are removed."""
    managed.trouble = "no GPU has been read yet"
    managed.manager.ask(ticket("a"))
    managed.manager.ask(ticket("b"))
    managed.dead.add("b")
    managed.manager.turn()
    scheduling = managed.manager.overview
    assert not scheduling.state.leases
    assert [each.id for each in scheduling.state.tickets] == ["a"]
    assert scheduling.why_waiting("a") == "no GPU has been read yet"
    with pytest.raises(RightsizerError, match="nothing can be reserved before"):
        managed.manager.reserve(
            lambda now: Reservation("r", "ada", GpuRequest(), now, now + 1), client()
        )
    managed.trouble = None
    managed.manager.turn()
    assert managed.manager.overview.state.lease("a") is not None


def test_saved_state_is_resumed_after_a_kill(managed: ManagedNode, tmp_path: Path) -> None:
    """By a manager opened after the kill."""
    managed.manager.ask(ticket("a", gpus=2))
    managed.manager.turn()
    managed.manager.ask(ticket("b"))
    managed.store.close()
    after = ManagedNode(World(hgx(2)), tmp_path / "broker.db")
    state = after.manager.overview.state
    assert ([lease.id for lease in state.leases], [each.id for each in state.tickets]) == (
        ["a"],
        ["b"],
    )
    after.manager.close()


def test_the_disk_is_written_where_processes_come_or_go_and_not_each_second(
    managed: ManagedNode, tmp_path: Path
) -> None:
    """At once after a quiet time, else within five seconds; without changes once a minute."""
    managed.processes = LeaseProcesses(((7, 100),))
    managed.manager.ask(ticket("a"))
    managed.manager.turn()
    disk = sqlite3.connect(tmp_path / "broker.db")

    def written(seconds: int, processes: Callable[[int], LeaseProcesses]) -> int:
        """Number of steps with a write, at one step a second."""
        versions = [disk.execute("PRAGMA data_version").fetchone()]
        for second in range(seconds):
            managed.clock.now += SECOND
            managed.processes = processes(second)
            managed.manager.turn()
            versions.append(disk.execute("PRAGMA data_version").fetchone())
        return sum(one != two for one, two in pairwise(versions))

    written(6, lambda _: LeaseProcesses(((7, 100),)))
    assert written(50, lambda _: LeaseProcesses(((7, 100),))) == 0
    assert written(1, lambda _: LeaseProcesses(((7, 100), (8, 200)))) == 1
    assert written(60, lambda second: LeaseProcesses(((7, 100), (second, 300)))) == 12
    last = LeaseProcesses(((7, 100),), (7,))
    assert written(5, lambda _: last) == 1
    (document,) = disk.execute("SELECT form FROM item WHERE kind = 'lease'").fetchone()
    disk.close()
    record = decode_item("lease", document)
    assert isinstance(record, LeaseRecord)
    assert record.processes == last


def test_a_stepping_wall_clock_changes_nothing(managed: ManagedNode) -> None:
    """Leases last and end by the monotonic clock, whatever steps the wall clock makes."""
    events: list[BrokerEvent] = []
    managed.manager.listener = events.append
    managed.manager.ask(ticket("a", limit_seconds=3600.0))
    managed.manager.turn()
    for step in (20 * 365 * DAY, -40 * 365 * DAY):
        managed.clock.wall += step
        managed.clock.now += SECOND
        managed.manager.turn()
    assert [event.kind for event in events] == [EventKind.QUEUED, EventKind.GRANTED]
    managed.clock.now += 2 * HOUR
    managed.manager.turn()
    assert {event.kind for event in events} >= {EventKind.TIME_UP, EventKind.IDLE}
    assert managed.manager.overview.state.lease("a") is not None


def test_idle_holders_are_reported_once_and_keep_what_they_have(managed: ManagedNode) -> None:
    """In the response to the client, and as JSON for webhooks."""
    events: list[BrokerEvent] = []
    managed.manager.listener = events.append
    managed.manager.ask(ticket("a"))
    for _ in range(4):
        managed.manager.turn()
        managed.clock.now += 2 * HOUR
    (idle,) = [event for event in events if event.kind is EventKind.IDLE]
    messages = managed.manager.messages_for("a")
    document = plain(
        lease_answer_document(managed.manager.overview, "a", managed.clock.now, 0, messages)
    )
    assert document is not None
    assert document["messages"] == ["nothing has run on the GPUs of lease a for 2 h; give it back"]
    assert document["lease"]["told"] == ["idle"]
    notice: dict[str, Any] = json.loads(notice_body(idle, 5 * SECOND, "node"))
    assert (notice["event"], notice["id"], notice["time"]) == ("broker_idle", "a", 5.0)
    managed.manager.end("a", client())
    assert managed.manager.messages_for("a") == ()


def test_a_holder_finds_the_latest_twenty_messages(managed: ManagedNode) -> None:
    """However many were sent."""
    managed.manager.ask(ticket("a"))
    managed.manager.turn()
    for hours in range(1, 26):
        # Active, then idle for longer than the last time.
        managed.is_active = True
        managed.manager.turn()
        managed.clock.now += hours * HOUR
        managed.is_active = False
        managed.manager.turn()
    idle = [each for each in managed.manager.messages_for("a") if "nothing has run" in each]
    assert len(managed.manager.messages_for("a")) == 20
    assert "for 1 d 1 h" in idle[-1]


def test_a_ticket_that_nobody_looks_at_is_asked_after_often_for_a_second(
    managed: ManagedNode,
) -> None:
    """Then once a second at most, as is a ticket of a reservation that has not begun."""

    def pause(item_id: str) -> float:
        document = plain(
            lease_answer_document(managed.manager.overview, item_id, managed.clock.now, 0)
        )
        assert document is not None
        return float(document["ask_again_seconds"])

    managed.manager.ask(ticket("a", gpus=2))
    assert pause("a") == 0.2
    managed.clock.now += SECOND
    assert pause("a") == 1.0
    root = replace(client(), uid=0)
    starts = managed.clock.now + HOUR
    wanted = Reservation("r", root.user, GpuRequest(), starts, starts + HOUR)
    managed.manager.reserve(lambda now: replace(wanted, starts=now + HOUR), root)
    managed.manager.ask(ticket("b", reservation="r"))
    managed.manager.turn()
    assert pause("b") == 1.0
    assert managed.manager.overview.why_waiting("b") == "its reservation begins in 1 h"


def test_a_lease_that_ends_during_a_look_gives_nothing_away(managed: ManagedNode) -> None:
    """Its processes were not scanned, and may still exist."""
    managed.manager.ask(ticket("a", gpus=2))
    managed.manager.turn()
    managed.manager.ask(ticket("b", gpus=2))
    observe = managed.observe
    managed.observe = lambda state: (observe(state), managed.manager.end("a", client()))[0]  # type: ignore[method-assign]  # As another thread would.
    managed.manager.turn()
    assert not managed.manager.overview.state.leases
    assert managed.manager.woken.is_set()
    managed.observe = observe  # type: ignore[method-assign]  # Nothing more happens.
    managed.manager.turn()
    assert managed.manager.overview.state.lease("b") is not None


def test_nothing_is_granted_on_a_full_disk(tmp_path: Path) -> None:
    """A request that cannot be saved is refused or waits, with the reason, until there is room.

    An agent that starts there knows what was saved before.
    """
    assert resource.getrlimit(resource.RLIMIT_FSIZE)
    done = subprocess.run(
        [sys.executable, FULL_DISK, tmp_path / "broker.db"],
        capture_output=True,
        text=True,
        check=True,
    )
    result = json.loads(done.stdout)
    assert result["taken"] > 0
    assert "cannot save what it is asked" in result["refusal"]
    assert result["leases_while_full"] == 0
    assert "cannot be saved" in result["why"]
    assert result["leases_with_room"] == 2
    assert result["tickets_on_disk"] == result["taken"] - 2
    assert result["refused_at_start"] is True
    assert result["refused_with_room"] is False
