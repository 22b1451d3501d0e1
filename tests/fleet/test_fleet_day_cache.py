"""`DayCache` stores a shard's day atomically, and discards what is broken or old."""

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from cached_fleet import FIRST_DAY, day_frame
from readings import workload
from rightsizer.fleet.cache.day_cache import DayCache, PackedDay
from rightsizer.fleet.cache.day_codec import pack
from rightsizer.fleet.cache.day_frame import DayFrame
from rightsizer.fleet.cache.grid import COARSE_STEP, FINE_STEP, Grid
from rightsizer.fleet.model import DeviceHolding, FleetDay
from rightsizer.model.errors import HistoryError

JOB = workload("job")
UUIDS = ("GPU-0", "GPU-1")


def day_of(
    number: int = FIRST_DAY, step: int = COARSE_STEP, source: str = "rightsizer"
) -> PackedDay:
    """Two GPUs, one of which a job holds for half of the day."""
    grid = Grid(number, step)
    return PackedDay.of(
        source,
        grid,
        UUIDS,
        grid.end,
        FleetDay(
            {f"GPU-{each}": day_frame(number, step) for each in (0, 1)},
            {"GPU-0": (DeviceHolding(JOB, 0, grid.count // 2 - 1, 0.5),)},
        ),
    )


def test_a_day_comes_back_with_who_held_it(tmp_path: Path) -> None:
    """Covers tracks, holdings, workloads and the mark of a completed read."""
    with DayCache(tmp_path / "fleet.db") as day_cache:
        day_cache.put(day_of())
        found = day_cache.frames(UUIDS, FIRST_DAY, FIRST_DAY)
        (row,) = day_cache.holdings(FIRST_DAY, FIRST_DAY)
        assert pack(found["GPU-1"][0].frame) == pack(day_frame(FIRST_DAY))
        assert (row.uuid, row.workload, row.share_ratio) == ("GPU-0", JOB.key, 0.5)
        assert (row.start, row.end) == (
            Grid(FIRST_DAY, COARSE_STEP).start,
            row.start + 12 * COARSE_STEP,
        )
        assert day_cache.workloads() == {JOB.key: JOB}
        until = Grid(FIRST_DAY, COARSE_STEP).end
        done = day_cache.done("rightsizer", [FIRST_DAY])
        assert done == {(FIRST_DAY, uuid): until for uuid in UUIDS}


def test_days_that_were_kept_without_queues_are_read_again(tmp_path: Path) -> None:
    """They are usable until then; days of agents, which have queues, stay valid."""
    path = tmp_path / "fleet.db"
    with DayCache(path) as day_cache:
        day_cache.put(day_of())
        day_cache.put(day_of(source="dcgm-exporter"))
    with closing(sqlite3.connect(path)) as former:
        former.execute("PRAGMA user_version = 3")
    with DayCache(path) as day_cache:
        assert day_cache.done("dcgm-exporter", [FIRST_DAY]) == {}
        assert len(day_cache.done("rightsizer", [FIRST_DAY])) == len(UUIDS)
        assert len(day_cache.frames(UUIDS, FIRST_DAY, FIRST_DAY)["GPU-0"]) == 2


def test_a_day_that_is_kept_again_takes_the_place_of_the_first(tmp_path: Path) -> None:
    """Nothing is stored twice, whichever step the day was read by."""
    with DayCache(tmp_path / "fleet.db") as day_cache:
        day_cache.put(day_of())
        day_cache.put(day_of(step=FINE_STEP))
        (cached,) = day_cache.frames(["GPU-0"], FIRST_DAY, FIRST_DAY)["GPU-0"]
        assert cached.frame.grid.step == FINE_STEP
        assert len(day_cache.holdings(FIRST_DAY, FIRST_DAY)) == 1


def test_a_day_that_cannot_be_written_leaves_what_was_there(tmp_path: Path) -> None:
    """Neither its tracks nor its mark are stored."""
    with DayCache(tmp_path / "fleet.db") as day_cache:
        day_cache.put(day_of())
        broken = day_of(step=FINE_STEP)
        half = PackedDay(
            broken.source,
            broken.grid,
            broken.uuids,
            broken.until,
            {"GPU-0": broken.frames["GPU-0"], "GPU-1": None},  # type: ignore[dict-item]
            broken.holdings,
        )
        with pytest.raises(HistoryError):
            day_cache.put(half)
        (cached,) = day_cache.frames(["GPU-0"], FIRST_DAY, FIRST_DAY)["GPU-0"]
        assert cached.frame.grid.step == COARSE_STEP
        assert not day_cache.done("rightsizer", [FIRST_DAY + 1])


def test_others_look_on_while_one_writes(tmp_path: Path) -> None:
    """Readers see the state before the write; a second writer is refused."""
    with DayCache(tmp_path / "fleet.db") as day_cache:
        day_cache.put(day_of())
        with DayCache(tmp_path / "fleet.db", read_only=True) as reader:
            day_cache.put(day_of(FIRST_DAY + 1))
            assert len(reader.frames(["GPU-0"], FIRST_DAY, FIRST_DAY + 1)["GPU-0"]) == 2
        with pytest.raises(HistoryError):
            DayCache(tmp_path / "fleet.db")


def test_a_broken_file_is_set_aside(tmp_path: Path) -> None:
    """All its data can be read again, so that work continues with an empty cache."""
    path = tmp_path / "fleet.db"
    path.write_bytes(b"no database " * 1000)
    with DayCache(path) as day_cache:
        assert day_cache.database.set_aside is not None
        day_cache.put(day_of())
        assert day_cache.frames(["GPU-0"], FIRST_DAY, FIRST_DAY)


def test_a_row_that_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    """Its device counts as unknown; the other days stay."""
    with DayCache(tmp_path / "fleet.db") as day_cache:
        day_cache.put(day_of())
        day_cache.put(day_of(FIRST_DAY + 1))
        with day_cache.database.transaction() as connection:
            connection.execute("UPDATE track SET data = x'00' WHERE day = ?", (FIRST_DAY,))
        (cached,) = day_cache.frames(["GPU-0"], FIRST_DAY, FIRST_DAY + 1)["GPU-0"]
        assert cached.frame.grid.day == FIRST_DAY + 1


def test_days_that_were_read_at_once_are_kept_together(tmp_path: Path) -> None:
    """Each counts as read, a query for any returns them, and they are evicted with the last."""
    grid = Grid(FIRST_DAY, COARSE_STEP, 3)
    columns = {
        column: np.tile(values, 3)
        for column, values in day_frame(FIRST_DAY, COARSE_STEP).columns.items()
    }
    fleet_day = FleetDay(
        {"GPU-0": DayFrame.of(grid, columns)}, {"GPU-0": (DeviceHolding(JOB, 30, 71),)}
    )
    with DayCache(tmp_path / "fleet.db") as day_cache:
        day_cache.put(day_of(FIRST_DAY + 1))
        day_cache.put(PackedDay.of("rightsizer", grid, ("GPU-0",), grid.end, fleet_day))
        for day in range(FIRST_DAY, FIRST_DAY + 3):
            (cached,) = day_cache.frames(["GPU-0"], day, day)["GPU-0"]
            assert cached.frame.grid == grid
            (row,) = [
                holding for holding in day_cache.holdings(day, day) if holding.uuid == "GPU-0"
            ]
            assert row.start == grid.start + 30 * COARSE_STEP
        done = day_cache.done("rightsizer", [FIRST_DAY, FIRST_DAY + 2])
        assert {day for day, uuid in done if uuid == "GPU-0"} == set(range(FIRST_DAY, grid.day + 3))
        day_cache.forget(FIRST_DAY + 2)
        assert day_cache.frames(["GPU-0"], FIRST_DAY, FIRST_DAY)
        assert day_cache.forget(FIRST_DAY + 3) == 1
        assert not day_cache.frames(["GPU-0"], FIRST_DAY, FIRST_DAY + 3)


def test_old_days_are_evicted(tmp_path: Path) -> None:
    """So are their marks, their holders, and workloads that no day refers to any more."""
    with DayCache(tmp_path / "fleet.db") as day_cache:
        day_cache.put(day_of())
        assert day_cache.forget(FIRST_DAY + 1) == 2
        assert not day_cache.frames(UUIDS, FIRST_DAY, FIRST_DAY)
        assert not day_cache.done("rightsizer", [FIRST_DAY])
        assert not day_cache.workloads()
        day_cache.put(day_of(FIRST_DAY + 1))
        assert day_cache.workloads() == {JOB.key: JOB}
