"""The history: loading after a restart, rolling up and pruning."""

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from readings import DAY, EPOCH, HOUR, MINUTE, SECOND, gpu, workload
from rightsizer.accounting.device_record import DeviceRecord
from rightsizer.accounting.history import HistoryRepository, HolderPeriod
from rightsizer.advice.storage import MIGRATIONS
from rightsizer.io.database import Database
from rightsizer.model.device import MigInstance
from rightsizer.model.errors import HistoryError
from rightsizer.model.histogram import Histogram
from rightsizer.model.state import Cause, Resource, State
from rightsizer.model.window import Window

FIVE = 5 * MINUTE
INSTANCE = gpu(1, uuid="MIG-1", mig=MigInstance("GPU-1", "1g.10gb", 7, 0, 1 / 7, 1 / 8))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Path of the history."""
    return tmp_path / "history.db"


@pytest.fixture
def database(path: Path) -> Iterator[Database]:
    """An open database."""
    with closing(Database(path, MIGRATIONS, is_durable=False)) as opened:
        yield opened


def five_minutes(number: int, uuid: str = "GPU-0", length: int = FIVE) -> Window:
    """The n-th five-minute window after the tests' epoch."""
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
    """Time by state, demand and energy, each summed over all windows."""
    states: Counter[State] = Counter()
    demand = Histogram()
    for window in windows:
        states.update(window.states)
        demand.merge(window.demands[Resource.COMPUTE])
    return states, demand, sum(window.energy_joules for window in windows)


def test_saved_windows_load_oldest_first(path: Path) -> None:
    """Loading works in another process too, and the order of saving does not matter."""
    windows = [five_minutes(number, uuid) for number in range(700) for uuid in ("GPU-0", "GPU-1")]
    with closing(Database(path, MIGRATIONS)) as opened:
        latest_first = sorted(windows, key=lambda window: (-window.start, window.uuid))
        HistoryRepository(opened).save(latest_first)
    with closing(Database(path, MIGRATIONS, read_only=True)) as opened:
        assert list(HistoryRepository(opened).load()) == windows
        since = windows[1000].start
        assert list(HistoryRepository(opened).load(since)) == windows[1000:]


def test_growing_window_is_found_once(database: Database) -> None:
    """Each flush saves the running five minutes in place of the previous save."""
    history = HistoryRepository(database)
    for seconds in (10, 60, 200):
        history.save([], running=[five_minutes(0, length=seconds * SECOND)])
        assert list(history.load()) == [five_minutes(0, length=seconds * SECOND)]
    history.save([five_minutes(0)], running=[five_minutes(1, length=SECOND)])
    history.save([five_minutes(1), five_minutes(2)])
    history.save([five_minutes(3)], running=[five_minutes(4)])
    assert list(history.load()) == [five_minutes(number) for number in range(5)]


def test_window_whose_beginning_moves_back_is_found_once(database: Database) -> None:
    """A small correction of the clock moves the start of a running window, not its identity."""
    history = HistoryRepository(database)
    shorter = five_minutes(0, length=MINUTE)
    longer = replace(five_minutes(0), start=EPOCH - MINUTE)
    history.save([], running=[shorter])
    history.save([longer])
    assert list(history.load()) == [longer]


def test_window_of_a_failed_save_is_not_continued(database: Database) -> None:
    """After a failed save, the window that it was to begin begins with the next save."""
    history = HistoryRepository(database)
    broken = DeviceRecord(gpu(), workload())
    with database.transaction() as connection:
        connection.execute("ALTER TABLE holding RENAME TO away")
    with pytest.raises(HistoryError, match="no such table: holding"):
        history.save([five_minutes(0)], [broken], running=[five_minutes(1, length=MINUTE)])
    with database.transaction() as connection:
        connection.execute("ALTER TABLE away RENAME TO holding")
    history.save([five_minutes(0)], [broken], running=[five_minutes(1, length=2 * MINUTE)])
    assert list(history.load()) == [five_minutes(0), five_minutes(1, length=2 * MINUTE)]


def lived_twice() -> list[Window]:
    """An hour lived twice, since the clock was set back; the second time with more energy."""
    first = [five_minutes(number) for number in range(12)]
    return [*first, *(replace(window, energy_joules=0.2) for window in first)]


def test_an_hour_that_is_lived_twice_is_kept_twice(path: Path) -> None:
    """Across flushes, a restart and rolling up, nothing is overwritten or counted twice."""
    lived = lived_twice()
    with closing(Database(path, MIGRATIONS, is_durable=False)) as opened:
        history = HistoryRepository(opened)
        for before, after in pairwise(lived[:18]):
            history.save([before], running=[replace(after, end=after.start + MINUTE)])
    with closing(Database(path, MIGRATIONS, is_durable=False)) as opened:
        history = HistoryRepository(opened)
        history.save([], running=[lived[18]])  # The last minute was lost when the process ended.
        history.save(lived[18:])
        lived[17] = replace(lived[17], end=lived[17].start + MINUTE)
        loaded = list(history.load())
        assert loaded == sorted(lived, key=lambda window: window.start)
        assert loaded[:2] == [lived[0], lived[12]]
        assert history.roll_up(EPOCH + 2 * HOUR) == 22
        first, second = history.load()
    assert (first.energy_joules, second.energy_joules) == pytest.approx((1.2, 2.4))
    assert (first.start, first.end) == (second.start, second.end) == (EPOCH, EPOCH + HOUR)
    assert first.accounted == second.accounted == HOUR


def test_a_span_is_loaded_from_its_beginning_to_before_its_end(database: Database) -> None:
    """Adjacent spans hold every window exactly once."""
    history = HistoryRepository(database)
    history.save(five_minutes(number) for number in range(700))
    middle = EPOCH + 600 * FIVE
    assert [w.start for w in history.load(EPOCH, middle)] == [
        EPOCH + number * FIVE for number in range(600)
    ]
    assert len(list(history.load(middle, EPOCH + 700 * FIVE))) == 100


def test_history_may_be_written_while_it_is_read(database: Database) -> None:
    """A slow reader blocks no writer, and an interrupted read leaves no trace."""
    history = HistoryRepository(database)
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
    """Windows and devices are saved together or not at all."""
    history = HistoryRepository(database)
    with database.transaction() as connection:
        connection.execute("DROP TABLE device")
    with pytest.raises(HistoryError, match="no such table: device"):
        history.save([five_minutes(0)], [DeviceRecord(gpu())])
    assert list(history.load()) == []


def test_rolling_up_keeps_every_sum(database: Database) -> None:
    """Twelve windows roll up to an hour exactly; newer windows stay fine-grained."""
    history = HistoryRepository(database)
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
    """Sums are unchanged whenever, and however often, windows are rolled up."""
    history = HistoryRepository(database)
    windows = [five_minutes(number) for number in range(36)]
    history.save(windows)
    for minutes in range(10, 200, 25):
        history.roll_up(EPOCH + minutes * MINUTE)
    states, demand, _ = summed(list(history.load()))
    assert (states, demand) == summed(windows)[:2]
    assert len(list(history.load())) == 3


@settings(max_examples=25)
@given(
    steps=st.lists(st.sampled_from([1, 1, 1, 1, 2, 30, -3, -13]), min_size=1, max_size=80),
    befores=st.lists(st.integers(0, 100), max_size=4),
)
def test_rolling_up_keeps_every_sum_whatever_the_clock_did(
    tmp_path_factory: pytest.TempPathFactory, steps: list[int], befores: list[int]
) -> None:
    """Gaps and backward steps change no sum; no hour holds more than an hour of one life."""
    lived = []
    number = 100
    for step in steps:
        number += step
        lived.append(five_minutes(number))
    folder = tmp_path_factory.mktemp("steps")
    with closing(Database(folder / "history.db", MIGRATIONS, is_durable=False)) as opened:
        history = HistoryRepository(opened)
        history.save(lived)
        for hours in befores:
            history.roll_up(EPOCH + hours * HOUR)
        rolled = list(history.load())
    assert summed(rolled)[:2] == summed(lived)[:2]
    assert all(window.accounted <= window.end - window.start <= HOUR for window in rolled)


def test_a_page_of_rolling_up_ends_within_an_hour(database: Database) -> None:
    """Windows of the same hour beyond the page are not left behind."""
    history = HistoryRepository(database)
    history.save(five_minutes(number) for number in range(12 * 120))
    assert history.roll_up(EPOCH + 120 * HOUR) == 11 * 120
    assert len(list(history.load())) == 120


def test_history_over_its_size_limit_forgets_the_oldest(path: Path) -> None:
    """The file stays within its limit under continuous writing, and reports how much it dropped."""
    most = 512 * 1024
    with closing(Database(path, MIGRATIONS, is_durable=False)) as opened:
        history = HistoryRepository(opened, most)
        for number in range(0, 6000, 50):
            history.save(five_minutes(each) for each in range(number, number + 50))
        stored = list(history.load())
        assert stored == [five_minutes(number) for number in range(6000 - len(stored), 6000)]
        assert history.forgotten == 6000 - len(stored) > 0
    assert most / 2 < path.stat().st_size <= most + 64 * 1024


def test_a_bound_that_was_lowered_shrinks_the_file(path: Path) -> None:
    """The next pruning returns the space to the disk."""
    with closing(Database(path, MIGRATIONS, is_durable=False)) as opened:
        HistoryRepository(opened).save(five_minutes(number) for number in range(6000))
    before = path.stat().st_size
    with closing(Database(path, MIGRATIONS, is_durable=False)) as opened:
        history = HistoryRepository(opened, before // 4)
        history.save([five_minutes(6000)])
        history.prune(0)
        assert next(iter(history.load())).start > EPOCH
    assert path.stat().st_size <= before // 4 + 16 * 1024


def test_another_history_is_taken_over(tmp_path: Path) -> None:
    """A replayed recording replaces the stored windows, including an hour lived twice."""
    lived = lived_twice()
    with (
        closing(Database(tmp_path / "a.db", MIGRATIONS, is_durable=False)) as one,
        closing(Database(tmp_path / "b.db", MIGRATIONS, is_durable=False)) as other,
    ):
        source = HistoryRepository(one)
        target = HistoryRepository(other)
        source.save(lived, [DeviceRecord(gpu(), workload(), EPOCH)])
        target.save([five_minutes(-1), five_minutes(3, "GPU-1"), *lived[6:12]])
        for _ in range(2):
            target.replace(source)
            assert [w for w in target.load() if w.uuid == "GPU-1"] == [five_minutes(3, "GPU-1")]
            assert [w for w in target.load() if w.uuid == "GPU-0"] == [
                five_minutes(-1),
                *source.load(),
            ]
        assert target.tenures() == source.tenures()
        assert target.devices() == source.devices()


def test_an_older_recording_does_not_change_who_holds_a_device_now(tmp_path: Path) -> None:
    """A recording as new as the stored one, or newer, does."""
    with (
        closing(Database(tmp_path / "a.db", MIGRATIONS, is_durable=False)) as one,
        closing(Database(tmp_path / "b.db", MIGRATIONS, is_durable=False)) as other,
    ):
        source = HistoryRepository(one)
        target = HistoryRepository(other)
        now = DeviceRecord(gpu(), workload("now"), EPOCH + DAY)
        target.save([five_minutes(600)], [now])
        source.save([five_minutes(0)], [DeviceRecord(gpu(), workload("then"), EPOCH)])
        target.replace(source)
        assert target.devices() == (now,)
        assert [tenure.workload for tenure in target.tenures()] == ["slurm/then", "slurm/now"]
        newest = DeviceRecord(gpu(), workload("next"), EPOCH + 2 * DAY)
        source.save([five_minutes(601)], [newest])
        target.replace(source)
        assert target.devices() == (newest,)


def test_holder_of_a_device_is_stored_with_its_windows(database: Database) -> None:
    """Each holder is stored up to the last window written while it held the device."""
    history = HistoryRepository(database)
    one = workload("one")
    other = workload("other")
    history.save([five_minutes(0)], [DeviceRecord(gpu(), one, EPOCH)])
    history.save([], [DeviceRecord(gpu(), one, EPOCH)], running=[five_minutes(1, length=MINUTE)])
    since = EPOCH + FIVE + MINUTE
    history.save([five_minutes(1)], [DeviceRecord(gpu(), other, since)])
    history.save([five_minutes(2)], [DeviceRecord(gpu())])
    assert history.tenures() == (
        HolderPeriod("GPU-0", EPOCH, one.key, since),
        HolderPeriod("GPU-0", since, other.key, EPOCH + 2 * FIVE),
    )
    held = [
        [tenure.workload for tenure in history.tenures() if tenure.overlaps(five_minutes(number))]
        for number in range(3)
    ]
    assert held == [[one.key], [one.key, other.key], []]
    history.prune(EPOCH + DAY)
    assert history.tenures() == ()


def test_pruning_forgets_what_is_too_old(database: Database) -> None:
    """Expired windows and devices not seen since are removed."""
    history = HistoryRepository(database)
    history.save([five_minutes(0)], [DeviceRecord(gpu(0))])
    history.save([five_minutes(5000)], [DeviceRecord(gpu(1))])
    assert history.prune(EPOCH + DAY) == 1
    assert list(history.load()) == [five_minutes(5000)]
    assert [device.device for device in history.devices()] == [gpu(1)]


def test_device_stays_seen_while_nothing_new_is_written_of_it(database: Database) -> None:
    """A flush without windows keeps a known device known."""
    history = HistoryRepository(database)
    history.save([five_minutes(5000)], [DeviceRecord(gpu())])
    history.save([], [DeviceRecord(gpu(), workload())])
    history.prune(EPOCH + DAY)
    assert history.devices() == (DeviceRecord(gpu(), workload()),)


def test_devices_come_back_with_their_holders(database: Database) -> None:
    """Facts of a board, of its MIG instance, its holder and since when are restored."""
    known = (
        DeviceRecord(gpu(0), workload(), EPOCH),
        DeviceRecord(INSTANCE),
        DeviceRecord(gpu(2, board=None, memory_total_bytes=None)),
    )
    HistoryRepository(database).save([five_minutes(0)], reversed(known))
    assert HistoryRepository(database).devices() == known


def test_rows_that_cannot_be_understood_are_passed_over(database: Database) -> None:
    """A newer or damaged row breaks neither reading, rolling up nor pruning."""
    history = HistoryRepository(database)
    history.save([five_minutes(0), five_minutes(1), five_minutes(2)], [DeviceRecord(gpu())])
    with database.transaction() as connection:
        connection.execute("UPDATE window SET data = x'7b' WHERE start = ?", (EPOCH + FIVE,))
        connection.execute(
            "INSERT INTO device VALUES ('a', '{}', 0), ('b', '[]', 0), ('c', 'torn', 0)"
        )
    assert list(history.load()) == [five_minutes(0), five_minutes(2)]
    assert [device.device for device in history.devices()] == [gpu()]
    assert history.roll_up(EPOCH + HOUR) == 1
    assert [window.accounted for window in history.load()] == [2 * FIVE]
    assert history.prune(EPOCH + DAY) == 2


def test_pruned_history_shrinks_the_file(database: Database) -> None:
    """Deleted rows return their space to the disk."""
    history = HistoryRepository(database)
    history.save(five_minutes(number) for number in range(5000))
    with database.transaction() as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    full = history.size_bytes
    history.prune(EPOCH + 100 * DAY)
    with database.transaction() as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    assert full > 400_000
    assert history.size_bytes < full / 8


def test_window_of_nothing_is_saved_too(database: Database) -> None:
    """A recording may begin at time 0."""
    empty = replace(five_minutes(0), start=0, end=FIVE)
    HistoryRepository(database).save([empty])
    assert list(HistoryRepository(database).load()) == [empty]
