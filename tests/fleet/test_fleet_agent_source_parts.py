"""Parts of the agent source that need no store."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from readings import gpu
from rightsizer.accounting.classification_settings import UsageSettings
from rightsizer.exposition.families import BUCKET_EDGES
from rightsizer.exposition.report_collector import RISK_BOUNDS
from rightsizer.fleet.cache.day_frame import ColumnKind
from rightsizer.fleet.cache.grid import COARSE_STEP, Grid
from rightsizer.fleet.columns.distributions import bins_of
from rightsizer.fleet.source import SampledSeries
from rightsizer.fleet.sources import figures
from rightsizer.fleet.sources.agent.columns import (
    demands_of,
    measure_columns,
    presence_of,
    time_columns,
)
from rightsizer.fleet.sources.agent.day import held, workload_by_key, workload_of
from rightsizer.fleet.sources.agent.source import node_advice
from rightsizer.fleet.sources.figures import DeviceFigure
from rightsizer.fleet.sources.series import placed
from rightsizer.io.yaml import load_yaml
from rightsizer.model.block import Measure
from rightsizer.model.finding import Risk
from rightsizer.model.histogram import Histogram
from rightsizer.model.metric import METRICS
from rightsizer.model.state import Resource, State
from rightsizer.model.workload import WorkloadClass, WorkloadKind


def _bin(ratio: float) -> int:
    return int(bins_of(np.array([ratio]))[0])


GRID = Grid(20_600, COARSE_STEP)
HOURS = st.lists(st.integers(0, 23), unique=True).map(sorted)
SHARES = st.floats(0, 1)
COMPUTE_PEAK = ColumnKind.PEAK.column(Measure.COMPUTE)
RULES = Path(__file__).parents[2] / "config" / "prometheus" / "rules.yaml"


@pytest.mark.parametrize("figure", figures.RECORDED_FIGURES, ids=lambda figure: figure.name)
def test_figures_are_exported_and_recorded(figure: DeviceFigure) -> None:
    """Each measure has an expression with and one without recording rules, of existing names."""
    groups = load_yaml(RULES.read_text("utf-8"), "rules").data["groups"]
    rules = {rule["record"] for group in groups for rule in group["rules"]}
    names = [name for form in figure.forms for name in figures.names_in(form)]
    for name in names:
        stem = name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count")
        assert name in rules if ":" in name else stem in METRICS, name
    assert any(":" in name for name in names)
    assert any(":" not in name for name in names)


@given(hours=HOURS)
def test_samples_are_placed_where_their_stretch_is(hours: list[int]) -> None:
    """This holds for samples at every interval, at contiguous ones, and at a few."""
    times = [GRID.start + (hour + 1) * GRID.step for hour in hours]
    (column,) = placed([SampledSeries({}, np.array(times, int), np.array(hours, float))], GRID)
    assert {place for place, value in enumerate(column) if not math.isnan(value)} == set(hours)
    assert all(column[hour] == hour for hour in hours)


def test_samples_of_another_day_are_left_out() -> None:
    """A sample at the day's very beginning belongs to the day before."""
    times = [GRID.start, GRID.start + GRID.step, GRID.end, GRID.end + GRID.step]
    (column,) = placed([SampledSeries({}, np.array(times), np.arange(1.0, 5.0))], GRID, 0.0)
    assert list(column) == [2.0] + [0.0] * 22 + [3.0]


@given(data=st.data())
def test_states_always_sum_to_the_stretch(data: st.DataObject) -> None:
    """The store may extrapolate, and the interval may be known in part only."""
    part = st.lists(st.floats(0, 2000), min_size=24, max_size=24)
    states = {
        state.value: np.array([data.draw(part)])
        for state in (State.UNKNOWN, State.PRODUCTIVE, State.IDLE_HELD)
    }
    presence = presence_of(states, GRID)
    answers = {ColumnKind.STATE.column(state): column for state, column in states.items()}
    columns = time_columns(answers, presence, GRID)
    for place in range(24):
        total = sum(column[0, place] for column in columns.values())
        if any(values[0, place] for values in states.values()):
            assert total == pytest.approx(3600, abs=0.01)
            assert all(column[0, place] >= 0 for column in columns.values())
        else:
            assert math.isnan(total)


@given(
    counts=st.lists(st.floats(0, 1e5), min_size=11, max_size=11),
    peaks=st.lists(SHARES, min_size=24, max_size=24),
)
def test_buckets_keep_their_seconds(counts: list[float], peaks: list[float]) -> None:
    """Buckets keep the seconds of the store, however they are spread."""
    edges = np.cumsum([counts], axis=1)
    known = np.full((1, 24), 3600.0)
    (demands,) = demands_of({"sm_work": edges}, {COMPUTE_PEAK: np.array([peaks])}, known, 0.6)
    found = demands.get(Resource.COMPUTE, Histogram())
    for edge, seconds in zip(BUCKET_EDGES, edges[0], strict=True):
        assert found.cumulative()[_bin(edge)] / 1e9 == pytest.approx(seconds, abs=1e-3)


@given(pairs=st.lists(st.tuples(SHARES, SHARES), min_size=1, max_size=50), share=st.floats(0.01, 1))
def test_power_weighs_busy_time_as_an_upper_bound(
    pairs: list[tuple[float, float]], share: float
) -> None:
    """Without profiling no quantile is below that of the true products."""
    truth = Histogram()
    busy = Histogram()
    power = Histogram()
    for time, draw in pairs:
        truth.add(time * min(1.0, draw / 0.6), 1.0)
        busy.add(time, 1.0)
        power.add(draw, 1.0)
    buckets = {
        name: np.array([[histogram.cumulative()[_bin(edge)] for edge in BUCKET_EDGES]])
        for name, histogram in (("busy", busy), ("power", power))
    }
    found = demands_of(buckets, {}, np.zeros((1, 24)), 0.6)[0][Resource.COMPUTE]
    # A bucket's seconds are spread evenly, so that only its end is known.
    edge = next(
        bucket_edge
        for bucket_edge in BUCKET_EDGES
        if found.cumulative()[_bin(bucket_edge)] >= share * found.total - 1
    )
    assert truth.quantile(share) is not None
    assert (truth.quantile(share) or 0.0) <= edge + 0.011


def test_memory_is_known_by_its_peaks() -> None:
    """Peaks are rounded to a percent, over known time only."""
    peaks = {ColumnKind.PEAK.column(Measure.MEMORY): np.array([[0.734, 0.9, math.nan]])}
    found = demands_of({}, peaks, np.array([[60.0, 0.0, math.nan]]), 0.6)
    assert found == [{Resource.MEMORY: Histogram({74: 60e9})}]


def columns_of(**means: list[float]) -> dict[str, list[float]]:
    """Mean columns of a device known for a whole day, from hourly means."""
    whole = {name: np.array([values * 24]) for name, values in means.items()}
    presence = presence_of({"productive": np.full((1, 24), 3600.0)}, GRID)
    if "used" in whole:
        whole[ColumnKind.USED.column("seconds")] = whole.pop("used")
    found = measure_columns(whole, presence, [gpu()], UsageSettings())
    return {name: values[0].tolist() for name, values in found.items()}


def test_compute_without_profiling_is_bounded_by_power_and_by_what_was_used() -> None:
    """The least of three bounds applies; a device that is busy at low power computes little."""
    name = ColumnKind.MEAN.column(Measure.COMPUTE)
    assert columns_of(busy=[0.9])[name][0] == pytest.approx(0.9)
    assert columns_of(busy=[0.9], power=[0.3])[name][0] == pytest.approx(0.5)
    assert columns_of(busy=[0.9], power=[0.3], used=[720.0])[name][0] == pytest.approx(0.2)


@given(st.lists(st.tuples(SHARES, SHARES), min_size=1, max_size=9))
def test_peaks_without_profiling_are_bounded_by_the_product_of_peaks(
    moments: list[tuple[float, float]],
) -> None:
    """No moment's product exceeds the product of peaks, nor the busy share alone."""
    busy, power = (max(each) for each in zip(*moments, strict=True))
    whole = np.ones((1, GRID.count))
    presence = presence_of({"productive": 3600.0 * whole}, GRID)
    answers = {"busy": 0.0 * whole, "busy_peak": busy * whole, "power_peak": power * whole}
    found = measure_columns(answers, presence, [gpu()], UsageSettings())
    bound = found[COMPUTE_PEAK][0, 0]
    full = UsageSettings().working_power_ratio
    assert bound >= max(share * min(1.0, draw / full) for share, draw in moments) - 1e-6
    assert bound <= busy + 1e-6


def test_pipes_bound_compute_from_below_at_the_clock_that_ran() -> None:
    """The bound is a share of the achievable rate, and never exceeds the use."""
    lower = ColumnKind.MEAN.column(Measure.COMPUTE_AT_LEAST)
    device = gpu()
    given_all = {"busy": [1.0], "sm_work": [0.6], "tensor": [0.3], "clock": [0.5]}
    expected = 0.3 / device.achievable_compute_ratio * 0.5
    assert columns_of(**given_all)[lower][0] == pytest.approx(expected)
    assert columns_of(**given_all, used=[36.0])[lower][0] == pytest.approx(0.01)
    assert lower not in columns_of(busy=[1.0], sm_work=[0.6], tensor=[0.3])


def test_unknown_means_stay_unknown() -> None:
    """They are neither 0 nor the whole resource."""
    columns = columns_of(busy=[0.5], sm_work=[math.nan], memory_bytes=[math.nan], dram=[math.nan])
    for measure in (Measure.MEMORY, Measure.MEMORY_BYTES, Measure.MEMORY_BANDWIDTH):
        assert all(math.isnan(value) for value in columns[ColumnKind.MEAN.column(measure)])
    assert columns[ColumnKind.MEAN.column(Measure.COMPUTE)][0] == pytest.approx(0.5)


@given(data=st.data())
def test_parts_of_holders_are_runs_that_sum_to_one(data: st.DataObject) -> None:
    """Each interval with a holder is in exactly one of that holder's runs."""
    part = st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=24, max_size=24)
    shares = {key: data.draw(part) for key in ("slurm:1", "slurm:2")}
    found = held(np.array([*shares.values()]), [workload_by_key(key) for key in shares])
    for place in range(24):
        there = {
            each.workload.key: each.share_ratio
            for each in found
            if each.first <= place <= each.last
        }
        assert there.keys() == {key for key, parts in shares.items() if parts[place]}
        assert sum(there.values()) <= 1.0 + 1e-9


@pytest.mark.parametrize(
    ("key", "kind", "namespace", "name"),
    [
        ("kubernetes:research/train", WorkloadKind.KUBERNETES, "research", "train"),
        ("kubernetes/research/train", WorkloadKind.KUBERNETES, "research", "train"),
        ("slurm:17", WorkloadKind.SLURM, "", "17"),
        ("whoever", WorkloadKind.OTHER, "", "whoever"),
    ],
)
def test_keys_say_who_a_workload_is(
    key: str, kind: WorkloadKind, namespace: str, name: str
) -> None:
    """Days without other metadata are resolved by the key."""
    found = workload_by_key(key)
    assert (found.key, found.kind, found.namespace, found.name) == (key, kind, namespace, name)
    assert (found.workload_class is WorkloadClass.BATCH) == (kind is WorkloadKind.SLURM)


def test_own_labels_go_before_those_of_the_scrape() -> None:
    """Kubernetes discovery adds the agent's own namespace and pod to every series."""
    found = workload_of(
        {
            "workload": "kubernetes:ml/train",
            "class": "batch",
            "namespace": "monitoring",
            "exported_namespace": "ml",
            "pod": "rightsizer-x",
            "exported_pod": "train-0",
        }
    )
    assert found is not None
    assert (found.namespace, found.pod) == ("ml", "train-0")
    assert workload_of({"class": "batch"}) is None


@pytest.mark.parametrize("risk", [*RISK_BOUNDS])
def test_risks_are_those_that_agents_export(risk: Risk) -> None:
    """A series without a bound has unknown risk."""
    labels = {"id": "a", "instance": "n"}
    advice = [SampledSeries(labels, np.zeros(1, int), np.ones(1))]
    bound = SampledSeries(
        labels | {"figure": "risk"}, np.zeros(1, int), np.array([RISK_BOUNDS[risk]])
    )
    assert [each.risk for each in node_advice(advice, [bound])] == [risk.value]
    assert [each.risk for each in node_advice(advice, [])] == ["Unknown"]
