"""Blocks of an explanation: evidence, savings, options, instructions, thresholds, queries."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from rightsizer.model.values import (
    AdviceState,
    Instruction,
    Savings,
    format_duration,
    percent_text,
    utc_text,
)
from rightsizer.report.advice_document import FindingDocument, LifecycleDocument
from rightsizer.report.blocks import Block, Code, Items, KeyValues, section
from rightsizer.report.evidence_labels import evidence_labels, value_label
from rightsizer.report.explanation import (
    Explanation,
    JudgedWindow,
    Query,
    RuleThreshold,
    risks_text,
)
from rightsizer.report.labels import (
    action_label,
    dollars_label,
    first_names,
    interval_text,
    risk_word,
    saved_gpus_label,
)

_EXPIRED: Final = "over, superseded, or its workload is gone"
_SHOWN_APART: Final = ("window_seconds", "known_seconds", "coverage_ratio", "tier")
"""Evidence shown in the first line."""
_QUERIES: Final = "The same numbers from a Prometheus with this agent"


def explanation_blocks(explanation: Explanation) -> Iterator[Block]:
    """Yield the whole explanation."""
    advice = explanation.advice
    reasons = ", ".join(advice.reasons) or "nothing to complain of"
    ended = _ended(explanation.lifecycle)
    yield f"{advice.id} · {ended}{advice.finding} ({reasons}), severity {advice.severity}"
    yield advice.summary
    names = explanation.names
    where = ", ".join(names.get(uuid, uuid) for uuid in advice.devices)
    yield f"Where: {advice.workload or 'no known workload'} on {where}"
    yield f"Action: {action_label(advice.action, advice.finding)}"
    options = (f"{option.description}: {option.why}" for option in explanation.options)
    yield section("Evidence", *_window(explanation.window), KeyValues(_evidence(advice, names)))
    yield section("Savings", *_savings(advice.savings, len(advice.devices)))
    yield section("Options", Items(tuple(options), is_numbered=True))
    yield section("How to", *_instructions(advice.instructions))
    yield section("Confidence", explanation.confidence.product)
    yield section("Risk", _risk(advice))
    yield section("Thresholds", Items(tuple(map(_threshold, explanation.thresholds))))
    yield section("Lifecycle", *_lifecycle(explanation.lifecycle))
    yield section(_QUERIES, *_queries(explanation.queries, names))


def _threshold(threshold: RuleThreshold) -> str:
    value = threshold.value
    is_time = threshold.unit == "seconds" and isinstance(value, int | float)
    value_text = format_duration(value) if is_time else value_label("", value, {})
    end = f" Source: {threshold.source}." if threshold.source else ""
    return f"{threshold.setting}: {value_text}. {threshold.help}{end}"


def _risk(advice: FindingDocument) -> str:
    risk = risk_word(advice.risk)
    if not advice.options or not advice.options[0].risks:
        return f"{risk} (that the workload fails after the change)"
    return f"{risk} (of the first option: {risks_text(advice.options[0].risks)})"


def _window(window: JudgedWindow) -> Iterator[str]:
    if window.seconds is None:
        return
    span = ""
    if window.start is not None and window.end is not None:
        span = f"from {_when(window.start)} to {_when(window.end)}: "
    known_time = format_duration(window.known_seconds or 0.0)
    share = percent_text(window.coverage_ratio or 0.0)
    tier = ", ".join(sorted(set(window.tier or ())))
    lasted = format_duration(window.seconds)
    yield f"{span}{lasted}, of which {known_time} are known ({share}), {tier} tier"


def _evidence(advice: FindingDocument, names: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    evidence = {
        name: _of_only_device(value, advice.devices)
        for name, value in advice.evidence.items()
        if name not in _SHOWN_APART
    }
    return evidence_labels(evidence, names)


def _of_only_device(value: object, devices: Sequence[str]) -> object:
    """Return the value by device itself, if there is one device."""
    if isinstance(value, Mapping) and len(devices) == 1 and [*value] == [*devices]:
        return value[devices[0]]
    return value


def _savings(savings: Savings, gpus: int) -> Iterator[str]:
    if savings.reason:
        yield f"n/a ({savings.reason})"
    if savings.dollars_per_hour_low is not None:
        ends = savings.dollars_per_hour_low, savings.dollars_per_hour_high
        yield dollars_label(*ends, savings.dollars_per_hour_typical)
    if gpus_text := saved_gpus_label(savings, gpus):
        yield gpus_text
    hours = savings.gpu_hours_per_month_low, savings.gpu_hours_per_month_high
    energy = savings.kilowatt_hours_per_month_low, savings.kilowatt_hours_per_month_high
    for (low, high), unit in ((hours, "GPU-hours a month"), (energy, "kWh a month, at the GPUs")):
        if high:
            yield f"{interval_text(low or 0.0, high, '{:,.0f}'.format)} {unit}"
    if savings.price_source:
        date = f" of {savings.price_date}" if savings.price_date else ""
        sources = first_names(savings.price_source.split("; "), 1)
        yield f"prices{date}, not quotes, from: {sources}"


def _instructions(instructions: Sequence[Instruction]) -> Iterator[Block]:
    for instruction in instructions:
        yield f"{instruction.title}:"
        yield Code(instruction.text)


def _ended(lifecycle: LifecycleDocument | None) -> str:
    """Say at once that a recommendation is no longer open; empty for others."""
    if lifecycle is None or lifecycle.closed is None:
        return ""
    by = f" by {lifecycle.actor}" if lifecycle.actor else ""
    return f"no longer open: {lifecycle.state}{by} {_when(lifecycle.closed)} · "


def _lifecycle(lifecycle: LifecycleDocument | None) -> Iterator[str]:
    if lifecycle is None:
        yield "no advice: this is what the rule says now"
        return
    by = f" by {lifecycle.actor}" if lifecycle.actor else ""
    usual = _EXPIRED if lifecycle.state == AdviceState.EXPIRED else ""
    why = f": {lifecycle.why or usual}" if lifecycle.why or usual else ""
    yield f"{lifecycle.state}{by}{why}"
    for name in ("opened", "updated", "expires", "closed", "verified"):
        time = getattr(lifecycle, name)
        if time is not None:
            yield f"{name} {_when(time)}"
    if lifecycle.realized_gpu_hours is not None:
        yield f"saved {lifecycle.realized_gpu_hours:.1f} GPU-hours so far"


def _queries(queries: Sequence[Query], names: Mapping[str, str]) -> Iterator[Block]:
    for query in queries:
        subject = " ".join(filter(None, (query.resource, names.get(query.device, query.device))))
        yield f"{query.name}{f' of {subject}' if subject else ''} = {query.value:g}"
        yield Code(query.promql)


def _when(time: float) -> str:
    return utc_text(time, "%H:%M:%S")
