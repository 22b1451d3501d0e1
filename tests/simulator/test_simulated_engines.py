"""Engines of a scenario: their pages, read as an agent reads those of real ones."""

from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from rightsizer.catalogue.catalogue import built_in
from rightsizer.model.units import HOUR, NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.simulator.engines import engine_page, served_engines
from rightsizer.simulator.scenario import ScenarioEngine
from rightsizer.simulator.scenario_reader import load_scenario
from rightsizer.simulator.source import DEFAULT_START
from rightsizer.telemetry.serving.page import parse_page
from rightsizer.telemetry.serving.served import served_loads
from rightsizer.telemetry.serving.settings import EngineName

NOON: Nanoseconds = DEFAULT_START + 14 * HOUR


@pytest.mark.parametrize("name", [EngineName.VLLM, EngineName.SGLANG])
def test_page_tells_what_the_scenario_says(name: EngineName) -> None:
    """Rates, tokens and latencies between two pages."""
    engine = ScenarioEngine(
        "llama",
        requests_per_second=2.0,
        name=name,
        prompt_tokens=900,
        output_tokens=220,
        first_token_seconds=0.06,
        next_token_seconds=0.007,
        cache_tokens=64_000,
        waiting=5.0,
    )
    before = parse_page(engine_page(engine, 1000.0, 0.5))
    now = parse_page(engine_page(engine, 1060.0, 0.5))
    (load,) = served_loads(now, before, 60.0)

    assert (load.engine, load.model) == (name, "llama")
    assert load.requests_per_second == 1.0
    assert load.prompt_tokens == pytest.approx(900)
    assert load.output_tokens == pytest.approx(220)
    assert load.time_to_first_token is not None
    assert load.time_to_first_token.mean_seconds == pytest.approx(0.06)
    assert load.time_to_first_token.p95_seconds is not None
    assert 0.06 < load.time_to_first_token.p95_seconds < 0.2
    assert load.requests_running == pytest.approx(2 * 0.5 * (0.06 + 220 * 0.007), abs=0.5)
    assert load.requests_waiting == 2.0
    assert load.kv_cache_tokens == 64_000


def test_engines_answer_on_loopback_by_the_simulated_time() -> None:
    """Each at its path, with the GPUs of its workload; requests follow its load."""
    scenario = load_scenario("serving-node", built_in())
    now = [NOON]
    with served_engines(scenario, lambda: now[0]) as endpoints:
        assert [endpoint.gpus for endpoint in endpoints] == [("0", "1"), ("2",)]
        assert all(endpoint.url.startswith("http://127.0.0.1:") for endpoint in endpoints)

        def page_of(url: str) -> str:
            with urlopen(url, timeout=10) as answer:
                return bytes(answer.read()).decode()

        before = [parse_page(page_of(endpoint.url)) for endpoint in endpoints]
        now[0] += 600 * NANOSECONDS_PER_SECOND
        after = [parse_page(page_of(endpoint.url)) for endpoint in endpoints]
        loads = [
            load
            for page, former in zip(after, before, strict=True)
            for load in served_loads(page, former, 600.0)
        ]
        with pytest.raises(HTTPError):
            page_of(endpoints[0].url + "-other")

    assert [load.engine for load in loads] == ["vllm", "sglang"]
    full = [task.engine.requests_per_second for task in scenario.tasks if task.engine]
    for load, most in zip(loads, full, strict=True):
        assert load.requests_per_second is not None
        assert 0.2 * most < load.requests_per_second <= most


def test_scenario_without_engines_serves_nothing() -> None:
    """No address is taken."""
    with served_engines(load_scenario("l4-pair", built_in()), lambda: NOON) as endpoints:
        assert endpoints == ()
