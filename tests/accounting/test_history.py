"""The history: what comes back after a restart, and what is let go."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from readings import DAY, EPOCH, HOUR, MINUTE, SECOND, gpu, workload
from rightsizer.accounting.history import HISTORY_SCHEMA, History
from rightsizer.accounting.known import KnownDevice
from rightsizer.domain.device import MigInstance
from rightsizer.domain.errors import HistoryError
from rightsizer.domain.histogram import Histogram
from rightsizer.domain.state import Cause, Resource, State
from rightsizer.domain.window import Window
from rightsizer.edge.database import Database

FIVE = 5 * MINUTE
INSTANCE = gpu(1, uuid="MIG-1", mig=MigInstance("GPU-1", "1g.10gb", 7, 0, 1 / 7, 1 / 8))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the history goes."""
    return tmp_path / "history.db"


@pytest.fixture
def database(path: Path) -> Iterator[Database]:
    """An open one."""
    with Database(path, (HISTORY_SCHEMA,)) as opened:
        yield opened


def five_minutes(number: int, uuid: str = "GPU-0", length: int = FIVE) -> Window:
    """The n-th window after the epoch of the tests."""
    start = EPOCH + number * FIVE
    used = Histogram()
    used.add((number % 100) / 100, length)
    return Window(
        uuid,
        start,
        start + length,
        states={State.PRODUCTIVE: length - SECOND, State.UNKNOWN: SECOND},
        waste_seconds={Cause.HEADROOM: 0.1},
        energy_joules=0.1,
        demands={Resource.COMPUTE: used},
    )


def summed(windows: list[Window]) -> tuple[Counter[State], Histogram, float]:
    """All the time by state, all the demand, all the energy."""
    states: Counter[State] = Counter()
    demand = Histogram()
    for window in windows:
        states.update(window.states)
        demand.merge(window.demands[Resource.COMPUTE])
    return states, demand, sum(window.energy_joules for window in windows)


def test_what_was_saved_is_loaded_oldest_first(path: Path) -> None:
    """Also by another process, later, and whatever the order of saving was."""
    windows = [five_minutes(number, uuid) for number in range(700) for uuid in ("GPU-0", "GPU-1")]
    with Database(path, (HISTORY_SCHEMA,)) as opened:
        History(opened).save(reversed(windows))
    with Database(path, (HISTORY_SCHEMA,), read_only=True) as opened:
        assert list(History(opened).load()) == windows
        since = windows[1000].start
        assert list(History(opened).load(since)) == windows[1000:]


def test_growing_window_is_found_once(database: Database) -> None:
    """The running five minutes are saved at every flush, each time in place of the last."""
    history = History(database)
    for seconds in (10, 60, 300):
        history.save([five_minutes(0, length=seconds * SECOND)])
    assert list(history.load()) == [five_minutes(0)]


def test_history_may_be_written_while_it_is_read(database: Database) -> None:
    """A reader that takes its time holds nobody up, and one that gives up leaves no trace."""
    history = History(database)
    history.save(five_minutes(number) for number in range(1200))
    reader = history.load()
    first = next(reader)
    history.save([five_minutes(5000)])
    history.prune(EPOCH)
    assert [first, *reader] == [
        *(five_minutes(number) for number in range(1200)),
        five_minutes(5000),
    ]
    next(history.load())
    history.save([five_minutes(5001)])


def test_failed_save_writes_nothing(database: Database) -> None:
    """Windows and devices go together or not at all."""
    history = History(database)
    with database.transaction() as connection:
        connection.execute("DROP TABLE device")
    with pytest.raises(HistoryError, match="no such table: device"):
        history.save([five_minutes(0)], [KnownDevice(gpu())])
    assert list(history.load()) == []


def test_rolling_up_keeps_every_sum(database: Database) -> None:
    """Twelve windows become an hour, exactly; what is younger stays fine."""
    history = History(database)
    windows = [five_minutes(number, uuid) for number in range(60) for uuid in ("GPU-0", "GPU-1")]
    history.save(windows)
    before = summed(windows)
    assert history.roll_up(EPOCH + 4 * HOUR) == 2 * 4 * 11
    rolled = list(history.load())
    states, demand, joules = summed(rolled)
    assert (states, demand) == before[:2]
    assert joules == pytest.approx(before[2])
    assert len(rolled) == 2 * (4 + 12)
    assert {window.end - window.start for window in rolled} == {HOUR, FIVE}
    assert history.roll_up(EPOCH + 4 * HOUR) == 0


def test_rolling_up_in_the_middle_of_an_hour_loses_nothing(database: Database) -> None:
    """Whenever it is done, and however often, the sums stay."""
    history = History(database)
    windows = [five_minutes(number) for number in range(36)]
    history.save(windows)
    for minutes in range(10, 200, 25):
        history.roll_up(EPOCH + minutes * MINUTE)
    states, demand, _ = summed(list(history.load()))
    assert (states, demand) == summed(windows)[:2]
    assert len(list(history.load())) <= 3 * 3


def test_pruning_forgets_what_is_too_old(database: Database) -> None:
    """Windows that ended before, and devices that were not seen since."""
    history = History(database)
    history.save([five_minutes(0)], [KnownDevice(gpu(0))])
    history.save([five_minutes(5000)], [KnownDevice(gpu(1))])
    assert history.prune(EPOCH + DAY) == 1
    assert list(history.load()) == [five_minutes(5000)]
    assert [known.device for known in history.devices()] == [gpu(1)]


def test_device_stays_seen_while_nothing_new_is_written_of_it(database: Database) -> None:
    """A flush without windows does not make a device a stranger."""
    history = History(database)
    history.save([five_minutes(5000)], [KnownDevice(gpu())])
    history.save([], [KnownDevice(gpu(), workload())])
    history.prune(EPOCH + DAY)
    assert history.devices() == (KnownDevice(gpu(), workload()),)


def test_devices_come_back_with_their_holders(database: Database) -> None:
    """All that is known of a board, an instance of one, and who holds it since when."""
    known = (
        KnownDevice(gpu(0), workload(), EPOCH),
        KnownDevice(INSTANCE),
        KnownDevice(gpu(2, board=None, memory_total_bytes=None)),
    )
    History(database).save([five_minutes(0)], reversed(known))
    assert History(database).devices() == known


def test_rows_that_cannot_be_understood_are_passed_over(database: Database) -> None:
    """A newer or broken row spoils neither reading, nor rolling up, nor pruning."""
    history = History(database)
    history.save([five_minutes(0), five_minutes(1), five_minutes(2)], [KnownDevice(gpu())])
    with database.transaction() as connection:
        connection.execute("UPDATE window SET data = x'7b' WHERE start = ?", (EPOCH + FIVE,))
        connection.execute(
            "INSERT INTO device VALUES ('a', '{}', 0), ('b', '[]', 0), ('c', 'torn', 0)"
        )
    assert list(history.load()) == [five_minutes(0), five_minutes(2)]
    assert [known.device for known in history.devices()] == [gpu()]
    assert history.roll_up(EPOCH + HOUR) == 1
    assert [window.accounted for window in history.load()] == [2 * FIVE]
    assert history.prune(EPOCH + DAY) == 2


def test_what_was_pruned_gives_its_room_back(database: Database) -> None:
    """The file shrinks; a disk is not filled by what is gone."""
    history = History(database)
    history.save(five_minutes(number) for number in range(5000))
    with database.transaction() as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    full = history.size_bytes
    history.prune(EPOCH + 100 * DAY)
    with database.transaction() as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    assert full > 1_000_000
    assert history.size_bytes < full / 10


def test_window_of_nothing_is_saved_too(database: Database) -> None:
    """A recording that begins at 0 is a recording."""
    empty = replace(five_minutes(0), start=0, end=FIVE)
    History(database).save([empty])
    assert list(History(database).load()) == [empty]
