"""What engines in a store serve: by workload and model, from their own metrics."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from typing import Final

import pytest

from dcgm_estate import NOW, YESTERDAY, EstatePast, gpu, stored
from rightsizer.fleet.cache.grid import DAY
from rightsizer.fleet.model import Cluster
from rightsizer.fleet.prometheus.client import PrometheusStore
from rightsizer.fleet.settings import StoreSettings
from rightsizer.fleet.sources.pod_owners import LookbackSpan
from rightsizer.fleet.sources.served_models import GpuWorkload, served_loads
from rightsizer.model.served_load import ServedLoad
from rightsizer.model.units import NANOSECONDS_PER_SECOND
from rightsizer.model.workload import Workload, WorkloadKind
from victoria_server import victoria_server

pytestmark = pytest.mark.prometheus

H100: Final = "NVIDIA H100 80GB HBM3"
SPAN: Final = LookbackSpan(NOW, DAY)


@contextmanager
def victoria(past: EstatePast) -> Iterator[PrometheusStore]:
    """The same past in a VictoriaMetrics."""
    with victoria_server(past=past.text()) as server:
        yield PrometheusStore(StoreSettings(url=server.url))


def vllm(  # noqa: PLR0913 - all that a pod of it is.
    past: EstatePast,
    pod: str,
    rate: float,
    *,
    first: float = 0.0,
    last: float = 24.0,
    model: str = "llama",
) -> None:
    """A pod with a request of 400 and 100 tokens each second over `rate`, by the minute."""
    held = {"pod": pod, "namespace": "chat", "model_name": model, "engine": "0"}
    minute = 60.0 * rate

    def counter(name: str, grows_by: float, **labels: str) -> None:
        past.series(name, {**held, **labels}, 0.0, first, last, grows_by=grows_by)

    for reason in ("stop", "length"):
        counter("vllm:request_success_total", minute / 2, finished_reason=reason)
    counter("vllm:prompt_tokens_total", 400 * minute)
    counter("vllm:generation_tokens_total", 100 * minute)
    counter("vllm:prefix_cache_hits_total", 100 * minute)
    counter("vllm:prefix_cache_queries_total", 400 * minute)
    for name, mean in (("time_to_first_token", 0.15), ("inter_token_latency", 0.05)):
        counter(f"vllm:{name}_seconds_sum", mean * minute)
        counter(f"vllm:{name}_seconds_count", minute)
        for bound, share in (("0.1", mean < 0.1), ("0.2", True), ("+Inf", True)):
            counter(f"vllm:{name}_seconds_bucket", share * minute, le=bound)
    past.series("vllm:num_requests_running", held, 4.0, first, last)
    past.series("vllm:kv_cache_usage_perc", held, 0.5, first, last)
    info = {"pod": pod, "namespace": "chat", "engine": "0", "cache_dtype": "fp8"}
    sizes = {"num_gpu_blocks": "1000", "block_size": "16"}
    past.series("vllm:cache_config_info", {**info, **sizes}, 1.0, first, last)


def estate() -> EstatePast:
    """Two replicas of vLLM, one of them new since noon, and other engines."""
    past = EstatePast()
    vllm(past, "llama-7d4b9cf5f6-b2x4z", rate=1.0)
    vllm(past, "llama-7d4b9cf5f6-c2x4z", rate=2.0, first=12.0)
    vllm(past, "nowhere-0", rate=9.0)
    sglang = {"pod": "qwen-0", "namespace": "chat", "model_name": "qwen"}
    for name, grows_by in (
        ("num_requests_total", 30.0),
        ("prompt_tokens_total", 6000.0),
        ("generation_tokens_total", 3000.0),
    ):
        past.series(f"sglang_{name}", sglang, 0.0, grows_by=grows_by)
    for rank in "01":
        past.series("sglang_num_running_reqs", {**sglang, "tp_rank": rank}, 8.0)
        past.series("sglang_max_total_num_tokens", {**sglang, "tp_rank": rank}, 80_000.0)
    llama_cpp = {"pod": "small-0", "namespace": "lab"}
    past.series("llamacpp:tokens_predicted_total", llama_cpp, 0.0, grows_by=600.0)
    past.series("llamacpp:requests_processing", llama_cpp, 1.0)
    return past


def rollout() -> EstatePast:
    """A pod that another replaced in the last hour, beside one of another model."""
    past = EstatePast()
    vllm(past, "llama-7d4b9cf5f6-b2x4z", rate=1.0, last=23.5)
    vllm(past, "llama-85c9d7b6f4-c2x4z", rate=1.0, first=23.5)
    vllm(past, "llama-85c9d7b6f4-d2x4z", rate=1.0, model="qwen")
    return past


def owner(namespace: str, name: str, model: str = "") -> Workload:
    """A deployment."""
    key = f"kubernetes:{namespace}/{name}"
    return Workload(key, WorkloadKind.KUBERNETES, name, namespace=namespace, model=model)


WORKLOADS: Final = {
    holder.workload.key: holder
    for holder in (
        GpuWorkload(owner("chat", "llama", "hub/llama"), tuple(map(gpu, range(4))), H100),
        GpuWorkload(owner("chat", "qwen-0"), (gpu(4),), "NVIDIA L40S"),
        GpuWorkload(owner("lab", "small-0"), (gpu(5),), "NVIDIA L4"),
    )
}
Stored = Callable[[EstatePast], AbstractContextManager[PrometheusStore]]


@pytest.fixture(scope="module", params=[stored, victoria], ids=["prometheus", "victoria"])
def answered(request: pytest.FixtureRequest) -> tuple[tuple[ServedLoad, ...], int]:
    """Loads of a day, and the number of queries."""
    kind: Stored = request.param
    with kind(estate()) as store:
        before = store.use.queries
        return served_loads(store, WORKLOADS, Cluster(), SPAN), store.use.queries - before


@pytest.fixture(scope="module")
def loads(answered: tuple[tuple[ServedLoad, ...], int]) -> dict[str, ServedLoad]:
    """Loads by workload."""
    return {load.workload: load for load in answered[0]}


def test_queries_are_few(answered: tuple[tuple[ServedLoad, ...], int]) -> None:
    """Whatever the number of pods: names, a day, what is present, owners, hours, five minutes."""
    assert answered[1] <= 10


def test_replicas_are_one_load(loads: dict[str, ServedLoad]) -> None:
    """Rates add up, latencies do not; a replica counts for the time that it was there."""
    load = loads["llama"]

    assert load.model == "hub/llama"
    assert (load.engine, load.namespace, load.board) == ("vllm", "chat", H100)
    assert load.devices == (gpu(0), gpu(1), gpu(2), gpu(3))
    assert (load.engines, load.tensor) == (2, 2)
    assert load.window_seconds == 86400.0
    assert load.requests_per_second == pytest.approx(1.0 + 2.0 / 2, rel=0.02)
    assert load.output_tokens_per_second == pytest.approx(200.0, rel=0.02)
    assert load.prompt_tokens == pytest.approx(400.0, rel=0.02)
    assert load.requests_running == pytest.approx(6.0, rel=0.02)
    assert load.kv_cache_used_ratio == pytest.approx(0.5)
    assert load.prefix_hit_ratio == pytest.approx(0.25, rel=0.01)
    assert (load.kv_cache_tokens, load.cache_format) == (16_000.0, "fp8")


def test_latencies_are_of_the_histograms(loads: dict[str, ServedLoad]) -> None:
    """Mean and the interpolated percentile, over all replicas."""
    load = loads["llama"]

    assert load.time_to_first_token is not None
    assert load.time_to_first_token.mean_seconds == pytest.approx(0.15, rel=0.01)
    assert load.time_to_first_token.p95_seconds == pytest.approx(0.195, rel=0.01)
    assert load.time_per_output_token is not None
    assert load.time_per_output_token.p95_seconds == pytest.approx(0.095, rel=0.01)


def test_rhythm_is_of_all_replicas(loads: dict[str, ServedLoad]) -> None:
    """By the local hour; the peak is of the afternoon, when there are two."""
    load = loads["llama"]
    noon = datetime.fromtimestamp(YESTERDAY.start / NANOSECONDS_PER_SECOND, UTC).astimezone().hour

    hours = load.requests_per_second_by_hour
    assert hours[(noon + 3) % 24] == pytest.approx(1.0, rel=0.05)
    assert hours[(noon + 15) % 24] == pytest.approx(3.0, rel=0.05)
    assert load.requests_per_second_peak == pytest.approx(3.0, rel=0.05)


def test_other_engines_are_read_by_the_same_table(loads: dict[str, ServedLoad]) -> None:
    """Ranks that copy a count are one, and what is not counted is unknown."""
    qwen = loads["qwen-0"]
    assert (qwen.engine, qwen.model, qwen.tensor) == ("sglang", "qwen", 1)
    assert qwen.requests_per_second == pytest.approx(0.5, rel=0.02)
    assert qwen.output_tokens == pytest.approx(100.0, rel=0.02)
    assert qwen.requests_running == pytest.approx(8.0, rel=0.02)
    assert qwen.kv_cache_tokens == 80_000.0
    small = loads["small-0"]
    assert (small.engine, small.model) == ("llama.cpp", "")
    assert small.requests_per_second is None
    assert small.requests_per_second_by_hour == ()
    assert small.output_tokens_per_second == pytest.approx(10.0, rel=0.02)


def test_engines_on_no_known_gpu_are_left_out(loads: dict[str, ServedLoad]) -> None:
    """Their pod holds none."""
    assert loads.keys() == {"llama", "qwen-0", "small-0"}


@pytest.mark.parametrize(("gpus", "tensor"), [(4, 2), (3, None)])
def test_pods_that_exist_share_the_gpus(gpus: int, tensor: int | None) -> None:
    """Of all models together; not those that a rollout replaced."""
    key = "kubernetes:chat/llama"
    holder = GpuWorkload(owner("chat", "llama"), tuple(map(gpu, range(gpus))), H100)
    with stored(rollout()) as store:
        loads = served_loads(store, {key: holder}, Cluster(), SPAN)
    assert {load.model: (load.engines, load.tensor) for load in loads} == {
        "llama": (1, tensor),
        "qwen": (1, tensor),
    }


def test_store_without_engines_has_none() -> None:
    """It is asked for names alone."""
    past = EstatePast()
    past.series("up", {"job": "x"}, 1.0)
    with stored(past) as store:
        assert served_loads(store, WORKLOADS, Cluster(), SPAN) == ()


def test_workloads_of_a_cluster_are_named_with_it() -> None:
    """Of several clusters in one store, each has its own."""
    cluster = Cluster("west", prefix="west")
    workloads = {cluster.named(key): holder for key, holder in WORKLOADS.items()}
    with stored(estate()) as store:
        assert {load.workload for load in served_loads(store, workloads, cluster, SPAN)} == {
            "llama",
            "qwen-0",
            "small-0",
        }
        assert served_loads(store, WORKLOADS, cluster, SPAN) == ()
