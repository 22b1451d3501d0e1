"""Databases written by the previous version open without changes or loss.

`data/*.sql` were written by version 0.1.0; `data/*.json` is its own reading of them.
"""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from rightsizer.actions.repository import ActionRepository
from rightsizer.advice.settings import LedgerSettings
from rightsizer.advice.storage import Storage
from rightsizer.broker.repository import BrokerRepository
from rightsizer.fleet.cache.day_cache import DayCache
from rightsizer.profiler.capture.repository import CaptureRepository

DATA = Path(__file__).parent / "data"


def written(name: str, folder: Path) -> Path:
    """A database of the previous version, as a file."""
    path = folder / f"{name}.db"
    with sqlite3.connect(path) as connection:
        connection.executescript((DATA / f"{name}.sql").read_text(encoding="utf-8"))
    connection.close()
    return path


def expected(name: str) -> Any:
    """The previous version's reading of it."""
    return json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("read_only", [True, False], ids=["reader", "writer"])
def test_a_former_history_opens_with_its_ledger(tmp_path: Path, *, read_only: bool) -> None:
    """Windows, devices, advice, outcomes, captures, actions and profiles."""
    storage = Storage(str(written("history", tmp_path)), read_only=read_only)
    was = expected("history")
    assert storage.history is not None
    windows = list(storage.history.load())
    ledger = storage.ledger(LedgerSettings())
    states: dict[str, int] = {}
    for window in windows:
        for state, spent in window.states.items():
            states[str(state)] = states.get(str(state), 0) + spent

    assert [[each.uuid, each.start, each.end, each.accounted] for each in windows] == was["windows"]
    assert states == was["states"]
    assert [device.device.uuid for device in storage.history.devices()] == was["devices"]
    assert [
        [
            advice.id,
            str(advice.state),
            advice.finding.rule,
            advice.finding.summary,
            advice.opened,
        ]
        for advice in sorted(ledger.advice(), key=lambda advice: advice.id)
    ] == was["advice"]
    assert len(ledger.track_record.tallies) == was["tallies"]
    assert [
        [record.id, str(record.outcome), record.detail]
        for record in CaptureRepository(storage.database).records()
    ] == was["captures"]
    assert sorted(CaptureRepository(storage.database).files()) == was["files"]
    assert [
        [record.id, record.action, str(record.outcome), record.summary]
        for record in ActionRepository(storage.database).records()
    ] == was["actions"]
    assert storage.profiles() == was["profiles"]
    storage.close()


def test_a_ledger_that_is_written_again_reads_the_same(tmp_path: Path) -> None:
    """This version saves a former ledger so that it and its successors can read it."""
    path = written("history", tmp_path)
    storage = Storage(str(path))
    ledger = storage.ledger(LedgerSettings())
    storage.save_ledger(ledger)
    storage.close()
    again = Storage(str(path), read_only=True)

    assert again.ledger(LedgerSettings()).advice() == ledger.advice()
    again.close()


def test_former_leases_open(tmp_path: Path) -> None:
    """Leases, tickets and reservations; none is unreadable."""
    was = expected("broker")
    with closing(BrokerRepository(written("broker", tmp_path))) as repository:
        state = repository.load()

        assert state is not None
        assert repository.unread == ()
        assert [[lease.id, list(lease.lease.uuids)] for lease in state.leases] == was["leases"]
        assert [ticket.id for ticket in state.tickets] == was["tickets"]
        assert [booking.reservation.id for booking in state.bookings] == was["reservations"]


def test_former_days_of_a_fleet_open(tmp_path: Path) -> None:
    """Days no longer in the store are still there after an upgrade."""
    was = expected("fleet")
    with DayCache(written("fleet", tmp_path), read_only=True) as cache:
        frames = cache.frames(was["uuids"], was["first"], was["last"])

        assert {uuid: len(days) for uuid, days in frames.items()} == was["sheets"]
        assert len(cache.holdings(was["first"], was["last"])) == was["holdings"]
        assert sorted(cache.workloads()) == was["workloads"]
