"""Settings of an engine by which its measured load gains, before GPUs are added."""

from collections.abc import Iterator
from typing import Any, Final

from rightsizer.planner.candidate import PlanCandidate, PredictedRate
from rightsizer.planner.display import interval_text, number, percent
from rightsizer.planner.planner import Planner
from rightsizer.planner.served.engine import requirement_of
from rightsizer.planner.served.prediction import FULL, ServedPrediction, question_as_it_runs
from rightsizer.sizing.engine import TAKEN_RATIO
from rightsizer.sizing.memory_estimate import usable_bytes

_LITTLE: Final = 0.95
"""Share of what engines usually take of the memory, below which more may be given."""
_PROPOSED: Final = 3
"""Tokens that a draft head usually proposes (DeepSeek, EAGLE)."""
_GAIN: Final = 0.8
"""Times the time without it, from which a prefix cache or a draft head is worth its memory."""


def reached_limit(prediction: ServedPrediction) -> str:
    """Return that requests wait for the engine's limit, not for its GPUs; empty if they do not."""
    load = prediction.engine.load
    limit = load.maximum_running
    cache = load.kv_cache_used_ratio
    running = (load.requests_running or 0.0) / max(1, load.engines)
    if not limit or running < FULL * limit or (cache is not None and cache >= FULL):
        return ""
    room = "" if cache is None else f", with {percent(cache)} of its cache in use"
    return f"its limit of {limit} requests at a time is reached{room}: raise it first"


def setting_gains(prediction: ServedPrediction, planner: Planner) -> Iterator[str]:
    """Yield what to set otherwise, or to keep, with what the measured load gains by it.

    Nothing of what is not measured: how often a prefix cache would be hit, or how full a cache is.
    """
    engine = prediction.engine
    if not engine.is_model_known or engine.load.requests_running is None:
        return
    yield from _more_running(prediction, planner)
    yield from _more_cache(prediction, planner)
    yield from _prefixes(prediction, planner)
    between = prediction.figure("tpot_ms")
    # Faster than predicted, it may have a draft head already.
    if between is not None and (between.is_as_predicted or (between.ratio or 0.0) > 1.0):
        yield from _speculation(prediction, planner)


def _rate(
    prediction: ServedPrediction, planner: Planner, **keys: Any
) -> tuple[PredictedRate, PlanCandidate]:
    """Return what is predicted of the layout that runs with other keys of its plan."""
    question = {**question_as_it_runs(prediction.engine), **keys}
    candidate = planner.predicted(requirement_of(question), prediction.engine.board.key)
    return candidate.rate, candidate


def _more_running(prediction: ServedPrediction, planner: Planner) -> Iterator[str]:
    """Yield the gain of a higher limit of requests, where they wait for it."""
    engine = prediction.engine
    limit = engine.load.maximum_running
    if not reached_limit(prediction) or not limit:
        return
    twice = 2.0 * limit * max(1, engine.load.engines)
    gain = _throughput_gain(prediction, planner, twice)
    if gain:
        yield f"at most {2 * limit} requests at a time in place of {limit}: {gain}"


def _more_cache(prediction: ServedPrediction, planner: Planner) -> Iterator[str]:
    """Yield the gain of more memory for a cache that is full."""
    engine = prediction.engine
    load = engine.load
    usable = usable_bytes(engine.board.memory_bytes, planner.settings.memory)
    used = load.memory_used_bytes
    is_full = bool(load.preemptions_per_second) or (load.kv_cache_used_ratio or 0.0) >= FULL
    if not is_full or used is None or used >= _LITTLE * TAKEN_RATIO * usable:
        return
    share = percent(used / usable)
    usual = percent(TAKEN_RATIO)
    cache = used - prediction.candidate.memory.weights_bytes
    more = (cache + TAKEN_RATIO * usable - used) / cache if cache > 0.0 else 1.0
    gain = _throughput_gain(prediction, planner, more * (engine.in_flight or 1.0))
    text = f"its cache is full, and it takes {share} of the memory: let it take {usual}"
    yield f"{text}: {gain}" if gain else text


def _throughput_gain(prediction: ServedPrediction, planner: Planner, in_flight: float) -> str:
    """Return the output tokens a second with more requests in flight; empty if they do not fit."""
    now = prediction.candidate.rate.units_per_second
    rate, candidate = _rate(prediction, planner, concurrency=in_flight)
    then = rate.units_per_second
    if now is None or then is None or not candidate.fits or then.value <= now.value:
        return ""
    return (
        f"{number(then.value)} output tokens/s ({interval_text(then)}) in place of"
        f" {number(now.value)}"
    )


def _prefixes(prediction: ServedPrediction, planner: Planner) -> Iterator[str]:
    """Yield what a prefix cache that is hit gains, so that nobody turns it off for its memory."""
    ratio = prediction.engine.load.prefix_hit_ratio
    now = prediction.candidate.rate.ttft_ms
    if not ratio or now is None:
        return
    without, _ = _rate(prediction, planner, prefix_cache_ratio=0.0)
    then = without.ttft_ms
    if then is not None and now.value < _GAIN * then.value:
        yield (
            f"keep its prefix cache, which has {percent(ratio)} of prompt tokens: TTFT"
            f" {number(now.value)} ms ({interval_text(now)}) in place of {number(then.value)} ms"
        )


def _speculation(prediction: ServedPrediction, planner: Planner) -> Iterator[str]:
    """Yield the gain of a draft head at the requests in flight, if there is one."""
    now = prediction.candidate.rate.tpot_ms
    rate, _ = _rate(prediction, planner, speculative=_PROPOSED)
    then = rate.tpot_ms
    if now is not None and then is not None and then.value < _GAIN * now.value:
        yield (
            f"speculative decoding of {_PROPOSED} tokens: TPOT {number(then.value)} ms"
            f" ({interval_text(then)}) in place of {number(now.value)} ms"
        )
