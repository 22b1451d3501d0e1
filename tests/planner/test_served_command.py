"""`rightsizer served`: layout, prediction beside measurement, and what an engine would need."""

import json
import math
import os
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec.structs import replace

from rightsizer.catalogue.catalogue import built_in
from rightsizer.catalogue.prices_file import built_in_prices
from rightsizer.cli.main import main
from rightsizer.io.codec import encode
from rightsizer.model.errors import RequirementError
from rightsizer.model.served_load import ServedLatency, ServedLoad
from rightsizer.model.units import GIB
from rightsizer.planner.learned import LearnedDocument
from rightsizer.planner.planner import Planner
from rightsizer.planner.served.answer_blocks import needs_of
from rightsizer.planner.served.answers import predicted_loads, served_answers
from rightsizer.planner.served.engine import (
    NOTHING_STATED,
    Statement,
    memory_in_use,
    served_engine,
)
from rightsizer.planner.served.finding import ServedFinding, ServedFindingKind
from rightsizer.planner.served.prediction import predict
from rightsizer.sizing.requirement import Parallelism
from rightsizer.sizing.site import SiteFigure, SiteResiduals

Captured = pytest.CaptureFixture[str]
PLANNER: Final = Planner(built_in(), built_in_prices())
CHAT: Final = ServedLoad(
    model="meta-llama/Llama-3.1-8B-Instruct",
    engine="vllm",
    window_seconds=7 * 86400.0,
    requests_per_second=3.0,
    requests_per_second_peak=4.5,
    devices=("GPU-1", "GPU-2"),
    board="NVIDIA H100 80GB HBM3",
    workload="chat-api",
    engines=2,
    prompt_tokens=1500.0,
    output_tokens=300.0,
    requests_running=7.2,
    time_to_first_token=ServedLatency(0.06, 0.12),
    time_per_output_token=ServedLatency(0.0083, 0.011),
)
LEVEL: Final = Statement(ttft="p95=400ms", tpot="50ms")


def found(
    load: ServedLoad, statement: Statement = LEVEL, boards: tuple[str, ...] = ()
) -> tuple[ServedFinding, ...]:
    """Findings about one load."""
    (answer,) = served_answers(predicted_loads([load], PLANNER, statement), PLANNER, boards)
    assert not answer.error
    return answer.findings


def one(load: ServedLoad, kind: ServedFindingKind, statement: Statement = LEVEL) -> ServedFinding:
    """The finding of a kind."""
    return next(finding for finding in found(load, statement) if finding.kind is kind)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The file with the loads."""
    path = tmp_path / "loads.json"
    path.write_bytes(encode([CHAT]))
    return path


def test_text_answers_in_its_first_lines(file: Path, capsys: Captured) -> None:
    """What serves, what it would need, what it saves."""
    assert main(["served", str(file), "--ttft", "p95=400ms", "--tpot", "50ms"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("chat-api serves Llama-3.1-8B as meta-llama/Llama-3.1-8B-Instruct")
    assert lines[2].startswith("needs: 1 x H100-SXM5-80GB: ")
    assert lines[3].startswith("saves $3.90 an hour (")


def test_json_has_the_prediction_beside_the_measurement(file: Path, capsys: Captured) -> None:
    """Without a stated level, today's is kept."""
    assert main(["served", str(file), "--json"]) == 0
    (answer,) = json.loads(capsys.readouterr().out)
    figures: dict[str, Any] = {figure["what"]: figure for figure in answer["comparisons"]}
    assert figures["tpot_ms"]["measured"] == pytest.approx(8.3)
    assert figures["tpot_ms"]["as_predicted"]
    assert answer["service_level"].endswith("what is kept today")


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("[no json", "is no JSON"),
        ("no page", "has no metrics of a serving engine"),
        ("[]", "no model is served"),
        ('[{"model": 1}]', "load 1: "),
        ('{"served": []}', "no model is served"),
        ("5", "holds no list of loads"),
    ],
)
def test_file_without_loads_is_refused(
    content: str, fault: str, tmp_path: Path, capsys: Captured
) -> None:
    """The error names the file, the fault and one remedy."""
    file = tmp_path / "loads.json"
    file.write_text(content, encoding="utf-8")
    assert main(["served", str(file)]) in {1, 2}
    error = capsys.readouterr().err
    assert "loads.json: " in error
    assert fault in error
    assert error.count(";") <= 1


def test_file_and_address_together_are_refused(file: Path, capsys: Captured) -> None:
    """One source at a time."""
    assert main(["served", str(file), "--url", "http://127.0.0.1:1"]) == 2
    assert "--url: files are given too" in capsys.readouterr().err


def test_several_engines_are_summed_first(tmp_path: Path, capsys: Captured) -> None:
    """An idle engine counts, and saves nothing."""
    file = tmp_path / "loads.json"
    other = replace(CHAT, workload="quiet", devices=("GPU-3", "GPU-4"))
    other = replace(other, requests_per_second=0.0, requests_per_second_peak=None)
    file.write_bytes(encode({"time": 1.0, "span": "7d", "served": [CHAT, other]}))
    assert main(["served", str(file), "--ttft", "p95=400ms"]) == 0
    first, second, third, *_ = capsys.readouterr().out.splitlines()
    assert first == "2 engines of 1 model on 4 GPUs, $15.60 an hour at list prices"
    assert second == "would need: $11.70 an hour as advised below"
    assert third == "saves: $3.90 an hour on 1 engine"


def test_unknown_board_is_an_error_with_its_remedy() -> None:
    """The flag that it names helps."""
    with pytest.raises(RequirementError, match=r"chat-api: runs on an unknown GPU.* --gpu"):
        served_engine(replace(CHAT, board=""), PLANNER, NOTHING_STATED)
    stated = served_engine(replace(CHAT, board=""), PLANNER, Statement(board="L40S"))
    assert stated.board.key == "L40S"


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("acme/llama-3.1-8b-support-v7", "Llama-3.1-8B"),
        ("/models/Llama-3.1-70B-Instruct/", "Llama-3.1-70B"),
        ("/root/.cache/hub/models--Qwen--Qwen3-32B/snapshots/1f", "Qwen3-32B"),
    ],
)
def test_served_name_is_resolved_as_in_a_plan(name: str, model: str) -> None:
    """Fine-tunes by their base, paths by their end."""
    assert served_engine(replace(CHAT, model=name), PLANNER, NOTHING_STATED).model == model


def test_path_of_a_page_is_not_read(tmp_path: Path) -> None:
    """A page is not trusted with files."""
    (tmp_path / "config.json").write_text("not read", encoding="utf-8")
    engine = served_engine(replace(CHAT, model=str(tmp_path)), PLANNER, NOTHING_STATED)
    assert not engine.is_model_known


def test_alias_is_sized_by_memory_until_it_is_stated() -> None:
    """Said as assumed."""
    alias = replace(CHAT, model="prod", memory_used_bytes=70 * GIB, kv_cache_tokens=400_000.0)
    sized = served_engine(alias, PLANNER, NOTHING_STATED)
    assert not sized.is_model_known
    assert 4.0 < float(sized.model.removesuffix("B")) < 16.0
    assert "give --model prod=NAME" in str(sized.assumptions[0])
    stated = served_engine(alias, PLANNER, Statement(models={"prod": "llama-3.1-8b"}))
    assert stated.model == "Llama-3.1-8B"
    assert stated.is_model_known


def test_nothing_smaller_is_advised_for_an_unknown_model() -> None:
    """Its size is a guess."""
    alias = replace(CHAT, model="prod", memory_used_bytes=70 * GIB, kv_cache_tokens=400_000.0)
    finding = one(alias, ServedFindingKind.TOO_LARGE)
    assert finding.abstained == "the model is not known: state it (--model, or in a policy)"


def test_unknown_model_is_not_off() -> None:
    """What is predicted for a guessed size says nothing of the engine."""
    alias = replace(CHAT, model="prod", time_per_output_token=ServedLatency(0.5))
    assert ServedFindingKind.OFF not in {finding.kind for finding in found(alias)}


@pytest.mark.parametrize("form", ["html", "markdown"])
def test_other_formats_have_the_same_answer(form: str, file: Path, capsys: Captured) -> None:
    """Under a title."""
    assert main(["served", str(file), "--ttft", "p95=400ms", "--format", form]) == 0
    out = capsys.readouterr().out
    assert "What engines serve" in out
    assert "needs: 1 x H100-SXM5-80GB" in out


def test_format_is_told_by_the_memory_in_use() -> None:
    """Beside a cache of known size."""
    tokens = 300_000.0
    cache = tokens * 2 * 32 * 8 * 128 * 2  # Keys and values of 32 layers, 8 heads of 128, bf16.
    narrow = replace(CHAT, kv_cache_tokens=tokens, memory_used_bytes=cache + 9.5e9)
    engine = served_engine(narrow, PLANNER, NOTHING_STATED)
    assert engine.requirement.precision.weights == "fp8"
    wide = replace(narrow, memory_used_bytes=cache + 17.5e9)
    engine = served_engine(wide, PLANNER, NOTHING_STATED)
    assert engine.requirement.precision.weights == "bf16"
    assert not engine.assumptions


def test_exported_format_and_tensor_size_are_not_assumed() -> None:
    """Nothing is left to assume."""
    told = replace(CHAT, weight_format="fp8", engines=1, tensor=2)
    engine = served_engine(told, PLANNER, NOTHING_STATED)
    assert engine.layout == Parallelism(2)
    assert not engine.assumptions


def test_assumption_says_what_hangs_on_it() -> None:
    """In figures, with the flag that replaces it."""
    engine = served_engine(replace(CHAT, engines=1), PLANNER, NOTHING_STATED)
    prediction = predict(engine, PLANNER)
    assert prediction.engine.layout == Parallelism(2)
    texts = [str(assumption) for assumption in prediction.engine.assumptions]
    assert any("as replicas of one GPU: TPOT" in text and "--tp" in text for text in texts)


def test_busy_hours_count_by_their_requests() -> None:
    """A token sees the hours in which tokens are made."""
    hours = (0.0,) * 12 + (6.0,) * 12
    load = replace(CHAT, requests_per_second_by_hour=hours)
    steady = served_engine(CHAT, PLANNER, NOTHING_STATED)
    assert steady.in_flight == pytest.approx(7.2)
    assert served_engine(load, PLANNER, NOTHING_STATED).in_flight == pytest.approx(14.4)


def test_engine_that_counts_tokens_alone_has_a_rate() -> None:
    """By the tokens of a request."""
    load = replace(
        CHAT,
        requests_per_second=None,
        requests_per_second_peak=None,
        output_tokens_per_second=900.0,
    )
    assert served_engine(load, PLANNER, NOTHING_STATED).rate == pytest.approx(3.0)


def test_smaller_layout_is_advised_with_launch_and_canary() -> None:
    """With its probability and its savings."""
    finding = one(CHAT, ServedFindingKind.TOO_LARGE)
    first = finding.options[0]
    assert (first.candidate.gpu, first.candidate.count) == ("H100-SXM5-80GB", 1)
    assert not finding.abstained
    assert first.probability > 0.9
    assert first.savings.dollars_per_hour == pytest.approx(3.9)
    assert first.savings.dollars_per_hour_low is not None
    assert first.launch is not None
    assert first.launch.command[:2] == ("vllm", "serve")
    assert "send it a tenth of the traffic (0.3 requests/s)" in first.canary


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"window_seconds": 3600.0}, "less than a day"),
        ({"prompt_tokens": None}, "tokens of a request"),
        ({"time_per_output_token": ServedLatency(0.03)}, "not as predicted"),
    ],
)
def test_nothing_smaller_is_advised_without_its_evidence(changes: dict[str, Any], why: str) -> None:
    """The reason is told."""
    assert why in one(replace(CHAT, **changes), ServedFindingKind.TOO_LARGE).abstained


def test_engine_with_what_it_needs_has_no_finding() -> None:
    """No advice where all is right."""
    busy = replace(CHAT, requests_per_second=20.0, requests_per_second_peak=23.0)
    busy = replace(busy, requests_running=None, time_to_first_token=None)
    busy = replace(busy, time_per_output_token=None)
    assert not found(busy, boards=("H100-SXM5-80GB", "L4"))


def test_queue_is_a_shortage_with_what_mends_it() -> None:
    """More GPUs cost more."""
    short = replace(
        CHAT,
        requests_per_second=30.0,
        requests_per_second_peak=40.0,
        requests_running=200.0,
        requests_waiting=80.0,
        time_per_output_token=None,
    )
    finding = one(short, ServedFindingKind.TOO_SMALL)
    assert "80 requests wait on average" in finding.summary
    assert any(option.candidate.count > 2 for option in finding.options)
    assert finding.dollars_per_hour < 0.0


def test_limit_of_requests_is_raised_before_gpus_are_added() -> None:
    """A limit costs nothing."""
    limited = replace(
        CHAT,
        requests_running=16.0,
        requests_waiting=9.0,
        maximum_running=8,
        kv_cache_used_ratio=0.1,
    )
    finding = one(limited, ServedFindingKind.TOO_SMALL)
    assert not finding.options
    assert "its limit of 8 requests at a time is reached" in finding.causes[0]
    (answer,) = served_answers(predicted_loads([limited], PLANNER, LEVEL), PLANNER)
    assert str(needs_of(answer)) == "what it has, with a higher limit of requests at a time"


def test_limit_of_requests_does_not_hide_gpus_that_are_too_few() -> None:
    """What it has would not hold its busiest load with any limit."""
    limited = replace(
        CHAT,
        requests_per_second=300.0,
        requests_per_second_peak=400.0,
        requests_running=16.0,
        requests_waiting=90.0,
        maximum_running=8,
        time_per_output_token=None,
    )
    finding = one(limited, ServedFindingKind.TOO_SMALL)
    assert "its limit of 8 requests at a time is reached" in finding.causes[0]
    assert any(option.candidate.count > 2 for option in finding.options)


def test_slices_are_considered_like_boards(file: Path, capsys: Captured) -> None:
    """As kinds to consider, and as what runs."""
    slice_ = "H100-SXM5-80GB:3g.40gb"
    level = ["--ttft", "p95=400ms", "--tpot", "50ms", "--json"]
    assert main(["served", str(file), "--boards", slice_, *level]) == 0
    (answer,) = json.loads(capsys.readouterr().out)
    changes = [option["change"] for found in answer["findings"] for option in found["options"]]
    assert any(slice_ in change for change in changes)
    assert main(["served", str(file), "--gpu", slice_, "--boards", "L40S", *level]) == 0
    (answer,) = json.loads(capsys.readouterr().out)
    assert answer["gpu"] == slice_
    assert main(["served", str(file), "--gpu", "h100-sxm5-80gb:9g"]) != 0
    error = capsys.readouterr().err
    assert "--gpu: H100-SXM5-80GB has no slice '9g'; it has 1g.10gb" in error


def test_slow_engine_names_causes_nearest_first() -> None:
    """Beside what is measured and predicted."""
    slow = replace(
        CHAT,
        model="meta-llama/Llama-3.1-70B-Instruct",
        engines=1,
        tensor=2,
        weight_format="bf16",
        requests_running=2.0,
        time_per_output_token=ServedLatency(0.2),
    )
    finding = one(slow, ServedFindingKind.OFF)
    assert finding.causes
    assert "TPOT 200 ms, predicted" in finding.summary


def test_fast_engine_may_have_narrower_weights() -> None:
    """The format that explains it comes first."""
    fast = replace(CHAT, requests_running=2.0, time_per_output_token=ServedLatency(0.005))
    causes = one(fast, ServedFindingKind.OFF).causes
    assert causes[0].startswith("weights are in ")


def test_replicas_follow_the_hours() -> None:
    """Half of them are free for half of the day."""
    hours = (1.0,) * 12 + (16.0,) * 12
    load = replace(
        CHAT,
        requests_per_second=8.5,
        requests_per_second_peak=None,
        requests_per_second_by_hour=hours,
        requests_running=None,
        time_per_output_token=None,
        time_to_first_token=None,
    )
    finding = one(load, ServedFindingKind.BY_HOUR)
    assert "1.5 of 2 replicas" in finding.summary
    assert finding.dollars_per_hour == pytest.approx(7.8 / 4)


def test_engines_on_each_others_boards_could_trade_places() -> None:
    """One is short, the other fits its board."""
    small = replace(
        CHAT,
        workload="embedded-chat",
        engines=1,
        devices=("GPU-3",),
        requests_per_second=0.3,
        requests_per_second_peak=0.4,
        requests_running=0.9,
        time_per_output_token=None,
        time_to_first_token=None,
    )
    short = replace(
        small,
        workload="busy",
        devices=("GPU-4",),
        board="NVIDIA A10",
        requests_per_second=4.0,
        requests_per_second_peak=5.0,
        requests_running=100.0,
        requests_waiting=40.0,
    )
    loads = predicted_loads([small, short], PLANNER, Statement(ttft="2s"))
    answers = served_answers(loads, PLANNER)
    kinds = {answer.name: [finding.kind for finding in answer.findings] for answer in answers}
    assert ServedFindingKind.TRADE in kinds["busy"]


def test_what_is_learned_shifts_and_narrows_a_plan(
    file: Path, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Said in its notes, and gone after `--forget`."""
    learned = tmp_path / "state" / "learned.json"
    monkeypatch.setenv("RIGHTSIZER_SIZING__LEARNED_FILE", str(learned))
    asked = ["plan", "llama-3.1-8b", "--rps", "3", "--gpus", "H100-SXM5-80GB", "--json"]

    def first() -> tuple[Any, str]:
        assert main(asked) == 0
        answer = json.loads(capsys.readouterr().out)
        return answer["candidates"][0], " ".join(answer["notes"])

    before, _ = first()
    assert main(["served", str(file), "--learn"]) == 0
    assert "note: learned 2 figures" in capsys.readouterr().out
    after, notes = first()
    assert "adjusted by 1 measurement of this site: TPOT x1.0" in notes
    assert after["adjusted"]["count"] == 1
    width = [candidate["tpot_ms_high"] / candidate["tpot_ms_low"] for candidate in (before, after)]
    assert width[1] < width[0]
    assert "adjusted" not in before
    assert main(["served", "--forget"]) == 0
    capsys.readouterr()
    assert first()[0] == before


def test_engine_is_learned_beside_its_prediction_without_corrections(
    file: Path, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Learning again does not learn the corrections."""
    learned = tmp_path / "learned.json"
    monkeypatch.setenv("RIGHTSIZER_SIZING__LEARNED_FILE", str(learned))
    ratios = []
    for _ in range(2):
        assert main(["served", str(file), "--learn"]) == 0
        ratios.append(json.loads(learned.read_text("utf-8"))["residuals"][0]["log_ratio"])
    capsys.readouterr()
    assert ratios[1] == pytest.approx(ratios[0])


def test_broken_learned_file_is_named_with_its_remedy(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan does not ignore it."""
    learned = tmp_path / "learned.json"
    monkeypatch.setenv("RIGHTSIZER_SIZING__LEARNED_FILE", str(learned))
    for content in ("{", '{"version": 2}'):
        learned.write_text(content, encoding="utf-8")
        assert main(["plan", "llama-3.1-8b", "--gpus", "L40S"]) == 1
        assert "start again with 'rightsizer served --forget'" in capsys.readouterr().err


def test_off_engine_with_assumed_layout_teaches_nothing() -> None:
    """What is assumed may be what is wrong."""
    slow = replace(CHAT, time_per_output_token=ServedLatency(0.03))
    assert not predicted_loads([slow], PLANNER, LEVEL).residuals
    told = replace(slow, weight_format="bf16")
    assert len(predicted_loads([told], PLANNER, LEVEL).residuals) == 2


def test_forget_does_nothing_else(file: Path, capsys: Captured) -> None:
    """It is given alone."""
    assert main(["served", str(file), "--forget"]) == 2
    assert "--forget: " in capsys.readouterr().err


def test_cache_is_given_more_memory_before_gpus_are_added() -> None:
    """Where the engine takes less than is usual."""
    little = replace(CHAT, preemptions_per_second=0.5, memory_used_bytes=40 * GIB)
    causes = one(little, ServedFindingKind.TOO_SMALL).causes
    assert causes[0].startswith("its cache is full, and it takes 5")
    usual = replace(little, memory_used_bytes=72 * GIB)
    assert not any("memory" in cause for cause in one(usual, ServedFindingKind.TOO_SMALL).causes)


def test_settings_that_gain_are_named_of_engines_that_are_well() -> None:
    """As intervals: what a prefix cache keeps short, and a draft head."""
    hit = replace(CHAT, prefix_hit_ratio=0.7)
    gains = one(hit, ServedFindingKind.SETTINGS).evidence
    assert gains[0].startswith("keep its prefix cache, which has 70% of prompt tokens: TTFT ")
    assert gains[1].startswith("speculative decoding of 3 tokens: TPOT ")
    assert all(" to " in gain and " in place of " in gain for gain in gains)


def test_nothing_is_said_of_settings_that_were_not_measured() -> None:
    """Without requests in flight, or the time between tokens."""
    for unknown in (
        replace(CHAT, requests_running=None),
        replace(CHAT, time_per_output_token=None, time_to_first_token=None),
    ):
        kinds = {finding.kind for finding in found(unknown)}
        assert ServedFindingKind.SETTINGS not in kinds


def test_limit_of_requests_is_raised_with_its_gain() -> None:
    """Where they wait for it and not for the cache."""
    full = replace(CHAT, maximum_running=8, requests_running=16.0, requests_waiting=30.0)
    causes = one(replace(full, kv_cache_used_ratio=0.2), ServedFindingKind.TOO_SMALL).causes
    assert causes[0].startswith("its limit of 8 requests at a time is reached")
    assert causes[1].startswith("at most 16 requests at a time in place of 8: ")
    assert " output tokens/s (" in causes[1]


def test_speculation_is_named_with_its_gain_where_tokens_are_late() -> None:
    """At few requests in flight, as an interval."""
    late = replace(CHAT, requests_running=2.0)
    level = Statement(tpot="6ms")
    causes = one(late, ServedFindingKind.TOO_SMALL, level).causes
    assert causes[0].startswith("speculative decoding of 3 tokens: TPOT ")
    assert " in place of 7." in causes[0]


def test_largest_rate_is_none_where_one_request_is_late(file: Path, capsys: Captured) -> None:
    """No rate keeps a level that nothing keeps."""
    assert main(["served", str(file), "--tpot", "1ms"]) == 0
    assert "largest rate: none, not even one request is within TPOT <= 1ms" in " ".join(
        capsys.readouterr().out.split()
    )


def test_few_requests_teach_nothing() -> None:
    """Their mean says little of others."""
    few = replace(CHAT, weight_format="bf16", window_seconds=9.0)
    assert not predicted_loads([few], PLANNER, LEVEL).residuals
    enough = replace(few, window_seconds=11.0)
    assert len(predicted_loads([enough], PLANNER, LEVEL).residuals) == 2


def test_memory_and_the_largest_rate_are_corrected_too() -> None:
    """The rate by its times; memory that is off tells of something else, and teaches nothing."""
    cache_tokens = 300_000.0
    told = replace(CHAT, weight_format="bf16", kv_cache_tokens=cache_tokens)
    engine = served_engine(told, PLANNER, LEVEL)
    filled = memory_in_use(told, engine.requirement, engine.layout, PLANNER)
    assert filled is not None
    more = replace(told, memory_used_bytes=1.05 * filled)
    loads = predicted_loads([more], PLANNER, LEVEL)
    (learned,) = (taught for taught in loads.residuals if taught.figure is SiteFigure.MEMORY)
    assert learned.log_ratio == pytest.approx(math.log(1.05))

    taught = replace(PLANNER, site=SiteResiduals(loads.residuals))
    before, after = (predict(engine, planner) for planner in (PLANNER, taught))
    plain, corrected = (prediction.candidate.memory.total for prediction in (before, after))
    assert plain.value < corrected.value < 1.05 * plain.value
    assert corrected.high / corrected.low < plain.high / plain.low
    adjustment = after.candidate.adjustment
    assert adjustment is not None
    assert f"memory x{corrected.value / plain.value:.2f}" in str(adjustment)
    assert before.largest_rate is not None
    assert after.largest_rate is not None
    is_faster = adjustment.tpot_factor < 1.0
    assert (after.largest_rate.value > before.largest_rate.value) is is_faster

    much = replace(told, memory_used_bytes=1.5 * filled)
    residuals = predicted_loads([much], PLANNER, LEVEL).residuals
    assert SiteFigure.MEMORY not in {residual.figure for residual in residuals}


def test_tokens_are_shown_as_a_distribution(capsys: Captured, tmp_path: Path) -> None:
    """Mean and p95."""
    load = replace(CHAT, prompt_tokens_p95=4000.0, output_tokens_p95=900.0)
    path = tmp_path / "loads.json"
    path.write_bytes(encode([load]))
    assert main(["served", str(path)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "of 1,500 (p95 4,000) tokens in and 300 (p95 900) out" in text


@pytest.mark.parametrize(
    ("ttft", "prompt", "answer", "is_advised"),
    [
        ("p95=400ms", 3000.0, 900.0, True),
        # Its first token takes longer than that, even alone.
        ("p95=400ms", 60_000.0, 900.0, False),
        # Of the mean, which a long request does not miss alone.
        ("400ms", 60_000.0, 900.0, True),
        # Its cache does not fit.
        ("400ms", 3e6, 900.0, False),
    ],
)
def test_what_is_advised_holds_the_longest_requests(
    ttft: str, prompt: float, answer: float, *, is_advised: bool
) -> None:
    """In memory, and within a level of a percentile."""
    load = replace(CHAT, prompt_tokens_p95=prompt, output_tokens_p95=answer)
    statement = Statement(ttft=ttft, tpot="50ms")
    findings = found(load, statement, ("H100-SXM5-80GB",))
    is_found = any(finding.kind is ServedFindingKind.TOO_LARGE for finding in findings)
    assert is_found is is_advised


@pytest.mark.parametrize(
    ("running", "waiting", "limit", "is_full"),
    [
        (7.2, 0.0, None, False),
        (7.2, 0.4, 256, False),
        (60.0, 9.0, None, True),
        (31.0, 0.0, 16, True),
    ],
)
def test_busiest_rate_of_a_full_engine_has_a_ratio(
    running: float, waiting: float, limit: int | None, *, is_full: bool
) -> None:
    """Of any other it is a lower bound, and says so."""
    load = replace(CHAT, requests_running=running, requests_waiting=waiting, maximum_running=limit)
    largest = predict(served_engine(load, PLANNER, LEVEL), PLANNER).figure("largest_rate")
    assert largest is not None
    assert largest.measured == 4.5
    assert (largest.ratio is not None) is is_full
    assert ("lower bound" in largest.remark) is not is_full
    if is_full and limit and largest.predicted is not None:
        # As many as the limit allows at a time.
        alike = replace(load, requests_running=2.0 * limit)
        rate = predict(served_engine(alike, PLANNER, LEVEL), PLANNER).candidate.rate
        assert rate.units_per_second is not None
        assert largest.predicted.value == pytest.approx(rate.units_per_second.value / 300.0)


def test_one_waits_and_several_wait() -> None:
    """In their number."""
    for waiting, words in (
        (1.0, ": short: 1 request waits on average"),
        (1.5, "1.5 requests wait"),
    ):
        load = replace(CHAT, requests_waiting=waiting, time_per_output_token=None)
        assert words in one(load, ServedFindingKind.TOO_SMALL).summary


def test_what_is_learned_and_may_not_be_read_is_told(
    file: Path, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To whom asks what is served, or compares GPUs."""
    learned = tmp_path / "learned.json"
    monkeypatch.setenv("RIGHTSIZER_SIZING__LEARNED_FILE", str(learned))
    compare = ["compare", "h100", "l40s", "--workload", "llm-serving"]
    for words in (["served", str(file)], compare):
        main(words)
        assert "may not read" not in capsys.readouterr().out
    learned.write_bytes(encode(LearnedDocument()))
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != learned and access(path, mode))
    for words in (["served", str(file)], compare):
        main(words)
        text = " ".join(capsys.readouterr().out.split())
        assert "which you may not read: nothing is adjusted by it; join group rightsizer" in text
