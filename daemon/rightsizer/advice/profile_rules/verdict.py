"""How a rule over profiles phrases its verdict: the three forms of a finding."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rightsizer.advice.beta import probability_above
from rightsizer.advice.confidence import confidence_of
from rightsizer.advice.profile_rules.gain import Gain
from rightsizer.advice.profile_rules.member import Member, key_of, source_of
from rightsizer.advice.severity import severity_of
from rightsizer.advice.verdict import finding_id
from rightsizer.domain.finding import (
    Action,
    Finding,
    FindingKind,
    Instruction,
    Reason,
    Risk,
    Savings,
)
from rightsizer.domain.profile import Profile

__all__ = ["Complaint", "Seen", "abstain", "complain", "factors_of", "find_nothing"]


@dataclass(frozen=True, slots=True)
class Seen:
    """What a verdict rests on, complaint or none."""

    summary: str
    factors: Mapping[str, float]
    evidence: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Complaint:
    """What a rule found."""

    seen: Seen
    reason: Reason
    action: Action
    gain: Gain
    description: str
    """Of what to do, in words."""
    culprits: tuple[str, ...]
    instructions: tuple[Instruction, ...]
    risk: Risk = Risk.LOW


def complain(rule: str, profiles: Sequence[Profile], complaint: Complaint) -> Finding:
    """A finding that asks for something."""
    gain, seen = complaint.gain, complaint.seen
    return replace(
        find_nothing(rule, profiles, seen),
        id=finding_id(source_of(profiles), complaint.reason, complaint.action, ""),
        finding=FindingKind.INEFFICIENT,
        reasons=(complaint.reason,),
        culprits=complaint.culprits,
        action=complaint.action,
        options=(gain.option(complaint.description, complaint.action, complaint.risk),),
        confidence=confidence_of(seen.factors),
        confidence_factors=_rounded(seen.factors),
        risk=complaint.risk,
        savings=Savings(reason="a profile tells time, not what it costs; see the options"),
        evidence={**seen.evidence, **gain.evidence},
        severity=severity_of(gain.high_ratio * len(complaint.culprits)),
        instructions=complaint.instructions,
    )


def find_nothing(rule: str, profiles: Sequence[Profile], seen: Seen) -> Finding:
    """A finding that the rule has nothing to complain of."""
    factors = {**seen.factors, "certainty": 1.0 - seen.factors.get("certainty", 1.0)}
    return Finding(
        id=finding_id(source_of(profiles), rule, Action.NONE, ""),
        rule=rule,
        finding=FindingKind.OPTIMIZED,
        reasons=(),
        devices=tuple(key_of(each, device) for each in profiles for device in each.devices),
        culprits=(),
        workload=source_of(profiles),
        action=Action.NONE,
        summary=seen.summary,
        options=(),
        confidence=confidence_of(factors),
        confidence_factors=_rounded(factors),
        risk=Risk.VERY_LOW,
        savings=Savings(reason="nothing to save"),
        evidence=seen.evidence,
    )


def abstain(rule: str, profiles: Sequence[Profile], reason: Reason, why: str) -> Finding:
    """A finding that the rule cannot say, and why."""
    return replace(
        find_nothing(rule, profiles, Seen(f"No verdict: {why}.", {}, {})),
        id=finding_id(source_of(profiles), rule, reason, ""),
        finding=FindingKind.UNKNOWN,
        reasons=(reason,),
        confidence=0.0,
        confidence_factors={},
        risk=Risk.UNKNOWN,
        savings=Savings(reason="no verdict"),
        abstained=why,
    )


def factors_of(member: Member, share: float, threshold: float) -> dict[str, float]:
    """How sure it is that a share of time passes a threshold, by as many steps as were seen."""
    samples = float(max(1, len(member.device.steps)))
    return {"certainty": probability_above(min(1.0, share), samples, threshold)}


def _rounded(factors: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, 3) for name, value in factors.items()}
