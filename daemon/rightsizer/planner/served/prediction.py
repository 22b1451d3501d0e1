"""ServedPrediction: figures of an engine as predicted for its layout, beside those measured."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.planner.candidate import CandidateFilter, PlanCandidate
from rightsizer.planner.display import number
from rightsizer.planner.plan_check import FigureComparison
from rightsizer.planner.planner import Planner
from rightsizer.planner.served.engine import (
    LEVELS,
    QUANTILE,
    ServedAssumption,
    ServedEngine,
    memory_in_use,
    parallel_keys,
    requirement_of,
)
from rightsizer.sizing.estimate import EstimateInterval
from rightsizer.sizing.requirement import Requirement

_BEYOND: Final = 1e6
"""Requests a second that nothing serves: what is delivered of them is the largest rate."""
_LATE: Final = frozenset({CandidateFilter.COMPUTE, CandidateFilter.BANDWIDTH})
"""Of a layout in which even one request is late."""
_QUEUED: Final = 0.1
"""Waiting requests of those running, from which a first token waits for a place too."""
FULL: Final = 0.9
"""Share of a limit, or of the cache, from which it is reached."""
_ANY: Final = {key: QUANTILE.format(3.6e6) for key in LEVELS}
"""A level of an hour, which limits nothing."""
_STEP: Final = 1.02
"""Ratio of a level that what runs is tried to keep to the one before it."""
_STEPS: Final = 10


class ServedPrediction(Struct, frozen=True):
    """An engine, and what the planner says of the layout that runs."""

    engine: ServedEngine
    candidate: PlanCandidate
    """At the measured load."""
    comparisons: tuple[FigureComparison, ...]
    largest_rate: EstimateInterval | None = None
    """Requests a second that are predicted to keep the service level."""

    @property
    def off(self) -> tuple[FigureComparison, ...]:
        """Times that are off by more than their interval."""
        return tuple(
            figure
            for figure in self.comparisons
            if figure.unit == "ms" and figure.is_as_predicted is False
        )

    @property
    def holds_peak(self) -> bool:
        """Whether it is predicted to hold the busiest load that is measured."""
        largest = self.largest_rate
        return largest is not None and largest.value >= self.engine.peak_rate

    def figure(self, what: str) -> FigureComparison | None:
        """Return one comparison by its name; `None` if it was not measured."""
        return next((figure for figure in self.comparisons if figure.what == what), None)


def as_it_runs(engine: ServedEngine) -> Requirement:
    """Return the requirement with the layout and the load that are measured.

    With the requests in flight where they are known, else at the rate.
    """
    return requirement_of(question_as_it_runs(engine))


def _plain(engine: ServedEngine) -> dict[str, Any]:
    """Return the question of the layout that runs, without a load.

    What is measured are means, whatever percentile a level is of.
    """
    question = {key: value for key, value in engine.question.items() if key not in LEVELS}
    return {**question, "parallel": parallel_keys(engine.layout)}


def question_as_it_runs(engine: ServedEngine) -> dict[str, Any]:
    """Return the keys of a plan of the layout and the load that are measured."""
    question = _plain(engine)
    rate = engine.rate
    if engine.in_flight is not None:
        return {**question, "concurrency": engine.in_flight}
    return {**question, "rps": rate} if rate > 0.0 else {**question, "concurrency": 1.0}


def predict(engine: ServedEngine, planner: Planner) -> ServedPrediction:
    """Predict the layout that runs at the measured load."""
    requirement = as_it_runs(engine)
    candidate = planner.predicted(requirement, engine.board.key)
    first = _first_token(engine, candidate, planner)
    candidate = replace(candidate, rate=replace(candidate.rate, ttft_ms=first))
    candidate = _with_idle(candidate, engine.idle_gpus)
    comparisons = (
        *_comparisons(engine, requirement, candidate, planner),
        *_peak(engine, planner),
    )
    largest = _largest_rate(engine, planner)
    between = candidate.rate.tpot_ms
    if between is not None:
        effects = (
            _with_effect(assumption, engine, planner, between) for assumption in engine.assumptions
        )
        engine = replace(engine, assumptions=tuple(effects))
    return ServedPrediction(engine, candidate, comparisons, largest)


def _with_idle(candidate: PlanCandidate, gpus: int) -> PlanCandidate:
    """Return it with GPUs that are held and paid, and run nothing."""
    if not gpus:
        return candidate
    bill = candidate.bill
    if bill is not None:
        paid = 1.0 + gpus / candidate.paid_count
        offers = (replace(offer, dollars=offer.dollars.scaled(paid)) for offer in bill.offers)
        bill = replace(bill, offers=tuple(offers))
    return replace(candidate, spare_gpus=candidate.spare_gpus + gpus, bill=bill)


def with_kept_level(prediction: ServedPrediction, planner: Planner) -> ServedPrediction:
    """Return it with today's level as the planner sees it, if none is stated.

    What runs keeps its own level by definition, whatever is predicted of it: the level is what
    is surely predicted of it at its busiest load, and never below what is measured.
    """
    engine = prediction.engine
    if engine.is_level_stated or not engine.level or engine.peak_rate <= 0.0:
        return prediction
    level = _kept_level(engine, planner)
    if not level:
        return prediction
    kept = {**engine.question, **level}
    engine = replace(engine, question=kept, requirement=requirement_of(kept))
    largest = _largest_rate(engine, planner)
    if largest is not None:
        largest = largest.at_least(engine.peak_rate)
    return replace(prediction, engine=engine, largest_rate=largest)


def _kept_level(engine: ServedEngine, planner: Planner) -> Mapping[str, str]:
    """Return the keys of the level that what runs surely keeps; none if it is short."""
    question = {**engine.at_rate(engine.peak_rate), "parallel": parallel_keys(engine.layout)}

    def predicted(level: Mapping[str, str]) -> PlanCandidate:
        return planner.predicted(requirement_of({**question, **level}), engine.board.key)

    candidate = predicted(_ANY)
    if not candidate.fits:
        return {}
    load = engine.requirement.load
    levels = (
        ("ttft", load.ttft_ms, candidate.rate.ttft_ms),
        ("tpot", load.tpot_ms, candidate.rate.tpot_ms),
    )
    # Errors of both times are taken as independent: each is as sure as both are asked to be.
    sure = planner.settings.plan.sure_ratio ** (1.0 / len(levels))
    least = {
        key: max(measured, took.quantile(sure))
        for key, measured, took in levels
        if measured is not None and took is not None
    }
    # The rate within a level has an error of its own: as much is added as it takes.
    for step in range(_STEPS):
        level = {key: QUANTILE.format(limit_ms * _STEP**step) for key, limit_ms in least.items()}
        if predicted(level).fits:
            return level
    return {}


def _first_token(
    engine: ServedEngine, candidate: PlanCandidate, planner: Planner
) -> EstimateInterval | None:
    """Return the time to the first token, however requests arrive.

    Engines do not tell whether each request follows an answer or comes by itself: between both.
    """
    first = candidate.rate.ttft_ms
    if first is None or engine.in_flight is None or engine.rate <= 0.0:
        return first
    question = {**_plain(engine), "rps": engine.rate}
    rate = planner.predicted(requirement_of(question), engine.board.key).rate
    by_itself = rate.ttft_ms
    demand = engine.rate * engine.requirement.load.output_tokens
    made = rate.units_per_second
    if by_itself is None or made is None or made.value <= demand:
        return first
    return EstimateInterval(
        math.sqrt(first.value * by_itself.value),
        min(first.low, by_itself.low),
        max(first.high, by_itself.high),
    )


def _with_effect(
    assumption: ServedAssumption, engine: ServedEngine, planner: Planner, between: EstimateInterval
) -> ServedAssumption:
    """Add what would be predicted if the assumption did not hold."""
    if assumption.other is None:
        return assumption
    words, keys = assumption.other
    question = {**question_as_it_runs(engine), **keys}
    other = planner.predicted(requirement_of(question), engine.board.key).rate.tpot_ms
    if other is None:
        return assumption
    effect = f"{words}: TPOT {number(other.value)} ms in place of {number(between.value)} ms"
    return replace(assumption, effect=effect)


def _largest_rate(engine: ServedEngine, planner: Planner) -> EstimateInterval | None:
    requirement = replace(requirement_of(engine.at_rate(_BEYOND)), parallel=engine.layout)
    candidate = planner.predicted(requirement, engine.board.key)
    if any(rejection.by in _LATE for rejection in candidate.rejections):
        return EstimateInterval.exactly(0.0)
    return _requests(candidate.rate.units_per_second, requirement)


def _requests(made: EstimateInterval | None, requirement: Requirement) -> EstimateInterval | None:
    """Return output tokens a second as requests a second."""
    return None if made is None else made.scaled(1.0 / max(1.0, requirement.load.output_tokens))


def _comparisons(
    engine: ServedEngine, requirement: Requirement, candidate: PlanCandidate, planner: Planner
) -> Iterator[FigureComparison]:
    load = engine.load
    rate = candidate.rate
    between = load.time_per_output_token
    if between is not None and between.mean_seconds > 0.0:
        yield FigureComparison("tpot_ms", "ms", 1e3 * between.mean_seconds, rate.tpot_ms)
    first = load.time_to_first_token
    if first is not None and first.mean_seconds > 0.0:
        waits = _is_queued(engine)
        remark = "requests wait for a place, which is not predicted" if waits else ""
        predicted = None if waits else rate.ttft_ms
        yield FigureComparison("ttft_ms", "ms", 1e3 * first.mean_seconds, predicted, remark)
    if load.memory_used_bytes is not None:
        filled = memory_in_use(load, requirement, engine.layout, planner)
        interval = None
        remark = "an engine that takes memory ahead shows what it took"
        if filled is not None:
            interval = candidate.memory.around(filled)
            remark = "with the cache that the engine took"
        yield FigureComparison("memory_bytes", "bytes", load.memory_used_bytes, interval, remark)


def _peak(engine: ServedEngine, planner: Planner) -> Iterator[FigureComparison]:
    """Yield the busiest rate: of a full engine its largest one, else less than that.

    What is full serves as many as its memory, or its own limit, allows at a time, however late.
    """
    load = engine.load
    places = (load.maximum_running or 0) * load.engines
    running = load.requests_running or 0.0
    is_full = (load.requests_waiting or 0.0) >= max(1.0, _QUEUED * running)
    predicted = None
    remark = "a lower bound: it was not full"
    if is_full or (places and running >= FULL * places):
        asked = {"concurrency": float(places)} if places else {"rps": _BEYOND}
        rate = planner.predicted(requirement_of({**_plain(engine), **asked}), engine.board.key).rate
        predicted = _requests(rate.units_per_second, engine.requirement)
        remark = "it was full, whatever its level"
    if engine.peak_rate > 0.0:
        yield FigureComparison("largest_rate", "requests/s", engine.peak_rate, predicted, remark)


def _is_queued(engine: ServedEngine) -> bool:
    load = engine.load
    waiting = load.requests_waiting or 0.0
    return waiting > _QUEUED * max(1.0, load.requests_running or 0.0)


def sharers_of(predictions: Sequence[ServedPrediction]) -> tuple[tuple[str, ...], ...]:
    """Return for each engine what else is served on its GPUs."""
    devices = [set(prediction.engine.load.devices) for prediction in predictions]
    return tuple(
        tuple(
            _title(other)
            for place, other in enumerate(predictions)
            if place != own_place and own_devices & devices[place]
        )
        for own_place, own_devices in enumerate(devices)
    )


def shares_of(predictions: Sequence[ServedPrediction]) -> tuple[float, ...]:
    """Return the part of each engine's GPUs that no engine before it counts already.

    Engines that do not tell their GPUs share none.
    """
    counted: set[str] = set()
    shares = []
    for prediction in predictions:
        devices = set(prediction.engine.load.devices)
        shares.append(len(devices - counted) / len(devices) if devices else 1.0)
        counted |= devices
    return tuple(shares)


def _title(prediction: ServedPrediction) -> str:
    """Name and model of an engine: those of one server have one name."""
    engine = prediction.engine
    model = engine.load.model
    return engine.name if model in {"", engine.name} else f"{engine.name} ({model})"
