"""The plan queries what is not cached, at the finest allowed step, in queries of allowed size."""

from collections.abc import Mapping, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from cached_fleet import FIRST_DAY, estate_device
from readings import DAY, HOUR, MINUTE
from rightsizer.fleet.cache.grid import COARSE_STEP, FINE_STEP, Grid
from rightsizer.fleet.fetch import COLUMNS, FetchPlan, PlannedSource, plan_of
from rightsizer.fleet.model import Cluster
from rightsizer.fleet.settings import FleetSettings, StoreSettings
from rightsizer.fleet.source import SourceReport
from rightsizer.model.units import Nanoseconds

NOW: Nanoseconds = (FIRST_DAY + 14) * DAY + 10 * HOUR
DEVICES = tuple(estate_device(number) for number in range(20))


def nothing(source: str, days: Sequence[int]) -> Mapping[tuple[int, str], Nanoseconds]:
    """Nothing is cached."""
    del source, days
    return {}


def source(resolution: float = 30.0, oldest: Nanoseconds | None = 0) -> PlannedSource:
    """Twenty GPUs."""
    report = SourceReport("rightsizer", oldest=oldest, resolution_seconds=resolution)
    return PlannedSource(report, DEVICES)


def plan(
    now: Nanoseconds = NOW,
    done: Mapping[tuple[int, str], Nanoseconds] | None = None,
    one: PlannedSource | None = None,
    **facts: float,
) -> FetchPlan:
    """Plan with the default settings and the given ones."""
    found = nothing if done is None else lambda *_: done
    return plan_of([one or source()], found, now, FleetSettings(**facts))  # type: ignore[arg-type]


def test_all_days_are_read_finely_where_that_is_little() -> None:
    """The newest come first, so that an interrupted run has the most relevant days."""
    found = plan()
    assert found.fine_days == tuple(range(FIRST_DAY, FIRST_DAY + 15))
    assert found.coarse_days == ()
    assert [shard.grid.day for shard in found.shards] == sorted(found.fine_days, reverse=True)
    assert found.samples == 20 * COLUMNS * (14 * 288 + 120)


def test_old_days_are_read_by_the_hour_where_it_is_much() -> None:
    """The last hours are read by five minutes at any cost, each UTC day at one step."""
    found = plan(samples_maximum=300_000)
    assert found.fine_days == (FIRST_DAY + 14,)
    assert {shard.grid.step for shard in found.shards[1:]} == {COARSE_STEP}
    early = plan(now=NOW - 5 * HOUR, samples_maximum=300_000)
    assert early.fine_days == (FIRST_DAY + 13, FIRST_DAY + 14)
    assert plan(samples_maximum=300_000, fine_seconds=86400.0).fine_days == early.fine_days
    more = plan(samples_maximum=900_000)
    assert len(found.fine_days) < len(more.fine_days) < 15


@given(st.integers(300_000, 6_000_000))
@settings(max_examples=30)
def test_more_is_never_asked_for_than_is_allowed_beyond_the_last_day(most: int) -> None:
    """Another five-minute day is added only if it fits entirely."""
    found = plan(samples_maximum=most)
    assert len(found.fine_days) == 1 or found.samples <= most


@given(st.integers(100_000, 6_000_000))
@settings(max_examples=30)
def test_a_cluster_is_read_in_the_same_steps_beside_others_and_by_shards(most: int) -> None:
    """Otherwise shards would see peaks that a single look does not."""
    clusters = []
    for name, devices in (("east", DEVICES), ("west", DEVICES[:9])):
        report = replace(source().report, cluster=Cluster(name))
        clusters.append(
            PlannedSource(report, tuple(replace(device, cluster=name) for device in devices))
        )

    def steps(sources: Sequence[PlannedSource], shard: str = "") -> set[tuple[str, str, Grid]]:
        limits = FleetSettings(samples_maximum=most, shard=shard)
        return {
            (one.cluster, one.device.uuid, each.grid)
            for each in plan_of(sources, nothing, NOW, limits).shards
            for one in each.devices
        }

    whole = steps(clusters)
    assert steps(clusters[:1]) | steps(clusters[1:]) == whole
    assert set().union(*(steps(clusters, f"node:{n}/3") for n in range(3))) == whole


def test_days_by_the_hour_are_read_at_once_as_far_as_a_source_can() -> None:
    """They have the same devices and names; the newest days are not final yet."""
    one = source()
    weekly = replace(one, report=replace(one.report, days_at_once=7))
    spans = [
        (shard.grid.day - FIRST_DAY, shard.grid.days)
        for shard in plan(one=weekly, samples_maximum=300_000).shards
    ]
    assert spans == [(14, 1), (7, 7), (0, 7)]
    early = plan(now=(FIRST_DAY + 14) * DAY, one=weekly, samples_maximum=300_000, fine_seconds=0.0)
    assert [(shard.grid.day - FIRST_DAY, shard.grid.days) for shard in early.shards] == [
        (13, 1),
        (6, 7),
        (0, 6),
    ]
    assert early.samples == plan(now=early.shards[0].now, samples_maximum=300_000).samples - (
        20 * COLUMNS * (288 - 24)
    )


def test_days_that_are_not_alike_are_read_apart() -> None:
    """This is the case where devices are cached in part, or recording rules begin."""
    one = source()
    end = (FIRST_DAY + 4) * DAY
    names = {FIRST_DAY + day: frozenset({"rule"} if day > 9 else ()) for day in range(15)}
    kept = {(FIRST_DAY + 3, DEVICES[0].device.uuid): end + HOUR}
    report = replace(one.report, days_at_once=30, names_by_day=names)
    found = plan(one=replace(one, report=report), done=kept, samples_maximum=300_000)
    spans = [(shard.grid.day - FIRST_DAY, shard.grid.days) for shard in found.shards]
    assert spans == [(14, 1), (10, 4), (4, 6), (3, 1), (0, 3)]


def test_sparsely_sampled_series_is_read_by_the_hour() -> None:
    """Five minutes with one sample give no increase."""
    found = plan(one=source(resolution=300.0))
    assert {shard.grid.step for shard in found.shards} == {COARSE_STEP}


def test_days_before_the_first_sample_are_not_asked_for() -> None:
    """The store does not retain them."""
    found = plan(one=source(oldest=NOW - 2 * DAY))
    assert [shard.grid.day - FIRST_DAY for shard in found.shards] == [14, 13, 12]
    assert plan(one=source(oldest=None)).shards == ()


def test_shards_hold_as_many_devices_as_a_query_may_bring() -> None:
    """They are grouped by node, so that queries have few names."""
    settings = FleetSettings(store=StoreSettings(series_maximum=110))
    found = plan_of([source()], nothing, NOW, settings)
    today = [shard for shard in found.shards if shard.grid.day == FIRST_DAY + 14]
    assert [len(shard.devices) for shard in today] == [10, 10]
    assert [device.node for device in today[0].devices] == ["node-0"] * 8 + ["node-1"] * 2


def test_a_day_is_asked_for_until_its_last_samples_are_in() -> None:
    """A day in progress is read again, and a completed one never."""
    number = FIRST_DAY + 13
    end = (FIRST_DAY + 14) * DAY
    early = {(number, device.device.uuid): end + MINUTE for device in DEVICES}
    late = {(number, device.device.uuid): end + HOUR for device in DEVICES[:15]}
    assert number in {shard.grid.day for shard in plan(done=early).shards}
    found = plan(done=early | late)
    (left,) = [shard for shard in found.shards if shard.grid.day == number]
    assert {device.device.uuid for device in left.devices} == {f"GPU-{n}" for n in range(15, 20)}
    assert (found.kept, found.wanted) == (15, 15 * 20)


def test_a_day_that_has_hardly_begun_waits() -> None:
    """It has no completed interval yet."""
    found = plan(now=(FIRST_DAY + 14) * DAY + MINUTE)
    assert max(shard.grid.day for shard in found.shards) == FIRST_DAY + 13


def test_days_of_few_samples_are_read_by_the_hour() -> None:
    """Stores downsample old data: five-minute intervals of it would be unknown."""
    usual = source()
    report = replace(usual.report, resolution_by_day={FIRST_DAY: 300.0, FIRST_DAY + 1: 60.0})
    found = plan(one=replace(usual, report=report))
    steps = {shard.grid.day: shard.grid.step for shard in found.shards}
    assert steps.pop(FIRST_DAY) == COARSE_STEP
    assert set(steps.values()) == {FINE_STEP}
