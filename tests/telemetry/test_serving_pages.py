"""Each engine's page, in the names of its versions."""

from collections.abc import Mapping

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from rightsizer.model.errors import DriverError
from rightsizer.model.signal import Signal
from rightsizer.telemetry.serving.page import parse_page, values_of
from rightsizer.telemetry.serving.settings import EngineName


def page(*lines: str) -> str:
    """A page of samples, with the engines' line ends."""
    return "".join(f"{line}\n" for line in lines)


def histogram(name: str, labels: str, total: float, count: int) -> str:
    """Lines of a histogram, with buckets, which are ignored."""
    inside = f"{labels}," if labels else ""
    braces = f"{{{labels}}}" if labels else ""
    return page(
        f"# TYPE {name} histogram",
        f'{name}_bucket{{{inside}le="0.5"}} {count}',
        f'{name}_bucket{{{inside}le="+Inf"}} {count}',
        f"{name}_sum{braces} {total}",
        f"{name}_count{braces} {count}",
    ).rstrip("\n")


MODEL = 'model_name="llama"'


def vllm_new(requests: int = 0) -> str:
    """Engine version 1 with two data-parallel engines."""
    lines = ["# HELP vllm:num_requests_running Number of requests in model execution batches."]
    for engine, running, waiting, cache in (("0", 12, 3, 0.5), ("1", 8, 4, 0.93)):
        labels = f'engine="{engine}",{MODEL}'
        lines += [
            f"vllm:num_requests_running{{{labels}}} {running}.0",
            f"vllm:num_requests_waiting{{{labels}}} {waiting}.0",
            f"vllm:kv_cache_usage_perc{{{labels}}} {cache}",
            f"vllm:num_preemptions_total{{{labels}}} {5 + requests}.0",
            f"vllm:num_preemptions_created{{{labels}}} 1.75e+09",
            histogram(
                "vllm:time_to_first_token_seconds", labels, 10 + 0.4 * requests, 9 + requests
            ),
            histogram(
                "vllm:inter_token_latency_seconds", labels, 1 + 0.2 * requests, 10 * requests
            ),
            histogram("vllm:e2e_request_latency_seconds", labels, 3.0 * requests, requests),
        ]
    return page(*lines)


def vllm_old(requests: int = 0) -> str:
    """Engine version 0, which swapped requests to the host."""
    return page(
        f"vllm:num_requests_running{{{MODEL}}} 7.0",
        f"vllm:num_requests_waiting{{{MODEL}}} 2.0",
        f"vllm:num_requests_swapped{{{MODEL}}} 1.0",
        f"vllm:gpu_cache_usage_perc{{{MODEL}}} 0.82",
        f"vllm:cpu_cache_usage_perc{{{MODEL}}} 0.99",
        f"vllm:num_preemptions_total{{{MODEL}}} 11.0",
        histogram("vllm:time_per_output_token_seconds", MODEL, 0.05 * requests, requests),
    )


def sglang(prefix: str, requests: int = 0) -> str:
    """Tensor-parallel ranks that all report, under a scheduler with priorities."""
    lines = []
    for rank in (0, 1):
        labels = f'{MODEL},engine_type="unified",tp_rank="{rank}",pp_rank="0"'
        lines += [
            f'{prefix}num_running_reqs{{{labels},priority=""}} 20',
            f'{prefix}num_running_reqs{{{labels},priority="1"}} 15',
            f'{prefix}num_running_reqs{{{labels},priority="5"}} 5',
            f'{prefix}num_queue_reqs{{{labels},priority=""}} 6',
            f'{prefix}num_decode_prealloc_queue_reqs{{{labels},priority=""}} 2',
            f'{prefix}token_usage{{{labels},priority=""}} 0.71',
            f'{prefix}num_retracted_requests_total{{{labels},priority=""}} 4',
        ]
    lines.append(
        histogram(f"{prefix}inter_token_latency_seconds", MODEL, 0.03 * requests, requests)
    )
    return page(*lines)


def triton(requests: int = 0, *, pending: bool = True) -> str:
    """Two models; the first takes 0.5 s a request, 0.2 s of it in the queue."""
    lines = ['nv_gpu_utilization{gpu_uuid="GPU-1"} 0.9']
    for model, took, queued in (("resnet", 500_000, 200_000), ("bert", 100_000, 0)):
        labels = f'model="{model}",version="1"'
        lines += [
            f"nv_inference_request_success{{{labels}}} {10 + requests}",
            f'nv_inference_request_failure{{{labels},reason="REJECTED"}} 3',
            f"nv_inference_request_duration_us{{{labels}}} {took * (10 + requests)}",
            f"nv_inference_queue_duration_us{{{labels}}} {queued * (10 + requests)}",
        ]
        if pending:
            lines.append(f"nv_inference_pending_request_count{{{labels}}} {len(model)}")
    return page(*lines)


def tgi(requests: int = 0) -> str:
    """The router's format: no labels, series from the first request on."""
    if not requests:
        return ""
    return page(
        "# TYPE tgi_queue_size gauge",
        "tgi_queue_size 9",
        "tgi_batch_current_size 32",
        histogram("tgi_request_duration", "", 4.0 * requests, requests),
        histogram("tgi_request_mean_time_per_token_duration", "", 0.025 * requests, requests),
    )


def values(now: str, before: str | None = None, seconds: float = 5.0) -> Mapping[Signal, float]:
    """Signals of a page, given the previous one."""
    former = None if before is None else parse_page(before)
    return values_of(parse_page(now), former, seconds)


def test_vllm_adds_up_its_engines_and_takes_the_fullest_cache() -> None:
    """Requests are of all replicas on the page, a cache is one replica's."""
    assert values(vllm_new()) == {
        Signal.REQUESTS_RUNNING: 20.0,
        Signal.REQUESTS_WAITING: 7.0,
        Signal.KV_CACHE_USED: 0.93,
        Signal.PREEMPTIONS: 10.0,
    }


def test_vllm_means_are_of_the_interval() -> None:
    """Earlier requests do not count."""
    found = values(vllm_new(requests=20), vllm_new())

    assert found[Signal.TIME_TO_FIRST_TOKEN_SECONDS] == pytest.approx(0.4)
    assert found[Signal.TIME_PER_OUTPUT_TOKEN_SECONDS] == pytest.approx(0.02)
    assert found[Signal.REQUEST_LATENCY_SECONDS] == pytest.approx(3.0)


def test_older_vllm_is_read_too() -> None:
    """Its cache has another name, and swapped requests wait."""
    assert values(vllm_old(40), vllm_old(20)) == pytest.approx(
        {
            Signal.REQUESTS_RUNNING: 7.0,
            Signal.REQUESTS_WAITING: 3.0,
            Signal.KV_CACHE_USED: 0.82,
            Signal.PREEMPTIONS: 11.0,
            Signal.TIME_PER_OUTPUT_TOKEN_SECONDS: 0.05,
        }
    )


def test_vllm_with_both_names_of_its_cache_is_counted_once() -> None:
    """Some releases had both names on one page."""
    both = page(
        f"vllm:kv_cache_usage_perc{{{MODEL}}} 0.4", f"vllm:gpu_cache_usage_perc{{{MODEL}}} 0.4"
    )

    assert values(both) == {Signal.KV_CACHE_USED: 0.4}


def test_a_page_by_the_library_that_engines_use_is_read() -> None:
    """Pages of prometheus_client, as vLLM and SGLang have: creation times, buckets, escapes."""
    registry = CollectorRegistry()
    labels = {"model_name": 'a "quoted" \\ name', "engine": "0"}
    waiting = Gauge("vllm:num_requests_waiting", "Waiting.", [*labels], registry=registry)
    preempted = Counter("vllm:num_preemptions", "Preempted.", [*labels], registry=registry)
    latency = Histogram("vllm:e2e_request_latency_seconds", "All.", [*labels], registry=registry)
    waiting.labels(**labels).set(3)
    preempted.labels(**labels).inc(2)
    latency.labels(**labels).observe(100)
    before = generate_latest(registry).decode()
    latency.labels(**labels).observe(1.5)
    latency.labels(**labels).observe(2.5)

    assert values(generate_latest(registry).decode(), before) == {
        Signal.REQUESTS_WAITING: 3.0,
        Signal.PREEMPTIONS: 2.0,
        Signal.REQUEST_LATENCY_SECONDS: 2.0,
    }
    (series,) = parse_page(before).series["vllm_num_requests_waiting"]
    assert dict(series)["model_name"] == 'a "quoted" \\ name'


@pytest.mark.parametrize("prefix", ["sglang:", "sglang_"])
def test_sglang_counts_each_request_once(prefix: str) -> None:
    """Neither ranks nor priorities count a request twice."""
    assert values(sglang(prefix, 10), sglang(prefix)) == pytest.approx(
        {
            Signal.REQUESTS_RUNNING: 20.0,
            Signal.REQUESTS_WAITING: 8.0,
            Signal.KV_CACHE_USED: 0.71,
            Signal.PREEMPTIONS: 4.0,
            Signal.TIME_PER_OUTPUT_TOKEN_SECONDS: 0.03,
        }
    )


def test_sglang_data_parallel_ranks_add_up() -> None:
    """They serve different requests, whatever their tensor-parallel rank."""
    lines = [f'sglang:num_queue_reqs{{dp_rank="{rank}",tp_rank="{rank}"}} 5' for rank in range(4)]

    assert values(page(*lines)) == {Signal.REQUESTS_WAITING: 20.0}


def test_triton_sums_its_models() -> None:
    """Pending requests are summed, running ones follow by Little's law, latency covers all."""
    found = values(triton(requests=20), triton(), seconds=10.0)

    assert found == pytest.approx(
        {
            Signal.REQUESTS_RUNNING: 20 * (0.3 + 0.1) / 10,
            Signal.REQUESTS_WAITING: float(len("resnet") + len("bert")),
            Signal.REQUEST_LATENCY_SECONDS: (0.5 + 0.1) / 2,
        }
    )


def test_older_triton_tells_its_queue_by_the_time_in_it() -> None:
    """Until 23.10 no pending count existed: twenty requests of 0.2 s wait in 10 s are 0.4."""
    now = triton(20, pending=False)
    before = triton(pending=False)

    assert values(now, before, 10.0)[Signal.REQUESTS_WAITING] == pytest.approx(0.4)


def test_triton_with_tensorrt_llm_waits_in_two_places() -> None:
    """They are Triton's own queue and the backend's; the cache is counted in blocks."""
    labels = 'model="tensorrt_llm",version="1"'
    found = values(
        page(
            f"nv_inference_pending_request_count{{{labels}}} 2",
            f'nv_trt_llm_request_metrics{{{labels},request_type="active"}} 30',
            f'nv_trt_llm_request_metrics{{{labels},request_type="scheduled"}} 25',
            f'nv_trt_llm_request_metrics{{{labels},request_type="waiting"}} 5',
            f'nv_trt_llm_kv_cache_block_metrics{{{labels},kv_cache_block_type="fraction"}} 0.6',
            f'nv_trt_llm_kv_cache_block_metrics{{{labels},kv_cache_block_type="max"}} 4096',
        )
    )

    assert found == {
        Signal.REQUESTS_RUNNING: 25.0,
        Signal.REQUESTS_WAITING: 7.0,
        Signal.KV_CACHE_USED: 0.6,
    }


def test_triton_with_vllm_is_triton() -> None:
    """Its backend writes vLLM's names on Triton's page."""
    both = parse_page(triton() + vllm_old())

    assert both.engine.name is EngineName.TRITON
    assert values_of(both)[Signal.KV_CACHE_USED] == 0.82
    assert values_of(both)[Signal.REQUESTS_WAITING] == 2.0 + len("resnet") + len("bert")


def test_tgi_is_read_from_its_first_request_on() -> None:
    """Its empty page means none yet, so that the first requests count."""
    silent = parse_page(tgi(), EngineName.TGI)

    assert values_of(silent) == {}
    assert values_of(parse_page(tgi(8)), silent, 5.0) == pytest.approx(
        {
            Signal.REQUESTS_RUNNING: 32.0,
            Signal.REQUESTS_WAITING: 9.0,
            Signal.TIME_PER_OUTPUT_TOKEN_SECONDS: 0.025,
            Signal.REQUEST_LATENCY_SECONDS: 4.0,
        }
    )


def unlike_vllm(prefix: str, running: str, waiting: str, cache: str, requests: int) -> str:
    """An engine with vLLM's kind of page in names of its own."""
    latencies = {
        "time_to_first_token": 0.4,
        "time_per_output_token": 0.02,
        "e2e_request_latency": 3,
    }
    lines = [
        f"{prefix}{running}{{{MODEL}}} 12.0",
        f"{prefix}{waiting}{{{MODEL}}} 3.0",
        f"{prefix}{cache}{{{MODEL}}} 0.5",
        f"{prefix}num_request_max{{{MODEL}}} 64.0",
    ]
    return page(
        *lines,
        *(
            histogram(f"{prefix}{name}_seconds", MODEL, mean * requests, requests)
            for name, mean in latencies.items()
        ),
    )


NUMBERS = ("num_requests_running", "num_requests_waiting")


@pytest.mark.parametrize(
    ("engine", "names"),
    [
        (EngineName.TENSORRT_LLM, ("trtllm_", *NUMBERS, "kv_cache_utilization")),
        (EngineName.LMDEPLOY, ("lmdeploy:", *NUMBERS, "gpu_cache_usage_perc")),
        (EngineName.NIM, ("", *NUMBERS, "gpu_cache_usage_perc")),
    ],
)
def test_engines_after_vllm_are_read(engine: EngineName, names: tuple[str, str, str, str]) -> None:
    """Queue, running requests, cache and latencies, each by the engine's own names."""
    now = unlike_vllm(*names, requests=7)
    before = unlike_vllm(*names, requests=2)
    assert parse_page(now).engine.name is engine
    assert values(now, before, 5.0) == pytest.approx(
        {
            Signal.REQUESTS_RUNNING: 12.0,
            Signal.REQUESTS_WAITING: 3.0,
            Signal.KV_CACHE_USED: 0.5,
            Signal.TIME_TO_FIRST_TOKEN_SECONDS: 0.4,
            Signal.TIME_PER_OUTPUT_TOKEN_SECONDS: 0.02,
            Signal.REQUEST_LATENCY_SECONDS: 3.0,
        }
    )


def test_llama_cpp_is_read() -> None:
    """It has no histograms, and since 2025 no cache; its rates are NaN before the first request."""
    text = page(
        "llamacpp:requests_processing 2",
        "llamacpp:requests_deferred 46",
        "llamacpp:predicted_tokens_seconds nan",
    )
    assert parse_page(text).engine.name is EngineName.LLAMA_CPP
    assert values(text) == {Signal.REQUESTS_RUNNING: 2.0, Signal.REQUESTS_WAITING: 46.0}


@pytest.mark.parametrize(
    ("text", "engine"),
    [
        (vllm_new(), EngineName.VLLM),
        (sglang("sglang:"), EngineName.SGLANG),
        (triton(), EngineName.TRITON),
        (tgi(1), EngineName.TGI),
    ],
)
def test_an_engine_is_recognized(text: str, engine: EngineName) -> None:
    """The page's content decides."""
    assert parse_page(text).engine.name is engine


def test_a_page_of_something_else_is_refused() -> None:
    """The error shows what was expected, or what the page looks like."""
    with pytest.raises(DriverError, match=r"no metrics of a serving engine \(triton, vllm"):
        parse_page("node_load1 0.5\n")
    with pytest.raises(DriverError, match="no metrics of tgi; it looks like vllm"):
        parse_page(vllm_new(), EngineName.TGI)
    with pytest.raises(DriverError, match="not in Prometheus's text format"):
        parse_page('vllm:num_requests_running{model_name="llama 7\n')


def test_restarted_engine_begins_again() -> None:
    """Counters that fell count from 0, so that nothing is negative or old."""
    found = values(vllm_new(requests=2), vllm_new(requests=50))

    assert found[Signal.PREEMPTIONS] == 14.0
    # Nine requests of 10 s in all and two of 0.4 s, since the engine started.
    assert found[Signal.TIME_TO_FIRST_TOKEN_SECONDS] == pytest.approx((10 + 0.8) / 11)
    assert found[Signal.REQUEST_LATENCY_SECONDS] == pytest.approx(3.0)


def test_one_model_loaded_again_leaves_the_other_alone() -> None:
    """Triton loads and unloads models at run time; each has its own counters."""

    def models(**requests: int) -> str:
        return page(
            *(
                line
                for model, count in requests.items()
                for line in (
                    f'nv_inference_request_success{{model="{model}"}} {count}',
                    f'nv_inference_request_duration_us{{model="{model}"}} {count * 1_000_000}',
                    f'nv_inference_queue_duration_us{{model="{model}"}} 0',
                )
            )
        )

    found = values(models(a=10, b=110), models(a=500, b=100), 10.0)
    assert found[Signal.REQUESTS_RUNNING] == pytest.approx((10 + 10) / 10)

    appeared = values(models(a=10, b=10_000), models(a=0), 10.0)
    assert appeared[Signal.REQUESTS_RUNNING] == pytest.approx(10 / 10)


def test_another_engine_at_the_same_address_is_a_first_page() -> None:
    """Its totals are not compared with the previous engine's."""
    assert Signal.REQUEST_LATENCY_SECONDS not in values(tgi(10), vllm_new(5))


def test_nothing_served_is_no_latency() -> None:
    """It is missing, not 0: no request was measured."""
    found = values(vllm_new(requests=20), vllm_new(requests=20))

    assert Signal.TIME_TO_FIRST_TOKEN_SECONDS not in found
    assert found[Signal.REQUESTS_WAITING] == 7.0


def test_numbers_that_cannot_be_are_missing() -> None:
    """Covers a cache at 4000%, and a queue that is not a number or negative."""
    odd = page(
        f"vllm:kv_cache_usage_perc{{{MODEL}}} 40",
        f"vllm:num_requests_waiting{{{MODEL}}} NaN",
        f"vllm:num_requests_running{{{MODEL}}} -1",
        f"vllm:num_preemptions_total{{{MODEL}}} +Inf",
    )

    assert values(odd) == {}


def test_first_releases_of_trtllm_serve_have_no_prefix() -> None:
    """Latencies alone, in names that NIM has beside its queues."""

    def told(seconds: float, count: int) -> str:
        return page(
            histogram("e2e_request_latency_seconds", MODEL, seconds, count),
            histogram("time_to_first_token_seconds", MODEL, seconds / 6, count),
            f"request_success_total{{{MODEL}}} {count}",
        )

    assert parse_page(told(3.0, 2)).engine.name is EngineName.TENSORRT_LLM
    assert values(told(6.0, 3), told(3.0, 2)) == {
        Signal.REQUEST_LATENCY_SECONDS: 3.0,
        Signal.TIME_TO_FIRST_TOKEN_SECONDS: 0.5,
    }
    assert parse_page(f"num_requests_running{{{MODEL}}} 1\n{told(3.0, 2)}").engine.name == "nim"


def test_latency_of_vllm_in_triton_is_vllms() -> None:
    """Triton's duration of a request ends with the first response where its backend streams."""

    def told(requests: int) -> str:
        return page(
            f"nv_inference_request_duration_us{{{MODEL}}} {279 * requests}",
            f"nv_inference_request_success{{{MODEL}}} {requests}",
            histogram("vllm:e2e_request_latency_seconds", MODEL, 4.0 * requests, requests),
        )

    assert values(told(20), told(10))[Signal.REQUEST_LATENCY_SECONDS] == 4.0
