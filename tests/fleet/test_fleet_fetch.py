"""Interrupted fetches resume, and queries shrink to what the store allows."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace

from cached_fleet import FIRST_DAY, MadeUp, NoStore, estate_device
from readings import DAY, HOUR, workload
from rightsizer.fleet.cache.day_cache import DayCache
from rightsizer.fleet.fetch import FetchPlan, FetchTask, PlannedSource, fetch, plan_of
from rightsizer.fleet.process_pool import ProcessPool
from rightsizer.fleet.settings import FleetSettings, StoreSettings
from rightsizer.fleet.source import SourceReport
from rightsizer.model.errors import StoreError, StoreLimitError

NOW = (FIRST_DAY + 3) * DAY + 2 * HOUR
DEVICES = tuple(estate_device(number) for number in range(5))
HOLDERS = {"GPU-0": workload("a"), "GPU-1": workload("a"), "GPU-4": workload("b")}
REPORT = SourceReport("rightsizer", devices=5, oldest=FIRST_DAY * DAY, resolution_seconds=30.0)
SETTINGS = FleetSettings(
    lookback_seconds=3 * 86400.0, store=StoreSettings(series_maximum=50), samples_maximum=100_000
)
"""A shard has four devices: two shards a day."""


def planned(day_cache: DayCache, now: int = NOW) -> FetchPlan:
    """What remains to be read."""
    return plan_of([PlannedSource(REPORT, DEVICES)], day_cache.done, now, SETTINGS)


def read(day_cache: DayCache, source: MadeUp, workers: int = 1) -> list[tuple[int, int]]:
    """Read what remains, and return the reported progress."""
    progress: list[tuple[int, int]] = []
    reading = FetchTask(NoStore, {"rightsizer": (source, REPORT)})
    with ProcessPool(workers) as pool:
        fetch(planned(day_cache), day_cache, reading, pool, lambda *each: progress.append(each))
    return progress


def stored_rows(day_cache: DayCache) -> tuple[list[tuple[object, ...]], ...]:
    """All cached rows, byte by byte."""
    with day_cache.database.transaction() as connection:
        return tuple(
            connection.execute(query).fetchall()
            for query in (
                "SELECT uuid, day, source, step, data FROM track ORDER BY uuid, day",
                "SELECT uuid, day, workload, first, last, share FROM holding ORDER BY uuid, day",
                "SELECT * FROM done ORDER BY day, uuid",
                "SELECT * FROM workload ORDER BY key",
            )
        )


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[tuple[object, ...]], ...]:
    """Rows cached by an uninterrupted run."""
    with DayCache(tmp_path_factory.mktemp("undisturbed") / "fleet.db") as day_cache:
        progress = read(day_cache, MadeUp(HOLDERS))
        assert progress == [(done, 8) for done in range(9)]
        return stored_rows(day_cache)


@pytest.mark.parametrize("fails_at", range(8))
def test_a_run_that_was_broken_off_goes_on(
    tmp_path: Path, undisturbed: tuple[list[tuple[object, ...]], ...], fails_at: int
) -> None:
    """Wherever it stopped, the next run queries only the rest, and caches the same bytes."""
    with DayCache(tmp_path / "fleet.db") as day_cache:
        with pytest.raises(StoreError, match="start it"):
            read(day_cache, MadeUp(HOLDERS, fails_at=fails_at))
        assert len(stored_rows(day_cache)[2]) == sum([4, 1] * 4) - sum(([4, 1] * 4)[fails_at:])
    with DayCache(tmp_path / "fleet.db") as day_cache:
        again = MadeUp(HOLDERS)
        read(day_cache, again)
        # Today is queried again; completed days are not.
        assert len(again.asked) == 8 - max(0, fails_at - 2)
        assert stored_rows(day_cache) == undisturbed


def test_days_that_are_over_are_asked_for_once(tmp_path: Path) -> None:
    """Only today is queried again, and yesterday until its last samples have arrived."""
    with DayCache(tmp_path / "fleet.db") as day_cache:
        read(day_cache, MadeUp(HOLDERS))
        again = MadeUp(HOLDERS)
        read(day_cache, again)
        assert {day for day, _ in again.asked} == {FIRST_DAY + 3}
        tomorrow = planned(day_cache, NOW + DAY)
        assert {shard.grid.day for shard in tomorrow.shards} == {FIRST_DAY + 3, FIRST_DAY + 4}


@pytest.mark.parametrize("most", [1, 2, 3])
def test_halves_are_asked_for_where_the_store_allows_less(
    tmp_path: Path, undisturbed: tuple[list[tuple[object, ...]], ...], most: int
) -> None:
    """The cached rows are the same."""
    with DayCache(tmp_path / "fleet.db") as day_cache:
        read(day_cache, MadeUp(HOLDERS, most=most))
        assert stored_rows(day_cache) == undisturbed


def test_a_store_that_allows_not_even_one_device_is_reported(tmp_path: Path) -> None:
    """No smaller query exists."""
    with (
        DayCache(tmp_path / "fleet.db") as day_cache,
        pytest.raises(StoreLimitError, match="fewer"),
    ):
        read(day_cache, MadeUp(HOLDERS, most=0))


def test_several_processes_keep_the_same(
    tmp_path: Path, undisturbed: tuple[list[tuple[object, ...]], ...]
) -> None:
    """Each process has a store of its own; one process writes."""
    with DayCache(tmp_path / "fleet.db") as day_cache:
        assert read(day_cache, MadeUp(HOLDERS), workers=2)[-1] == (8, 8)
        assert stored_rows(day_cache) == undisturbed


def test_a_fortnight_is_asked_for_and_kept_by_the_week(tmp_path: Path) -> None:
    """The newest days are separate: their names would otherwise be asked for in all days."""
    now = (FIRST_DAY + 14) * DAY + 2 * HOUR
    report = replace(REPORT, days_at_once=7)
    settings = replace(SETTINGS, lookback_seconds=14 * 86400.0, fine_seconds=0.0)
    source = MadeUp(HOLDERS)
    with DayCache(tmp_path / "fleet.db") as day_cache:
        plan = plan_of([PlannedSource(report, DEVICES)], day_cache.done, now, settings)
        assert [shard.grid.days for shard in plan.shards] == [1, 1, 7, 7, 7, 7]
        fetch(plan, day_cache, FetchTask(NoStore, {"rightsizer": (source, report)}), ProcessPool())
        rows = day_cache.holdings(FIRST_DAY, FIRST_DAY + 14, ["GPU-0"])
        assert [row.grid.days for row in rows] == [7, 7, 1]
        assert {
            row[0] - FIRST_DAY
            for row in day_cache.done("rightsizer", range(FIRST_DAY, FIRST_DAY + 15))
        } == {*range(15)}


@dataclass
class AwayAt(MadeUp):
    """Source that does not answer for one day."""

    day_away: int = FIRST_DAY + 1

    def day(self, store, report, devices, grid):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201
        """As the real source, but for that day."""
        if grid.day == self.day_away:
            raise StoreError("store 'made-up': does not answer; start it")
        return super().day(store, report, devices, grid)


def test_an_error_in_another_process_is_reported_with_what_was_done_kept(tmp_path: Path) -> None:
    """Its message still names the thing, the place and the remedy."""
    with DayCache(tmp_path / "fleet.db") as day_cache:
        with pytest.raises(StoreError, match="does not answer; start it"):
            read(day_cache, AwayAt(HOLDERS), workers=2)
        days = {row[1] for row in stored_rows(day_cache)[2]}
        assert FIRST_DAY + 3 in days
        assert FIRST_DAY + 1 not in days
