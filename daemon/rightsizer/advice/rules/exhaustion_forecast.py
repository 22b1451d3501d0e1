"""Rule: memory or load of a service that grows steadily and will soon exceed the capacity.

A trend is reported only if its growth is certain and reaches the limit within the horizon. The
rule abstains for frameworks that preallocate, whose memory does not grow.
"""

from typing import Annotated, Final

from msgspec import Struct

from rightsizer.advice.board_options import larger_boards
from rightsizer.advice.rules.rule import OpeningPolicy, Rule, RuleSettings
from rightsizer.advice.screen import Screen, SubjectTable, unmeasured, well
from rightsizer.advice.verdict import CaseSubject
from rightsizer.model.values import (
    CONSTANT,
    GIB,
    Action,
    Case,
    Finding,
    Instruction,
    Measure,
    Nanoseconds,
    Reason,
    Risk,
    Savings,
    Spec,
    Trend,
    WorkloadClass,
    nanoseconds,
    percent_text,
)

_TAKEN_TOGETHER: Final[Nanoseconds] = nanoseconds(86400.0)
"""Trends use days, so GPUs allocated on the same day count as present from the start."""
_NO_SAVINGS: Final = Savings(reason="capacity shortage")
_MEMORY: Final = "memory"
_DAYS_TO_TELL: Final = 14.0


class ExhaustionForecastSettings(RuleSettings, frozen=True):
    """Horizon and thresholds of the forecast.

    Attributes:
        on_ratio: Share of the capacity that the trend must reach within the horizon.
            Source: all of it
        minimum_known_seconds: Known time below which the rule abstains.
            Source: a week of days makes a trend
        horizon_days: How far ahead exhaustion is forecast.
            Source: as long as the history it rests on
        most_busy_ratio: Utilization in the busiest hour from which requests queue.
            Source: M/G/1: beyond it requests wait for longer than they are served
        least_growth_ratio: Minimum growth of the load over the days seen, as a share of that limit.
            Source: as for pools: less may be chance
    """

    on_ratio: Annotated[float, Spec(within=(0.3, 1))] = 1.0
    minimum_known_seconds: Annotated[float, Spec(within=(86400, None)), CONSTANT] = 7 * 86400.0
    horizon_days: Annotated[float, Spec(unit="days", within=(1, 365))] = 30.0
    most_busy_ratio: Annotated[float, Spec(within=(0.1, 1)), CONSTANT] = 0.7
    least_growth_ratio: Annotated[float, Spec(within=(0, 1)), CONSTANT] = 0.05
    conduct: OpeningPolicy = OpeningPolicy.sizing()


class _Forecast(Struct, frozen=True):
    what: str
    trend: Trend
    limit: float
    days_low: float
    days_high: float

    @property
    def is_memory(self) -> bool:
        return self.what == _MEMORY


_NOT_NEEDED: Final = "the framework preallocates, so memory held is not memory needed"


def judge(subject: CaseSubject, settings: ExhaustionForecastSettings) -> Finding:
    """Whether the memory or load of a workload outgrows its GPUs within the horizon."""
    case = subject.case
    if case.workload is None:
        return subject.find_nothing("It is free, so nothing grows.")
    is_preallocated = any(provisioning.memory_is_preallocated for provisioning in case.provisioning)
    memory = None if is_preallocated else _of_memory(case, settings)
    if forecasts := [
        forecast for forecast in (memory, _of_load(case, settings)) if forecast is not None
    ]:
        return _problem(
            subject, min(forecasts, key=lambda forecast: (forecast.days_low, forecast.what))
        )
    if is_preallocated:
        return subject.abstain(_NOT_NEEDED)
    if case.trend(Measure.MEMORY_BYTES) is None:
        why = "too few days of memory readings to tell a trend"
        return subject.abstain(why, Reason.INSUFFICIENT_DATA)
    summary = f"{subject.name}: nothing runs out within the horizon."
    return subject.find_nothing(summary, {}, _about(case))


def _of_memory(case: Case, settings: ExhaustionForecastSettings) -> _Forecast | None:
    trend = case.trend(Measure.MEMORY_BYTES)
    starts = [window.start for window in case.windows]
    if max(starts) - min(starts) > _TAKEN_TOGETHER:
        return None  # It grew by newly allocated GPUs, not on those that it had.
    totals = [device.memory_total_bytes for device in case.devices if device.memory_total_bytes]
    if trend is None or not trend.is_growing or len(totals) < len(case.devices):
        return None
    # The fullest GPU sets the limit, regardless of room on the others.
    blocks = (window.blocks.series(Measure.MEMORY_BYTES) for window in case.windows)
    peaks = [series.peak or 0.0 for series in blocks]
    if (fullest := max(peak / total for peak, total in zip(peaks, totals, strict=True))) <= 0.0:
        return None
    return _within(_MEMORY, trend, min(sum(totals), sum(peaks) / fullest), settings)


def _of_load(case: Case, settings: ExhaustionForecastSettings) -> _Forecast | None:
    """Forecast a service's load by daily means, limited by its busiest hour."""
    # Queries read a month of blocks, so each is made only if the previous one calls for it.
    if case.workload_class is not WorkloadClass.SERVING:
        return None
    trend = case.trend(Measure.BUSY)
    shape = case.shape() if trend is not None and trend.is_growing else None
    if trend is None or shape is None:
        return None
    means = [mean for mean in shape.hours_of_day if mean is not None]
    mean = sum(means) / len(means) if means else 0.0
    if mean <= 0.0:
        return None
    limit = len(case.devices) * settings.most_busy_ratio * mean / max(means)
    if trend.slope_per_day * trend.days < settings.least_growth_ratio * limit:
        return None
    return _within("load", trend, limit, settings)


def _within(
    what: str, trend: Trend, limit: float, settings: ExhaustionForecastSettings
) -> _Forecast | None:
    days = trend.days_until(limit)
    reached = trend.value + trend.slope_per_day * settings.horizon_days
    if days is None or reached < settings.on_ratio * limit:
        return None
    return _Forecast(what, trend, limit, *days)


def _problem(subject: CaseSubject, forecast: _Forecast) -> Finding:
    case = subject.case
    trend = forecast.trend
    slope = forecast.trend.slope_per_day
    is_known = case.workload_class is not WorkloadClass.UNKNOWN
    options = larger_boards(case, subject.market) if forecast.is_memory and is_known else ()
    name = case.workload.name if case.workload else ""
    grows = f"{slope / GIB:.2f} GiB" if forecast.is_memory else f"{slope:.3f} busy GPUs"
    return subject.find_problem(
        reasons=(Reason.EXHAUSTION_FORECAST,),
        action=Action.CHANGE_GPU_TYPE if options else Action.NONE,
        summary=(
            f"{subject.name} of {name}: the {forecast.what} grows by {grows} a day and reaches its "
            f"end in {forecast.days_low:.0f} to {forecast.days_high:.0f} days "
            f"({percent_text(trend.level_ratio)} of such forecasts hold)."
        ),
        factors={
            "coverage": min(window.coverage_ratio for window in case.windows),
            "history": trend.days / (trend.days + 1.0),
            "certainty": trend.level_ratio,
        },
        risk=options[0].risk if options else Risk.VERY_LOW,
        evidence=_about(case)
        | {
            "what": forecast.what,
            "limit": forecast.limit,
            "days_low": round(forecast.days_low, 1),
            "days_high": round(forecast.days_high, 1),
        },
        options=options,
        target=forecast.what,
        savings=_NO_SAVINGS,
        instructions=(_advise(forecast),),
        affected_gpus=(case.gpus if forecast.days_low <= _DAYS_TO_TELL else 0.0),
    )


def _advise(forecast: _Forecast) -> Instruction:
    if not forecast.is_memory:
        text = "Raise the largest number of replicas in time."
        return Instruction("Provide the room in time", text)
    return Instruction(
        "Find out what grows",
        "Look for a leak first: compare what the framework counts as allocated a day apart "
        "(torch.cuda.memory_stats: allocated_bytes.all.current). Until it is found, restart "
        f"the workload before day {max(1.0, forecast.days_low):.0f}.",
    )


def _about(case: Case) -> dict[str, object]:
    evidence: dict[str, object] = {}
    measures = {"memory_bytes": Measure.MEMORY_BYTES}
    if case.workload_class is WorkloadClass.SERVING:
        measures["busy_gpus"] = Measure.BUSY
    for name, measure in measures.items():
        if (trend := case.trend(measure)) is not None:
            evidence[f"{name}_per_day"] = [trend.slope_low, trend.slope_per_day, trend.slope_high]
            evidence[f"{name}_now"] = trend.value
            evidence[f"{name}_days"] = trend.days
    return evidence


def screen(table: SubjectTable, _: ExhaustionForecastSettings) -> Screen:
    """Settle of which subjects neither memory nor load is forecast."""
    yield well(~table.is_held)
    is_service = table.is_of(WorkloadClass.SERVING)
    yield unmeasured(table.is_preallocated & ~is_service, _NOT_NEEDED)


RULE: Final = Rule("exhaustion_forecast", ExhaustionForecastSettings(), judge, screen)
