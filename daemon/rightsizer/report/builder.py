"""Builder of the report from its facts: sums, ranks, shares, days; pure."""

import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import asdict, astuple

from rightsizer.model.values import (
    HOUR_SECONDS,
    NANOSECONDS_PER_SECOND,
    Cause,
    Condition,
    Evidence,
    EvidenceKind,
    Nanoseconds,
    Resource,
    State,
    Window,
    seconds,
    wasted_in,
    wasted_mostly,
)
from rightsizer.report.advice_groups import to_do
from rightsizer.report.advice_rows import (
    advice_rows,
    finding_rows,
    hardware_ids,
    outcome_rows,
    sum_known,
    total_savings,
)
from rightsizer.report.evidence import accounts_evidence
from rightsizer.report.facts import (
    ReportDeviceFacts,
    ReportFacts,
    Slice,
    WorkloadFacts,
    spanning_rate,
)
from rightsizer.report.labels import GROUP_OF, GROUPS, StateGroup
from rightsizer.report.model import (
    AdviceRow,
    CauseRow,
    ConditionRow,
    DeviceRow,
    FitRow,
    OutcomeRow,
    PriceRow,
    ReportDay,
    ReportHealth,
    ReportModel,
    ReportSpan,
    StripRow,
    Summary,
    UsageAmount,
    WorkloadUsage,
    amount_of,
    energy_of,
    priced,
    summed,
)

_HOUR: Final[Nanoseconds] = 3600 * NANOSECONDS_PER_SECOND
_MOST_CELLS: Final = 5760
"""Limit over all strips, 8 GPUs hourly for 30 days, to keep documents small."""
_CELL_HOURS: Final = (1, 2, 3, 4, 6, 8, 12, 24, 48, 168)


def _device_row(facts: ReportDeviceFacts, report: ReportFacts) -> DeviceRow:
    device = facts.device
    window = facts.window
    part = device.capacity_ratio
    states = _hours_by_state(window.states, part)
    # A parent of MIG instances has time only from before it was divided.
    accounted = window.accounted
    total = accounted if device.has_mig_instances else max(report.until - report.since, accounted)
    total_hours = total * part / _HOUR
    unrecorded = max(0.0, total_hours - sum(states.values()))
    known_hours = sum(states.values()) - states.get(State.UNKNOWN, 0.0)
    return DeviceRow(
        uuid=device.uuid,
        index=device.stated_index,
        label=facts.label,
        model=device.name or device.board or "",
        board=device.board,
        capacity_ratio=part,
        workloads=facts.workloads,
        tier=window.tier,
        total=priced(total_hours, energy_of(facts, window.energy_joules), facts.rate),
        coverage_ratio=min(1.0, known_hours / total_hours) if total_hours else 0.0,
        groups=_grouped(states, unrecorded),
        states=states,
        unrecorded_hours=unrecorded,
        used_hours=window.used_seconds * part / HOUR_SECONDS,
        effective_utilization=window.effective_utilization,
        headroom_ratio=window.headroom_ratio,
        wasted=amount_of(facts, wasted_in(window.waste_seconds), wasted_in(window.waste_joules)),
        waste_hours=_waste_hours(window, part),
        fits=tuple(
            FitRow(resource, *astuple(facts.provisioning.resources[resource]))
            for resource in Resource
            if resource in facts.provisioning.resources
        ),
        overprovisioned=facts.provisioning.overprovisioned,
        underprovisioned=facts.provisioning.underprovisioned,
        is_underprovisioned=facts.provisioning.is_underprovisioned,
        memory_is_preallocated=facts.provisioning.memory_is_preallocated,
        strip=_strip(facts.slices, report),
    )


def _waste_hours(window: Window, part: float) -> dict[str, float]:
    return {cause: lost * part / HOUR_SECONDS for cause, lost in window.waste_seconds.items()}


def _hours_by_state(states: Mapping[State, Nanoseconds], part: float = 1.0) -> dict[str, float]:
    """Return GPU-hours by state, in the order of the states; without states of no time."""
    return {state: states[state] * part / _HOUR for state in State if states.get(state)}


def _grouped(states: Mapping[str, float], unrecorded: float = 0.0) -> dict[str, float]:
    group_hours: Counter[StateGroup] = Counter({StateGroup.NO_DATA: unrecorded})
    for state, hours in states.items():
        group_hours[GROUP_OF[State(state)]] += hours  # type: ignore[assignment] # Hours.
    return {group: float(group_hours[group]) for group in GROUPS}


def _strip(slices: Iterable[Slice], report: ReportFacts) -> StripRow:
    hours = max(1, -(-(report.until - report.since) // _HOUR))
    count = max(1, len(report.devices))
    cell = next((hour for hour in _CELL_HOURS if hours * count <= hour * _MOST_CELLS), 168)
    times: dict[int, Counter[StateGroup]] = {}
    for slice_ in slices:
        place = (slice_.start - report.since) // (cell * _HOUR)
        counts = times.setdefault(max(0, place), Counter())
        for state, time in slice_.states.items():
            counts[GROUP_OF[state]] += time
    cells = range(-(-hours // cell))
    # Ties go to the first group; no data without any time.
    cell_times = (times.get(place) or {StateGroup.NO_DATA: 1} for place in cells)
    mostly = (max(GROUPS, key=lambda group: cell.get(group, 0)) for cell in cell_times)
    return StripRow(cell, tuple(mostly))


def _workload_rows(facts: ReportFacts) -> tuple[WorkloadUsage, ...]:
    """Return the workloads that held anything, largest waste first."""
    devices = {device.device.uuid: device for device in facts.devices}
    rows = [
        _workload_row(workload, devices)
        for workload in facts.workloads
        if workload.window.accounted
    ]
    return tuple(sorted(rows, key=lambda row: (-row.wasted.gpu_hours, row.workload)))


def _workload_row(facts: WorkloadFacts, devices: Mapping[str, ReportDeviceFacts]) -> WorkloadUsage:
    held = [devices[uuid] for uuid in facts.devices if uuid in devices]
    parts = [device_facts.device.capacity_ratio for device_facts in held]
    # Capacity of its devices, as a mean: times of holding are not stored per device.
    window = facts.window
    part = sum(parts) / len(parts) if parts else 1.0
    # With unknown devices, use the range of all prices.
    rate = spanning_rate(device_facts.rate for device_facts in held or devices.values())
    states = _hours_by_state(window.states, part)
    total = sum(states.values())
    known_hours = total - states.get(State.UNKNOWN, 0.0)
    waste = _waste_hours(window, part)
    drawn = window.energy_joules
    return WorkloadUsage(
        workload=facts.key,
        devices=tuple(device_facts.label for device_facts in held),
        held=priced(total, drawn or None, rate),
        coverage_ratio=known_hours / total if total else 0.0,
        groups=_grouped(states),
        used_hours=window.used_seconds * part / HOUR_SECONDS,
        wasted=priced(wasted_in(waste), wasted_in(window.waste_joules) if drawn else None, rate),
        waste_hours=waste,
        main_cause=wasted_mostly(waste),
    )


def days_of(facts: ReportFacts) -> tuple[ReportDay, ...]:
    """Return every day of the span; a slice counts for the day it begins on."""
    sums: dict[dt.date, Counter[State]] = defaultdict(Counter)
    for device in facts.devices:
        for slice_ in device.slices:
            counts = sums[_date(slice_.start, facts.timezone)]
            for state, time in slice_.states.items():
                counts[state] += round(time * device.device.capacity_ratio)
    gpus = sum(
        device_facts.device.capacity_ratio
        for device_facts in facts.devices
        if not device_facts.device.has_mig_instances
    )
    days = []
    for date, start, end in _calendar(facts):
        states = _hours_by_state(sums[date])
        unrecorded = max(0.0, (end - start) * gpus / _HOUR - sum(states.values()))
        days.append(ReportDay(date.isoformat(), _grouped(states, unrecorded), states))
    return tuple(days)


def _calendar(facts: ReportFacts) -> Iterator[tuple[dt.date, Nanoseconds, Nanoseconds]]:
    date = _date(facts.since, facts.timezone)
    start = facts.since
    while start < facts.until:
        date_after = date + dt.timedelta(days=1)
        midnight = dt.datetime.combine(date_after, dt.time(), facts.timezone)
        end = min(facts.until, int(midnight.timestamp()) * NANOSECONDS_PER_SECOND)
        yield date, start, end
        date = date_after
        start = end


def _date(time: Nanoseconds, timezone: dt.tzinfo) -> dt.date:
    return dt.datetime.fromtimestamp(seconds(time), timezone).date()


_MOST_GAPS: Final = 10
_NO_RATE: Final[dict[str, Any]] = {
    **dict.fromkeys(f"dollars_per_hour_{end}" for end in ("low", "high", "typical")),
    **dict.fromkeys(("billing", "source", "date", "basis"), ""),
}


def report_model(facts: ReportFacts) -> ReportModel:
    """Build the report of a span."""
    devices = tuple(_device_row(device, facts) for device in facts.devices)
    advice = advice_rows(facts)
    outcomes = outcome_rows(facts)
    days = days_of(facts)
    causes = _causes(facts)
    summary = _summary(facts, devices, causes, advice, outcomes)
    total = summary.total.gpu_hours
    prices = tuple(_prices(facts.devices))
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
        causes=tuple(
            CauseRow(cause, amount, amount.gpu_hours / summary.known_hours)
            for cause, amount in sorted(causes.items(), key=lambda row: (-row[1].gpu_hours, row[0]))
        ),
        workloads=_workload_rows(facts),
        advice=advice,
        advice_is_judged_now=facts.is_judged_now,
        findings=finding_rows(facts),
        outcomes=outcomes,
        rules=facts.rules,
        health=_health(facts, devices),
        prices=prices,
        evidence=tuple(_evidence(facts, prices)),
    )


def _evidence(facts: ReportFacts, prices: Iterable[PriceRow]) -> Iterator[Evidence]:
    """Yield what the report rests on."""
    for price in prices:
        if price.dollars_per_hour_typical is not None:
            yield Evidence(
                EvidenceKind.ASSUMED,
                f"price of {price.model}: ${price.dollars_per_hour_typical:.2f} an hour",
                "; ".join(
                    f"{word} {value}"
                    for word, value in (("from", price.source), ("dated", price.date))
                    if value
                ),
                price.devices,
                "all amounts of money",
            )
    yield from accounts_evidence([(device.device, device.window) for device in facts.devices])


def _summary(
    facts: ReportFacts,
    devices: Sequence[DeviceRow],
    causes: Mapping[Cause, UsageAmount],
    advice: Sequence[AdviceRow],
    outcomes: Sequence[OutcomeRow],
) -> Summary:
    states: Counter[str] = Counter()
    for row in devices:
        states.update(row.states)
    known_hours = sum(states.values()) - states[State.UNKNOWN]
    used = summed(
        amount_of(device, device.window.used_seconds, device.window.used_joules)
        for device in facts.devices
    )
    wasted = summed(row.wasted for row in devices)
    left_over = causes.get(Cause.HEADROOM, summed(()))
    return Summary(
        devices=len(devices),
        total=summed(row.total for row in devices),
        known_hours=float(known_hours),
        groups={group: sum(row.groups[group] for row in devices) for group in GROUPS},
        states={state: float(states[state]) for state in State if states[state]},
        used=used,
        wasted=wasted,
        left_over=left_over,
        unattributed_hours=max(
            0.0, known_hours - used.gpu_hours - wasted.gpu_hours - left_over.gpu_hours
        ),
        open_advice=len(to_do(advice, lambda row: (row.exclusive_group, row.id))),
        savings=total_savings(facts),
        realized_gpu_hours=sum_known(row.realized_gpu_hours for row in outcomes),
        realized_dollars_low=sum_known(row.realized_dollars_low for row in outcomes),
        realized_dollars_high=sum_known(row.realized_dollars_high for row in outcomes),
    )


def _causes(facts: ReportFacts) -> dict[Cause, UsageAmount]:
    """Return what was not used by cause, without causes of nothing."""
    amounts = {
        cause: summed(
            amount_of(
                device,
                device.window.waste_seconds.get(cause, 0.0),
                device.window.waste_joules.get(cause, 0.0),
            )
            for device in facts.devices
        )
        for cause in Cause
    }
    return {cause: amount for cause, amount in amounts.items() if amount.gpu_hours > 0}


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
    reason_hours: Counter[str] = Counter()
    for device in devices:
        for reason, time in device.window.unknown_reasons.items():
            reason_hours[reason] += time * device.device.capacity_ratio / _HOUR  # type: ignore[assignment] # Hours.
    return {reason: float(time) for reason, time in reason_hours.most_common()}


def _conditions(devices: Iterable[ReportDeviceFacts]) -> Iterable[ConditionRow]:
    for device in devices:
        for condition in Condition:
            if time := device.window.conditions.get(condition, 0):
                share = device.window.condition_share(condition)
                yield ConditionRow(device.label, condition, time / _HOUR, share)


def _prices(devices: Sequence[ReportDeviceFacts]) -> Iterable[PriceRow]:
    by_model: dict[tuple[str, str], list[ReportDeviceFacts]] = defaultdict(list)
    for device in devices:
        by_model[device.device.board or "", device.device.name].append(device)
    for (board, name), same in sorted(by_model.items(), key=lambda item: item[0]):
        rate = same[0].rate
        terms = _NO_RATE if rate is None else asdict(rate)
        yield PriceRow(model=board or name or "unknown", devices=len(same), **terms)
