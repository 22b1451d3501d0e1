"""What a model is asked and how it answers, by the page of each engine."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine_pages import BOUNDS, TOKEN_BOUNDS, EnginePage, vllm_page
from rightsizer.io.codec import convert, decode, encode, plain
from rightsizer.model.served_counts import ServedCounts, summed_counts, with_counts
from rightsizer.model.served_load import ServedLatency, ServedLoad
from rightsizer.telemetry.serving.page import parse_page
from rightsizer.telemetry.serving.served import served_loads, served_samples
from rightsizer.telemetry.serving.settings import EngineName


def loads(now: str, before: str | None, seconds: float = 60.0) -> tuple[ServedLoad, ...]:
    """Loads between two pages."""
    former = None if before is None else parse_page(before)
    return served_loads(parse_page(now), former, seconds)


def load(now: str, before: str | None, seconds: float = 60.0) -> ServedLoad:
    """Load of the only model between two pages, rounded."""
    (found,) = loads(now, before, seconds)
    return convert(rounded(plain(found)), ServedLoad)


def rounded(value: Any) -> Any:
    """Six digits of all numbers in a value."""
    if isinstance(value, dict):
        return {key: rounded(inner) for key, inner in value.items()}
    return round(value, 6) if isinstance(value, float) else value


def test_vllm_tells_model_load_and_limits() -> None:
    """Rates, tokens, latencies, cache and its capacity between two pages."""
    found = load(vllm_page(70).page(), vllm_page(10).page())

    assert found == ServedLoad(
        model="llama",
        engine="vllm",
        window_seconds=60.0,
        requests_per_second=1.0,
        prompt_tokens_per_second=400.0,
        output_tokens_per_second=100.0,
        prompt_tokens=400.0,
        output_tokens=100.0,
        # 95 % of the way from 200 to 500, where all of them are.
        prompt_tokens_p95=485.0,
        output_tokens_p95=95.0,
        requests_running=4.0,
        requests_waiting=1.0,
        time_to_first_token=ServedLatency(0.15, 0.195),
        time_per_output_token=ServedLatency(0.05, 0.095),
        kv_cache_used_ratio=0.5,
        prefix_hit_ratio=0.25,
        preemptions_per_second=0.1,
        kv_cache_tokens=16_000.0,
        cache_format="fp8",
    )


def test_engines_of_one_page_are_replicas() -> None:
    """Rates are of both, the cache is one's, and latencies are of a request on either."""
    found = load(vllm_page(70, engines=2).page(), vllm_page(10, engines=2).page())

    assert found.engines == 2
    assert found.requests_per_second == 2.0
    assert found.requests_running == 8.0
    assert found.prompt_tokens == 400.0
    assert found.kv_cache_tokens == 16_000.0
    assert found.time_to_first_token == ServedLatency(0.15, 0.195)


def test_one_page_tells_what_happened_since_its_counters_began() -> None:
    """The operator names no time between two pages, but the process has a start."""
    text = vllm_page(60).page() + "process_start_time_seconds 1.7e+09\n"
    page = parse_page(text)

    assert page.started_seconds == 1.7e9
    (found,) = served_loads(page, None, 600.0)
    assert found.requests_per_second == pytest.approx(0.1)
    (sample,) = served_samples(page, None, 5.0)
    assert sample.load.requests_per_second is None
    assert sample.load.kv_cache_tokens == 16_000.0


def test_a_restarted_engine_counts_from_nothing() -> None:
    """What it did before is not counted again."""
    found = load(vllm_page(6).page(), vllm_page(1000).page())

    assert found.requests_per_second == 0.1
    assert found.output_tokens == 100.0
    assert found.time_to_first_token == ServedLatency(0.15, 0.195)


def test_an_engine_that_started_again_counts_from_nothing_though_it_did_more() -> None:
    """Its start tells what no counter does: that all of it is new."""
    start = "process_start_time_seconds {}\n"
    found = load(
        vllm_page(70).page() + start.format(1_700_000_500.0),
        vllm_page(10).page() + start.format(1_700_000_000.0),
        seconds=70.0,
    )
    assert found.requests_per_second == 1.0

    same = start.format(1_700_000_000.0)
    found = load(vllm_page(70).page() + same, vllm_page(10).page() + same)
    assert found.requests_per_second == 1.0


def test_no_request_is_a_rate_of_zero_and_no_latency() -> None:
    """Nothing is divided by nothing."""
    found = load(vllm_page(10).page(), vllm_page(10).page())

    assert found.requests_per_second == 0.0
    assert found.output_tokens_per_second == 0.0
    assert found.output_tokens is None
    assert found.time_to_first_token is None
    assert found.prefix_hit_ratio is None


def test_percentile_beyond_the_last_bound_is_unknown() -> None:
    """The last bucket is open; the mean is known all the same."""
    before, now = vllm_page(0), vllm_page(0)
    now.observe("time_to_first_token_seconds", *[3.0] * 10, engine="0")

    assert load(now.page(), before.page()).time_to_first_token == ServedLatency(3.0, None)


def test_sglang_counts_its_cache_by_source_and_names_its_context() -> None:
    """Ranks that copy a count are one; without token histograms, tokens are of the counters."""

    def engine(requests: int) -> str:
        made = EnginePage("sglang:", {"model_name": "qwen", "engine_type": "unified"})
        for rank in "01":
            made.level("num_running_reqs", 20, tp_rank=rank, pp_rank="0", dp_rank="0")
            made.level("max_total_num_tokens", 80_000, tp_rank=rank, pp_rank="0", dp_rank="0")
            made.level("context_len", 32_768, tp_rank=rank, pp_rank="0", dp_rank="0")
        for streaming in ("true", "false"):
            made.count("num_requests", requests / 2, is_streaming=streaming)
        made.count("prompt_tokens", 1000 * requests)
        made.count("generation_tokens", 50 * requests)
        made.count("cached_tokens", 200 * requests, cache_source="device")
        made.count("cached_tokens", 50 * requests, cache_source="host")
        made.observe("time_to_first_token_seconds", *[0.3] * requests)
        return made.page()

    found = load(engine(120), engine(0))

    assert found.model == "qwen"
    assert found.requests_per_second == 2.0
    assert found.requests_running == 20.0
    assert found.prompt_tokens == 1000.0
    assert found.output_tokens == 50.0
    assert found.output_tokens_p95 is None
    assert found.prefix_hit_ratio == 0.25
    assert found.kv_cache_tokens == 80_000.0
    assert found.maximum_tokens == 32_768
    assert found.engines == 1


def test_tensorrt_llm_tells_formats_and_tensor_size() -> None:
    """By its metrics of configuration; the cache is counted in blocks."""

    def engine(requests: int) -> str:
        made = EnginePage("trtllm_", {"model_name": "nemotron", "engine_type": "trtllm"})
        made.count("request_success", requests, finished_reason="stop")
        made.count("prompt_tokens", 300 * requests)
        made.count("generation_tokens", 60 * requests)
        made.count("kv_cache_reused_blocks", 3 * requests)
        made.count("kv_cache_missed_blocks", requests)
        made.level("kv_cache_max_blocks", 500)
        made.level("kv_cache_tokens_per_block", 64)
        made.level("max_num_active_requests", 256)
        made.level(
            "model_config_info", 1, quantization="FP8", dtype="bfloat16", max_model_len="8192"
        )
        made.level("kv_cache_config_info", 1, cache_dtype="auto", page_size="64")
        made.level("parallel_config_info", 1, tensor_parallel_size="2", gpu_count="2")
        return made.page()

    found = load(engine(60), engine(0))

    assert found.prompt_tokens == 300.0
    assert found.prefix_hit_ratio == 0.75
    assert found.kv_cache_tokens == 32_000.0
    assert found.maximum_running == 256
    assert found.maximum_tokens == 8192
    assert (found.weight_format, found.cache_format) == ("FP8", "auto")
    assert found.tensor == 2


def test_tgi_has_tokens_and_no_first_token() -> None:
    """Nor a model: it has no labels."""

    def engine(requests: int) -> str:
        buckets = "".join(
            f'tgi_request_generated_tokens_bucket{{le="{bound}"}} {requests}\n'
            for bound in ("64", "128", "+Inf")
        )
        return (
            f"tgi_request_success {requests}\n"
            f"tgi_request_input_length_sum {90 * requests}\n"
            f"tgi_request_input_length_count {requests}\n"
            f"{buckets}"
            f"tgi_request_generated_tokens_sum {40 * requests}\n"
            f"tgi_request_generated_tokens_count {requests}\n"
            f"tgi_request_mean_time_per_token_duration_sum {0.02 * requests}\n"
            f"tgi_request_mean_time_per_token_duration_count {requests}\n"
        )

    found = load(engine(30), engine(0))

    assert found.model == ""
    assert found.requests_per_second == 0.5
    assert found.prompt_tokens == 90.0
    assert found.output_tokens_per_second == 20.0
    assert found.output_tokens_p95 == 0.95 * 64
    assert found.time_to_first_token is None
    assert found.time_per_output_token == ServedLatency(0.02, None)


def triton(*models: str, requests: int = 0) -> str:
    """Models that are counted by their requests only."""
    return "".join(
        f'nv_inference_request_success{{model="{model}",version="1"}} {requests}\n'
        f'nv_inference_pending_request_count{{model="{model}",version="1"}} 2\n'
        for model in models
    )


def test_triton_separates_its_models() -> None:
    """Each has its own load."""
    found = loads(triton("bert", "resnet", requests=30), triton("bert", "resnet"))

    assert [each.model for each in found] == ["bert", "resnet"]
    assert [each.requests_per_second for each in found] == [0.5, 0.5]
    assert [each.requests_waiting for each in found] == [2.0, 2.0]


def test_steps_of_an_ensemble_are_not_served_models() -> None:
    """Where one of them counts tokens, the others prepare its requests."""

    def page(requests: int) -> str:
        labels = 'model="tensorrt_llm",version="1"'
        blocks = f"nv_trt_llm_kv_cache_block_metrics{{{labels},kv_cache_block_type"
        return (
            triton("ensemble", "preprocessing", "tensorrt_llm", requests=requests)
            + f'{blocks}="max"}} 6239\n{blocks}="tokens_per"}} 64\n'
            f'nv_trt_llm_request_metrics{{{labels},request_type="max"}} 512\n'
            f'nv_llm_input_token_len_bucket{{{labels},le="500"}} {requests}\n'
            f"nv_llm_input_token_len_sum{{{labels}}} {250 * requests}\n"
            f"nv_llm_input_token_len_count{{{labels}}} {requests}\n"
            f"nv_llm_output_token_len_sum{{{labels}}} {80 * requests}\n"
            f"nv_llm_output_token_len_count{{{labels}}} {requests}\n"
            f"nv_inference_first_response_histogram_ms_sum{{{labels}}} {200 * requests}\n"
            f"nv_inference_first_response_histogram_ms_count{{{labels}}} {requests}\n"
            f'nv_inference_first_response_histogram_ms_bucket{{{labels},le="500"}} {requests}\n'
        )

    found = load(page(60), page(0))

    assert found.model == "tensorrt_llm"
    assert found.requests_per_second == 1.0
    assert found.output_tokens == 80.0
    assert found.kv_cache_tokens == 6239 * 64
    assert found.maximum_running == 512
    assert found.time_to_first_token == ServedLatency(0.2, 0.475)


@pytest.mark.parametrize(
    ("prefix", "engine", "limit"),
    [("", EngineName.NIM, "num_request_max"), ("lmdeploy:", EngineName.LMDEPLOY, "other")],
)
def test_engines_with_vllms_names_are_read(prefix: str, engine: EngineName, limit: str) -> None:
    """NIM without a prefix, LMDeploy with its own."""

    def page(requests: int) -> str:
        made = EnginePage(prefix, {"model_name": "mistral"})
        made.level("num_requests_running", 3)
        made.level(limit, 64)
        made.count("request_success", requests, finished_reason="stop")
        made.count("prompt_tokens", 200 * requests)
        made.count("generation_tokens", 100 * requests)
        made.observe("request_prompt_tokens", *[150.0] * requests, bounds=TOKEN_BOUNDS)
        made.observe("time_per_output_token_seconds", *[0.05] * requests)
        return made.page()

    found = load(page(60), page(0))

    assert (found.engine, found.model) == (engine, "mistral")
    assert found.requests_per_second == 1.0
    assert found.prompt_tokens == 150.0
    assert found.output_tokens == 100.0
    assert found.maximum_running == (64 if limit == "num_request_max" else None)


def test_llama_cpp_counts_tokens_and_no_requests() -> None:
    """What it does not export is unknown, not 0."""

    def page(tokens: int) -> str:
        return (
            "llamacpp:requests_processing 2\n"
            f"llamacpp:prompt_tokens_total {3 * tokens}\n"
            f"llamacpp:tokens_predicted_total {tokens}\n"
            f"llamacpp:tokens_predicted_seconds_total {tokens / 50}\n"
        )

    found = load(page(1200), page(0))

    assert found.requests_per_second is None
    assert found.output_tokens is None
    assert found.prompt_tokens_per_second == 60.0
    assert found.output_tokens_per_second == 20.0
    assert found.requests_running == 2.0
    assert found.time_per_output_token == ServedLatency(0.02, None)


def test_a_page_of_another_engine_is_no_page_before() -> None:
    """Another engine took the address: nothing has happened on it yet."""
    now = parse_page(vllm_page(70).page())
    (sample,) = served_samples(now, parse_page("tgi_request_success 9\n"), 60.0)

    assert sample.counts == ServedCounts()


LATENCIES = st.lists(st.floats(0.001, 0.79), min_size=1, max_size=30)


@given(parts=st.lists(LATENCIES, min_size=1, max_size=4))
def test_counts_of_several_times_add_up(parts: list[list[float]]) -> None:
    """Sums of parts are those of the whole, and survive their encoding."""
    engine = vllm_page(0)
    first = before = parse_page(engine.page())
    counts = []
    for values in parts:
        engine.observe("time_to_first_token_seconds", *values, engine="0")
        page = parse_page(engine.page())
        (sample,) = served_samples(page, before, 5.0)
        counts.append(decode(encode(sample.counts), ServedCounts))
        before = page
    (whole,) = served_samples(before, first, 5.0 * len(parts))

    total = with_counts(whole.facts, summed_counts(counts))
    found = total.time_to_first_token
    assert found is not None
    assert whole.load.time_to_first_token is not None
    assert found.mean_seconds == pytest.approx(whole.load.time_to_first_token.mean_seconds)
    assert found.p95_seconds == pytest.approx(whole.load.time_to_first_token.p95_seconds)
    ordered = sorted(value for values in parts for value in values)
    truth = ordered[math.ceil(0.95 * len(ordered)) - 1]
    lower = max((bound for bound in (0.0, *BOUNDS) if bound < truth), default=0.0)
    upper = min(bound for bound in BOUNDS if bound >= truth)
    assert found.p95_seconds is not None
    assert lower <= found.p95_seconds <= upper * (1 + 1e-9)
