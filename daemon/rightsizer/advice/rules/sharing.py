"""Workloads that could share a GPU: in a MIG slice, beside another one, or in turns with it.

`overprovisioned` says that a GPU is too large and names smaller boards; how to share it is said
here. Only a slice keeps workloads of different namespaces apart.
"""

from typing import Final

from rightsizer.advice.board_status import is_shared, why_unmeasured, works_on_media
from rightsizer.advice.colocation import (
    ColocationSettings,
    WorkloadPair,
    is_movable,
    workload_pairs,
)
from rightsizer.advice.market import Market
from rightsizer.advice.risk import ranked
from rightsizer.advice.rules.rule import OpeningPolicy, Rule, sizing_opening_policy
from rightsizer.advice.sharing_options import shared_gpu, sharing_commands, slice_options
from rightsizer.advice.verdict import abstain, complain, find_nothing, names_of, sizing_factors
from rightsizer.model.finding import (
    Action,
    Case,
    Finding,
    FindingKind,
    Option,
    Reason,
    Risk,
    Savings,
)
from rightsizer.model.frozen import dataclass, field
from rightsizer.model.settings import setting
from rightsizer.model.units import format_duration
from rightsizer.model.workload import WorkloadClass

NAME: Final = "sharing"
_REASONS: Final = {
    Action.SHARE_MIG: Reason.SHARING_CANDIDATE_MIG,
    Action.SHARE_MPS: Reason.SHARING_CANDIDATE_MPS,
    Action.SHARE_TIMESLICE: Reason.SHARING_CANDIDATE_TIME_SLICE,
}
_ACCEPTABLE: Final = frozenset({Risk.VERY_LOW, Risk.LOW, Risk.MEDIUM})


@dataclass(frozen=True, slots=True)
class SharingSettings:
    """From when on a GPU is worth sharing."""

    on_ratio: float = setting(
        0.5,
        help="Part of the GPU that even the largest need, with its margin, leaves free.",
        within=(0.05, 1),
        source="half a GPU is what another workload can use",
    )
    minimum_known_seconds: float = setting(
        600.0,
        help="Active time under which the rule abstains.",
        source="docs/definitions.md, provisioning",
    )
    most_partners: int = setting(
        3, help="How many workloads of the node are named as partners.", within=(1, 20)
    )
    colocation: ColocationSettings = field(default_factory=ColocationSettings)
    conduct: OpeningPolicy = field(default_factory=sizing_opening_policy)


def judge(case: Case, settings: SharingSettings, market: Market) -> Finding:
    """Whether the only GPU of a workload has room for somebody else, and for whom."""
    early = _early(case, settings)
    if early is not None:
        return early
    free = case.provisioning[0].overprovisioned or 0.0
    factors = sizing_factors(case, abs(free - settings.on_ratio))
    evidence: dict[str, object] = {"free_ratio": round(free, 4)}
    if free < settings.on_ratio:
        summary = f"{names_of(case.devices)}: the largest need leaves {free:.0%} free."
        return find_nothing(NAME, case, summary, factors, evidence)
    found = workload_pairs(case, settings.colocation)
    options = _options(case, found, settings, market)
    evidence["partners"] = [_about(each) for each in found[: settings.most_partners]]
    if not options:
        summary = f"{names_of(case.devices)}: no slice fits, and nobody on this node goes with it."
        return find_nothing(NAME, case, summary, factors, evidence)
    return _complaint(case, options, factors, evidence, market)


def _early(case: Case, settings: SharingSettings) -> Finding | None:
    """What is said before anything is measured; `None` where that is nothing."""
    if len(case.devices) != 1 or case.workload is None or case.devices[0].mig is not None:
        return find_nothing(NAME, case, "Not a whole GPU held by a workload.")
    if is_shared(case):
        return find_nothing(NAME, case, f"{names_of(case.devices)}: shared already.")
    if case.workload.workload_class is WorkloadClass.UNKNOWN:
        why = "the workload's class is unknown; state it in a policy"
        return abstain(NAME, case, Reason.UNSUPPORTED_TELEMETRY, why)
    if not is_movable(case):
        kind = case.workload.workload_class
        return find_nothing(NAME, case, f"A {kind} workload keeps its GPU to itself.")
    (fit,) = case.provisioning
    if fit.active_seconds < settings.minimum_known_seconds:
        why = f"only {format_duration(fit.active_seconds)} of activity to size by"
        return abstain(NAME, case, Reason.INSUFFICIENT_DATA, why)
    if fit.is_underprovisioned:
        return find_nothing(NAME, case, "Under pressure, so it shares nothing.")
    if works_on_media(case):
        why = "it works on the media engines, and nobody knows how much of them it needs"
        return abstain(NAME, case, Reason.UNSUPPORTED_TELEMETRY, why)
    if fit.overprovisioned is None:
        return abstain(NAME, case, Reason.UNSUPPORTED_TELEMETRY, why_unmeasured(case))
    return None


def _options(
    case: Case, found: tuple[WorkloadPair, ...], settings: SharingSettings, market: Market
) -> tuple[Option, ...]:
    """Slices first where a stranger is all there is to share with; what hurts is left out."""
    near = [each for each in found if each.is_same_owner and each.risk in _ACCEPTABLE]
    options = (
        *shared_gpu(case, market, near[: settings.most_partners]),
        *(each for each in slice_options(case, market) if each.risk is not Risk.HIGH),
    )
    slowest = market.settings.tolerated_slowdown_ratio
    return ranked(each for each in options if (each.time_ratio or 1.0) <= slowest)


def _complaint(
    case: Case,
    options: tuple[Option, ...],
    factors: dict[str, float],
    evidence: dict[str, object],
    market: Market,
) -> Finding:
    best = options[0]
    actions = dict.fromkeys(each.action for each in options if each.action is not None)
    free = evidence["free_ratio"]
    name = case.workload.name if case.workload else ""
    return complain(
        NAME,
        case,
        kind=FindingKind.OVERPROVISIONED,
        reasons=tuple(_REASONS[action] for action in actions),
        action=best.action or Action.NONE,
        summary=(
            f"{names_of(case.devices)} of {name}: {free:.0%} of the GPU is free for somebody "
            f"else; best: {best.description}."
        ),
        factors=factors,
        risk=best.risk,
        evidence=evidence | {"isolation": _isolation(evidence)},
        options=options,
        target=best.target,
        savings=best.savings or Savings(reason="nobody has taken the rest of it yet"),
        minimum_confidence_ratio=market.settings.minimum_confidence_ratio,
        instructions=sharing_commands(case, best),
        affected_gpus=0.5,
    )


def _isolation(evidence: dict[str, object]) -> str:
    partners = evidence["partners"]
    strangers = [
        each
        for each in (partners if isinstance(partners, list) else [])
        if not each["is_same_namespace"]
    ]
    if strangers:
        return "partners of other namespaces would fit; only MIG slices keep those apart"
    return (
        "a fault of one workload may end the other under MPS and in turns, but not in a MIG slice"
    )


def _about(pairing: WorkloadPair) -> dict[str, object]:
    return {
        "workload": pairing.partner.key,
        "gpu": pairing.partner.devices[0].uuid,
        "memory_peak_ratio": round(pairing.memory_peak_ratio, 4),
        "overlap_ratio": round(pairing.overlap_ratio, 4),
        "five_minutes_compared": pairing.aligned_blocks,
        "risks": {name: str(risk) for name, risk in pairing.risks.items()},
        "is_same_namespace": pairing.is_same_owner,
    }


RULE: Final = Rule(NAME, SharingSettings(), judge)
