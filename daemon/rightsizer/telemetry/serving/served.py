"""What a model is asked, and how it answers, between two pages of its engine."""

import math
from collections.abc import Iterable, Mapping
from typing import Final

from rightsizer.model.values import (
    Export,
    ServedCounts,
    ServedFigure,
    ServedLoad,
    ServedSample,
    Signal,
)
from rightsizer.telemetry.serving.page import (
    DISTRIBUTED,
    EngineDefinition,
    EngineMetricsPage,
    Labels,
    MeasureKind,
    PageMeasure,
    counted_from,
    grown,
    grown_buckets,
    values_of,
)

_LEVELS: Final = (Signal.REQUESTS_RUNNING, Signal.REQUESTS_WAITING, Signal.KV_CACHE_USED)
_GROWING: Final = (MeasureKind.MEAN, MeasureKind.GROWTH)
_OF_LANGUAGE: Final = (
    ServedFigure.PROMPT_TOKENS,
    ServedFigure.PROMPT_TOKENS_PER_SECOND,
    ServedFigure.KV_CACHE_TOKENS,
)
_NOT_TOLD: Final = ("none", "null", "")


def served_samples(
    page: EngineMetricsPage, before: EngineMetricsPage | None, elapsed_seconds: float
) -> tuple[ServedSample, ...]:
    """Return the models of a page; nothing is known to have happened without the page before."""
    former = counted_from(page, before)
    models = _by_model(page)
    models_before = {} if former is None else _by_model(former)
    samples = []
    for model, of_model in models.items():
        counts = ServedCounts()
        if former is not None and elapsed_seconds > 0:
            nothing = EngineMetricsPage(page.engine, {})
            counts = _counts(of_model, models_before.get(model, nothing), elapsed_seconds)
        samples.append(ServedSample(_facts(of_model, model), counts))
    return tuple(samples)


def served_loads(
    page: EngineMetricsPage, before: EngineMetricsPage | None, elapsed_seconds: float
) -> tuple[ServedLoad, ...]:
    """Return the load of each model between two pages.

    Without the page before, it is since the counters began, `elapsed_seconds` ago.
    """
    former = EngineMetricsPage(page.engine, {}) if before is None else before
    samples = served_samples(page, former, elapsed_seconds)
    return tuple(sample.load for sample in samples)


def _by_model(page: EngineMetricsPage) -> Mapping[str, EngineMetricsPage]:
    """Return a page for each model; what has no model's label is on all of them.

    Where some models of a page count tokens, the others are steps around them, such as those of an
    ensemble.
    """
    engine = page.engine
    names = {model for labels in _label_sets(page) if (model := _model(engine, labels))}
    if len(names) <= 1:
        return {next(iter(names), ""): page} if page.series or not engine.models else {}
    pages = {
        model: EngineMetricsPage(
            engine,
            {
                name: {
                    labels: value
                    for labels, value in series.items()
                    if _model(engine, labels) in (model, "")
                }
                for name, series in page.series.items()
            },
        )
        for model in sorted(names)
    }
    of_tokens = {
        part.name
        for measure in engine.served
        if measure.figure in _OF_LANGUAGE
        for part in measure.parts
    }
    language = {
        model: of_model
        for model, of_model in pages.items()
        if any(of_model.series.get(name) for name in of_tokens)
    }
    return language or pages


def _label_sets(page: EngineMetricsPage) -> set[Labels]:
    """Return the labels of all series but buckets, which add a bound to those of their count."""
    buckets = page.engine.distributions
    return {
        labels for name, series in page.series.items() if name not in buckets for labels in series
    }


def _model(engine: EngineDefinition, labels: Labels) -> str:
    return next((value for name, value in labels if name in engine.models), "")


def _facts(page: EngineMetricsPage, model: str) -> ServedLoad:
    engine = page.engine
    replicas = {
        tuple(label for label in labels if label[0] in engine.replicas)
        for labels in _label_sets(page)
    }
    numbers: dict[ServedFigure, float] = {}
    texts: dict[ServedFigure, str] = {}
    for measure in engine.served:
        figure = measure.figure
        if measure.kind is MeasureKind.TEXT:
            texts[figure] = texts.get(figure) or _text(page, measure)
        elif measure.kind not in _GROWING and (number := _number(page, measure)) is not None:
            numbers.setdefault(figure, number)
    whole = {figure: int(number) for figure, number in numbers.items()}
    return ServedLoad(
        model=model,
        engine=engine.name,
        window_seconds=0.0,
        engines=max(1, len(replicas - {()})),
        kv_cache_tokens=numbers.get(ServedFigure.KV_CACHE_TOKENS),
        maximum_running=whole.get(ServedFigure.MAXIMUM_RUNNING),
        maximum_tokens=whole.get(ServedFigure.MAXIMUM_TOKENS),
        weight_format=texts.get(ServedFigure.WEIGHT_FORMAT, ""),
        cache_format=texts.get(ServedFigure.CACHE_FORMAT, ""),
        tensor=whole.get(ServedFigure.TENSOR),
    )


def _number(page: EngineMetricsPage, measure: PageMeasure) -> float | None:
    largest = [max(page.numbers(part), default=0.0) for part in measure.parts]
    number = math.prod(largest) if measure.kind is MeasureKind.PRODUCT else max(largest)
    # None of these limits can be 0.
    return number or None


def _text(page: EngineMetricsPage, measure: PageMeasure) -> str:
    texts = (text for part in measure.parts for text in page.texts(part))
    return next((text for text in texts if text.casefold() not in _NOT_TOLD), "")


def _counts(page: EngineMetricsPage, former: EngineMetricsPage, seconds: float) -> ServedCounts:
    values = values_of(page, former, seconds)
    ratios = {
        str(signal): (values[signal] * seconds, seconds) for signal in _LEVELS if signal in values
    }
    buckets: dict[str, Mapping[float, float]] = {}
    for figure, measure in _growing(page.engine):
        if figure in ratios or not any(page.of(part) for part in measure.parts):
            continue
        happened, divisor = grown(measure, page, former)
        if measure.kind is MeasureKind.MEAN and divisor <= 0:
            continue
        is_mean = measure.kind is MeasureKind.MEAN
        ratios[figure] = (max(0.0, happened), divisor if is_mean else seconds)
        if spread := grown_buckets(measure, page, former):
            buckets[figure] = spread
    return ServedCounts(seconds, ratios, buckets)


def _growing(engine: EngineDefinition) -> Iterable[tuple[str, PageMeasure]]:
    for measure in engine.measures:
        if measure.signal in DISTRIBUTED or measure.signal.export is Export.COUNTER:
            yield str(measure.signal), measure
    for served in engine.served:
        if served.kind in _GROWING:
            yield str(served.figure), served
