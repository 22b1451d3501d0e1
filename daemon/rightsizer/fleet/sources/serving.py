"""ServingMetrics: pressure on serving engines, by pod, from their own metrics."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from itertools import chain, product
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from rightsizer.fleet.cache.day_frame import Floats
from rightsizer.fleet.cache.grid import FINE_STEP, Grid
from rightsizer.fleet.prometheus.selector import selector
from rightsizer.fleet.source import MetricStore, SourceReport
from rightsizer.fleet.sources.pod_owners import Pod
from rightsizer.fleet.sources.series import (
    NAMES_AT_ONCE,
    first_label,
    names_of,
    placed,
    shares_of,
    together,
)
from rightsizer.model.values import NANOSECONDS_PER_SECOND, Nanoseconds, Signal, seconds
from rightsizer.telemetry.serving.page import ENGINES, MeasureKind


class ServingMeasure(NamedTuple):
    """One metric of one engine."""

    metric: str
    """As exported by an engine; relays, and SGLang of 2026, replace `:` by `_`; Dynamo has `:`."""
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
        names = tuple(pods)
        span = f"[{step // NANOSECONDS_PER_SECOND}s]"
        parts = " or ".join(
            f"{self.function}({selector(self.metric, {label: names}, self.matcher)}{span})"
            for label in POD_LABELS
        )
        return f"{self.together} by ({LABELS}) (max by ({LABELS}, {PART_LABELS}) ({parts}))"


_NEWER: Final = "nv_inference_pending_request_count"
_OLDER: Final = "nv_inference_queue_duration_us"
"""Triton before 23.10 has no count of waiting requests, only their waiting time."""
_SIGNALS: Final = frozenset(
    {Signal.REQUESTS_WAITING, Signal.REQUESTS_RUNNING, Signal.KV_CACHE_USED, Signal.PREEMPTIONS}
)
_SPELLINGS: Final = {"vllm": ":", "sglang": ":_", "trtllm": "_:", "lmdeploy": ":", "llamacpp": ":"}
"""Characters behind the name of an engine, where an agent's table has `_`."""


def spellings(name: str) -> tuple[str, ...]:
    """Return the names in a store of a metric of the agent's tables."""
    prefix, _, rest = name.partition("_")
    return tuple(f"{prefix}{character}{rest}" for character in _SPELLINGS.get(prefix, "_"))


def _measures() -> Iterator[ServingMeasure]:
    """Yield what the agent reads of engines, as far as a store's samples have it."""
    for measure in chain.from_iterable(engine.measures for engine in ENGINES):
        is_time = measure.kind is MeasureKind.OCCUPANCY
        # A difference of two counters has no query of its own.
        if measure.signal not in _SIGNALS or (is_time and len(measure.parts) > 1):
            continue
        is_counter = is_time or measure.signal is Signal.PREEMPTIONS
        for part in measure.parts:
            for metric in spellings(part.name):
                yield ServingMeasure(
                    metric,
                    measure.signal,
                    "max" if measure.kind is MeasureKind.LARGEST else "sum",
                    ",".join(f'{label}="{value}"' for label, value in part.labels),
                    "increase" if is_counter else "avg_over_time",
                    part.factor if is_time else 0.0,
                )


MEASURES: Final = tuple(dict.fromkeys(_measures()))
"""Metrics of one engine for one signal are summed, except the last of Triton's two."""
ServingSignals: TypeAlias = "Mapping[Signal, Floats]"
"""By signal, a value for each interval; `nan` if unknown. Preemptions are cumulative."""

POD_LABELS: Final = ("exported_pod", "pod", "kubernetes_pod_name", "pod_name")
NAMESPACE_LABELS: Final = ("exported_namespace", "namespace", "kubernetes_namespace")
LABELS: Final = ", ".join((*POD_LABELS, *NAMESPACE_LABELS))
PART_LABELS: Final = "model_name, model, name, version, engine, dp_rank"
"""Labels that distinguish separate counts of an engine, excluding scrapers' labels."""
_CAN: Final = "Devices of serving engines are under pressure while they are full and requests wait."


class ServingMetrics:
    """Metrics in a store of vLLM, TGI, SGLang, Triton, TensorRT-LLM, LMDeploy, llama.cpp, NIM."""

    name: Final = "serving"
    names: Final = tuple(dict.fromkeys(measure.metric for measure in MEASURES))

    def __init__(self) -> None:
        self._measures: dict[Grid, tuple[ServingMeasure, ...]] = {}
        """By the days read."""

    @property
    def queries_of_days(self) -> int:
        """Number of queries that find the engines of some days."""
        return len([*shares_of(self.names, NAMES_AT_ONCE)])

    def probe(self, store: MetricStore, now: Nanoseconds) -> SourceReport:
        """Find which engines' metrics are present, and whether they can be joined to GPUs."""
        metrics = frozenset(measure.metric for measure in _among(names_of(store, self.names, now)))
        if not metrics:
            return SourceReport(self.name)
        named = " or ".join(
            f'{name}{{{label}!=""}}' for name in sorted(metrics) for label in POD_LABELS
        )
        can: tuple[str, ...] = ()
        cannot = "Engines' queues cannot be joined to GPUs: series have no label pod."
        if store.instant(f"count({named})", now):
            can = (_CAN,)
            cannot = "Pressure on devices whose engines are not scraped."
        return SourceReport(self.name, metrics=metrics, can=can, cannot=(cannot,))

    def signals(
        self, store: MetricStore, pods: Collection[Pod], grid: Grid
    ) -> Mapping[Pod, ServingSignals]:
        """Return the signals of the engines in some pods, over a day."""
        if not pods:
            return {}
        if grid not in self._measures:
            names = names_of(store, self.names, grid.end, over=grid.end - grid.start)
            self._measures[grid] = _among(names)
        signals_by_pod: dict[Pod, dict[Signal, Floats]] = {}
        for measure, some in product(self._measures[grid], shares_of(sorted(pods))):
            if measure.signal is Signal.PREEMPTIONS and grid.step > FINE_STEP:
                continue  # One of them does not represent a whole hour.
            query = measure.promql([pod.name for pod in some], grid.step)
            for series in store.range(query, grid.start + grid.step, grid.end, grid.step):
                namespace = first_label(series.labels, NAMESPACE_LABELS)
                pod = Pod(namespace, first_label(series.labels, POD_LABELS))
                if pod in pods:
                    factor = measure.factor_per_second / seconds(grid.step) or 1.0
                    signals = signals_by_pod.setdefault(pod, {})
                    column = placed([series], grid)[0] * factor
                    former = signals.get(measure.signal, np.full_like(column, np.nan))
                    both = np.maximum if measure.together == "max" else np.add
                    signals[measure.signal] = together(column, former, both)
        for signals in signals_by_pod.values():
            if Signal.PREEMPTIONS in signals:
                signals[Signal.PREEMPTIONS] = np.nancumsum(signals[Signal.PREEMPTIONS])
        return signals_by_pod


def _among(names: AbstractSet[str]) -> tuple[ServingMeasure, ...]:
    unwanted = {_OLDER} if _NEWER in names else set()
    return tuple(measure for measure in MEASURES if measure.metric in names - unwanted)
