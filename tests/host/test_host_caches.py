"""State of the host collector between two readings, and rates of counters."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightsizer.host.cache import ExpiringCache, RefreshingCache
from rightsizer.host.cgroups import ControlGroup, cores_allowed, outermost
from rightsizer.host.files import cpu_set
from rightsizer.host.rates import CounterMeter, MonotonicCounter

COUNTS = st.floats(min_value=0, max_value=1e18, allow_nan=False)
PATHS = st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map("/".join)


@given(st.lists(st.tuples(COUNTS, COUNTS), min_size=1, max_size=20))
def test_rates_are_never_negative(looks: Sequence[tuple[float, float]]) -> None:
    """For any counters, a rate is missing or not negative."""
    meter: CounterMeter[str] = CounterMeter(1)
    for now, (used, available) in enumerate(looks):
        counter = MonotonicCounter(used, available)
        rates = meter.update(now, lambda counter=counter: {"a": counter})
        assert all(rate >= 0 for rate in rates.values())
        assert now > 0 or rates == {}


@given(st.integers(min_value=0, max_value=10**15), st.lists(st.integers(0, 10**6), min_size=1))
def test_rates_add_up_to_the_counter(start: int, steps: list[int]) -> None:
    """A reading a second loses nothing and counts nothing twice."""
    meter: CounterMeter[str] = CounterMeter(1)
    counter = start
    total = 0.0
    for now, step in enumerate([0, *steps]):
        counter += step
        rates = meter.update(now, lambda: {"a": MonotonicCounter(counter, now)})  # noqa: B023 - read at once.
        total += rates.get("a", 0.0)
    assert total == counter - start


@given(st.sets(PATHS, min_size=1, max_size=8))
def test_nested_groups_count_once(paths: set[str]) -> None:
    """Each group is within exactly one of the summed groups."""
    groups = {ControlGroup("/", path, is_unified=True) for path in paths}
    chosen = outermost(groups)
    assert all(sum(each in chosen for each in group.lineage) == 1 for group in groups)


@given(st.sets(PATHS, min_size=1, max_size=6), st.dictionaries(PATHS, st.integers(1, 64)))
def test_no_quota_above_is_exceeded(paths: set[str], quotas: dict[str, int]) -> None:
    """Groups together have at most the quota of each group around them."""
    groups = outermost({ControlGroup("/", path, is_unified=True) for path in paths})

    def quota(group: ControlGroup) -> float:
        return quotas.get(group.path, float("inf"))

    allowed = cores_allowed(groups, quota)
    assert allowed <= sum(min(map(quota, group.lineage)) for group in groups)
    around = set.intersection(*(set(group.lineage) for group in groups))
    assert all(allowed <= quota(group) for group in around)
    assert allowed >= min(map(quota, (each for group in groups for each in group.lineage)))


@given(st.sets(st.integers(0, 300), min_size=1))
def test_cpu_lists_are_read_as_the_kernel_writes_them(cpus: set[int]) -> None:
    """Ranges have a dash."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and runs[-1][-1] == cpu - 1:
            runs[-1].append(cpu)
        else:
            runs.append([cpu])
    text = ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs)
    assert cpu_set(f"{text}\n") == cpus


@pytest.mark.parametrize("text", ["", "x", "-1", "0,,1", "0-x", "0-99999999999999", "1-2-3"])
def test_invalid_cpu_list_has_no_cpus(text: str) -> None:
    """Half a list would be worse than none."""
    assert cpu_set(text) == frozenset()


def test_unused_cache_entry_is_evicted() -> None:
    """It is created again on demand."""
    recent: ExpiringCache[str, list[int]] = ExpiringCache(10)
    recent.get("a", 0, lambda: [0]).append(1)
    for now in range(0, 30, 5):
        recent.get("b", now, list)
    assert len(recent) == 1
    assert recent.get("a", 30, lambda: [30]) == [30]


def test_cache_entry_is_refreshed_at_its_interval() -> None:
    """It is refreshed neither at every read nor early, even if it is rarely read."""
    cache: RefreshingCache[str, int] = RefreshingCache(10, forget_after=1)
    assert [cache.get("a", now, lambda: now) for now in (0, 5, 9, 10, 15, 40)] == [  # noqa: B023
        0,
        0,
        0,
        10,
        10,
        40,
    ]


def test_entries_made_together_are_refreshed_in_turn() -> None:
    """Each is refreshed within its interval, and never many at once."""
    cache: RefreshingCache[int, int] = RefreshingCache(100, forget_after=1000)
    made: list[int] = []
    for now in range(201):
        for key in range(64):
            cache.get(key, now, lambda: made.append(now) or now)  # type: ignore[func-returns-value]  # noqa: B023
    later = [time for time in made if time > 0]
    assert max(map(later.count, later)) <= 4
    assert min(later) >= 50
    assert {cache.get(key, 201, lambda: -1) > 100 for key in range(64)} == {True}
