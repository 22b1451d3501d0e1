"""Verdict of a rule as a finding.

Complaint, nothing found, abstention; its stable id and severity.
"""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from rightsizer.advice.confidence import confidence_of
from rightsizer.advice.savings import LOW_CONFIDENCE
from rightsizer.model.device import Device
from rightsizer.model.finding import (
    Action,
    Case,
    Finding,
    FindingKind,
    Instruction,
    Option,
    Reason,
    Risk,
    Savings,
    Severity,
)
from rightsizer.model.units import format_duration, seconds

_LEAST_GPUS: Final = ((4.0, Severity.CRITICAL), (1.0, Severity.HIGH), (0.25, Severity.MEDIUM))
"""A quarter of a GPU, a GPU, half of a node of eight: the steps at which people act."""


def severity_of(affected_gpus: float) -> Severity:
    """The severity of what concerns so many GPUs' worth of time."""
    return next((found for least, found in _LEAST_GPUS if affected_gpus >= least), Severity.LOW)


_SCHEMA: Final = "1"
_ID_LENGTH: Final = 12
_MOST_HOSTS: Final = 3
"""Machines that are named; a longer list is no sentence."""
_NO_SAVINGS: Final = Savings(reason="no price and no projected size is known for this action")


@dataclass(frozen=True, slots=True)
class Complaint:
    """What a rule found."""

    kind: FindingKind
    reasons: tuple[Reason, ...]
    action: Action
    summary: str
    factors: Mapping[str, float]
    risk: Risk
    evidence: Mapping[str, object]
    culprits: tuple[str, ...] = ()
    options: tuple[Option, ...] = ()
    target: str = ""
    """The rounded target of the action, part of the id."""
    savings: Savings = _NO_SAVINGS
    minimum_confidence_ratio: float = 0.0
    """Confidence under which nothing is said of savings, those of the options included."""
    instructions: tuple[Instruction, ...] = ()
    severity: Severity | None = None
    """`None` for what the share of the GPUs that it is about makes of it."""
    affected_gpus: float = 0.0
    """GPUs' worth of time that is lost, or at stake."""


def complain(rule: str, case: Case, complaint: Complaint) -> Finding:
    """A finding that asks for something."""
    confidence = confidence_of(complaint.factors)
    is_sure = confidence >= complaint.minimum_confidence_ratio
    return Finding(
        id=finding_id(case.key, complaint.reasons[0], complaint.action, complaint.target),
        rule=rule,
        kind=complaint.kind,
        reasons=complaint.reasons,
        devices=_uuids(case),
        culprits=complaint.culprits,
        workload=_workload(case),
        action=complaint.action,
        summary=complaint.summary,
        options=complaint.options if is_sure else tuple(map(_unpriced, complaint.options)),
        confidence=confidence,
        confidence_factors={name: round(value, 3) for name, value in complaint.factors.items()},
        risk=complaint.risk,
        savings=complaint.savings if is_sure else LOW_CONFIDENCE,
        evidence=_span(case) | dict(complaint.evidence),
        severity=complaint.severity or severity_of(complaint.affected_gpus),
        instructions=complaint.instructions,
    )


def find_nothing(
    rule: str,
    case: Case,
    summary: str,
    factors: Mapping[str, float],
    evidence: Mapping[str, object],
) -> Finding:
    """A finding that the rule has nothing to complain of."""
    return Finding(
        id=finding_id(case.key, rule, Action.NONE, ""),
        rule=rule,
        kind=FindingKind.OPTIMIZED,
        reasons=(),
        devices=_uuids(case),
        culprits=(),
        workload=_workload(case),
        action=Action.NONE,
        summary=summary,
        options=(),
        confidence=confidence_of(factors),
        confidence_factors={name: round(value, 3) for name, value in factors.items()},
        risk=Risk.VERY_LOW,
        savings=Savings(reason="nothing to save"),
        evidence=_span(case) | dict(evidence),
    )


def abstain(rule: str, case: Case, reason: Reason, why: str) -> Finding:
    """A finding that the rule cannot say, and why."""
    return Finding(
        id=finding_id(case.key, rule, reason, ""),
        rule=rule,
        kind=FindingKind.UNKNOWN,
        reasons=(reason,),
        devices=_uuids(case),
        culprits=(),
        workload=_workload(case),
        action=Action.NONE,
        summary=f"No verdict: {why}.",
        options=(),
        confidence=0.0,
        confidence_factors={},
        risk=Risk.UNKNOWN,
        savings=Savings(reason="no verdict"),
        evidence=_span(case),
        abstained=why,
    )


def abstain_early(rule: str, case: Case, minimum_seconds: float) -> Finding | None:
    """An abstention where too little of the window is known, `None` where there is enough."""
    known = known_seconds(case)
    if known >= minimum_seconds:
        return None
    why = f"only {format_duration(known)} of telemetry"
    return abstain(rule, case, Reason.INSUFFICIENT_DATA, why)


def known_seconds(case: Case) -> float:
    """The known time of the device that least is known of."""
    return min((window.known_seconds for window in case.windows), default=0.0)


def finding_id(key: str, reason: str, action: str, target: str) -> str:
    """Twelve characters that stay the same as long as the same is said of the same workload."""
    text = f"{_SCHEMA}|{key}|{reason}|{action}|{target}"
    digest = hashlib.sha256(text.encode()).digest()
    return base64.b32encode(digest).decode().lower()[:_ID_LENGTH]


def names_of(devices: Sequence[Device]) -> str:
    """Devices for a person: `GPU 3`, `GPUs 0, 1 and 2`, `MIG instance 1g.10gb on GPU 4`.

    With their machines where these are known: `GPUs 0 and 1 on node-7 and GPU 3 on node-8`.
    """
    by_host: dict[str, list[Device]] = {}
    for device in devices:
        by_host.setdefault(device.host, []).append(device)
    if len(by_host) > _MOST_HOSTS:
        named = list(by_host)[:_MOST_HOSTS]
        more = len(by_host) - _MOST_HOSTS
        return f"{len(devices)} GPUs on {', '.join(named)} and {more} more nodes"
    return _listed([_on_host(host, found) for host, found in by_host.items()])


def _on_host(host: str, devices: Sequence[Device]) -> str:
    where = f" on {host}" if host else ""
    if len(devices) == 1:
        (device,) = devices
        kind = f"MIG instance {device.mig.profile} on GPU" if device.mig else "GPU"
        return f"{kind} {device.index}{where}"
    return f"GPUs {_listed([str(device.index) for device in devices])}{where}"


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _unpriced(option: Option) -> Option:
    return replace(option, savings=LOW_CONFIDENCE if option.savings else None)


def _uuids(case: Case) -> tuple[str, ...]:
    return tuple(device.uuid for device in case.devices)


def _workload(case: Case) -> str | None:
    return None if case.workload is None else case.workload.key


def _span(case: Case) -> dict[str, object]:
    windows = case.windows
    return {
        "window_seconds": max((seconds(w.end - w.start) for w in windows), default=0.0),
        "known_seconds": known_seconds(case),
        "coverage_ratio": round(min((w.coverage_ratio for w in windows), default=0.0), 4),
        "tier": [str(window.tier) for window in windows],
    }
