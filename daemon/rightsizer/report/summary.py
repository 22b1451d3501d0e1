"""Summary of the report in a few sentences, at the start of every format."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from rightsizer.model.values import AdviceState, Cause, UnknownReason, dollars_text, number_text
from rightsizer.report.figures import dollars, hours, money, percent, span_text
from rightsizer.report.labels import (
    CAUSE_LABELS,
    GROUP_NAMES,
    GROUPS,
    StateGroup,
    action_label,
    headroom_text,
    unknown_parts,
)
from rightsizer.report.model import AdviceRow, ReportHealth, ReportModel, SavingsSummary, Summary

_MOST_CAUSES: Final = 3


def summary_of(model: ReportModel) -> Iterator[str]:
    """Yield sentences: what happened, what it cost, what to do."""
    span = model.span
    missing = model.summary.groups[StateGroup.NO_DATA]
    if not model.has_data:
        is_elsewhere = span.history_end <= span.start or span.history_start >= span.end
        yield "Nothing is known of this span: " + (
            "the history holds other times (below). Ask for a span within them."
            if is_elsewhere
            else "the agent ran and could not read the GPUs, or did not run."
        )
        return
    yield _done(model)
    yield _wasted(model)
    yield _to_do(model)
    yield from _returned(model)
    if not missing:
        yield "All of the span is known."
    else:
        yield (
            f"{percent(span.coverage_ratio)} of the span is known; of {hours(missing)} of GPU time "
            f"nothing is{unknown_text(model.health)}, and none of it is counted as idle."
        )


def left_text(summary: Summary) -> str:
    """Say what headroom there is, as on a page; empty without any."""
    left = summary.left_over
    what = (
        hours(left.gpu_hours)
        if left.dollars_typical is None
        else dollars_text(left.dollars_typical)
    )
    return headroom_text(what) if left.gpu_hours else ""


def saved_text(savings: SavingsSummary) -> str:
    """Describe the possible savings in a month."""
    parts = []
    if savings.dollars_per_month_high:
        ends = savings.dollars_per_month_low, savings.dollars_per_month_high
        monthly = dollars(*ends, savings.dollars_per_month_typical)
        parts.append(f"{monthly} a month")
    if savings.gpus_high:
        count = span_text(savings.gpus_low, savings.gpus_high)
        parts.append(f"{count} {'GPU' if count == '1' else 'GPUs'}")
    if parts:
        return ", ".join(parts)
    return f"n/a ({savings.reason})" if savings.reason else "nothing to count"


def unknown_text(health: ReportHealth) -> str:
    """List the reasons of unknown states in parentheses; empty without any."""
    reasons = {UnknownReason(reason): time for reason, time in health.unknown_reasons.items()}
    parts = [f"{hours(time)}: {why}" for why, time in unknown_parts(reasons)]
    return f" ({'; '.join(parts)})" if parts else ""


def _done(model: ReportModel) -> str:
    summary = model.summary
    known_hours = summary.known_hours
    parts = [
        f"{percent(summary.groups[group] / known_hours)} {GROUP_NAMES[group]}"
        for group in GROUPS
        if group is not StateGroup.NO_DATA and summary.groups[group] > 0
    ]
    noun = "GPU" if all(row.capacity_ratio == 1 for row in model.devices) else "device"
    count = f"1 {noun}" if summary.devices == 1 else f"{summary.devices} {noun}s"
    used = summary.used.gpu_hours
    attributed = used + summary.wasted.gpu_hours + summary.left_over.gpu_hours
    effective = (
        f" Effective utilization was {percent(used / attributed)}: what the busiest resource used."
        if attributed
        else ""
    )
    return f"Of the known time the {count} spent {_listed(parts)}.{effective}"


def _wasted(model: ReportModel) -> str:
    summary = model.summary
    wasted = summary.wasted
    wasted_causes = [row for row in model.causes if row.cause != Cause.HEADROOM]
    if not model.causes:
        return "How much of the GPUs was used is not known: their telemetry does not tell."
    cost = f", worth {money(wasted)}" if wasted.dollars_low is not None else ""
    causes = [
        f"{hours(row.wasted.gpu_hours)} {CAUSE_LABELS[Cause(row.cause)]}"
        for row in wasted_causes[:_MOST_CAUSES]
    ]
    why = f": {_listed(causes, has_more=len(wasted_causes) > _MOST_CAUSES)}" if causes else ""
    text = (
        f"{hours(wasted.gpu_hours)} of GPU time ({percent(wasted.gpu_hours / summary.known_hours)})"
        f" was wasted{cost}{why}{left_text(summary)}."
    )
    if (worst := next(iter(model.workloads), None)) is not None and worst.wasted.gpu_hours:
        text += f" The largest part was held by {worst.workload} ({hours(worst.wasted.gpu_hours)})."
    return text


def _to_do(model: ReportModel) -> str:
    if not model.advice:
        if not model.findings:
            return "No recommendation is open, and no rule has a finding over the span."
        finding_count = len(model.findings)
        summary = model.findings[0].summary
        if finding_count == 1:
            return f"No recommendation is open; there is 1 finding over the span. {summary}"
        return (
            f"No recommendation is open; there are {finding_count} findings over the span. "
            f"First: {summary}"
        )
    count = model.summary.open_advice
    pieces = "1 recommendation is" if count == 1 else f"{count} recommendations are"
    total = model.summary.savings
    saves = (
        f" and would save {saved_text(total)} together"
        if count > 1 and (total.dollars_per_month_high or total.gpus_high)
        else ""
    )
    first = model.advice[0]
    action = action_label(first.action, first.finding)
    who = first.workload or ", ".join(first.devices)
    what = f"{action[:1].lower()}{action[1:]} ({who}; {first.confidence_word})"
    return f"{pieces} open{saves}. First: {what}."


def _returned(model: ReportModel) -> Iterator[str]:
    saved = sum(row.realized_gpu_hours for row in model.rules)
    succeeded = sum(row.outcomes.get(AdviceState.SUCCEEDED, 0) for row in model.rules)
    failed = sum(row.outcomes.get(AdviceState.FAILED, 0) for row in model.rules)
    if not succeeded and not failed:
        return
    yield (
        f"Of the recommendations followed so far {succeeded} paid off and {failed} did not; "
        f"measured savings: {number_text(saved)} GPU-hours."
    )


def _listed(parts: Sequence[str], *, has_more: bool = False) -> str:
    if has_more:
        return f"{', '.join(parts)}, and more"
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def alternatives(rows: Sequence[AdviceRow]) -> Mapping[str, int]:
    """Return the place, from 1, of the recommendation that each alternative replaces, by id."""
    firsts: dict[str, int] = {}
    places = {
        row.id: (place, firsts.setdefault(row.exclusive_group or row.id, place))
        for place, row in enumerate(rows, 1)
    }
    return {name: first for name, (place, first) in places.items() if first != place}
