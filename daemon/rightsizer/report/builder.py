"""Builder of the report from its facts: sums, ranks, shares, days; pure."""

import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from rightsizer.model.frozen import asdict
from rightsizer.model.state import Cause, Condition, State
from rightsizer.model.units import HOUR_SECONDS, NANOSECONDS_PER_SECOND, Nanoseconds, seconds
from rightsizer.report.advice_rows import (
    advice_rows,
    finding_rows,
    hardware_ids,
    outcome_rows,
    sum_known,
    total_savings,
)
from rightsizer.report.facts import ReportDeviceFacts, ReportFacts
from rightsizer.report.labels import GROUPS
from rightsizer.report.model import (
    AdviceRow,
    CauseRow,
    ConditionRow,
    DeviceRow,
    OutcomeRow,
    PriceRow,
    ReportDay,
    ReportHealth,
    ReportModel,
    ReportSpan,
    Summary,
    energy_of,
    priced,
    summed,
)
from rightsizer.report.usage_rows import (
    HOUR,
    device_row,
    grouped,
    hours_by_state,
    label_of,
    workload_rows,
)


def days_of(facts: ReportFacts) -> tuple[ReportDay, ...]:
    """Every day that the span touches; what begins on a day counts for it."""
    sums: dict[dt.date, Counter[State]] = defaultdict(Counter)
    for device in facts.devices:
        for each in device.slices:
            counts = sums[_date(each.start, facts.timezone)]
            for state, time in each.states.items():
                counts[state] += round(time * device.device.capacity_ratio)
    gpus = sum(
        each.device.capacity_ratio for each in facts.devices if not each.device.has_mig_instances
    )
    found = []
    for date, start, end in _calendar(facts):
        states = hours_by_state(sums[date])
        unrecorded = max(0.0, (end - start) * gpus / HOUR - sum(states.values()))
        found.append(ReportDay(date.isoformat(), grouped(states, unrecorded), states))
    return tuple(found)


def _calendar(facts: ReportFacts) -> Iterator[tuple[dt.date, Nanoseconds, Nanoseconds]]:
    date = _date(facts.since, facts.timezone)
    start = facts.since
    while start < facts.until:
        date_after = date + dt.timedelta(days=1)
        midnight = dt.datetime.combine(date_after, dt.time(), facts.timezone)
        end = min(facts.until, int(midnight.timestamp()) * NANOSECONDS_PER_SECOND)
        yield date, start, end
        date, start = date_after, end


def _date(time: Nanoseconds, timezone: dt.tzinfo) -> dt.date:
    return dt.datetime.fromtimestamp(seconds(time), timezone).date()


_MOST_GAPS: Final = 10
_NO_RATE: Final[dict[str, Any]] = {
    **dict.fromkeys(("dollars_per_hour_low", "dollars_per_hour_high")),
    **dict.fromkeys(("billing", "source", "date"), ""),
}


def report_model(facts: ReportFacts) -> ReportModel:
    """The report on a span."""
    devices = tuple(device_row(each, facts) for each in facts.devices)
    advice, outcomes, days = advice_rows(facts), outcome_rows(facts), days_of(facts)
    summary = _summary(facts, devices, advice, outcomes)
    total = summary.total.gpu_hours
    return ReportModel(
        version=facts.version,
        span=ReportSpan(
            start=seconds(facts.since),
            end=seconds(facts.until),
            timezone=facts.timezone_name,
            days=len(days),
            history_start=seconds(facts.history_start),
            history_end=seconds(facts.history_end),
            coverage_ratio=summary.known_hours / total if total else 0.0,
        ),
        summary=summary,
        days=days,
        devices=devices,
        causes=_causes(facts, summary.known_hours),
        workloads=workload_rows(facts),
        advice=advice,
        advice_is_judged_now=facts.is_judged_now,
        findings=finding_rows(facts),
        outcomes=outcomes,
        rules=facts.rules,
        health=_health(facts, devices),
        prices=tuple(_prices(facts.devices)),
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
    used = summed(
        priced(
            each.window.used_seconds * each.device.capacity_ratio / HOUR_SECONDS,
            energy_of(each, each.window.used_joules),
            each.rate,
        )
        for each in facts.devices
    )
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
        realized_gpu_hours=sum_known(row.realized_gpu_hours for row in outcomes),
        realized_dollars_low=sum_known(row.realized_dollars_low for row in outcomes),
        realized_dollars_high=sum_known(row.realized_dollars_high for row in outcomes),
    )


def _causes(facts: ReportFacts, known_hours: float) -> tuple[CauseRow, ...]:
    rows = []
    for cause in Cause:
        wasted = summed(
            priced(
                each.window.waste_seconds.get(cause, 0.0)
                * each.device.capacity_ratio
                / HOUR_SECONDS,
                energy_of(each, each.window.waste_joules.get(cause, 0.0)),
                each.rate,
            )
            for each in facts.devices
        )
        if wasted.gpu_hours > 0:
            share = wasted.gpu_hours / known_hours if known_hours else 0.0
            rows.append(CauseRow(cause, wasted, share))
    return tuple(sorted(rows, key=lambda row: (-row.wasted.gpu_hours, row.cause)))


def _health(facts: ReportFacts, devices: Sequence[DeviceRow]) -> ReportHealth:
    gaps = sorted(facts.gaps, key=lambda gap: (gap.start - gap.end, gap.start))
    return ReportHealth(
        unknown_hours=sum(row.states.get(State.UNKNOWN, 0.0) for row in devices),
        unknown_reasons=_unknown_reasons(facts.devices),
        unrecorded_hours=sum(row.unrecorded_hours for row in devices),
        conditions=tuple(_conditions(facts.devices)),
        gaps=tuple(gaps[:_MOST_GAPS]),
        further_gaps=max(0, len(gaps) - _MOST_GAPS),
        hardware=hardware_ids(facts),
    )


def _unknown_reasons(devices: Iterable[ReportDeviceFacts]) -> dict[str, float]:
    found: Counter[str] = Counter()
    for each in devices:
        for reason, time in each.window.unknown_reasons.items():
            found[reason] += time * each.device.capacity_ratio / HOUR  # type: ignore[assignment] # Hours.
    return {reason: float(time) for reason, time in found.most_common()}


def _conditions(devices: Iterable[ReportDeviceFacts]) -> Iterable[ConditionRow]:
    for each in devices:
        for condition in Condition:
            time = each.window.conditions.get(condition, 0)
            if time:
                share = each.window.condition_share(condition)
                yield ConditionRow(label_of(each), condition, time / HOUR, share)


def _prices(devices: Sequence[ReportDeviceFacts]) -> Iterable[PriceRow]:
    by_model: dict[tuple[str, str], list[ReportDeviceFacts]] = defaultdict(list)
    for each in devices:
        by_model[each.device.board or "", each.device.name].append(each)
    for (board, name), same in sorted(by_model.items(), key=lambda each: each[0]):
        rate = same[0].rate
        terms = _NO_RATE if rate is None else asdict(rate)
        yield PriceRow(model=board or name or "unknown", devices=len(same), **terms)
