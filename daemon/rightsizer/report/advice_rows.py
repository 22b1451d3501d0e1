"""Open advice ranked by savings, and outcomes of closed advice."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from msgspec.structs import asdict

from rightsizer.advice.compatible import ExclusiveKey, compatible
from rightsizer.model.values import (
    HOURS_PER_MONTH,
    Advice,
    AdviceState,
    Finding,
    Reason,
    Savings,
    Severity,
    optional_seconds,
    seconds,
)
from rightsizer.report.facts import PriceRate, ReportFacts, spanning_rate
from rightsizer.report.labels import confidence_label, risk_word
from rightsizer.report.model import AdviceRow, FindingRow, OutcomeRow, SavingsSummary, priced

HARDWARE: Final = frozenset(
    {
        Reason.HARDWARE_UNHEALTHY,
        Reason.PCIE_LINK_DEGRADED,
        Reason.THERMAL_THROTTLED,
        Reason.POWER_THROTTLED,
        Reason.NVLINK_ABSENT,
    }
)


def advice_rows(facts: ReportFacts) -> tuple[AdviceRow, ...]:
    """Return the advice open at the end of the span, largest savings first."""
    labels = {device.device.uuid: device.label for device in facts.devices}
    return tuple(sorted((_row(advice, labels) for advice in _open_at_end(facts)), key=_rank))


def _open_at_end(facts: ReportFacts) -> Iterator[Advice]:
    until = facts.decided_until
    for advice in facts.advice:
        is_later = advice.is_open or (advice.closed is not None and advice.closed > until)
        if advice.opened <= facts.until and is_later:
            yield advice


def outcome_rows(facts: ReportFacts) -> tuple[OutcomeRow, ...]:
    """Return advice closed or verified within the span, latest first."""
    rates = {device.device.uuid: device.rate for device in facts.devices}
    ended = (
        advice
        for advice in facts.advice
        if (not advice.is_open or advice.verified is not None)
        and any(
            time is not None and facts.since <= time <= facts.decided_until
            for time in (advice.closed, advice.verified)
        )
    )
    rows = [_outcome(advice, rates) for advice in ended]
    return tuple(sorted(rows, key=lambda row: (-(row.verified or row.closed or 0.0), row.id)))


def total_savings(facts: ReportFacts) -> SavingsSummary:
    """Sum the savings of advice open at the end; of mutually exclusive advice only the best."""
    best = compatible(_open_at_end(facts), ExclusiveKey.of)
    counted = [_savings(advice.finding.savings) for advice in best]
    amounts = {
        field: sum_known(getattr(savings, field) for savings in counted)
        for field in SavingsSummary.__struct_fields__
        if field.endswith(("_low", "_high", "_typical"))
    }
    return SavingsSummary(
        **amounts,
        price_source=_joined(summary.price_source for summary in counted),
        price_date=_joined(summary.price_date for summary in counted),
        reason="" if any(summary.gpus_low is not None for summary in counted) else "no figure",
    )


def hardware_ids(facts: ReportFacts) -> tuple[str, ...]:
    """Return the ids of advice on failing hardware that was open within the span."""
    return tuple(
        advice.id
        for advice in facts.advice
        if HARDWARE & set(advice.finding.reasons)
        and advice.opened < facts.until
        and (advice.closed is None or advice.closed >= facts.since)
    )


def _savings(saved: Savings) -> SavingsSummary:
    values = asdict(saved)
    if saved.dollars_per_hour_low is not None:
        values["dollars_per_hour_typical"] = saved.dollars_per_hour
    for end in ("low", "high", "typical"):
        hourly = values.pop(f"dollars_per_hour_{end}")
        values[f"dollars_per_month_{end}"] = None if hourly is None else hourly * HOURS_PER_MONTH
    return SavingsSummary(**values)


def _row(advice: Advice, labels: Mapping[str, str]) -> AdviceRow:
    finding = advice.finding
    return AdviceRow(
        **asdict(_finding_row(finding, labels)),
        risk=finding.risk,
        severity=finding.severity,
        instructions=finding.instructions,
        exclusive_group=finding.exclusive_group,
        confidence_word=confidence_label(finding.confidence),
        confidence_factors=dict(finding.confidence_factors),
        state=advice.state,
        opened=seconds(advice.opened),
        savings=_savings(finding.savings),
        options=tuple(
            f"{option.description} (risk: {risk_word(option.risk)})" for option in finding.options
        ),
    )


def _finding_row(finding: Finding, labels: Mapping[str, str]) -> FindingRow:
    return FindingRow(
        id=finding.id,
        rule=finding.rule,
        finding=finding.kind,
        reasons=finding.reasons,
        action=finding.action,
        summary=finding.summary,
        workload=finding.workload,
        devices=tuple(labels.get(uuid, uuid) for uuid in finding.devices),
        confidence=finding.confidence,
    )


def _outcome(advice: Advice, rates: Mapping[str, PriceRate | None]) -> OutcomeRow:
    finding = advice.finding
    hours = advice.realized_gpu_hours
    rate = spanning_rate(rates.get(uuid) for uuid in finding.devices)
    saved = None if hours is None else priced(hours, None, rate)
    return OutcomeRow(
        id=finding.id,
        rule=finding.rule,
        reasons=finding.reasons,
        action=finding.action,
        workload=finding.workload,
        summary=finding.summary,
        state=advice.state,
        actor=advice.actor,
        why=advice.why,
        realized_gpu_hours=advice.realized_gpu_hours,
        opened=seconds(advice.opened),
        closed=optional_seconds(advice.closed),
        verified=optional_seconds(advice.verified),
        realized_dollars_low=saved.dollars_low if saved else None,
        realized_dollars_high=saved.dollars_high if saved else None,
    )


def _rank(row: AdviceRow) -> tuple[float, float, int, str]:
    severity = Severity(row.severity).rank
    dollars = row.savings.dollars_per_month_typical or 0.0
    return (-dollars, -(row.savings.gpus_high or 0.0), -severity, row.id)


def sum_known(values: Iterable[float | None]) -> float | None:
    """Sum the known values; `None` if there are none."""
    numbers = [value for value in values if value is not None]
    return sum(numbers) if numbers else None


def _joined(texts: Iterable[str]) -> str:
    return "; ".join(sorted({part for text in texts for part in text.split("; ") if part}))


def finding_rows(facts: ReportFacts) -> tuple[FindingRow, ...]:
    """Return findings over the span without open advice, most confident first.

    Closed advice is included, since it holds for the whole span; dismissed advice is not.
    """
    labels = {device.device.uuid: device.label for device in facts.devices}
    advised_ids = {advice.id for advice in _open_at_end(facts)}
    advised_ids |= {advice.id for advice in facts.advice if advice.state is AdviceState.DISMISSED}
    other_findings = (finding for finding in facts.findings if finding.id not in advised_ids)
    rows = (_finding_row(finding, labels) for finding in other_findings)
    return tuple(sorted(rows, key=lambda row: (-row.confidence, row.id)))
