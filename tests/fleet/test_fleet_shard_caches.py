"""Caches of shards of the nodes, taken over by one cache, are those of a fleet that reads alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import SEEK_END
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from cached_fleet import FIRST_DAY, MadeUp, NoStore, estate_device
from readings import DAY, HOUR, MINUTE, workload
from rightsizer.fleet.cache.day_cache import DayCache, rows_by_day
from rightsizer.fleet.cache.day_frame import frames_by_day
from rightsizer.fleet.cases.case import BatchRequest
from rightsizer.fleet.cases.evaluation import BatchEvaluation, evaluate_batches
from rightsizer.fleet.cases.occupancy import occupancy_of
from rightsizer.fleet.cases.view_builder import view_of
from rightsizer.fleet.fetch import FetchTask, PlannedSource, fetch, plan_of
from rightsizer.fleet.model import FleetDevice
from rightsizer.fleet.process_pool import ProcessPool
from rightsizer.fleet.settings import FleetSettings
from rightsizer.fleet.source import SourceReport
from rightsizer.model.errors import HistoryError
from rightsizer.model.state import State
from rightsizer.model.workload import Workload, WorkloadClass

JOBS = (workload("llama", WorkloadClass.SERVING), workload("train"), workload("sweep"))
BEGIN = FIRST_DAY + 3
LATE = 15 * MINUTE
SETTINGS = FleetSettings(lookback_seconds=3 * 86400.0, samples_maximum=100_000)


class SmallFleet(Struct, frozen=True):
    """GPUs of some nodes, with jobs over any of them, and when it is looked at."""

    devices: Mapping[str, FleetDevice]
    holders: Mapping[str, Workload]
    shards: int
    times: Sequence[int]
    """Of the looks, in hours after the third day."""

    def look(self, cache: DayCache, number: int, shard: str = "", version: int = 0) -> None:
        """Read what is missing at a look; with the version the store's answers change."""
        states = dict.fromkeys(self.holders, (State.PRODUCTIVE, State.IDLE_HELD)[version % 2])
        source = MadeUp(self.holders, states)
        report = SourceReport(
            "rightsizer", devices=len(self.devices), oldest=FIRST_DAY * DAY, days_at_once=7
        )
        plan = plan_of(
            [PlannedSource(report, tuple(self.devices.values()))],
            cache.done,
            self.time(number),
            replace(SETTINGS, shard=shard),
        )
        fetch(plan, cache, FetchTask(NoStore, {"rightsizer": (source, report)}), ProcessPool())

    def time(self, number: int) -> int:
        """Time of a look."""
        return BEGIN * DAY + self.times[number] * HOUR

    def verdicts(self, cache: DayCache) -> tuple[Any, ...]:
        """All verdicts at the last look, and the fleet's view."""
        now = self.time(-1)
        rows = cache.holdings(FIRST_DAY, now // DAY)
        request = BatchRequest(
            occupancy_of(self.devices, rows, now, 10 * MINUTE),
            self.devices,
            cache.workloads(),
            FIRST_DAY,
            now,
        )
        judging = BatchEvaluation(cache.database.path, spans=(DAY,), keeps_all=True)
        found = evaluate_batches(judging, request, ProcessPool())
        return found.judgements, found.tallies, view_of(found.parts, DAY, now), found.parts.uses


@st.composite
def small_fleets(draw: st.DrawFn) -> SmallFleet:
    """Up to a dozen GPUs on up to five nodes."""
    numbers = range(draw(st.integers(1, 12)))
    devices = [
        replace(estate_device(number), node=f"node-{draw(st.integers(0, 4))}") for number in numbers
    ]
    held = {device.device.uuid: draw(st.sampled_from([None, *JOBS])) for device in devices}
    return SmallFleet(
        {device.device.uuid: device for device in devices},
        {uuid: job for uuid, job in held.items() if job is not None},
        draw(st.integers(1, 4)),
        draw(st.lists(st.integers(1, 60), min_size=1, max_size=3, unique=True).map(sorted)),
    )


def by_day(cache: DayCache, now: int) -> tuple[list[Any], ...]:
    """What is known of the days looked back at, however many were read at once."""
    first = now // DAY - 3
    last = now // DAY
    uuids = [uuid for (uuid,) in cache.database.rows("SELECT DISTINCT uuid FROM done")]
    frames = [
        (uuid, each.grid.day, each.grid.step, each.layout.columns, each.values.tobytes())
        for uuid, cached in cache.frames(uuids, first, last).items()
        for each in frames_by_day(frame for _, frame in cached)
        if each.grid.day >= first
    ]
    held = [
        (each.grid.day, each.grid.step, *each[:2], *each[3:])
        for each in rows_by_day(cache.holdings(first, last))
        if each.grid.day >= first
    ]
    done = [*cache.done("rightsizer", range(first, last + 1))]
    return sorted(frames), sorted(held), sorted(done), sorted(cache.workloads())


def rows(cache: DayCache) -> list[list[tuple[object, ...]]]:
    """All rows, byte by byte."""
    queries = (
        "SELECT * FROM track ORDER BY uuid, day",
        "SELECT * FROM holding ORDER BY uuid, day, first, workload",
        "SELECT * FROM done ORDER BY uuid, day",
        "SELECT * FROM workload ORDER BY key",
    )
    return [cache.database.rows(query) for query in queries]


def taken_over(merged: DayCache, folder: Path, number: int) -> int:
    """Take over a shard's days; return when it last read any. One without nodes has no file."""
    if not (folder / f"{number}.db").exists():
        return 0
    with DayCache(folder / f"{number}.db", read_only=True) as part:
        return merged.take_over(part, LATE)


@settings(max_examples=40)
@given(small_fleets(), st.data())
def test_what_shards_read_is_what_a_single_look_reads(
    fleet: SmallFleet, data: st.DataObject
) -> None:
    """At every look, though the store's answers for the same day change, and all verdicts too."""
    order = data.draw(st.permutations(range(fleet.shards)))
    with (
        TemporaryDirectory() as name,
        DayCache(Path(name) / "single.db") as single,
        DayCache(Path(name) / "merged.db") as merged,
    ):
        for look in range(len(fleet.times)):
            fleet.look(single, look, version=look)
            for number in range(fleet.shards):
                with DayCache(Path(name) / f"{number}.db") as part:
                    fleet.look(part, look, f"node:{number}/{fleet.shards}", look)
            times = [taken_over(merged, Path(name), number) for number in order]
            assert max(times) == fleet.time(look)
            assert rows(merged) == rows(single)
        assert fleet.verdicts(merged) == fleet.verdicts(single)


@settings(max_examples=40)
@given(small_fleets(), st.data())
def test_what_shards_have_not_read_is_read_by_the_merged_look(
    fleet: SmallFleet, data: st.DataObject
) -> None:
    """A shard that failed costs time, not truth; nor does one that lost its cache."""
    with (
        TemporaryDirectory() as name,
        DayCache(Path(name) / "single.db") as single,
        DayCache(Path(name) / "merged.db") as merged,
    ):
        for look in range(len(fleet.times)):
            fleet.look(single, look)
            for number in range(fleet.shards):
                if data.draw(st.booleans(), label="loses its cache"):
                    for file in Path(name).glob(f"{number}.db*"):
                        file.unlink()
                with DayCache(Path(name) / f"{number}.db") as part:
                    if data.draw(st.booleans(), label="reads"):
                        fleet.look(part, look, f"node:{number}/{fleet.shards}")
                taken_over(merged, Path(name), number)
            fleet.look(merged, look)
            assert by_day(merged, fleet.time(look)) == by_day(single, fleet.time(look))


def test_a_broken_shard_leaves_the_cache_as_it_was(tmp_path: Path) -> None:
    """The error names the shard's file."""
    fleet = SmallFleet({"GPU-0": estate_device(0)}, {"GPU-0": JOBS[0]}, 1, [2])
    with DayCache(tmp_path / "part.db") as part:
        fleet.look(part, 0)
        part.database.rows("PRAGMA wal_checkpoint(TRUNCATE)")
    with (tmp_path / "part.db").open("r+b") as file:
        size = file.seek(0, SEEK_END)
        file.seek(4096)
        file.write(b"\xff" * (size - 4096))
    with DayCache(tmp_path / "merged.db") as merged:
        fleet.look(merged, 0)
        before = rows(merged)
        with (
            pytest.raises(HistoryError, match=r"part\.db"),
            DayCache(tmp_path / "part.db", read_only=True) as broken,
        ):
            merged.take_over(broken, LATE)
        assert rows(merged) == before
        assert merged.database.breaks == 0
