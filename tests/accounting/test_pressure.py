"""Shortage of a resource: never from use alone, but from the application's own signals."""

from collections.abc import Sequence
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readings import SECOND, SERVING_SIGNALS, TRAINING, Signals, gpu, snapshot
from rightsizer.accounting.device_state import PressureDetector
from rightsizer.accounting.node_accounts import NodeAccounts
from rightsizer.accounting.settings import PressureSettings
from rightsizer.model.driver_codes import XidLog
from rightsizer.model.signal import Signal
from rightsizer.model.state import Condition, Resource

COMPUTE = Resource.COMPUTE
BANDWIDTH = Resource.MEMORY_BANDWIDTH
MEMORY = Resource.MEMORY
GPU: Final = gpu()
NOTHING: Final = frozenset[Resource]()
PREEMPTIONS: Final = Signal.PREEMPTIONS


def short_of(
    signals: Signals, *saturated: Resource, settings: PressureSettings | None = None
) -> frozenset[Resource]:
    """The resources short over one second."""
    return PressureDetector(settings).update(SECOND, signals, frozenset(saturated), frozenset())


def over_time(
    seconds: Sequence[tuple[int, Signals]], *saturated: Resource, **settings: Any
) -> list[bool]:
    """Whether compute was short at each of the given seconds."""
    pressure = PressureDetector(PressureSettings(**settings))
    return [
        COMPUTE in pressure.update(at * SECOND, signals, frozenset(saturated or {COMPUTE}), set())
        for at, signals in seconds
    ]


@pytest.mark.parametrize(
    ("signals", "is_short"),
    [
        ({}, False),
        ({Signal.REQUESTS_RUNNING: 200.0, Signal.REQUESTS_WAITING: 0.0}, False),
        ({Signal.REQUESTS_WAITING: 0.5}, False),
        ({Signal.REQUESTS_WAITING: 1.0}, True),
        ({Signal.KV_CACHE_USED: 0.89}, False),
        ({Signal.KV_CACHE_USED: 0.9}, True),
        ({PREEMPTIONS: 40.0}, False),
        ({Signal.TIME_TO_FIRST_TOKEN_SECONDS: 60.0}, False),
    ],
)
def test_application_that_waits_is_short_of_what_is_at_its_limit(
    signals: Signals,
    is_short: bool,  # noqa: FBT001 - a case.
) -> None:
    """A queue or a full cache; a total of preemptions and a latency alone do not count."""
    expected = {COMPUTE, BANDWIDTH} if is_short else set()
    assert short_of(signals, COMPUTE, BANDWIDTH) == expected


def test_resource_below_its_limit_is_not_the_one_waited_for() -> None:
    """An engine that waits on a GPU at half load waits for something else."""
    queue = {Signal.REQUESTS_WAITING: 50.0, Signal.KV_CACHE_USED: 0.5}
    assert short_of(queue) == NOTHING
    assert short_of(queue, BANDWIDTH) == {BANDWIDTH}


def test_requests_that_wait_for_a_full_cache_are_short_of_memory() -> None:
    """Neither a full cache alone is a shortage of it, nor a queue."""
    queue = {Signal.REQUESTS_WAITING: 1.0, Signal.KV_CACHE_USED: 0.9}
    assert short_of(queue) == {MEMORY}
    assert short_of(queue, COMPUTE) == {MEMORY, COMPUTE}
    assert short_of({Signal.KV_CACHE_USED: 1.0}) == NOTHING


def test_full_memory_is_no_shortage_of_it() -> None:
    """An engine fills the memory by design; its waiting counts for the other resources."""
    queue = {Signal.REQUESTS_WAITING: 50.0}
    assert short_of(queue, MEMORY, COMPUTE) == {COMPUTE}


def test_saturation_alone_is_no_shortage() -> None:
    """A batch job at every limit uses its device well."""
    assert short_of({Signal.GPU_BUSY: 1.0}, *Resource) == NOTHING


def test_memory_is_short_where_hardly_any_is_left() -> None:
    """No signal of the application and no resource at its limit is required."""
    near = frozenset({Condition.NEAR_OUT_OF_MEMORY, Condition.POWER_THROTTLED})
    assert PressureDetector().update(SECOND, {}, NOTHING, near) == {MEMORY}


@pytest.mark.parametrize(
    ("name", "signal"),
    [
        ("time_to_first_token_maximum_seconds", Signal.TIME_TO_FIRST_TOKEN_SECONDS),
        ("time_per_output_token_maximum_seconds", Signal.TIME_PER_OUTPUT_TOKEN_SECONDS),
        ("request_latency_maximum_seconds", Signal.REQUEST_LATENCY_SECONDS),
    ],
)
def test_broken_promise_is_pressure(name: str, signal: Signal) -> None:
    """A latency above the promised one, not equal to it; an unmeasured one breaks no promise."""
    promised = PressureSettings(**{name: 0.5})
    assert short_of({signal: 0.51}, COMPUTE, settings=promised) == {COMPUTE}
    assert short_of({signal: 0.5}, COMPUTE, settings=promised) == NOTHING
    assert short_of({}, COMPUTE, settings=promised) == NOTHING


def test_preemption_counts_for_a_while() -> None:
    """The counter moves once a scrape; what was preempted is recomputed meanwhile."""
    seconds = [(0, {PREEMPTIONS: 7.0}), (5, {PREEMPTIONS: 8.0}), (65, {PREEMPTIONS: 8.0})]
    assert over_time([*seconds, (66, {PREEMPTIONS: 8.0})]) == [False, True, True, False]
    assert over_time(seconds, preemption_hold_seconds=0.0) == [False, True, False]


def test_preemptions_go_on_counting_while_the_engine_is_silent() -> None:
    """A late scrape neither ends the pressure nor hides a preemption."""
    seconds: list[tuple[int, Signals]] = [
        (0, {PREEMPTIONS: 7.0}),
        (5, {}),
        (10, {PREEMPTIONS: 9.0}),
    ]
    assert over_time([*seconds, (20, {})]) == [False, False, True, True]


def test_engine_that_starts_again_has_preempted_nobody() -> None:
    """A counter reset to 0 is no preemption; one reset to above 0 is."""
    assert over_time([(0, {PREEMPTIONS: 7.0}), (5, {PREEMPTIONS: 0.0})]) == [False, False]
    assert over_time([(0, {PREEMPTIONS: 7.0}), (5, {PREEMPTIONS: 2.0})]) == [False, True]


def test_xid_that_an_operator_knows_says_that_memory_ran_out() -> None:
    """For five minutes; by default no Xid does so."""
    settings = PressureSettings(memory_xids=(31, 43))
    logs = [(0, {}), (10, {31: 1}), (310, {31: 1}), (311, {31: 1, 13: 1}), (312, {31: 1, 43: 1})]
    for known, expected in (
        (settings, [False, True, True, False, True]),
        (PressureSettings(), [False] * 5),
    ):
        pressure = PressureDetector(known)
        found = [
            MEMORY in pressure.update(at * SECOND, {}, NOTHING, frozenset(), XidLog(counts))
            for at, counts in logs
        ]
        assert found == expected


def test_serving_that_cannot_keep_up_makes_the_device_too_small() -> None:
    """An hour at the limit with a queue for six minutes of it: short for a tenth of the time."""
    accounts = NodeAccounts()
    for at in range(0, 3601, 10):
        full = {**TRAINING, Signal.TENSOR_ACTIVE: 0.8, Signal.REQUESTS_WAITING: 0.0}
        if 0 < at <= 360:
            full[Signal.REQUESTS_WAITING] = 12.0
        accounts.post(snapshot(at, [GPU], {GPU: full}, interval_seconds=10.0))
    for fit in accounts.provisioning(GPU.uuid).values():
        assert fit.resources[COMPUTE].saturated == pytest.approx(1.0)
        assert fit.resources[COMPUTE].underprovisioned == pytest.approx(0.1)
        assert fit.resources[MEMORY].underprovisioned == 0.0
        assert (fit.is_underprovisioned, fit.overprovisioned) == (True, 0.0)


@given(
    st.lists(
        st.tuples(
            st.integers(1, 100),
            st.dictionaries(st.sampled_from(SERVING_SIGNALS), st.floats(0.0, 100.0)),
            st.frozensets(st.sampled_from(Resource)),
            st.frozensets(st.sampled_from(Condition)),
        )
    )
)
def test_only_what_is_at_its_limit_is_ever_short(
    stretches: list[tuple[int, Signals, frozenset[Resource], frozenset[Condition]]],
) -> None:
    """Memory is the exception, and only if hardly any of it or of the engine's cache is left."""
    pressure = PressureDetector()
    now = 0
    for step, signals, saturated, conditions in stretches:
        now += step * SECOND
        found = pressure.update(now, signals, saturated, conditions)
        assert found - {MEMORY} <= saturated
        waiting, cache = (
            signals.get(each, 0.0) for each in (Signal.REQUESTS_WAITING, Signal.KV_CACHE_USED)
        )
        is_near = Condition.NEAR_OUT_OF_MEMORY in conditions
        assert (MEMORY in found) == (is_near or (waiting >= 1.0 and cache >= 0.9))
