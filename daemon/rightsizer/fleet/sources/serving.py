"""What serving engines tell of being short of GPU, by the pods that they run in."""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate
from typing import Final, TypeAlias

from rightsizer.domain.signal_name import Signal
from rightsizer.domain.units import NANOSECONDS_PER_SECOND, Nanoseconds, seconds
from rightsizer.fleet.kept.grid import FINE_STEP, Grid
from rightsizer.fleet.source import SourceReport
from rightsizer.fleet.sources.kubernetes_series import Pod
from rightsizer.fleet.sources.labels import first_label, one_of, selector
from rightsizer.fleet.sources.serving_measures import MEASURES, Measure
from rightsizer.fleet.store import Sampled, Store

__all__ = ["ServingMetrics", "Told"]

Told: TypeAlias = "Mapping[Signal, array[float]]"
"""By signal, a value for each stretch; `nan` where nobody told. Preemptions are counted on."""

_POD_LABELS: Final = ("exported_pod", "pod", "kubernetes_pod_name", "pod_name")
_NAMESPACE_LABELS: Final = ("exported_namespace", "namespace", "kubernetes_namespace")
_PART_LABELS: Final = ("model_name", "model", "name", "version", "engine", "dp_rank")
"""Those that tell apart what an engine counts apart; scrapers' labels are not among them."""
_AT_ONCE: Final = 200
_NEWER: Final = "nv_inference_pending_request_count"
_OLDER: Final = "nv_inference_queue_duration_us"
_LABELS: Final = ", ".join((*_POD_LABELS, *_NAMESPACE_LABELS))


class ServingMetrics:
    """vLLM, Text Generation Inference, SGLang, Triton and TensorRT-LLM, as a store has them."""

    name: Final = "serving"

    def __init__(self) -> None:
        """Looks for every engine until a probe says which are there."""
        self._measures: tuple[Measure, ...] | None = None

    def probe(self, store: Store, now: Nanoseconds) -> SourceReport:
        """Which engines' metrics are there, and whether they can be joined to GPUs."""
        measures = self._found(store, now)
        metrics = frozenset(measure.metric for measure in measures)
        if not metrics:
            return SourceReport(self.name)
        named = " or ".join(
            f'{name}{{{label}!=""}}' for name in sorted(metrics) for label in _POD_LABELS
        )
        if not store.instant(f"count({named})", now):
            return SourceReport(
                self.name,
                metrics=metrics,
                cannot=("Engines' queues cannot be joined to GPUs: series have no label pod.",),
            )
        can = "Devices of serving engines are under pressure while they are full and requests wait."
        without = "Pressure on devices whose engines are not scraped."
        return SourceReport(self.name, metrics=metrics, can=(can,), cannot=(without,))

    def signals(self, store: Store, pods: Collection[Pod], grid: Grid) -> Mapping[Pod, Told]:
        """What the engines in some pods tell of a day."""
        if self._measures is None:
            self._measures = self._found(store, grid.end)
        found: dict[Pod, dict[Signal, array[float]]] = {}
        for measure in self._measures:
            if measure.signal is Signal.PREEMPTIONS and grid.step > FINE_STEP:
                continue  # One of them says nothing of the rest of an hour.
            for first in range(0, len(pods), _AT_ONCE):
                some = sorted(pods)[first : first + _AT_ONCE]
                for series in _asked(store, measure, some, grid):
                    pod = _pod_in(series.labels)
                    if pod in pods:
                        _add(found.setdefault(pod, {}), measure, series, grid)
        for told in found.values():
            if Signal.PREEMPTIONS in told:
                told[Signal.PREEMPTIONS] = _counted_on(told[Signal.PREEMPTIONS])
        return found

    def _found(self, store: Store, now: Nanoseconds) -> tuple[Measure, ...]:
        names = one_of("__name__", dict.fromkeys(measure.metric for measure in MEASURES))
        there = {
            series.labels["__name__"]
            for series in store.instant(f"count by (__name__) ({{{names}}})", now)
        }
        unwanted = {_OLDER} if _NEWER in there else set()
        self._measures = tuple(each for each in MEASURES if each.metric in there - unwanted)
        return self._measures


def _asked(store: Store, measure: Measure, pods: Sequence[Pod], grid: Grid) -> Sequence[Sampled]:
    names = [pod.name for pod in pods]
    span = f"[{grid.step // NANOSECONDS_PER_SECOND}s]"
    parts = " or ".join(
        f"{measure.function}({selector(measure.metric, one_of(label, names), measure.matcher)}"
        f"{span})"
        for label in _POD_LABELS
    )
    once = f"max by ({_LABELS}, {', '.join(_PART_LABELS)}) ({parts})"
    query = f"{measure.together} by ({_LABELS}) ({once})"
    return store.range(query, grid.start + grid.step, grid.end, grid.step)


def _pod_in(labels: Mapping[str, str]) -> Pod:
    return Pod(first_label(labels, _NAMESPACE_LABELS), first_label(labels, _POD_LABELS))


def _add(told: dict[Signal, array[float]], measure: Measure, series: Sampled, grid: Grid) -> None:
    column = told.setdefault(measure.signal, array("d", [math.nan]) * grid.count)
    factor = measure.factor_per_second / seconds(grid.step) if measure.factor_per_second else 1.0
    for time, value in zip(series.times, series.values, strict=True):
        at = grid.place(time)
        if at is None:
            continue
        former, new = column[at], value * factor
        if math.isnan(former):
            column[at] = new
        else:
            column[at] = max(former, new) if measure.together == "max" else former + new


def _counted_on(increases: array[float]) -> array[float]:
    return array("d", accumulate(0.0 if math.isnan(each) else each for each in increases))
