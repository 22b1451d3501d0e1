"""Cost of a reading in the accounts, and of a day on disk."""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks.month_history import SCENARIO, one_day
from benchmarks.options import Options
from measured import Figure, quantile
from rightsizer.accounting.node_accounts import NodeAccounts
from rightsizer.advice.storage import Storage
from rightsizer.catalogue.catalogue import built_in
from rightsizer.model.snapshot import Snapshot
from rightsizer.model.units import NANOSECONDS_PER_SECOND
from rightsizer.simulator.scenario_reader import load_scenario
from rightsizer.simulator.source import DEFAULT_START, SimulatedSource

_SNAPSHOTS: Final = 600


def measure(_: Options) -> Iterator[Figure]:
    """Time of a reading; bytes of a day, fresh and rolled up."""
    snapshots = list(_snapshots(_SNAPSHOTS))
    accounts = NodeAccounts()
    times = []
    for snapshot in snapshots:
        started = time.perf_counter()
        accounts.post(snapshot)
        times.append(time.perf_counter() - started)
    devices = len(snapshots[0].readings)
    yield Figure(
        "accounting for one reading of one device, p50", 1e6 * quantile(times, 0.5) / devices, "us"
    )
    yield Figure("the same, p99", 1e6 * quantile(times, 0.99) / devices, "us")
    fine, hourly = _bytes_of_a_day()
    yield Figure("history of a day of eight GPUs, five-minute windows", fine / 1024, "KiB")
    yield Figure("the same after two days, hourly windows", hourly / 1024, "KiB")


def _snapshots(count: int) -> Iterator[Snapshot]:
    catalogue = built_in()
    source = SimulatedSource(
        load_scenario(SCENARIO, catalogue),
        catalogue,
        start=DEFAULT_START + 10 * 3600 * NANOSECONDS_PER_SECOND,
        interval=NANOSECONDS_PER_SECOND,
        duration=count * NANOSECONDS_PER_SECOND,
    )
    return iter(source.read, None)


def _bytes_of_a_day() -> tuple[int, int]:
    """On disk, the log folded into the file: before and after the windows are rolled up."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "history.db"
        accounts = NodeAccounts()
        storage = Storage(str(path))
        for snapshot in one_day(DEFAULT_START):
            accounts.post(snapshot)
            if closed := accounts.drain_closed():
                storage.save_windows(closed, (), accounts.device_records())
        fine = _size_after_closing(storage, path)
        storage = Storage(str(path))
        assert storage.history is not None
        storage.history.roll_up(snapshot.wall_time)
        storage.history.prune(0)
        return fine, _size_after_closing(storage, path)


def _size_after_closing(storage: Storage, path: Path) -> int:
    storage.close()
    return path.stat().st_size
