"""Advice for a reader: what, why, how sure, what to do, since when, and what came of it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rightsizer.domain.advice import Advice, AdviceState
from rightsizer.domain.finding import Action, Finding, Instruction, Risk
from rightsizer.domain.units import Nanoseconds, format_duration
from rightsizer.publish.web.view.evidence import Fact, facts_of
from rightsizer.publish.web.view.money import savings_notes, savings_words
from rightsizer.publish.web.view.option import OptionView, option_view, risk_words
from rightsizer.publish.web.view.words import SEVERITY_COLORS, Moment, moment, percent, spoken

__all__ = ["AdviceView", "advice_view"]

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
    Action.SET_POWER_LIMIT: "Set a power limit",
    Action.MOVE_GPUS: "Move to GPUs that are nearer to one another",
    Action.NONE: "Nothing to do",
}
_WORD_START: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class AdviceView:
    """What the template shows of a piece of advice."""

    id: str
    severity: str
    """Its color: `act`, `tight` or `headroom`."""
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
    savings_notes: str
    options: tuple[OptionView, ...]
    instructions: tuple[Instruction, ...]
    evidence: tuple[Fact, ...]
    state: str
    is_active: bool
    actor: str
    opened: Moment
    expires: Moment | None
    outcome: str
    """What came of it, or why somebody did what he did with it; empty where nobody says."""
    is_good: bool
    closed: Moment | None
    is_exclusive: bool
    """Others are open of which only one can be followed."""


def advice_view(
    advice: Advice,
    names: Mapping[str, str],
    now: Nanoseconds,
    exclusive_groups: frozenset[str] = frozenset(),
) -> AdviceView:
    """A piece of advice in words.

    Args:
        advice: The piece.
        names: What devices are called on the page, by uuid.
        now: The report's time, for ages.
        exclusive_groups: Those that several open pieces share.
    """
    finding = advice.finding
    return AdviceView(
        id=finding.id,
        severity=SEVERITY_COLORS[finding.severity],
        severity_name=spoken(finding.severity),
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
        risk="not known" if finding.risk is Risk.UNKNOWN else risk_words(finding.risk),
        savings=savings_words(finding.savings),
        savings_notes=savings_notes(finding.savings),
        options=tuple(option_view(option) for option in finding.options),
        instructions=finding.instructions,
        evidence=facts_of(finding.evidence, names),
        state=advice.state,
        is_active=advice.state is AdviceState.ACTIVE,
        actor=advice.actor or "",
        opened=moment(advice.opened, now),
        expires=moment(advice.expires, now) if advice.expires is not None else None,
        outcome=_outcome(advice),
        is_good=advice.state is AdviceState.SUCCEEDED,
        closed=moment(advice.closed, now) if advice.closed is not None else None,
        is_exclusive=finding.exclusive_group in exclusive_groups,
    )


def _outcome(advice: Advice) -> str:
    parts = [advice.why.rstrip(".")] if advice.why else []
    if advice.realized_gpu_hours is not None:
        saved = format_duration(max(0.0, advice.realized_gpu_hours) * 3600.0)
        parts.append(f"{saved} of GPU time saved while before and after were compared")
    return "; ".join(parts)


def _culprits(finding: Finding, names: Mapping[str, str]) -> str:
    """Who the trouble comes from, where that is not simply everybody."""
    is_all = set(finding.culprits) == set(finding.devices)
    return "" if is_all else _listed(finding.culprits, names)


def _reason_words(finding: Finding) -> str:
    words = [_WORD_START.sub(" ", reason) for reason in finding.reasons]
    told = ", ".join(word[:1] + word[1:].lower() for word in words or [spoken(finding.finding)])
    for plain, known in _NAMES.items():
        told = re.sub(rf"\b{plain}\b", known, told)
    return told


_NAMES: Final = {
    "Gpu": "GPU",
    "Numa": "NUMA",
    "numa": "NUMA",
    "Nvlink": "NVLink",
    "Pcie": "PCIe",
    "mig": "MIG",
    "mps": "MPS",
}


def _listed(uuids: Sequence[str], names: Mapping[str, str]) -> str:
    return ", ".join(names.get(uuid, uuid) for uuid in uuids)
