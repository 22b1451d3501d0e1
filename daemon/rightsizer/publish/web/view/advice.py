"""Advice for a reader: what, why, how sure, what to do, since when."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rightsizer.domain.advice import Advice
from rightsizer.domain.finding import Action, Finding, Risk, Savings
from rightsizer.domain.units import Nanoseconds
from rightsizer.publish.web.view.words import Moment, moment, percent, severity, spoken

__all__ = ["AdviceView", "advice_view"]

_SEVERITY_NAMES: Final = {
    "headroom": "headroom to free",
    "tight": "works below what it could",
    "act": "needs action",
    "none": "for information",
}
_ACTIONS: Final = {
    Action.RELEASE: "Release the GPU",
    Action.SCALE_TO_ZERO: "Scale to zero when unused",
    Action.AUTOSCALE: "Scale with the load",
    Action.REDUCE_REPLICAS: "Run fewer replicas",
    Action.REDUCE_GPU_COUNT: "Use fewer GPUs",
    Action.SHARE_MIG: "Share the GPU by MIG",
    Action.SHARE_MPS: "Share the GPU by MPS",
    Action.SHARE_TIMESLICE: "Share the GPU by time slices",
    Action.CHANGE_GPU_TYPE: "Change the type of GPU",
    Action.REBIND_NUMA: "Bind to the GPU's own NUMA node",
    Action.RESEAT_OR_DRAIN: "Drain the node and reseat the GPU",
    Action.FIX_INPUT_PIPELINE: "Mend the input pipeline",
    Action.FIX_CHECKPOINTING: "Make checkpoints cheaper",
    Action.RAISE_BATCH: "Raise the batch size",
    Action.ENABLE_CUDA_GRAPHS: "Use CUDA graphs",
    Action.ENABLE_MIXED_PRECISION: "Use mixed precision",
    Action.INVESTIGATE_STRAGGLER: "Find the rank that the others wait for",
    Action.NONE: "Nothing to do",
}
_WORD_START: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class Fact:
    """A name and what it is worth."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class AdviceView:
    """What the template shows of a piece of advice."""

    id: str
    severity: str
    severity_name: str
    finding: str
    reason: str
    reason_code: str
    summary: str
    workload: str
    devices: str
    culprits: str
    action: str
    action_code: str
    confidence: str
    confidence_ratio: float
    factors: tuple[Fact, ...]
    risk: str
    savings: str
    evidence: tuple[Fact, ...]
    state: str
    actor: str
    opened: Moment
    expires: Moment | None


def _culprits(finding: Finding, names: Mapping[str, str]) -> str:
    """Who the trouble comes from, where that is not simply everybody."""
    is_all = set(finding.culprits) == set(finding.devices)
    return "" if is_all else _listed(finding.culprits, names)


def advice_view(advice: Advice, names: Mapping[str, str], now: Nanoseconds) -> AdviceView:
    """A piece of advice in words.

    Args:
        advice: The piece.
        names: What devices are called on the page, by uuid.
        now: The report's time, for ages.
    """
    finding = advice.finding
    color = severity(finding.finding)
    return AdviceView(
        id=finding.id,
        severity=color,
        severity_name=_SEVERITY_NAMES[color],
        finding=spoken(finding.finding),
        reason=_reason_words(finding),
        reason_code=", ".join(finding.reasons),
        summary=finding.summary,
        workload=finding.workload or "no known owner",
        devices=_listed(finding.devices, names),
        culprits=_culprits(finding, names),
        action=_ACTIONS.get(finding.action, spoken(finding.action)),
        action_code=finding.action,
        confidence=percent(finding.confidence),
        confidence_ratio=finding.confidence,
        factors=tuple(
            Fact(spoken(name), f"{value:.2f}") for name, value in finding.confidence_factors.items()
        ),
        risk="not known" if finding.risk is Risk.UNKNOWN else _split(finding.risk).lower(),
        savings=_savings_words(finding.savings),
        evidence=tuple(
            Fact(spoken(_without_unit(name)), _value(name, value))
            for name, value in finding.evidence.items()
        ),
        state=advice.state,
        actor=advice.actor or "",
        opened=moment(advice.opened, now),
        expires=moment(advice.expires, now) if advice.expires is not None else None,
    )


def _reason_words(finding: Finding) -> str:
    words = [_split(reason) for reason in finding.reasons] or [spoken(finding.finding)]
    return ", ".join(word[:1] + word[1:].lower() for word in words).replace("Gpu", "GPU")


def _split(name: str) -> str:
    return _WORD_START.sub(" ", name)


def _listed(uuids: Sequence[str], names: Mapping[str, str]) -> str:
    return ", ".join(names.get(uuid, uuid) for uuid in uuids)


def _savings_words(savings: Savings) -> str:
    parts = []
    if savings.gpus_low is not None:
        parts.append(f"{_interval(savings.gpus_low, savings.gpus_high, '{:g}')} GPU")
    if savings.dollars_per_hour_low is not None:
        low, high = savings.dollars_per_hour_low, savings.dollars_per_hour_high
        parts.append(f"${_interval(low, high, '{:.2f}')} an hour")
    return ", ".join(parts) or (f"no figure: {savings.reason}" if savings.reason else "no figure")


def _interval(low: float, high: float | None, form: str) -> str:
    if high is None or high == low:
        return form.format(low)
    return f"{form.format(low)} to {form.format(high)}"


def _without_unit(name: str) -> str:
    return name.removesuffix("_ratio")


def _value(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return percent(float(value)) if name.endswith("_ratio") else f"{value:,.4g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_value(str(key), inside)}" for key, inside in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(_value("", inside) for inside in value)
    return str(value)
