"""Stored history of thirty days of the eight-GPU node, made from one simulated day."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from cases import moved
from rightsizer.accounting.history import HistoryRepository
from rightsizer.accounting.node_accounts import NodeAccounts
from rightsizer.advice.storage import Storage
from rightsizer.catalogue.catalogue import built_in
from rightsizer.model.snapshot import Snapshot
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.model.window import Window
from rightsizer.simulator.scenario_reader import load_scenario
from rightsizer.simulator.source import SimulatedSource

SCENARIO: Final = "eight-gpu-node"
_DAY: Final = 86400 * NANOSECONDS_PER_SECOND
_FINE: Final = 2 * _DAY
_TICK: Final = 10 * NANOSECONDS_PER_SECOND


def one_day(end: Nanoseconds) -> Iterator[Snapshot]:
    """The day before a time, a reading every ten seconds."""
    catalogue = built_in()
    source = SimulatedSource(
        load_scenario(SCENARIO, catalogue),
        catalogue,
        start=end - _DAY,
        interval=_TICK,
        duration=_DAY,
    )
    return iter(source.read, None)


def fill(path: Path, days: int) -> None:
    """Write the same day over and over, rolled up as an agent would have it."""
    end = time.time_ns()
    end -= end % (3600 * NANOSECONDS_PER_SECOND)
    accounts = NodeAccounts()
    windows = list[Window]()
    for snapshot in one_day(end):
        accounts.post(snapshot)
        windows += accounts.drain_closed()
    storage = Storage(str(path))
    for day in reversed(range(days)):
        shifted = [moved(window, -day * _DAY) for window in windows]
        storage.save_windows(shifted, (), accounts.device_records())
        _history(storage).roll_up(end - _FINE)
    storage.close()


def _history(storage: Storage) -> HistoryRepository:
    assert storage.history is not None
    return storage.history
