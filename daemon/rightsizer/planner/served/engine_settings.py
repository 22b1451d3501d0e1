"""Settings of an engine that its measured load shows to be short, before GPUs are added."""

from collections.abc import Iterator
from typing import Final

from rightsizer.planner.display import interval_text, number, percent
from rightsizer.planner.planner import Planner
from rightsizer.planner.served.engine import requirement_of
from rightsizer.planner.served.prediction import ServedPrediction, question_as_it_runs
from rightsizer.sizing.engine import TAKEN_RATIO
from rightsizer.sizing.memory_estimate import usable_bytes

_FULL: Final = 0.9
"""Share of a limit, or of the cache, from which it is reached."""
_LITTLE: Final = 0.95
"""Share of what engines usually take of the memory, below which more may be given."""
_PROPOSED: Final = 3
"""Tokens that a draft head usually proposes (DeepSeek, EAGLE)."""
_GAIN: Final = 0.8
"""Times the time between tokens, from which speculation is worth a draft head."""


def reached_limit(prediction: ServedPrediction) -> str:
    """Return that requests wait for the engine's limit, not for its GPUs; empty if they do not."""
    load = prediction.engine.load
    limit = load.maximum_running
    cache = load.kv_cache_used_ratio
    running = (load.requests_running or 0.0) / max(1, load.engines)
    if not limit or running < _FULL * limit or (cache is not None and cache >= _FULL):
        return ""
    room = "" if cache is None else f", with {percent(cache)} of its cache in use"
    return f"its limit of {limit} requests at a time is reached{room}: raise it first"


def setting_causes(prediction: ServedPrediction, planner: Planner) -> Iterator[str]:
    """Yield what to set otherwise, with what it gains."""
    engine = prediction.engine
    load = engine.load
    usable = usable_bytes(engine.board.memory_bytes, planner.settings.memory)
    used = load.memory_used_bytes
    is_full = bool(load.preemptions_per_second) or (load.kv_cache_used_ratio or 0.0) >= _FULL
    if is_full and used is not None and used < _LITTLE * TAKEN_RATIO * usable:
        share = percent(used / usable)
        usual = percent(TAKEN_RATIO)
        yield f"its cache is full, and it takes {share} of the memory: let it take {usual}"
    between = load.time_per_output_token
    most = engine.requirement.load.tpot_ms
    is_late = engine.is_level_stated and most is not None and between is not None
    if is_late and between is not None and most is not None and 1e3 * between.mean_seconds > most:
        yield from _speculation(prediction, planner)


def _speculation(prediction: ServedPrediction, planner: Planner) -> Iterator[str]:
    """Yield the gain of a draft head at the requests in flight, if there is one."""
    now = prediction.candidate.rate.tpot_ms
    question = {**question_as_it_runs(prediction.engine), "speculative": _PROPOSED}
    board = prediction.engine.board.key
    then = planner.predicted(requirement_of(question), board).rate.tpot_ms
    if now is not None and then is not None and then.value < _GAIN * now.value:
        yield (
            f"speculative decoding of {_PROPOSED} tokens: TPOT {number(then.value)} ms"
            f" ({interval_text(then)}) in place of {number(now.value)} ms"
        )
