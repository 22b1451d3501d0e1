"""`rightsizer served` never contradicts what is measured, billed or started."""

from collections.abc import Sequence
from typing import Any, Final

import pytest
from msgspec.structs import replace

from rightsizer.catalogue.catalogue import built_in
from rightsizer.catalogue.prices_file import built_in_prices
from rightsizer.model.served_load import ServedLatency, ServedLoad
from rightsizer.planner.planner import Planner
from rightsizer.planner.served.answer_blocks import ServedAnswer, served_blocks
from rightsizer.planner.served.answers import predicted_loads, served_answers
from rightsizer.planner.served.engine import (
    NOTHING_STATED,
    Statement,
    parallel_keys,
    requirement_of,
)
from rightsizer.report.block_text import text_of
from rightsizer.sizing.site import SiteResiduals

PLANNER: Final = Planner(built_in(), built_in_prices())
BOARDS: Final = ("H100-SXM5-80GB", "L40S")
LEVEL: Final = Statement(ttft="p95=400ms", tpot="50ms")
CHAT: Final = ServedLoad(
    model="meta-llama/Llama-3.1-8B-Instruct",
    engine="vllm",
    window_seconds=7 * 86400.0,
    requests_per_second=3.0,
    requests_per_second_peak=3.0,
    devices=("GPU-1", "GPU-2"),
    board="NVIDIA H100 80GB HBM3",
    workload="chat-api",
    engines=2,
    prompt_tokens=800.0,
    output_tokens=200.0,
    requests_running=4.5,
    time_to_first_token=ServedLatency(0.05, 0.12),
    time_per_output_token=ServedLatency(0.0075, 0.009),
)


def answered(
    loads: Sequence[ServedLoad], statement: Statement = NOTHING_STATED
) -> tuple[ServedAnswer, ...]:
    """The answers about loads."""
    return served_answers(predicted_loads(loads, PLANNER, statement), PLANNER, BOARDS)


def text(loads: Sequence[ServedLoad], statement: Statement = NOTHING_STATED) -> str:
    """The same as text, in one line."""
    return " ".join(text_of(served_blocks(answered(loads, statement))).split())


def test_what_runs_keeps_its_own_level() -> None:
    """A level of the measured p95 alone is not kept by what is measured to keep it."""
    loads = predicted_loads([CHAT], PLANNER)
    (answer,) = served_answers(loads, PLANNER, BOARDS)
    assert answer.prediction is not None
    assert answer.prediction.holds_peak
    engine = answer.prediction.engine
    question = {**engine.at_rate(engine.peak_rate), "gpus": [engine.board.key]}
    layout = {"parallel": parallel_keys(engine.layout)}
    planner = replace(PLANNER, site=SiteResiduals(loads.residuals))
    candidate, *_ = planner.candidates(requirement_of({**question, **layout}))
    assert candidate.fits, candidate.rejections
    assert candidate.is_sure
    load = engine.requirement.load
    assert load.ttft_ms is not None
    assert load.tpot_ms is not None
    assert load.ttft_ms >= 120.0
    assert load.tpot_ms >= 9.0
    assert "TPOT p95 <= 9 ms, what is kept today" in engine.level


def test_stated_level_is_kept_as_it_is() -> None:
    """Whatever is measured."""
    (answer,) = answered([CHAT], Statement(tpot="p95=9ms"))
    assert answer.prediction is not None
    assert answer.prediction.engine.requirement.load.tpot_ms == pytest.approx(9.0)


def test_largest_rate_is_not_below_the_one_that_kept_the_level() -> None:
    """Of an engine that waits, whose level is measured."""
    short = replace(
        CHAT,
        model="Qwen/Qwen2.5-32B-Instruct",
        engines=1,
        devices=("GPU-1",),
        prompt_tokens=2400.0,
        output_tokens=350.0,
        requests_running=32.0,
        requests_waiting=6.0,
        time_to_first_token=ServedLatency(1.8, 4.3),
        time_per_output_token=ServedLatency(0.04, 0.089),
    )
    assert "largest rate" not in text([short])
    assert "largest rate" in text([short], LEVEL)


def test_need_is_unknown_where_the_prediction_does_not_hold_what_is_measured() -> None:
    """Nothing was found to be enough."""
    much = replace(
        CHAT,
        engines=1,
        devices=("GPU-1",),
        requests_per_second=6000.0,
        requests_per_second_peak=9000.0,
        requests_running=None,
        time_to_first_token=None,
        time_per_output_token=None,
    )
    answer = text([much])
    assert "needs: unknown: predicted to hold " in answer
    assert "requests/s, measured 9,000" in answer


def test_shared_gpus_are_counted_and_paid_once() -> None:
    """Names of adapters, models of one server, endpoints on one GPU."""
    one = replace(CHAT, devices=("GPU-1",), engines=1)
    other = replace(one, model="Qwen/Qwen2.5-7B-Instruct")
    answer = text([one, other], LEVEL)
    assert "2 engines of 2 models on 1 GPU, $3.90 an hour" in answer
    assert "would need: $3.90 an hour" in answer
    assert "needs: unknown, it shares its GPUs with chat-api (Qwen/Qwen2.5-7B-Instruct)" in answer


def test_nothing_is_advised_or_learned_of_shared_gpus() -> None:
    """What one gives back, the other still takes."""
    one = replace(CHAT, requests_per_second=0.5, requests_per_second_peak=0.5)
    other = replace(one, workload="other")
    loads = predicted_loads([one, other], PLANNER, LEVEL)
    answers = served_answers(loads, PLANNER, BOARDS)
    findings = [finding for answer in answers for finding in answer.findings]
    assert findings
    assert all(finding.abstained.startswith("shares its GPUs with ") for finding in findings)
    assert not loads.residuals


@pytest.mark.parametrize(
    ("changes", "statement"),
    [
        ({"devices": ("GPU-1", "GPU-2", "GPU-3"), "engines": 1}, LEVEL),
        ({"engines": 1}, replace(LEVEL, gpus=3, tensor=2)),
    ],
)
def test_gpus_that_fit_no_layout_are_paid(changes: dict[str, Any], statement: Statement) -> None:
    """And said."""
    loads = [replace(CHAT, **changes)]
    (answer,) = answered(loads, statement)
    assert answer.prediction is not None
    candidate = answer.prediction.candidate
    assert candidate.dollars_per_hour == pytest.approx(11.7)
    assert candidate.hourly_range is not None
    assert candidate.hourly_range.value == pytest.approx(11.7)
    assert "GPUs: 3 are held, of which 2 run it; all are paid" in text(loads, statement)


def launched(load: ServedLoad, statement: Statement = LEVEL) -> list[str]:
    """Words of the first launch that is advised."""
    (answer,) = answered([load], statement)
    launch = answer.findings[0].options[0].launch
    assert launch is not None
    return launch.text.split()


def test_launch_starts_what_is_served() -> None:
    """A fine-tune is not its base, and its limit of tokens is kept."""
    words = launched(replace(CHAT, maximum_tokens=131072))
    assert "meta-llama/Llama-3.1-8B-Instruct" in words
    assert words[words.index("--max-model-len") + 1] == "131072"


def test_launch_has_room_for_long_requests() -> None:
    """Twice the p95 where the limit is not exported."""
    words = launched(replace(CHAT, prompt_tokens_p95=3000.0, output_tokens_p95=900.0))
    assert words[words.index("--max-model-len") + 1] == "8192"


def test_launch_of_an_alias_starts_the_model_that_is_stated() -> None:
    """Its alias is no repository, even if it looks like one."""
    stated = replace(LEVEL, models={"prod/chat": "meta-llama/Llama-3.1-8B-Instruct"})
    words = launched(replace(CHAT, model="prod/chat"), stated)
    assert "meta-llama/Llama-3.1-8B-Instruct" in words
