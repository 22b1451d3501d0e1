"""From facts to the report: sums, ranks and shares; pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby

from rightsizer.domain.state import Cause, Condition, State
from rightsizer.domain.units import seconds
from rightsizer.publish.report.advice_rows import (
    advice_rows,
    hardware_ids,
    outcome_rows,
    total_savings,
)
from rightsizer.publish.report.amount import Amount, energy_of, priced, summed
from rightsizer.publish.report.days import days_of
from rightsizer.publish.report.device_rows import HOUR, device_row, label_of
from rightsizer.publish.report.facts import DeviceFacts, ReportFacts
from rightsizer.publish.report.model import (
    AdviceRow,
    CauseRow,
    ConditionRow,
    DeviceRow,
    GapRow,
    Health,
    OutcomeRow,
    PriceRow,
    ReportModel,
    RuleRow,
    Span,
    Summary,
)
from rightsizer.publish.report.words import GROUPS
from rightsizer.publish.report.workload_rows import workload_rows

__all__ = ["report_model"]

_MOST_GAPS = 10
_SECONDS_PER_HOUR = 3600.0


def report_model(facts: ReportFacts) -> ReportModel:
    """The report on a span."""
    devices = tuple(device_row(each, facts) for each in facts.devices)
    advice, outcomes, days = advice_rows(facts), outcome_rows(facts), days_of(facts)
    summary = _summary(facts, devices, advice, outcomes)
    return ReportModel(
        version=facts.version,
        span=_span(facts, summary, len(days)),
        summary=summary,
        days=days,
        devices=devices,
        causes=_causes(facts, summary.known_hours),
        workloads=workload_rows(facts),
        advice=advice,
        advice_is_judged_now=facts.is_judged_now,
        outcomes=outcomes,
        rules=tuple(
            RuleRow(
                each.rule,
                each.reason,
                dict(each.outcomes),
                each.realized_gpu_hours,
                each.realized_kilowatt_hours,
            )
            for each in facts.rules
        ),
        health=_health(facts, devices),
        prices=tuple(_prices(facts.devices)),
    )


def _span(facts: ReportFacts, summary: Summary, days: int) -> Span:
    total = summary.total.gpu_hours
    return Span(
        start=seconds(facts.since),
        end=seconds(facts.until),
        timezone=facts.timezone_name,
        days=days,
        history_start=seconds(facts.history_start),
        history_end=seconds(facts.history_end),
        coverage_ratio=summary.known_hours / total if total else 0.0,
    )


def _summary(
    facts: ReportFacts,
    devices: Sequence[DeviceRow],
    advice: Sequence[AdviceRow],
    outcomes: Sequence[OutcomeRow],
) -> Summary:
    states: Counter[str] = Counter()
    for row in devices:
        states.update(row.states)
    known = sum(states.values()) - states[State.UNKNOWN]
    used = summed(_used(each) for each in facts.devices)
    wasted = summed(row.wasted for row in devices)
    return Summary(
        devices=len(devices),
        total=summed(row.total for row in devices),
        known_hours=float(known),
        groups={group: sum(row.groups[group] for row in devices) for group in GROUPS},
        states={state: float(states[state]) for state in State if states[state]},
        used=used,
        wasted=wasted,
        unattributed_hours=max(0.0, known - used.gpu_hours - wasted.gpu_hours),
        open_advice=len(advice),
        savings=total_savings(advice),
        realized_gpu_hours=_sum(row.realized_gpu_hours for row in outcomes),
        realized_dollars_low=_sum(row.realized_dollars_low for row in outcomes),
        realized_dollars_high=_sum(row.realized_dollars_high for row in outcomes),
    )


def _used(facts: DeviceFacts) -> Amount:
    hours = facts.window.used_seconds * facts.device.capacity_ratio / _SECONDS_PER_HOUR
    return priced(hours, energy_of(facts, facts.window.used_joules), facts.rate)


def _causes(facts: ReportFacts, known_hours: float) -> tuple[CauseRow, ...]:
    rows = [_cause(cause, facts, known_hours) for cause in Cause]
    found = [row for row in rows if row.wasted.gpu_hours > 0]
    return tuple(sorted(found, key=lambda row: (-row.wasted.gpu_hours, row.cause)))


def _cause(cause: Cause, facts: ReportFacts, known_hours: float) -> CauseRow:
    wasted = summed(
        priced(
            each.window.waste_seconds.get(cause, 0.0)
            * each.device.capacity_ratio
            / _SECONDS_PER_HOUR,
            energy_of(each, each.window.waste_joules.get(cause, 0.0)),
            each.rate,
        )
        for each in facts.devices
    )
    return CauseRow(cause, wasted, wasted.gpu_hours / known_hours if known_hours else 0.0)


def _health(facts: ReportFacts, devices: Sequence[DeviceRow]) -> Health:
    gaps = sorted(facts.gaps, key=lambda gap: (gap.start - gap.end, gap.start))
    return Health(
        unknown_hours=sum(row.states.get(State.UNKNOWN, 0.0) for row in devices),
        unrecorded_hours=sum(row.unrecorded_hours for row in devices),
        conditions=tuple(_conditions(facts.devices)),
        gaps=tuple(GapRow(seconds(gap.start), seconds(gap.end)) for gap in gaps[:_MOST_GAPS]),
        further_gaps=max(0, len(gaps) - _MOST_GAPS),
        hardware=hardware_ids(facts),
    )


def _conditions(devices: Iterable[DeviceFacts]) -> Iterable[ConditionRow]:
    for each in devices:
        for condition in Condition:
            time = each.window.conditions.get(condition, 0)
            if time:
                share = each.window.condition_share(condition)
                yield ConditionRow(label_of(each), condition, time / HOUR, share)


def _prices(devices: Sequence[DeviceFacts]) -> Iterable[PriceRow]:
    def kind(facts: DeviceFacts) -> tuple[str, str]:
        return facts.device.board or "", facts.device.name

    for (board, name), same in groupby(sorted(devices, key=kind), key=kind):
        found = list(same)
        rate = found[0].rate
        yield PriceRow(
            model=board or name or "unknown",
            devices=len(found),
            dollars_per_hour_low=None if rate is None else rate.dollars_per_hour_low,
            dollars_per_hour_high=None if rate is None else rate.dollars_per_hour_high,
            billing="" if rate is None else rate.billing,
            source="" if rate is None else rate.source,
            date="" if rate is None else rate.date,
        )


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
