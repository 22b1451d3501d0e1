"""Requests that arrive at a rate: their wait, and the certainty of a plan's latencies."""

import math
from heapq import heappop, heappush
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from evaluation.sizing.serving_queue import simulated
from rightsizer.catalogue.catalogue import built_in
from rightsizer.catalogue.prices_file import built_in_prices
from rightsizer.planner.candidate import PlanCandidate
from rightsizer.planner.planner import Planner
from rightsizer.sizing.estimate import EstimateInterval
from rightsizer.sizing.load import RequestLoad
from rightsizer.sizing.models import Diffusion, Transformer
from rightsizer.sizing.queueing import services_waited, spread_burstiness
from rightsizer.sizing.requirement import Parallelism, Requirement
from rightsizer.sizing.serving import Server, Serving, most_running
from rightsizer.sizing.serving_memory import ServingMemory

LLAMA_8B = Transformer(
    layers=32, hidden=4096, heads=32, kv_heads=8, ffn=14336, vocab=128256, name="Llama-3.1-8B"
)
PLANNER = Planner(built_in(), built_in_prices())


def server(
    burstiness: float | None = 1.0, share: float | None = None, ttft_ms: float | None = None
) -> Server:
    """One H100 for 1,000 tokens in and 200 out."""
    load = RequestLoad(1000.0, 200.0, burstiness=burstiness, ttft_percentile=share, ttft_ms=ttft_ms)
    memory = ServingMemory(Requirement(LLAMA_8B, load=load), Parallelism())
    return Server(memory, built_in().boards["H100-SXM5-80GB"])


def arriving(server: Server, requests_per_second: float) -> Serving:
    """Load of all replicas together, independent of other requests."""
    return server.busy_with(server.running_at(requests_per_second), requests_per_second)


@pytest.mark.parametrize(("burstiness", "within"), [(1.0, 0.1), (4.0, 0.25)])
def test_the_formula_meets_a_simulation_of_passes(burstiness: float, within: float) -> None:
    """Mean first token at 15 requests a second; closed bursts of as many would take 2.5 times."""
    asked = server(burstiness)
    seen = simulated(asked, 15.0, burstiness, requests=1000).first_seconds
    estimate = arriving(asked, 15.0)
    mean_ms = 1e3 * sum(seen) / len(seen)

    assert estimate.ttft_ms.value == pytest.approx(mean_ms, rel=within)
    if burstiness == 1.0:
        assert asked.at(estimate.running).ttft_ms.value > 2.0 * mean_ms


def test_burstier_requests_wait_longer_and_the_last_of_them_longest() -> None:
    """Both shrink where more replicas share the bursts."""
    calm, bursty = (arriving(server(each), 15.0).ttft_ms.value for each in (1.0, 4.0))

    assert calm < bursty < arriving(server(4.0, 95.0), 15.0).ttft_ms.value
    assert arriving(server(None), 15.0).ttft_ms.value == bursty
    assert [spread_burstiness(4.0, each) for each in (1, 3)] == [4.0, 2.0]
    assert spread_burstiness(0.0, 3) == 0.0


def test_fewer_requests_a_second_are_in_time_where_more_of_them_have_to_be() -> None:
    """The maximum rate for the 99th percentile is below the one for the mean."""
    servers = [server(4.0, share, ttft_ms=400.0) for share in (None, 99.0)]
    mean, late = (each.answered(most_running(each)) for each in servers)

    assert 0.0 < late < 0.9 * mean
    kept = arriving(server(4.0, 99.0, ttft_ms=400.0), late).ttft_ms.value
    assert 300.0 < kept <= 360.0 * 1.001


def test_probability_is_where_the_target_lies_in_the_interval() -> None:
    """It is a half at the likeliest value, 95% at the upper end, 5% at the lower."""
    found = [
        EstimateInterval(100.0, 50.0, 300.0).met_probability(each) for each in (50.0, 100.0, 300.0)
    ]
    assert found == pytest.approx([0.05, 0.5, 0.95], abs=1e-6)


def best(load: RequestLoad) -> PlanCandidate:
    """The first in rank of H100 and L40S."""
    plan = PLANNER.plan(Requirement(LLAMA_8B, load=load, gpus=("H100-SXM5-80GB", "L40S")))
    assert plan.best is not None
    return plan.best


def test_a_plan_states_how_likely_it_keeps_its_latencies() -> None:
    """Probability is higher for a distant target, and absent without one."""
    near, far, none = (
        best(RequestLoad(2000.0, 300.0, units_per_second=3000.0, ttft_ms=most)).rate
        for most in (400.0, 4000.0, None)
    )
    assert near.targets_probability is not None
    assert far.targets_probability is not None
    assert 0.5 < near.targets_probability <= far.targets_probability > 0.95
    assert none.targets_probability is None


def test_candidates_at_the_edge_of_a_target_cost_what_they_are_doubted() -> None:
    """Of two equally cheap ones the more certain is first."""
    load = RequestLoad(2000.0, 300.0, units_per_second=3000.0, ttft_ms=1000.0)
    found = PLANNER.plan(Requirement(LLAMA_8B, load=load)).candidates
    fitting = [each for each in found if each.fits and each.rate.ttft_ms is not None]

    assert fitting
    assert all(each.rate.ttft_ms.value <= 900.0 + 1e-6 for each in fitting if each.rate.ttft_ms)


def test_certainty_decides_the_number_of_replicas() -> None:
    """The surer an answer must be, the more GPUs hold the rate; it is stated how sure it is."""
    counts = []
    for sure in (0.5, 0.9, 0.99):
        load = RequestLoad(2000.0, 300.0, units_per_second=30000.0, sure_ratio=sure)
        found = best(load)
        assert found.is_sure
        assert found.certainty >= sure - 1e-9
        counts.append(found.count)

    assert counts == sorted(counts)
    assert counts[0] < counts[-1]


def test_an_answer_is_as_sure_as_its_least_sure_part() -> None:
    """Latencies and rate are slow together; memory is a part of its own."""
    found = best(RequestLoad(2000.0, 300.0, units_per_second=3000.0, ttft_ms=1000.0))
    parts = (found.memory_probability, found.rate.targets_probability, found.rate.load_probability)

    assert found.certainty == min(part for part in parts if part is not None)


def simulated_wait(servers: int, busy: float, burstiness: float, ratio: float) -> float:
    """Quantile of the wait for the first free server, in services, of 40,000 arrivals."""
    random = Random(1)
    shape = 1.0 / burstiness
    free = [0.0] * servers
    now = 0.0
    waits = []
    for _ in range(40_000):
        now += random.gammavariate(shape, burstiness) / (busy * servers)
        start = max(now, heappop(free))
        heappush(free, start + 1.0)
        waits.append(start - now)
    return sorted(waits)[int(ratio * len(waits))]


@pytest.mark.parametrize("burstiness", [1.0, 4.0])
@pytest.mark.parametrize("servers", [1, 4, 16])
@pytest.mark.parametrize("busy", [0.3, 0.6, 0.9])
def test_answers_of_a_queue_take_as_long_as_in_a_simulation(
    servers: int, busy: float, burstiness: float
) -> None:
    """A request waits and is computed: 99 of 100 within a third of the simulated time."""
    expected = 1.0 + simulated_wait(servers, busy, burstiness, 0.99)
    found = 1.0 + services_waited(servers, busy, burstiness, 0.99)

    assert expected / 1.33 <= found <= expected * 1.33


def test_replicas_shorten_the_wait_for_images() -> None:
    """An image that takes over half of the limit is in time on GPUs that are mostly free."""
    load = RequestLoad(units_per_second=1.0, latency_ms=5000.0)
    model = Diffusion(1.2e10, text_encoder_parameters=4.9e9, steps=30, guided=False)
    requirement = Requirement(model, load=load, gpus=("B200",))
    best = PLANNER.plan(requirement).candidates[0]
    fewer = replace(best.layout, data=best.layout.data - 1)
    short = PLANNER.plan(replace(requirement, parallel=fewer)).candidates[0]

    assert best.fits
    assert best.layout.data > 2
    assert best.rate.ttft_ms is not None
    assert 2250.0 < best.rate.ttft_ms.value < 4500.0
    assert not short.fits


@pytest.mark.parametrize("gpus", [4, 8])
def test_images_with_a_gpu_each_wait_for_none(gpus: int) -> None:
    """More GPUs than images in flight do not answer one sooner, nor all of them faster."""
    model = Diffusion(1.2e10, text_encoder_parameters=4.9e9, steps=30, guided=False)
    load = RequestLoad(concurrency=4.0, latency_ms=5000.0)
    spread = Requirement(model, load=load, gpus=("B200",), parallel=Parallelism(data=gpus))
    one = replace(spread, load=replace(load, concurrency=1.0), parallel=Parallelism())
    found, alone = (PLANNER.plan(each).candidates[0] for each in (spread, one))

    assert found.fits
    assert found.rate.batches_waited == 0.0
    assert found.rate.ttft_ms == alone.rate.ttft_ms
    assert found.rate.units_per_second is not None
    assert alone.rate.units_per_second is not None
    assert found.rate.units_per_second.value == 4.0 * alone.rate.units_per_second.value


def test_gpu_with_little_to_do_answers_texts_at_once() -> None:
    """Batches are not filled up to the limit: the time to spare makes the latency certain."""
    load = RequestLoad(256.0, units_per_second=20.0, latency_ms=50.0)
    model = replace(LLAMA_8B, layers=12, cached_layers=0)
    plan = PLANNER.plan(Requirement(model, load=load, gpus=("H100-SXM5-80GB",)))
    rate = plan.candidates[0].rate

    assert rate.targets_probability is not None
    assert rate.targets_probability > 0.99
    assert rate.units_per_second is not None
    assert rate.units_per_second.value > 500.0


@given(
    servers=st.integers(1, 64),
    busy=st.floats(0.01, 0.98),
    burstiness=st.floats(0.0, 20.0),
    ratio=st.floats(0.5, 0.999),
)
def test_wait_grows_with_the_load(
    servers: int, busy: float, burstiness: float, ratio: float
) -> None:
    """It is never negative, and infinite at full load."""
    wait = services_waited(servers, busy, burstiness, ratio)

    assert 0.0 <= wait <= services_waited(servers, busy + 0.01, burstiness, ratio)
    assert services_waited(servers, 1.0, burstiness, ratio) == math.inf
