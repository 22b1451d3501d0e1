"""Subjects in columns are summed together, and each as if it were alone."""

import pickle
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cached_fleet import FIRST_DAY, day_frames, subject_of
from readings import DAY, HOUR
from rightsizer.fleet.cache.day_cache import HoldingRow
from rightsizer.fleet.cache.day_frame import DayFrame
from rightsizer.fleet.cache.grid import COARSE_STEP, Grid
from rightsizer.fleet.columns.subject import Subject
from rightsizer.fleet.columns.subject_columns import columns_of
from rightsizer.fleet.settings import DemandSettings
from rightsizer.model.histogram import Histogram
from rightsizer.model.state import Resource, State
from rightsizer.model.units import NANOSECONDS_PER_SECOND
from rightsizer.model.window import Window, workload_subject

SETTINGS = DemandSettings()


@st.composite
def exported(draw: st.DrawFn) -> dict[Resource, Histogram]:
    """Distributions of a day, of any resources."""
    bins = st.dictionaries(st.integers(0, 100), st.floats(0.0, 86400.0), min_size=1, max_size=5)
    found = draw(st.dictionaries(st.sampled_from(Resource), bins, max_size=2))
    return {
        resource: Histogram({at: weight * NANOSECONDS_PER_SECOND for at, weight in weights.items()})
        for resource, weights in found.items()
    }


@st.composite
def fleets(draw: st.DrawFn) -> list[list[DayFrame]]:
    """Two to four subjects of up to three days; many have equal days."""
    kinds = [(draw(day_frames()), draw(exported())) for _ in range(2)]
    subjects = []
    for _ in range(draw(st.integers(2, 4))):
        chosen = draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=3))
        subjects.append(
            [
                DayFrame(
                    Grid(FIRST_DAY + place, frame.grid.step), frame.layout, frame.values, demands
                )
                for place, (frame, demands) in enumerate(chosen)
            ]
        )
    return subjects


def quantities(window: Window) -> tuple[object, ...]:
    """All public values, with the quantiles that sizes are derived from."""
    sizes = {
        resource: [demand.quantile(share) for share in (0.0, 0.5, 0.95, 1.0)]
        + [demand.total, demand.maximum(), dict(demand.items())]
        for resource, demand in window.demands.items()
    }
    times = window.states, window.conditions, window.tiers, window.saturated, window.pressed
    sums = window.waste_seconds, window.waste_joules, window.used_seconds, window.energy_joules
    return window.start, window.end, times, sums, sizes, dict(window.compute_at_least.items())


def together(subjects: Sequence[Sequence[DayFrame]]) -> list[Subject]:
    """The subjects in columns, as far as their days are read in equal steps."""
    return [Subject(*row) for row in columns_of(subjects, SETTINGS)]


@given(
    fleets(),
    st.integers(-3, 70),
    st.integers(1, 80),
    st.sampled_from(("GPU-0", workload_subject("a"))),
)
def test_subjects_are_summed_together_as_each_is_alone(
    subjects: list[list[DayFrame]], first: int, hours: int, subject: str
) -> None:
    """States, sums, distributions and blocks do not depend on the others."""
    start = FIRST_DAY * DAY + first * HOUR
    for of_many, frames in zip(together(subjects), subjects, strict=True):
        alone = subject_of(*frames)
        shared = of_many.window(subject, start, start + hours * HOUR, is_shared=True)
        single = alone.window(subject, start, start + hours * HOUR)
        assert quantities(shared) == quantities(single)
        assert shared.blocks.data == single.blocks.data


@given(fleets())
def test_quantiles_of_a_table_are_those_of_a_histogram(subjects: list[list[DayFrame]]) -> None:
    """A distribution answers as one that was built from its bins."""
    for subject in together(subjects):
        window = subject.window("GPU-0", FIRST_DAY * DAY, (FIRST_DAY + 3) * DAY, is_shared=True)
        for found in (*window.demands.values(), window.compute_at_least):
            built = Histogram(dict(sorted(found.items())))
            assert dict(pickle.loads(pickle.dumps(found)).items()) == dict(built.items())
            assert (found.mean() is None) == (built.mean() is None)
            # Since Python 3.12 a sum of floats is compensated, and numpy's is not.
            sums = (found.total, found.mean() or 0.0)
            assert sums == pytest.approx((built.total, built.mean() or 0.0), rel=1e-12)
            assert found.maximum() == built.maximum()
            for share in (0.0, 0.05, 0.5, 0.95, 0.99, 1.0):
                assert found.quantile(share) == built.quantile(share)


def test_time_of_a_workload_with_very_many_devices_is_exact() -> None:
    """Two weeks of 20,000 GPUs are more nanoseconds than 64 bits hold."""
    grid = Grid(FIRST_DAY, COARSE_STEP, 14)
    frame = DayFrame.of(grid, {"state:productive": [3600.0] * grid.count})
    row = HoldingRow("GPU-0", "a", grid, "job", 0, grid.count - 1, 1.0)
    job = subject_of(frame).columns.held([[(0, row)] * 20_000])
    window = Subject(job, 0).window(workload_subject("a"), grid.start, grid.end)
    assert window.states == {State.PRODUCTIVE: 20_000 * (grid.end - grid.start)}


@settings(max_examples=10)
@given(fleets(), st.integers(0, 71), st.integers(1, 72))
def test_running_sums_are_those_of_the_intervals(
    subjects: list[list[DayFrame]], first: int, hours: int
) -> None:
    """Known and present time of any span, whatever else was asked before."""
    start = FIRST_DAY * DAY + first * HOUR
    end = start + hours * HOUR
    for subject, frames in zip(together(subjects), subjects, strict=True):
        spans = [(frame, *frame.grid.inside(start, end)) for frame in frames]
        known = sum(frame.known_seconds()[low : max(low, high)].sum() for frame, low, high in spans)
        assert subject.known_in(start, end) == pytest.approx(known, rel=1e-6)
        assert subject.present_in(start, end) == pytest.approx(known, rel=1e-6)
