"""ServedFinding: what to change of an engine, what it saves, and how sure that is."""

import math
from collections.abc import Iterator
from enum import StrEnum
from typing import Final

from msgspec import Struct

from rightsizer.model.finding import Risk, Savings
from rightsizer.planner.candidate import PlanCandidate
from rightsizer.planner.display import number
from rightsizer.planner.launch import Launch, LaunchedModel, launch_of
from rightsizer.planner.served.engine import Question, ServedEngine, requirement_of
from rightsizer.sizing.estimate import EstimateInterval

_RISKS: Final = ((0.01, Risk.VERY_LOW), (0.05, Risk.LOW), (0.15, Risk.MEDIUM))
"""Probability of missing the level, and its risk: as of the options of the rules."""
_CANARY_RATIO: Final = 0.1


class ServedFindingKind(StrEnum):
    """What a finding is about."""

    TOO_LARGE = "too_large"
    TOO_SMALL = "too_small"
    WIDE = "wide_format"
    """A narrower format of weights costs less, and changes answers."""
    OFF = "off"
    """Measured times are off by more than the interval of their prediction."""
    BY_HOUR = "by_hour"
    SETTINGS = "settings"
    """Settings of the engine by which the measured load gains."""
    TRADE = "trade"
    """Two engines whose GPUs fit each other's load."""


class ServedOption(Struct, frozen=True):
    """One way to run an engine's load."""

    change: str
    question: Question
    """Keys of the plan whose first candidate it is."""
    candidate: PlanCandidate
    savings: Savings
    """In dollars an hour; negative for what costs more."""
    probability: float
    """Of keeping memory, rate and service level."""
    risk: Risk
    launch: Launch | None = None
    canary: str = ""
    caution: str = ""


class ServedFinding(Struct, frozen=True):
    """A finding about one engine, or two."""

    kind: ServedFindingKind
    engine: ServedEngine
    summary: str
    options: tuple[ServedOption, ...] = ()
    """Best first."""
    causes: tuple[str, ...] = ()
    """Candidates, likeliest first."""
    evidence: tuple[str, ...] = ()
    abstained: str = ""
    """Why nothing is advised, if it is not."""

    @property
    def dollars_per_hour(self) -> float:
        """Expected savings of its first option."""
        return self.options[0].savings.dollars_per_hour if self.options else 0.0

    @property
    def rank(self) -> tuple[bool, bool, float]:
        """Sort key: what is short first, then by money."""
        is_short = self.kind is ServedFindingKind.TOO_SMALL
        return bool(self.abstained), not is_short, -self.dollars_per_hour


def risk_of_missing(probability: float) -> Risk:
    """Return the risk of missing a level that is kept with a probability."""
    missed = 1.0 - probability
    return next((risk for limit, risk in _RISKS if missed < limit), Risk.HIGH)


def savings_between(before: PlanCandidate, after: PlanCandidate) -> Savings:
    """Return what a change saves an hour, with the range of list prices.

    The prices of one kind of GPU are high or low together, those of two kinds apart.
    """
    price = before.dollars_per_hour
    other = after.dollars_per_hour
    paid = before.hourly_range
    to_pay = after.hourly_range
    gpus = float(before.paid_count - after.paid_count)
    if price is None or other is None or paid is None or to_pay is None:
        return Savings(gpus, gpus, reason="no price is known")
    saved = price - other
    if before.gpu == after.gpu and price:
        ends = (saved * paid.low / paid.value, saved * paid.high / paid.value)
        low = min(ends)
        high = max(ends)
    else:
        low = saved - math.hypot(paid.value - paid.low, to_pay.high - to_pay.value)
        high = saved + math.hypot(paid.high - paid.value, to_pay.value - to_pay.low)
    return Savings(gpus, gpus, low, high, dollars_per_hour_typical=saved)


def served_option(
    engine: ServedEngine,
    before: PlanCandidate,
    after: PlanCandidate,
    question: Question,
    change: str = "",
) -> ServedOption:
    """Return the option of a candidate, with its launch and its canary."""
    sure = after.certainty
    return ServedOption(
        change=change or candidate_text(after),
        question=question,
        candidate=after,
        savings=savings_between(before, after),
        probability=sure,
        risk=risk_of_missing(sure),
        launch=launch_of(requirement_of(question), after, _launched(engine)),
        canary=_canary(engine, after),
    )


def _launched(engine: ServedEngine) -> LaunchedModel:
    """Return what is served: a fine-tune is not its base, and its longest request is not a mean."""
    return LaunchedModel(
        source=engine.source,
        context_tokens=engine.load.maximum_tokens,
        longest_tokens=None if engine.longest is None else sum(engine.longest),
    )


def candidate_text(candidate: PlanCandidate) -> str:
    """`2 x L40S (tensor 2)`."""
    layout = str(candidate.layout)
    return f"{candidate} ({layout})" if layout else str(candidate)


def _canary(engine: ServedEngine, after: PlanCandidate) -> str:
    rate = _CANARY_RATIO * engine.rate
    share = f"send it a tenth of the traffic ({number(rate)} requests/s)"
    if after.layout.data > 1:
        first = f"start one of {after.layout.data} replicas and {share}"
    else:
        first = f"start it beside what runs and {share}"
    kept = "; ".join(_kept(engine, after))
    return f"{first} over the busiest hour, then half, then all; go back unless {kept}"


def _kept(engine: ServedEngine, after: PlanCandidate) -> Iterator[str]:
    if engine.level:
        yield f"{engine.level.removesuffix(', what is kept today')} holds"
    figures = (("TTFT", after.rate.ttft_ms), ("TPOT", after.rate.tpot_ms))
    for name, predicted in figures:
        if predicted is not None:
            yield f"{name} stays below {number(predicted.high)} ms"


def interval_of(savings: Savings) -> EstimateInterval | None:
    """Return the dollars an hour as an interval; `None` without a price."""
    low = savings.dollars_per_hour_low
    high = savings.dollars_per_hour_high
    if low is None or high is None:
        return None
    return EstimateInterval(savings.dollars_per_hour, low, high)
