"""Provisioning of a device: demand, need, over, saturated, under."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import histogram, window
from readings import HOUR
from rightsizer.accounting.provisioning import provision
from rightsizer.accounting.settings import ProvisioningSettings
from rightsizer.model.state import Condition, Resource, State
from rightsizer.model.window import Provisioning, Window
from rightsizer.model.workload import Allocator

COMPUTE = Resource.COMPUTE
MEMORY = Resource.MEMORY
SETTINGS = ProvisioningSettings()
PERCENTS = st.dictionaries(st.integers(0, 100), st.integers(1, 50), min_size=1, max_size=8)


def fit(found: Window, allocator: Allocator = Allocator.GROWING) -> Provisioning:
    """Provisioning under the default settings."""
    return provision(found, allocator, SETTINGS)


def busy(
    compute: Mapping[float, float], memory: Mapping[float, float], hours: float = 10, **facts: Any
) -> Window:
    """Productive hours with the given demands."""
    return window({State.PRODUCTIVE: hours}, {COMPUTE: compute, MEMORY: memory}, **facts)


def test_demand_and_need() -> None:
    """Need is P99 for compute plus 15%, and the maximum for memory plus 10%."""
    found = fit(busy({0.1: 9.95, 0.9: 0.05}, {0.1: 9.999, 0.5: 0.001}))
    compute = found.resources[COMPUTE]
    memory = found.resources[MEMORY]
    assert (compute.demand, compute.need) == (0.1, pytest.approx(0.115))
    assert (memory.demand, memory.need) == (0.5, pytest.approx(0.55))
    assert compute.overprovisioned == pytest.approx(0.885)
    assert found.overprovisioned == pytest.approx(0.45)
    assert found.active_seconds == 36_000
    assert found.coverage_ratio == 1.0


def test_need_beyond_the_device_is_not_negative_room() -> None:
    """A device that is too small is not over-provisioned; the need says by how much it is short."""
    found = fit(busy({1.0: 10}, {0.5: 10}))
    assert found.resources[COMPUTE].need == pytest.approx(1.15)
    assert found.resources[COMPUTE].overprovisioned == 0.0
    assert found.overprovisioned == 0.0


@pytest.mark.parametrize(("hours", "is_known"), [(600 / 3600, True), (599 / 3600, False)])
def test_ten_active_minutes_make_a_demand(
    hours: float,
    is_known: bool,  # noqa: FBT001 - a case.
) -> None:
    """Idle hours add nothing to the demand."""
    found = fit(
        window(
            {State.PRODUCTIVE: hours, State.IDLE_HELD: 100},
            {COMPUTE: {0.2: hours}, MEMORY: {0.2: 100}},
            compute_at_least=histogram({0.1: hours}),
        )
    )
    assert (found.overprovisioned is not None) == is_known
    assert (found.compute_need_at_least is not None) == is_known
    assert (COMPUTE in found.resources) == is_known


@pytest.mark.parametrize("missing", [COMPUTE, MEMORY])
def test_device_is_judged_only_where_compute_and_memory_are_known(missing: Resource) -> None:
    """Room in the measured resource says nothing about the unmeasured one."""
    demands = {COMPUTE: {0.1: 10.0}, MEMORY: {0.1: 10.0}}
    del demands[missing]
    assert fit(window({State.PRODUCTIVE: 10}, demands)).overprovisioned is None


def test_preallocated_memory_says_nothing() -> None:
    """It shows neither need nor shortage; compute is judged all the same."""
    near = {Condition.NEAR_OUT_OF_MEMORY: 10 * HOUR}
    full = busy({0.1: 10}, {0.97: 10}, pressed={MEMORY: 10 * HOUR}, conditions=near)
    found = fit(full, Allocator.PREALLOCATING)
    assert found.memory_is_preallocated
    assert MEMORY not in found.resources
    assert found.overprovisioned is None
    assert found.underprovisioned is None
    assert found.resources[COMPUTE].overprovisioned == pytest.approx(0.885)
    assert fit(full).underprovisioned == 1.0


def test_preallocated_cache_that_requests_wait_for_is_short() -> None:
    """It is short of memory for longer than the memory was nearly full."""
    near = {Condition.NEAR_OUT_OF_MEMORY: 4 * HOUR}
    full = busy({0.1: 10}, {0.97: 10}, pressed={MEMORY: 10 * HOUR}, conditions=near)
    found = fit(full, Allocator.PREALLOCATING)
    assert found.resources[MEMORY].underprovisioned == pytest.approx(0.6)
    assert found.resources[MEMORY].need is None
    assert found.is_underprovisioned


@pytest.mark.parametrize(
    ("memory", "allocator", "is_preallocated"),
    [
        ({0.9: 10}, Allocator.UNKNOWN, True),
        ({0.9: 9, 0.92: 1}, Allocator.UNKNOWN, True),
        ({0.6: 9, 0.62: 1}, Allocator.UNKNOWN, True),
        ({0.9: 9, 0.93: 1}, Allocator.UNKNOWN, False),
        ({0.59: 10}, Allocator.UNKNOWN, False),
        ({0.9: 10}, Allocator.GROWING, False),
        ({0.1: 5, 0.9: 5}, Allocator.PREALLOCATING, True),
    ],
)
def test_much_memory_that_never_changes_looks_preallocated(
    memory: dict[float, float],
    allocator: Allocator,
    is_preallocated: bool,  # noqa: FBT001 - a case.
) -> None:
    """Unless the allocation is configured."""
    assert fit(busy({0.1: 10}, memory), allocator).memory_is_preallocated == is_preallocated


@pytest.mark.parametrize(("share", "over"), [(0.0, 0.45), (0.049, 0.45), (0.05, 0.0), (1.0, 0.0)])
def test_over_is_nothing_while_memory_is_under(share: float, over: float) -> None:
    """A device under memory pressure for 5% of the time has no spare capacity."""
    pressed = {MEMORY: round(share * 10 * HOUR)} if share else {}
    found = fit(busy({0.1: 10}, {0.5: 10}, pressed=pressed))
    assert found.underprovisioned == pytest.approx(share)
    assert found.overprovisioned == pytest.approx(over)


def test_saturation_is_no_shortage() -> None:
    """A batch job at the limit uses its device well."""
    found = fit(busy({1.0: 10}, {0.5: 10}, saturated={COMPUTE: 5 * HOUR}))
    assert found.resources[COMPUTE].saturated == 0.5
    assert found.resources[COMPUTE].underprovisioned is None
    assert found.underprovisioned == 0.0


def test_saturation_with_pressure_is_a_shortage() -> None:
    """Requests that wait for compute 5% of the time make the device too small."""
    found = fit(
        busy(
            {0.3: 10},
            {0.5: 10},
            saturated={COMPUTE: HOUR},
            pressed={COMPUTE: HOUR // 2},
        )
    )
    assert found.resources[COMPUTE].saturated == 0.1
    assert found.resources[COMPUTE].underprovisioned == 0.05
    assert found.resources[MEMORY].underprovisioned == 0.0
    assert (found.underprovisioned, found.is_underprovisioned) == (0.05, True)
    assert found.overprovisioned == 0.0


def test_device_is_short_by_its_shortest_resource() -> None:
    """The share of time that makes the whole device short is a setting."""
    found = busy({0.3: 10}, {0.5: 10}, pressed={COMPUTE: HOUR, Resource.PCIE: 2 * HOUR})
    lenient = ProvisioningSettings(underprovisioned_ratio=0.21)
    assert fit(found).underprovisioned == 0.2
    assert fit(found).is_underprovisioned
    tolerated = provision(found, Allocator.GROWING, lenient)
    assert not tolerated.is_underprovisioned
    assert tolerated.overprovisioned == pytest.approx(0.45)


def test_nothing_is_over_while_something_is_under_even_where_little_is_known() -> None:
    """A device short of compute, with unknown memory, certainly has no spare capacity."""
    short = busy({0.3: 10}, {0.97: 10}, pressed={COMPUTE: HOUR})
    assert fit(short, Allocator.PREALLOCATING).overprovisioned == 0.0
    found = fit(window({State.PRODUCTIVE: 0.1}, pressed={COMPUTE: HOUR // 20}))
    assert found.overprovisioned == 0.0


def test_idle_time_dilutes_saturation_and_pressure() -> None:
    """Both are shares of known time; unknown time does not count."""
    found = fit(
        window(
            {State.COMPUTE_BOUND: 5, State.IDLE_HELD: 15, State.UNKNOWN: 80},
            {COMPUTE: {1.0: 5}, MEMORY: {0.5: 20}},
            saturated={COMPUTE: 5 * HOUR},
            pressed={COMPUTE: 2 * HOUR},
        )
    )
    assert found.resources[COMPUTE].saturated == 0.25
    assert found.resources[COMPUTE].underprovisioned == 0.1
    assert (found.known_seconds, found.active_seconds) == (72_000.0, 18_000.0)
    assert found.coverage_ratio == 0.2


@pytest.mark.parametrize("resource", [Resource.MEMORY_BANDWIDTH, Resource.PCIE, Resource.NVLINK])
def test_other_resources_have_needs_too(resource: Resource) -> None:
    """Their need is P99 plus 15%; the device's need is the largest of all."""
    demands = {COMPUTE: {0.1: 10}, MEMORY: {0.1: 10}, resource: {0.2: 9.89, 0.6: 0.11}}
    found = fit(window({State.PRODUCTIVE: 10}, demands))
    assert found.resources[resource].need == pytest.approx(0.69)
    assert found.resources[resource].overprovisioned == pytest.approx(0.31)
    assert found.overprovisioned == pytest.approx(0.31)


@pytest.mark.parametrize(("seconds", "is_known"), [(600, True), (599, False)])
def test_resource_needs_its_own_ten_minutes(
    seconds: float,
    is_known: bool,  # noqa: FBT001 - a case.
) -> None:
    """Counters present for a moment of ten busy hours show no demand."""
    demands = {COMPUTE: {0.2: 10}, MEMORY: {0.5: 10}, Resource.NVLINK: {1.0: seconds / 3600}}
    found = provision(
        window({State.PRODUCTIVE: 10}, demands, compute_at_least=histogram({0.1: seconds / 3600})),
        Allocator.GROWING,
        SETTINGS,
        {COMPUTE: 0.3, Resource.NVLINK: 0.9},
    )
    assert (Resource.NVLINK in found.resources) == is_known
    assert (found.compute_need_at_least is not None) == is_known
    assert found.resources[COMPUTE].demand == 0.3


def test_idle_hours_with_memory_held_make_no_demand() -> None:
    """Held memory counts toward the size, but only active time makes a demand."""
    found = fit(window({State.IDLE_HELD: 100}, {MEMORY: {0.5: 100}}))
    assert found.resources[MEMORY].demand is None
    assert found.resources[MEMORY].underprovisioned == 0.0


def test_lower_bound_of_compute_is_reported_beside() -> None:
    """It is what the pipes did, plus the margin."""
    found = fit(busy({0.9: 10}, {0.5: 10}, compute_at_least=histogram({0.2: 10})))
    assert found.compute_need_at_least == pytest.approx(0.23)
    assert found.overprovisioned == 0.0


def test_current_demand_goes_before_the_windows_own() -> None:
    """The decayed demand replaces that of compute and leaves memory."""
    found = provision(busy({0.9: 10}, {0.5: 10}), Allocator.GROWING, SETTINGS, {COMPUTE: 0.2})
    assert found.resources[COMPUTE].demand == 0.2
    assert found.resources[MEMORY].demand == 0.5


def test_unknown_time_gives_no_provisioning() -> None:
    """A window without known time has no gauges."""
    found = fit(window({State.UNKNOWN: 24}))
    assert found.resources == {}
    assert found.overprovisioned is None
    assert found.underprovisioned is None


@given(PERCENTS, PERCENTS, st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_larger_margins_never_shrink_need(
    compute: dict[int, int], memory: dict[int, int], margin: float, more: float
) -> None:
    """Nor do they ever increase the spare capacity."""
    found = busy(
        {percent / 100: hours for percent, hours in compute.items()},
        {percent / 100: hours for percent, hours in memory.items()},
    )
    small = provision(
        found,
        Allocator.GROWING,
        ProvisioningSettings(margin_ratio=margin, memory_margin_ratio=margin),
    )
    large = provision(
        found,
        Allocator.GROWING,
        ProvisioningSettings(margin_ratio=margin + more, memory_margin_ratio=margin + more),
    )
    for resource in (COMPUTE, MEMORY):
        assert (large.resources[resource].need or 0) >= (small.resources[resource].need or 0)
    assert (large.overprovisioned or 0) <= (small.overprovisioned or 0)


@given(PERCENTS, st.integers(0, 100))
def test_more_load_never_yields_a_smaller_need(compute: dict[int, int], up: int) -> None:
    """Raising every second's load raises the need or leaves it."""

    def need(raise_by: int) -> float:
        loads: dict[float, float] = {}
        for percent, hours in compute.items():
            ratio = min(100, percent + raise_by) / 100
            loads[ratio] = loads.get(ratio, 0) + hours
        return fit(busy(loads, {0.5: 10})).resources[COMPUTE].need or 0.0

    assert need(up) >= need(0)
