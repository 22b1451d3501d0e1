"""Models that engines in a store serve, by workload: what they are asked, and how they answer."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.fleet.cache.grid import COARSE_STEP, DAY, FINE_STEP
from rightsizer.fleet.model import Cluster
from rightsizer.fleet.source import MetricStore, SampledSeries
from rightsizer.fleet.sources.pod_owners import LookbackSpan, Pod, PodOwners, workload_key
from rightsizer.fleet.sources.series import first_label, names_of, shares_of
from rightsizer.fleet.sources.serving import (
    LABELS,
    NAMESPACE_LABELS,
    PART_LABELS,
    POD_LABELS,
    ServingMetrics,
    spellings,
)
from rightsizer.model.values import (
    NANOSECONDS_PER_SECOND,
    Export,
    Nanoseconds,
    ServedFigure,
    ServedLoad,
    ServedSample,
    Workload,
    seconds,
    side_by_side,
    with_counts,
)
from rightsizer.telemetry.serving.page import (
    ENGINES,
    EngineDefinition,
    EngineMetricsPage,
    Labels,
    MeasureKind,
    PageMeasure,
    canonical,
)
from rightsizer.telemetry.serving.served import served_samples

_PEAK_SPAN: Final[Nanoseconds] = 2 * DAY
"""Span of five-minute means: what a query returns of a thousand pods is a few ten megabytes."""
_PEAK: Final = 0.95
_HOURS: Final = 24
_METRIC: Final = "metric"
_Pages: TypeAlias = Mapping[Pod, Mapping[str, Mapping[Labels, float]]]
"""Values by metric and labels, of each pod."""
_METRICS_AT_ONCE: Final = 100
"""Metrics of one query, which takes 16 KiB of text in VictoriaMetrics."""
_FACT_KINDS: Final = (MeasureKind.LARGEST, MeasureKind.PRODUCT, MeasureKind.TEXT)
_FINE_LABELS: Final = (
    "finished_reason",
    "is_streaming",
    "cache_source",
    "request_type",
    "kv_cache_block_type",
    "response_metric_type",
    "le",
)
"""Labels of the parts of one count, beside those of engines and models."""


class GpuWorkload(Struct, frozen=True):
    """A workload that holds GPUs now, and whose pods may run engines."""

    workload: Workload
    devices: tuple[str, ...]
    """Uuids of its GPUs."""
    board: str = ""
    """Name of its GPUs, as the driver tells it; empty if they differ."""


class _Replica(NamedTuple):
    """A model in one pod."""

    pod: Pod
    holder: GpuWorkload
    sample: ServedSample
    hours: Mapping[Nanoseconds, float]
    """Requests by the end of each hour in which it was there."""
    slots: Mapping[Nanoseconds, float]
    """The same by five minutes."""

    @property
    def key(self) -> tuple[str, str, str]:
        """What is answered together: workload, engine and model."""
        facts = self.sample.facts
        return self.holder.workload.key, facts.engine, facts.model


def served_loads(
    store: MetricStore, workloads: Mapping[str, GpuWorkload], cluster: Cluster, span: LookbackSpan
) -> tuple[ServedLoad, ...]:
    """Return what engines served by workload and model, all replicas together.

    `workloads` are those of the cluster by key. Which one a pod belongs to is what made it: the
    GPUs are the workload's, whichever pod holds which. Figures are of the last day, the rhythm of
    the whole span. The number of queries depends on the engines, not on the pods.

    Raises:
        StoreError: the store does not answer.
    """
    engines = _engines_in(store, span)
    if not engines or not workloads:
        return ()
    groups: defaultdict[tuple[str, str, str], list[_Replica]] = defaultdict(list)
    queries = _Queries(store, engines, span)
    pages = queries.pages()
    owners = PodOwners().of(store, pages, span)
    keys = {pod: cluster.named(workload_key(pod, owner)) for pod, owner in owners.items()}
    holders = {pod: workloads[key] for pod, key in keys.items() if key in workloads}
    if not holders:
        return ()
    counts = dict.fromkeys(queries.present() & holders.keys(), 1)
    for replica in _replicas(queries, pages, holders, span):
        groups[replica.key].append(replica)
        if replica.pod in counts:
            counts[replica.pod] = max(counts[replica.pod], replica.sample.facts.engines)
    shares = _gpus_of_engines(counts, holders)
    loads = (_load(replicas, counts, shares, span) for replicas in groups.values())
    return tuple(sorted(loads, key=lambda load: (load.namespace, load.workload, load.model)))


def _replicas(
    queries: _Queries, pages: _Pages, holders: Mapping[Pod, GpuWorkload], span: LookbackSpan
) -> Iterator[_Replica]:
    hourly = queries.requests(span.length, COARSE_STEP)
    fine = queries.requests(min(span.length, _PEAK_SPAN), FINE_STEP)
    hours_of: defaultdict[Pod, set[Nanoseconds]] = defaultdict(set)
    for (pod, _), requests in hourly.items():
        hours_of[pod].update(requests)
    for pod, holder in holders.items():
        series = pages[pod]
        names = frozenset(series)
        engine = next((engine for engine in ENGINES if engine.recognizes(names)), None)
        if engine is None:
            continue
        page = EngineMetricsPage(engine, series)
        # What has grown in the time began at 0.
        nothing = {name: dict.fromkeys(values, 0.0) for name, values in series.items()}
        lived = _seconds_of_day(hours_of[pod], span)
        for sample in served_samples(page, EngineMetricsPage(engine, nothing), lived):
            key = pod, sample.facts.model
            yield _Replica(pod, holder, sample, hourly.get(key, {}), fine.get(key, {}))


def _seconds_of_day(hours: Iterable[Nanoseconds], span: LookbackSpan) -> float:
    """Return how much of the last day some hours are, at least one."""
    recent = span.end - min(span.length, DAY)
    return max(1, sum(time > recent for time in hours)) * seconds(COARSE_STEP)


def _gpus_of_engines(
    engines: Mapping[Pod, int], holders: Mapping[Pod, GpuWorkload]
) -> dict[str, int | None]:
    """Return the GPUs of one engine by workload, whatever each serves; `None` if they differ."""
    counts: defaultdict[str, int] = defaultdict(int)
    for pod, count in engines.items():
        counts[holders[pod].workload.key] += count
    devices = {holder.workload.key: len(holder.devices) for holder in holders.values()}
    return {
        key: devices[key] // count if devices[key] and devices[key] % count == 0 else None
        for key, count in counts.items()
    }


def _load(
    replicas: Sequence[_Replica],
    engines: Mapping[Pod, int],
    shares: Mapping[str, int | None],
    span: LookbackSpan,
) -> ServedLoad:
    """Return the load of replicas together.

    `engines` has those of each pod at the end of the span, `shares` the GPUs of one by workload.
    """
    hours = _added(replica.hours for replica in replicas)
    # Pods that a rollout replaced served, but hold no GPUs now.
    running = [replica for replica in replicas if replica.pod in engines] or replicas[:1]
    holder = running[0].holder
    facts = running[0].sample.facts
    counts = side_by_side(
        (replica.sample.counts for replica in replicas), _seconds_of_day(hours, span)
    )
    load = with_counts(facts, counts)
    counts_requests = load.requests_per_second is not None
    return replace(
        load,
        model=holder.workload.model or facts.model,
        ttft=holder.workload.ttft,
        tpot=holder.workload.tpot,
        devices=holder.devices,
        board=holder.board,
        workload=holder.workload.name,
        namespace=holder.workload.namespace,
        engines=sum(replica.sample.facts.engines for replica in running),
        tensor=facts.tensor or shares.get(holder.workload.key),
        requests_per_second_by_hour=_by_hour(hours) if counts_requests else (),
        requests_per_second_peak=_peak(_added(replica.slots for replica in replicas))
        if counts_requests
        else None,
    )


def _added(parts: Iterable[Mapping[Nanoseconds, float]]) -> dict[Nanoseconds, float]:
    """Return the requests of several replicas by the end of each interval."""
    requests: dict[Nanoseconds, float] = {}
    for part in parts:
        for time, number in part.items():
            requests[time] = requests.get(time, 0.0) + number
    return requests


def _by_hour(hours: Mapping[Nanoseconds, float]) -> tuple[float | None, ...]:
    """Return the mean rate by the hour of the day, local time."""
    rates: list[list[float]] = [[] for _ in range(_HOURS)]
    for time, number in hours.items():
        began = datetime.fromtimestamp(seconds(time - COARSE_STEP), UTC).astimezone()
        rates[began.hour].append(number / seconds(COARSE_STEP))
    means = tuple(sum(some) / len(some) if some else None for some in rates)
    return means if any(rates) else ()


def _peak(slots: Mapping[Nanoseconds, float]) -> float | None:
    rates = sorted(number / seconds(FINE_STEP) for number in slots.values())
    return rates[math.ceil(_PEAK * len(rates)) - 1] if rates else None


def _engines_in(store: MetricStore, span: LookbackSpan) -> tuple[EngineDefinition, ...]:
    names = names_of(store, ServingMetrics.names, span.end, over=span.length)
    present = frozenset(map(canonical, names))
    return tuple(engine for engine in ENGINES if engine.names & present)


class _Queries:
    """Queries of the metrics of some engines; each is one, for all pods."""

    def __init__(
        self, store: MetricStore, engines: Sequence[EngineDefinition], span: LookbackSpan
    ) -> None:
        self._store = store
        self._engines = engines
        self._span = span
        values = {
            part.value
            for engine in engines
            for measure in engine.served
            for part in measure.parts
            if part.value
        }
        self._labels = ", ".join((LABELS, PART_LABELS, *_FINE_LABELS, *sorted(values)))

    def pages(self) -> _Pages:
        """Return the metrics of each pod: growth of counters in a day, means, and last facts."""
        counters: set[str] = set()
        levels: set[str] = set()
        facts: set[str] = set()
        for engine in self._engines:
            counters |= engine.distributions
            for signal in engine.measures:
                is_level = signal.kind in (MeasureKind.TOTAL, MeasureKind.LARGEST)
                is_counter = not is_level or signal.signal.export is Export.COUNTER
                (counters if is_counter else levels).update(_names(signal))
            for served in engine.served:
                (facts if served.kind in _FACT_KINDS else counters).update(_names(served))
        day = min(self._span.length, DAY)
        pages: defaultdict[Pod, dict[str, dict[Labels, float]]] = defaultdict(dict)
        for function, names, over in (
            ("increase", counters, day),
            ("avg_over_time", levels, day),
            ("last_over_time", facts - levels, COARSE_STEP),
        ):
            queries = self._queries(function, names, over)
            answers = (self._store.instant(query, self._span.end) for query in queries)
            for series in chain.from_iterable(answers):
                labels = dict(series.labels)
                name = canonical(labels.pop(_METRIC))
                pod = _pod_of(labels)
                kept = tuple(sorted(_without_pod(labels).items()))
                pages[pod].setdefault(name, {})[kept] = series.value
        return pages

    def present(self) -> set[Pod]:
        """Return the pods whose engines export something at the end of the span."""
        names = {
            name
            for engine in self._engines
            for signal in engine.measures
            for name in _names(signal)
        }
        queries = self._queries("last_over_time", names, FINE_STEP)
        answers = (self._store.instant(query, self._span.end) for query in queries)
        return {_pod_of(series.labels) for series in chain.from_iterable(answers)}

    def requests(
        self, length: Nanoseconds, step: Nanoseconds
    ) -> dict[tuple[Pod, str], dict[Nanoseconds, float]]:
        """Return the finished requests of each pod and model, by the end of intervals.

        Of an engine that counts none, its tokens: they tell at least when it was there.
        """
        figures: set[str] = set()
        for engine in self._engines:
            by_figure = {served.figure: served for served in reversed(engine.served)}
            counted = by_figure.get(ServedFigure.REQUESTS) or by_figure.get(
                ServedFigure.OUTPUT_TOKENS_PER_SECOND
            )
            if counted is not None:
                figures.update(_names(counted))
        end = self._span.end - self._span.end % step
        queries = self._queries("increase", figures, step)
        answers = (self._store.range(query, end - length + step, end, step) for query in queries)
        requests: dict[tuple[Pod, str], dict[Nanoseconds, float]] = {}
        for series in chain.from_iterable(answers):
            into = requests.setdefault((_pod_of(series.labels), _model_of(series)), {})
            times = zip(series.times.tolist(), series.values.tolist(), strict=True)
            for time, number in times:
                into[time] = into.get(time, 0.0) + number
        return requests

    def _queries(self, function: str, names: Iterable[str], over: Nanoseconds) -> Iterator[str]:
        range_ = f"[{over // NANOSECONDS_PER_SECOND}s]"
        metrics = [metric for name in sorted(names) for metric in spellings(name)]
        for some in shares_of(metrics, _METRICS_AT_ONCE):
            parts = " or ".join(
                f'label_replace({function}({metric}{range_}), "{_METRIC}", "{metric}", "", "")'
                for metric in some
            )
            yield f"max by ({_METRIC}, {self._labels}) ({parts})"


def _names(measure: PageMeasure) -> set[str]:
    return {part.name for part in (*measure.parts, *measure.counts)}


def _pod_of(labels: Mapping[str, str]) -> Pod:
    return Pod(first_label(labels, NAMESPACE_LABELS), first_label(labels, POD_LABELS))


def _without_pod(labels: Mapping[str, str]) -> dict[str, str]:
    scraped = (*POD_LABELS, *NAMESPACE_LABELS)
    return {name: value for name, value in labels.items() if value and name not in scraped}


def _model_of(series: SampledSeries) -> str:
    models = frozenset().union(*(engine.models for engine in ENGINES))
    return next((series.labels[name] for name in sorted(models) if series.labels.get(name)), "")
