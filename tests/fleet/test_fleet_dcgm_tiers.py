"""Conclusions by available fields; values of missing fields are unknown."""

import math
from collections.abc import Iterator, Mapping
from typing import Final

import pytest

from dcgm_estate import (
    BUSY,
    EMPTY,
    HELD,
    NOW,
    YESTERDAY,
    EstatePast,
    Phase,
    basic,
    gpu,
    stored,
    unprofiled,
)
from rightsizer.fleet.cache.day_frame import ColumnKind
from rightsizer.fleet.cache.grid import COARSE_STEP, DAY, Grid
from rightsizer.fleet.model import FleetDay, FleetInventory
from rightsizer.fleet.prometheus.client import PrometheusStore
from rightsizer.fleet.source import SourceReport
from rightsizer.fleet.sources.dcgm_exporter.source import DcgmExporterSource
from rightsizer.model.block import Measure
from rightsizer.model.state import Condition, State, Tier

pytestmark = pytest.mark.prometheus

POWER, BASIC, SLICED, THROTTLED, TWICE, SOMETIMES, DEAD, JOB, VIOLATED, LEFT = range(10)
HOST: Final = {"Hostname": "node-a", "modelName": "NVIDIA H100 80GB HBM3"}
MEMORY: Final = {"DCGM_FI_DEV_FB_USED": 9000, "DCGM_FI_DEV_FB_FREE": 500}


def series_of_all(past: EstatePast) -> None:
    """A device for each case."""
    for number, shown in ((POWER, unprofiled), (BASIC, basic)):
        phases = [Phase(0, 8, shown(BUSY)), Phase(8, 16, shown(HELD)), Phase(16, 24, shown(EMPTY))]
        past.device(phases, UUID=gpu(number), **HOST)
    part = {"GPU_I_ID": "3", "GPU_I_PROFILE": "1g.10gb"}
    # An exporter also labels the card's own readings with each of its MIG instances.
    past.device(
        [Phase(0, 24, {**MEMORY, "DCGM_FI_DEV_POWER_USAGE": 300})], UUID=gpu(SLICED), **HOST, **part
    )
    past.device(
        [
            Phase(
                0, 12, {**BUSY, "DCGM_FI_DEV_SM_CLOCK": 1200, "DCGM_FI_DEV_CLOCKS_EVENT_REASONS": 4}
            ),
            Phase(12, 24, {**BUSY, "DCGM_FI_DEV_CLOCKS_EVENT_REASONS": 0}),
        ],
        UUID=gpu(THROTTLED),
        **HOST,
    )
    for replica in ("one", "two"):
        past.device([Phase(0, 24, BUSY)], UUID=gpu(TWICE), prometheus_replica=replica, **HOST)
        past.series(
            "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
            {"UUID": gpu(TWICE), "prometheus_replica": replica, **HOST},
            0,
            grows_by=560 * 60 * 1000,
        )
    past.device([Phase(0, 6, BUSY), Phase(12, 24, BUSY)], UUID=gpu(SOMETIMES), **HOST)
    dead = {name: 0.0 if "_PROF_" in name else value for name, value in BUSY.items()}
    past.device([Phase(0, 24, dead)], UUID=gpu(DEAD), **HOST)
    past.device([Phase(0, 24, BUSY, {"hpc_job": "4711"})], UUID=gpu(JOB), **HOST)
    past.device([Phase(0, 24, {**BUSY, "DCGM_FI_DEV_SM_CLOCK": 1200})], UUID=gpu(VIOLATED), **HOST)
    past.series(
        "DCGM_FI_DEV_THERMAL_VIOLATION",
        {"UUID": gpu(VIOLATED), **HOST},
        0,
        grows_by=0.25 * 60 * 1e9,
    )
    pod = {"pod": "tune-x5k2m", "namespace": "lab", "container": "main"}
    past.device([Phase(6, 6.25, BUSY, pod), Phase(6.25, 24, EMPTY)], UUID=gpu(LEFT), **HOST)


@pytest.fixture(scope="module")
def store() -> Iterator[PrometheusStore]:
    """All devices in one store."""
    past = EstatePast()
    series_of_all(past)
    with stored(past) as found:
        yield found


@pytest.fixture(scope="module")
def looked(store: PrometheusStore) -> tuple[SourceReport, FleetInventory, FleetDay]:
    """Five-minute result of the source."""
    source = DcgmExporterSource()
    report = source.probe(store, NOW, DAY)
    estate = source.inventory(store, report, NOW, DAY)
    return report, estate, source.day(store, report, list(estate.devices.values()), YESTERDAY)


def hours(day: FleetDay, number: int, *columns: str) -> list[float]:
    """Hours in the given columns of seconds; unknown counts as 0."""
    track = day.frames[gpu(number)]
    return [
        round(sum(value for value in track.columns[column] if not math.isnan(value)) / 3600, 1)
        for column in columns
    ]


SourceResult = tuple[SourceReport, FleetInventory, FleetDay]


def test_power_and_utilization_tell_work_from_rest(looked: SourceResult) -> None:
    """Without profiling, busy at high power is productive, and no bottleneck is concluded."""
    columns = [
        ColumnKind.STATE.column(state)
        for state in (State.PRODUCTIVE, State.IDLE_HELD, State.IDLE_EMPTY)
    ]
    assert hours(looked[2], POWER, *columns, ColumnKind.TIER.column(Tier.POWER)) == [8, 8, 8, 24]
    assert ColumnKind.MEAN.column(Measure.COMPUTE) in looked[2].frames[gpu(POWER)].columns
    assert (
        ColumnKind.MEAN.column(Measure.MEMORY_BANDWIDTH) not in looked[2].frames[gpu(POWER)].columns
    )


def test_utilization_alone_is_the_basic_tier(looked: SourceResult) -> None:
    """Idle time is known, energy is not."""
    track = looked[2].frames[gpu(BASIC)]
    columns = [
        ColumnKind.STATE.column(State.IDLE_HELD),
        ColumnKind.STATE.column(State.IDLE_EMPTY),
        ColumnKind.TIER.column(Tier.BASIC),
    ]
    assert hours(looked[2], BASIC, *columns) == [8, 8, 24]
    assert ColumnKind.ENERGY.column("joules") not in track.columns


def test_an_instance_without_profiling_is_not_known(looked: SourceResult) -> None:
    """Its utilization is not exported; of the card's power it has a part."""
    name = f"{gpu(SLICED)}/gi3"
    found = looked[1].devices[name].device
    assert found.mig is not None
    assert found.mig.compute_share == pytest.approx(1 / 7)
    columns = [*looked[2].frames[name].columns]
    assert [column for column in columns if column.startswith("state:")] == ["state:unknown"]
    assert set(columns) <= {"state:unknown", "energy:joules"}


def test_reasons_tell_throttling(looked: SourceResult) -> None:
    """The power limit throttled it for half of the day; other devices have no such time."""
    power = ColumnKind.CONDITION.column(Condition.POWER_THROTTLED)
    assert hours(looked[2], THROTTLED, power) == [12]
    assert power not in looked[2].frames[gpu(TWICE)].columns
    waste = ColumnKind.WASTE.column("throttled")
    assert hours(looked[2], THROTTLED, waste)[0] > 1


def test_device_scraped_twice_counts_once(looked: SourceResult) -> None:
    """Time, energy and the number of devices count once, and a warning is given."""
    report, estate, day = looked
    assert hours(day, TWICE, ColumnKind.STATE.column(State.COMPUTE_BOUND)) == [24]
    joules = sum(day.frames[gpu(TWICE)].columns[ColumnKind.ENERGY.column("joules")])
    assert joules == pytest.approx(560 * 86400, rel=0.02)
    assert report.devices == len(estate.devices)
    assert any("1 of the GPUs; each is counted once" in text for text in report.warnings)


def test_time_without_samples_is_unknown(looked: SourceResult) -> None:
    """It counts neither as idle nor as 0."""
    assert hours(looked[2], SOMETIMES, ColumnKind.STATE.column(State.COMPUTE_BOUND)) == [18]
    idle = looked[2].frames[gpu(SOMETIMES)].columns[ColumnKind.STATE.column(State.IDLE_EMPTY)]
    unknown = [at for at, value in enumerate(idle) if math.isnan(value)]
    assert unknown == list(range(72, 144))


def test_dead_counters_are_no_rest(looked: SourceResult) -> None:
    """Counters that read 0 while driver and power disagree are ignored."""
    idle = [ColumnKind.STATE.column(State.IDLE_HELD), ColumnKind.STATE.column(State.HIDDEN_STALL)]
    assert hours(looked[2], DEAD, *idle, ColumnKind.STATE.column(State.PRODUCTIVE)) == [0, 0, 24]


def test_a_job_holds_its_device(looked: SourceResult) -> None:
    """Its key is that of an agent."""
    (run,) = looked[2].holdings[gpu(JOB)]
    assert (run.workload.key, run.first, run.last) == ("slurm:4711", 0, 287)


def test_an_hour_is_read_as_five_minutes_are(store: PrometheusStore, looked: SourceResult) -> None:
    """Hours are equal on the coarse grid where values are constant within an hour."""
    report, estate, _ = looked
    day = DcgmExporterSource().day(
        store, report, [estate.devices[gpu(POWER)]], Grid(YESTERDAY.day, COARSE_STEP)
    )
    columns: Mapping[str, object] = day.frames[gpu(POWER)].columns
    states = (State.PRODUCTIVE, State.IDLE_HELD, State.IDLE_EMPTY)
    assert hours(day, POWER, *map(ColumnKind.STATE.column, states)) == [8, 8, 8]
    assert ColumnKind.CONDITION.column(Condition.RANK_IMBALANCE) not in columns


def test_violations_tell_how_long_clocks_were_held_down(looked: SourceResult) -> None:
    """A counter shows a quarter of the day; the power limit's time is unknown."""
    thermal = ColumnKind.CONDITION.column(Condition.THERMAL_THROTTLED)
    assert hours(looked[2], VIOLATED, thermal) == [6]
    power = ColumnKind.CONDITION.column(Condition.POWER_THROTTLED)
    assert power not in looked[2].frames[gpu(VIOLATED)].columns


def test_a_holder_that_leaves_takes_its_part_of_the_hour(
    store: PrometheusStore, looked: SourceResult
) -> None:
    """Its series end with it, and the rest of the hour is not attributed to it."""
    report, estate, _ = looked
    grid = Grid(YESTERDAY.day, COARSE_STEP)
    day = DcgmExporterSource().day(store, report, [estate.devices[gpu(LEFT)]], grid)
    (run,) = day.holdings[gpu(LEFT)]
    assert (run.first, run.last, run.share_ratio) == (6, 6, 0.25)
    columns = day.frames[gpu(LEFT)].columns
    assert columns[ColumnKind.MEAN.column(Measure.BUSY)][6] == pytest.approx(0.97 / 4, rel=0.01)
    assert columns[ColumnKind.PEAK.column(Measure.BUSY)][6] == pytest.approx(0.97)


def test_a_peak_is_never_below_its_mean(looked: SourceResult) -> None:
    """This holds for any measure of any device."""
    for track in looked[2].frames.values():
        for measure in Measure:
            mean, peak = (
                track.columns.get(of(measure))
                for of in (ColumnKind.MEAN.column, ColumnKind.PEAK.column)
            )
            if mean is not None and peak is not None:
                assert all(not high < low for low, high in zip(mean, peak, strict=True))
