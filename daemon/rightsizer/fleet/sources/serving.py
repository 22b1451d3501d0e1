"""ServingMetrics: pressure on serving engines, by pod, from their own metrics."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from itertools import product
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from rightsizer.fleet.cache.day_frame import Floats
from rightsizer.fleet.cache.grid import FINE_STEP, Grid
from rightsizer.fleet.prometheus.selector import selector
from rightsizer.fleet.source import MetricStore, SourceReport
from rightsizer.fleet.sources.kubernetes import Pod
from rightsizer.fleet.sources.series import (
    first_label,
    names_during,
    names_of,
    placed,
    shares_of,
    together,
)
from rightsizer.model.signal import Signal
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds, seconds


class ServingMeasure(NamedTuple):
    """One metric of one engine."""

    metric: str
    """As exported by an engine; relays, and SGLang of 2026, replace `:` by `_`."""
    signal: Signal
    together: str = "sum"
    """Aggregation over an engine's models and replicas: `sum`, or `max` for the fullest."""
    matcher: str = ""
    """Selects series by label."""
    function: str = "avg_over_time"
    """Reduces samples to an interval's value."""
    factor_per_second: float = 0.0
    """For a counter of time that requests spent inside: converts to the number inside."""

    def promql(self, pods: Iterable[str], step: Nanoseconds) -> str:
        """Return the query of the metric in named pods, by interval and pod."""
        names, span = tuple(pods), f"[{step // NANOSECONDS_PER_SECOND}s]"
        parts = " or ".join(
            f"{self.function}({selector(self.metric, {label: names}, self.matcher)}{span})"
            for label in _POD_LABELS
        )
        return f"{self.together} by ({_LABELS}) (max by ({_LABELS}, {_PART_LABELS}) ({parts}))"


_WAITING: Final = Signal.REQUESTS_WAITING
_RUNNING: Final = Signal.REQUESTS_RUNNING
_CACHE: Final = Signal.KV_CACHE_USED
_TENSORRT: Final = "nv_trt_llm_request_metrics"
_BLOCKS: Final = "nv_trt_llm_kv_cache_block_metrics"
_NEWER: Final = "nv_inference_pending_request_count"
_OLDER: Final = "nv_inference_queue_duration_us"
"""Triton before 23.10 has no count of waiting requests, only their waiting time."""
_METRICS: Final = {
    _WAITING: (
        # Until 0.9, requests whose cache was swapped to the host had a separate queue.
        *("vllm:num_requests_waiting", "vllm:num_requests_swapped", "tgi_queue_size"),
        # Separate prefill and decode engines also queue for the other's cache memory.
        *("sglang:num_queue_reqs", "sglang:num_prefill_bootstrap_queue_reqs"),
        *("sglang:num_prefill_prealloc_queue_reqs", "sglang:num_decode_prealloc_queue_reqs"),
        *("trtllm_num_requests_waiting", "lmdeploy:num_requests_waiting", _NEWER),
        *("llamacpp:requests_deferred", "num_requests_waiting"),
    ),
    _RUNNING: (
        *("vllm:num_requests_running", "tgi_batch_current_size", "sglang:num_running_reqs"),
        *("trtllm_num_requests_running", "lmdeploy:num_requests_running"),
        # Without a prefix: NVIDIA NIM.
        *("llamacpp:requests_processing", "num_requests_running"),
    ),
    _CACHE: (
        *("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage"),
        *("trtllm_kv_cache_utilization", "lmdeploy:gpu_cache_usage_perc"),
        *("llamacpp:kv_cache_usage_ratio", "gpu_cache_usage_perc"),
    ),
    # Retraction: a running request frees its cache and is queued again.
    Signal.PREEMPTIONS: ("vllm:num_preemptions_total", "sglang:num_retracted_requests_total"),
}
MEASURES: Final = (
    *(
        ServingMeasure(
            metric,
            signal,
            "max" if signal is _CACHE else "sum",
            function="increase" if signal is Signal.PREEMPTIONS else "avg_over_time",
        )
        for signal, names in _METRICS.items()
        for name in names
        for metric in dict.fromkeys((name, name.replace("sglang:", "sglang_")))
    ),
    ServingMeasure(_TENSORRT, _WAITING, matcher='request_type="waiting"'),
    ServingMeasure(_TENSORRT, _RUNNING, matcher='request_type="scheduled"'),
    ServingMeasure(_BLOCKS, _CACHE, "max", 'kv_cache_block_type="fraction"'),
    ServingMeasure(_OLDER, _WAITING, function="increase", factor_per_second=1e-6),
)
"""Metrics of one engine for one signal are summed, except the last of Triton's two."""
ServingSignals: TypeAlias = "Mapping[Signal, Floats]"
"""By signal, a value for each interval; `nan` if unknown. Preemptions are cumulative."""

_POD_LABELS: Final = ("exported_pod", "pod", "kubernetes_pod_name", "pod_name")
_NAMESPACE_LABELS: Final = ("exported_namespace", "namespace", "kubernetes_namespace")
_LABELS: Final = ", ".join((*_POD_LABELS, *_NAMESPACE_LABELS))
_PART_LABELS: Final = "model_name, model, name, version, engine, dp_rank"
"""Labels that distinguish separate counts of an engine, excluding scrapers' labels."""
_CAN: Final = "Devices of serving engines are under pressure while they are full and requests wait."


class ServingMetrics:
    """Metrics in a store of vLLM, TGI, SGLang, Triton, TensorRT-LLM, LMDeploy, llama.cpp, NIM."""

    name: Final = "serving"

    def __init__(self) -> None:
        self._measures: dict[Grid, tuple[ServingMeasure, ...]] = {}
        """By the days read."""

    def probe(self, store: MetricStore, now: Nanoseconds) -> SourceReport:
        """Find which engines' metrics are present, and whether they can be joined to GPUs."""
        metrics = frozenset(each.metric for each in _among(names_of(store, _ALL, now)))
        if not metrics:
            return SourceReport(self.name)
        named = " or ".join(
            f'{name}{{{label}!=""}}' for name in sorted(metrics) for label in _POD_LABELS
        )
        can: tuple[str, ...] = ()
        cannot = "Engines' queues cannot be joined to GPUs: series have no label pod."
        if store.instant(f"count({named})", now):
            can, cannot = (_CAN,), "Pressure on devices whose engines are not scraped."
        return SourceReport(self.name, metrics=metrics, can=can, cannot=(cannot,))

    def signals(
        self, store: MetricStore, pods: Collection[Pod], grid: Grid
    ) -> Mapping[Pod, ServingSignals]:
        """Return the signals of the engines in some pods, over a day."""
        if not pods:
            return {}
        if grid not in self._measures:
            self._measures[grid] = _among(names_during(store, _ALL, grid))
        found: dict[Pod, dict[Signal, Floats]] = {}
        for measure, some in product(self._measures[grid], shares_of(sorted(pods))):
            if measure.signal is Signal.PREEMPTIONS and grid.step > FINE_STEP:
                continue  # One of them does not represent a whole hour.
            query = measure.promql([pod.name for pod in some], grid.step)
            for series in store.range(query, grid.start + grid.step, grid.end, grid.step):
                namespace = first_label(series.labels, _NAMESPACE_LABELS)
                pod = Pod(namespace, first_label(series.labels, _POD_LABELS))
                if pod in pods:
                    factor = measure.factor_per_second / seconds(grid.step) or 1.0
                    signals, column = found.setdefault(pod, {}), placed([series], grid)[0] * factor
                    former = signals.get(measure.signal, np.full_like(column, np.nan))
                    both = np.maximum if measure.together == "max" else np.add
                    signals[measure.signal] = together(column, former, both)
        for signals in found.values():
            if Signal.PREEMPTIONS in signals:
                signals[Signal.PREEMPTIONS] = np.nancumsum(signals[Signal.PREEMPTIONS])
        return found


_ALL: Final = tuple(dict.fromkeys(measure.metric for measure in MEASURES))


def _among(names: AbstractSet[str]) -> tuple[ServingMeasure, ...]:
    unwanted = {_OLDER} if _NEWER in names else set()
    return tuple(each for each in MEASURES if each.metric in names - unwanted)
