"""JSON documents of findings and recommendations; unknown values are null."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import asdict

from rightsizer.io.codec import plain_evidence
from rightsizer.model.values import (
    Action,
    Advice,
    AdviceState,
    Finding,
    FindingKind,
    Instruction,
    Option,
    Reason,
    Risk,
    Savings,
    Severity,
    optional_seconds,
    seconds,
)


class FindingDocument(msgspec.Struct, frozen=True):
    """Finding, with the keys shared by replay, advise, API and webhooks."""

    id: str
    rule: str
    finding: FindingKind
    reasons: tuple[Reason, ...]
    devices: tuple[str, ...]
    culprits: tuple[str, ...]
    workload: str | None
    action: Action
    summary: str
    options: tuple[Option, ...]
    confidence: float
    confidence_factors: Mapping[str, float]
    risk: Risk
    savings: Savings
    evidence: Mapping[str, Any]
    abstained: str | None
    severity: Severity
    instructions: tuple[Instruction, ...]
    exclusive_group: str | None


class LifecycleDocument(msgspec.Struct, frozen=True):
    """Lifecycle of a recommendation; times in seconds since the epoch."""

    state: AdviceState
    opened: float
    updated: float
    expires: float | None
    closed: float | None
    actor: str | None
    why: str
    verified: float | None
    realized_gpu_hours: float | None


class AdviceDocument(FindingDocument, frozen=True):
    """Recommendation: its finding, and its lifecycle."""

    state: AdviceState
    opened: float
    updated: float
    expires: float | None
    closed: float | None
    actor: str | None
    why: str
    verified: float | None
    realized_gpu_hours: float | None


def finding_document(finding: Finding) -> FindingDocument:
    """Return a finding with the keys shared by replay, advise, API and webhooks."""
    return FindingDocument(
        id=finding.id,
        rule=finding.rule,
        finding=finding.kind,
        reasons=finding.reasons,
        devices=finding.devices,
        culprits=finding.culprits,
        workload=finding.workload,
        action=finding.action,
        summary=finding.summary,
        options=finding.options,
        confidence=finding.confidence,
        confidence_factors=finding.confidence_factors,
        risk=finding.risk,
        savings=finding.savings,
        evidence=plain_evidence(finding.evidence),
        abstained=finding.abstained,
        severity=finding.severity,
        instructions=finding.instructions,
        exclusive_group=finding.exclusive_group,
    )


def advice_document(advice: Advice) -> AdviceDocument:
    """Return advice: its finding's keys and those of its lifecycle."""
    return AdviceDocument(
        **asdict(finding_document(advice.finding)), **asdict(lifecycle_document(advice))
    )


def lifecycle_document(advice: Advice) -> LifecycleDocument:
    """Return the lifecycle of advice."""
    return LifecycleDocument(
        state=advice.state,
        opened=seconds(advice.opened),
        updated=seconds(advice.updated),
        expires=optional_seconds(advice.expires),
        closed=optional_seconds(advice.closed),
        actor=advice.actor,
        why=advice.why,
        verified=optional_seconds(advice.verified),
        realized_gpu_hours=advice.realized_gpu_hours,
    )
