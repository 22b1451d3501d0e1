"""Devices are undersized where their engines have requests waiting while the device is full."""

import math
from collections.abc import Iterator, Mapping
from typing import Final

import pytest
from msgspec.structs import replace

from dcgm_estate import BUSY, EMPTY, HELD, HOUR, NOW, YESTERDAY, EstatePast, Phase, gpu, stored
from rightsizer.fleet.cache.day_frame import ColumnKind
from rightsizer.fleet.cache.grid import DAY
from rightsizer.fleet.model import FleetDay
from rightsizer.fleet.prometheus.client import PrometheusStore
from rightsizer.fleet.sources.dcgm_exporter.source import DcgmExporterSource
from rightsizer.fleet.sources.pod_owners import Pod
from rightsizer.fleet.sources.serving import ServingMetrics
from rightsizer.model.signal import Signal
from rightsizer.model.state import Condition, Resource

pytestmark = pytest.mark.prometheus

FULL: Final = {
    **BUSY,
    "DCGM_FI_PROF_SM_ACTIVE": 0.99,
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": 0.8,
    "DCGM_FI_DEV_FB_USED": 80_400,
    "DCGM_FI_DEV_FB_FREE": 1_000,
}
ENGINES: Final[tuple[tuple[str, Mapping[str, float], float], ...]] = (
    # Pod, its engine's metrics from hour 6 to hour 12, hours of pressure.
    ("vllm-0", {"vllm:num_requests_waiting": 12, "vllm:kv_cache_usage_perc": 0.5}, 6),
    ("cache-0", {"vllm:num_requests_waiting": 0, "vllm:gpu_cache_usage_perc": 0.97}, 6),
    ("tgi-0", {"tgi_queue_size": 3}, 6),
    ("triton-0", {"nv_inference_pending_request_count": 5}, 6),
    # observability/metrics_collector.py of sgl-project/sglang: releases of 2026 write `_`.
    ("sglang-0", {"sglang:num_queue_reqs": 4}, 6),
    ("sglang-1", {"sglang_num_queue_reqs": 4, "sglang_token_usage": 0.4}, 6),
    ("prefill-0", {"sglang:num_queue_reqs": 0, "sglang:num_prefill_bootstrap_queue_reqs": 2}, 6),
    # tensorrt_llm/metrics/collector.py of NVIDIA/TensorRT-LLM.
    ("trtllm-0", {"trtllm_num_requests_waiting": 7, "trtllm_kv_cache_utilization": 0.3}, 6),
    # Dynamo's TensorRT-LLM workers keep the engine's `:`.
    ("dynamo-0", {"trtllm:num_requests_waiting": 7, "trtllm:kv_cache_utilization": 0.3}, 6),
    ("calm-0", {"vllm:num_requests_waiting": 0, "vllm:kv_cache_usage_perc": 0.3}, 0),
)


@pytest.fixture(scope="module")
def store() -> Iterator[PrometheusStore]:
    """Each kind of engine on a device of its own, and one with an idle device."""
    past = EstatePast()
    for number, (pod, metrics, _) in enumerate((*ENGINES, ("rests-0", {"tgi_queue_size": 9}, 0))):
        held = {"pod": pod, "namespace": "chat", "container": "engine"}
        values = HELD if pod == "rests-0" else FULL
        past.device(
            [Phase(0, 24, values, held)], UUID=gpu(number), modelName="NVIDIA H100 80GB HBM3"
        )
        for name, value in metrics.items():
            for replica in ("a", "b"):
                labels = {"pod": pod, "namespace": "chat", "model_name": "m", "replica": replica}
                past.series(name, labels, 0, 0, 6)
                past.series(name, labels, value, 6, 12)
                past.series(name, labels, 0, 12, 24)
    with stored(past) as found:
        yield found


@pytest.fixture(scope="module")
def day(store: PrometheusStore) -> FleetDay:
    """Day of the source."""
    source = DcgmExporterSource()
    report = source.probe(store, NOW, DAY)
    devices = list(source.inventory(store, report, NOW, DAY).devices.values())
    return source.day(store, report, devices, YESTERDAY)


def test_a_label_tells_what_waits() -> None:
    """TensorRT-LLM in Triton: custom_metrics_reporter.cc of triton-inference-server's backend."""
    past = EstatePast()
    held = {"pod": "trt-0", "namespace": "chat", "container": "engine"}
    past.device([Phase(0, 24, FULL, held)], UUID=gpu(0), modelName="NVIDIA H100 80GB HBM3")
    for state, count in (("waiting", 3), ("scheduled", 8), ("max", 512)):
        labels = {**held, "model": "llm", "version": "1", "request_type": state}
        past.series("nv_trt_llm_request_metrics", labels, count)
    with stored(past) as store:
        by_pod = ServingMetrics().signals(store, [Pod("chat", "trt-0")], YESTERDAY)
    (found,) = by_pod.values()
    assert {max(filter(math.isfinite, column)) for column in found.values()} == {3, 8}
    assert found.keys() == {Signal.REQUESTS_WAITING, Signal.REQUESTS_RUNNING}


def hours(day: FleetDay, number: int, column: str) -> float:
    """Hours in a column, 0 where it is missing."""
    return sum(filter(math.isfinite, day.frames[gpu(number)].columns.get(column, ()))) / 3600


@pytest.mark.parametrize("number", range(len(ENGINES)), ids=[engine[0] for engine in ENGINES])
def test_pressure_is_where_requests_wait(day: FleetDay, number: int) -> None:
    """The device is full at that time."""
    pressed = hours(day, number, ColumnKind.PRESSED.column(Resource.COMPUTE))
    assert pressed == pytest.approx(ENGINES[number][2], abs=0.1)


def test_engines_are_found_whatever_day_is_read_first(store: PrometheusStore) -> None:
    """The newest day is read first, before its end has any samples."""
    source = DcgmExporterSource()
    report = source.probe(store, NOW, DAY)
    devices = list(source.inventory(store, report, NOW, DAY).devices.values())
    today = replace(YESTERDAY, day=YESTERDAY.day + 1)
    assert source.day(store, report, devices, today).frames == {}
    read = source.day(store, report, devices, YESTERDAY)
    pressed = hours(read, 0, ColumnKind.PRESSED.column(Resource.COMPUTE))
    assert pressed == pytest.approx(6, abs=0.1)


def test_engines_and_holders_of_a_day_that_is_not_over_are_found() -> None:
    """Requests wait now, and the scrape adds the exporter's own pod to the holder's."""
    past = EstatePast()
    own = {"pod": "dcgm-exporter-x7k2p", "namespace": "gpu", "container": "exporter", "job": "g"}
    held = {"exported_pod": "vllm-0", "exported_namespace": "chat", "exported_container": "e"}
    labels = {"UUID": gpu(0), "modelName": "NVIDIA H100 80GB HBM3", **own}
    past.device([Phase(0, 6, FULL, held)], **labels)
    past.device([Phase(0, 6, EMPTY)], **{**labels, "UUID": gpu(1)})
    engine = {"pod": "vllm-0", "namespace": "chat", "model_name": "m"}
    past.series("vllm:num_requests_waiting", engine, 12, 0, 6)
    with stored(past) as store:
        source = DcgmExporterSource()
        now = NOW - 18 * HOUR * 10**9
        report = source.probe(store, now, DAY)
        devices = list(source.inventory(store, report, now, DAY).devices.values())
        read = source.day(store, report, devices, YESTERDAY)
    assert hours(read, 0, ColumnKind.PRESSED.column(Resource.COMPUTE)) == pytest.approx(6, abs=0.1)
    assert [uuid for uuid, held in read.holdings.items() if held] == [gpu(0)]


def test_a_device_at_rest_is_not_short(day: FleetDay) -> None:
    """Requests wait for another reason."""
    assert hours(day, len(ENGINES), ColumnKind.PRESSED.column(Resource.COMPUTE)) == 0


def test_memory_that_an_engine_takes_says_nothing(day: FleetDay) -> None:
    """Engines allocate all memory at the start."""
    assert hours(day, 0, ColumnKind.CONDITION.column(Condition.NEAR_OUT_OF_MEMORY)) == 0
    assert hours(day, 0, ColumnKind.PRESSED.column(Resource.MEMORY)) == 0


def test_the_probe_finds_engines(store: PrometheusStore) -> None:
    """It recognizes their metrics' names, and reports none where none exist."""
    report = ServingMetrics().probe(store, NOW)
    assert {"tgi_queue_size", "vllm:num_requests_waiting"} <= report.metrics
    assert len(report.can) == 1
    assert ServingMetrics().probe(store, NOW - 3 * DAY).can == ()


def test_an_engine_without_a_pod_is_not_joined() -> None:
    """A warning reports it."""
    past = EstatePast()
    past.series("tgi_queue_size", {"instance": "10.0.0.1:80"}, 3)
    with stored(past) as store:
        report = ServingMetrics().probe(store, NOW)
        assert report.can == ()
        assert "cannot be joined to GPUs" in report.cannot[0]
