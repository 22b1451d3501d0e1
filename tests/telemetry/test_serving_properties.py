"""Properties of any page, whatever an engine or another server writes."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readings import SERVING_SIGNALS
from rightsizer.io.codec import plain
from rightsizer.model.errors import DriverError
from rightsizer.model.metric_family import Export
from rightsizer.model.signal import Signal
from rightsizer.model.units import Unit
from rightsizer.telemetry.serving.page import (
    ENGINES,
    EngineDefinition,
    EngineMetricsPage,
    canonical,
    parse_page,
    values_of,
)
from rightsizer.telemetry.serving.served import served_loads
from rightsizer.telemetry.serving.settings import EngineName

NUMBERS = st.one_of(
    st.integers(-3, 10**6).map(str),
    st.floats().map(repr),
    st.sampled_from(["NaN", "+Inf", "-Inf", "1e400", "0x10", "", "9" * 400]),
)
LABELS = st.sampled_from(
    [
        "",
        '{model="a"}',
        '{model="b",version="1"}',
        '{tp_rank="1"}',
        '{priority="3"}',
        "{}",
        "{",
        '{le="0.5"}',
        '{le="+Inf"}',
    ]
)
NOISE = st.one_of(
    st.text(max_size=40), st.sampled_from(["# TYPE x counter", "vllm:", "tgi_ 1 2 3"])
)


def _lines(engine: EngineDefinition) -> st.SearchStrategy[str]:
    names = st.sampled_from(sorted(engine.names | engine.distributions))
    sample = st.tuples(names, LABELS, NUMBERS).map(lambda parts: f"{parts[0]}{parts[1]} {parts[2]}")
    return st.lists(st.one_of(sample, NOISE), max_size=12).map("\n".join)


TEXTS = st.one_of(st.text(), *map(_lines, ENGINES))


def _read(text: str, expected: EngineName) -> EngineMetricsPage | None:
    try:
        return parse_page(text, expected)
    except DriverError:
        return None


@given(now=TEXTS, before=TEXTS, expected=st.sampled_from(EngineName), seconds=st.floats(-10, 1e6))
def test_any_two_pages_give_believable_values(
    now: str, before: str, expected: EngineName, seconds: float
) -> None:
    """The result is an error, or finite numbers, not negative, with ratios of at most 1."""
    page = _read(now, expected)
    former = _read(before, expected)
    if page is None:
        return

    for signal, value in values_of(page, former, seconds).items():
        assert math.isfinite(value)
        assert value >= 0
        assert signal.unit is not Unit.RATIO or value <= 1


@given(now=TEXTS, before=TEXTS, expected=st.sampled_from(EngineName), seconds=st.floats(0, 1e6))
def test_any_two_pages_give_believable_loads(
    now: str, before: str, expected: EngineName, seconds: float
) -> None:
    """No number is negative or none, a ratio is at most 1, and all can be written as JSON."""
    page = _read(now, expected)
    if page is None:
        return

    for load in served_loads(page, _read(before, expected), seconds):
        for name, value in plain(load).items():
            if isinstance(value, float):
                assert math.isfinite(value)
                assert value >= 0
                assert not name.endswith("_ratio") or value <= 1


STEPS = st.lists(st.tuples(st.integers(0, 50), st.floats(0.001, 5)), min_size=1, max_size=8)


@given(steps=STEPS)
def test_a_mean_is_that_of_its_interval(steps: list[tuple[int, float]]) -> None:
    """Earlier requests do not count, and without requests there is no mean."""
    total = 0.0
    count = 0
    before = parse_page("tgi_queue_size 0\n")
    for requests, took in steps:
        total = total + requests * took
        count = count + requests
        sums = f"tgi_request_duration_sum {total!r}\ntgi_request_duration_count {count}\n"
        page = parse_page(sums)
        found = values_of(page, before, 5.0)
        expected = {Signal.REQUEST_LATENCY_SECONDS: took} if requests else {}
        assert found == pytest.approx(expected, rel=1e-6)
        before = page


def test_tables_are_well_formed() -> None:
    """Names are spelled as on the pages and belong to one engine; signals are serving signals."""
    for engine in ENGINES:
        assert {canonical(name) for name in engine.names} == engine.names
        assert {measure.signal for measure in engine.measures} <= set(SERVING_SIGNALS)
        unprefixed = engine.name in (EngineName.NIM, EngineName.TENSORRT_LLM)
        bare = ("time_", "e2e_", "request_", "prompt_", "generation_") if unprefixed else ()
        bare += ("num_request_max",) if engine.name is EngineName.NIM else ()
        bare += ("nv_llm_",) if engine.name is EngineName.TRITON else ()
        assert all(name.startswith((*engine.prefixes, "vllm_", *bare)) for name in engine.names)
    assert Signal.PREEMPTIONS.export is Export.COUNTER
