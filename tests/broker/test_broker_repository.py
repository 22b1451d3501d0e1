"""The broker's state on disk: complete, and without ended items."""

import json
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from broker_node import World, client, hgx, ticket
from readings import DAY, HOUR, MINUTE
from rightsizer.broker.broker import Broker
from rightsizer.broker.lease import GpuRequest, LeaseObservation, LeaseProcesses, Reservation
from rightsizer.broker.repository import (
    BROKER_FILE,
    BrokerRepository,
    SavedClock,
    has_new_processes,
    must_save,
)
from rightsizer.broker.settings import BrokerSettings, GpuPlacementSettings
from rightsizer.broker.state import BrokerState
from rightsizer.io.database import Database
from rightsizer.model.errors import HistoryError
from spoiled_database import spoil

BROKER = Broker(BrokerSettings(maximum_reservations_per_user=2), GpuPlacementSettings())


def lived(minutes: int = 0) -> BrokerState:
    """A state with a shared and an exclusive lease, a ticket, a reservation and usage."""
    look = World(hgx()).observe()
    state = BrokerState("boot")
    for wanted in (
        ticket("a", memory=20, may_share=True),
        ticket("b", 7),
        ticket("c", 2, user="bo"),
    ):
        state = BROKER.ask(state, 0, wanted, look).state
    state = BROKER.serve(state, 0, look).state
    wanted = Reservation("r", "bo", GpuRequest(2), 3 * DAY, 4 * DAY)
    state = BROKER.reserve(state, 0, wanted, client("bo"), look).state
    processes = LeaseProcesses(((7, 100), (9, 200)), (7,))
    seen = {"a": LeaseObservation(is_alive=True, memory_bytes={"GPU-0": 30e9}, processes=processes)}
    return BROKER.observe(state, HOUR + minutes * MINUTE, seen).state


def durable(state: BrokerState | None) -> BrokerState:
    """A state without the values that are measured again."""
    assert state is not None
    return state.with_leases(replace(lease, measured_bytes=()) for lease in state.leases)


def test_saved_state_is_loaded(tmp_path: Path) -> None:
    """Leases with their processes, tickets, reservations, usage and sent messages."""
    state = lived()
    assert state.leases[0].processes.sessions
    assert state.leases[0].notified
    with closing(BrokerRepository(tmp_path / "broker.db")) as store:
        assert store.load() is None
        store.save(state, wall=7 * DAY)
    with closing(BrokerRepository(tmp_path / "broker.db")) as store:
        assert store.load() == durable(state)
        assert store.clock == SavedClock("boot", state.as_of, 7 * DAY)
        assert store.unread == ()


def test_state_of_an_older_program_is_read(tmp_path: Path) -> None:
    """It lacks processes of leases, operator groups and parts of reservations."""
    path = tmp_path / "broker.db"
    state = lived()
    with closing(BrokerRepository(path)) as store:
        store.save(state, 0)
    with (
        closing(Database(path, ("",), called=BROKER_FILE)) as base,
        base.transaction() as connection,
    ):
        rows = connection.execute("SELECT kind, id, form FROM item").fetchall()
        for kind, name, text in rows:
            document = json.loads(text)
            for key in ("kin", "weights", "unavailable") if kind == "reservation" else ("kin",):
                document.pop(key, None)
            document.get("lease", document).get("client", {}).pop("groups", None)
            connection.execute(
                "UPDATE item SET form = ? WHERE kind = ? AND id = ?",
                (json.dumps(document), kind, name),
            )
    with closing(BrokerRepository(path)) as store:
        found = durable(store.load())
        assert store.unread == ()
    assert found.leases == tuple(
        replace(lease, processes=LeaseProcesses()) for lease in durable(state).leases
    )
    assert found.tickets == state.tickets
    assert found.bookings == (replace(state.bookings[0], weights=()),)


def test_ended_state_is_deleted_from_the_file(tmp_path: Path) -> None:
    """By the store that wrote it, by one that loaded it, and by a new one."""
    path = tmp_path / "broker.db"
    before = lived()
    after = BROKER.end(before, DAY, "b").state
    with closing(BrokerRepository(path)) as store:
        store.save(before, 0)
        store.save(after, 0)
        assert durable(store.load()) == durable(after)
    with closing(BrokerRepository(path)) as store:
        store.load()
        store.save(BrokerState("boot", DAY), 0)
        assert store.load() == BrokerState("boot", DAY)
        store.save(before, 0)
    with closing(BrokerRepository(path)) as store:
        store.save(after, 0)
        assert durable(store.load()) == durable(after)


def test_a_broken_file_is_set_aside_and_nothing_is_known(tmp_path: Path) -> None:
    """Leases are to be rebuilt from their processes."""
    path = tmp_path / "broker.db"
    path.write_bytes(b"this is no database, and has never been one" * 100)
    with closing(BrokerRepository(path)) as store:
        assert store.set_aside is not None
        assert store.load() is None


def test_a_file_that_breaks_under_way_is_written_again(tmp_path: Path) -> None:
    """The complete state is in the new file before any response."""
    path = tmp_path / "broker.db"
    with closing(BrokerRepository(path)) as store:
        store.save(lived(), 0)
        spoil(path)
        store.save(lived(1), 0)
        assert store.set_aside is not None
    with closing(BrokerRepository(path)) as store:
        assert durable(store.load()) == durable(lived(1))


def test_a_row_that_is_not_understood_is_reported_and_then_gone(tmp_path: Path) -> None:
    """It is rebuilt from its processes, and would otherwise return later."""
    path = tmp_path / "broker.db"
    with closing(BrokerRepository(path)) as store:
        store.save(lived(), 0)
    with (
        closing(Database(path, ("",), called=BROKER_FILE)) as base,
        base.transaction() as connection,
    ):
        connection.execute("UPDATE item SET form = '{}' WHERE id = 'b'")
    with closing(BrokerRepository(path)) as store:
        state = store.load()
        assert state is not None
        assert store.unread == ("b",)
        assert [lease.id for lease in state.leases] == ["a"]
        store.save(state, 0)
        store.load()
        assert store.unread == ()


def test_only_one_agent_writes(tmp_path: Path) -> None:
    """A second one is refused, with the setting to change."""
    with closing(BrokerRepository(tmp_path / "broker.db")) as store:
        store.save(lived(), 0)
        with pytest.raises(HistoryError, match=r"broker\.path"):
            BrokerRepository(tmp_path / "broker.db")


def test_usage_and_idle_time_may_wait_for_the_next_save() -> None:
    """Leases, tickets, reservations and messages may not.

    Changes of processes may wait for some seconds.
    """
    state = lived()
    later = BROKER.observe(
        state, 2 * HOUR, {"a": LeaseObservation(is_alive=True, is_active=True)}
    ).state
    assert later != state
    assert not must_save(state, later)
    assert not has_new_processes(state, later)
    more = {
        "a": LeaseObservation(is_alive=True, is_active=True, processes=LeaseProcesses(((7, 100),)))
    }
    grown = BROKER.observe(state, 2 * HOUR, more).state
    assert has_new_processes(state, grown)
    assert not must_save(state, grown)
    first = BROKER.observe(state, 2 * HOUR, {"b": LeaseObservation(is_alive=True)}).state
    assert must_save(state, first)
    assert must_save(state, BROKER.end(state, 2 * HOUR, "a").state)
    assert must_save(state, BROKER.cancel(state, 2 * HOUR, "r").state)
    assert must_save(state, BROKER.end(state, 2 * HOUR, "c").state)


@given(st.integers(0, 10**18), st.integers(0, 10**18), st.integers(0, 10**18))
def test_a_moment_stays_the_same_by_the_wall(at: int, later: int, wall: int) -> None:
    """A time of the old boot's clock is moved to the same wall time by the new one."""
    old = SavedClock("one", at, wall)
    new = SavedClock("two", later, wall + DAY)
    moved = at + old.shift_to(new)
    assert new.wall - (new.at - moved) == wall
