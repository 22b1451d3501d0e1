"""Rule: workloads that could share a GPU: by a MIG slice, side by side, or in turns.

`overprovisioned` reports GPUs that are too large and names smaller boards; this rule proposes how
to share them. Only a slice isolates workloads of different namespaces.
"""

from typing import Annotated, Final

from rightsizer.advice.board_status import is_shared, why_media_is_needed, why_unmeasured
from rightsizer.advice.confidence import sizing_factors
from rightsizer.advice.risk import ranked
from rightsizer.advice.rules.rule import OpeningPolicy, Rule, SizeRuleSettings
from rightsizer.advice.screen import Screen, SubjectTable, too_little, unmeasured, well
from rightsizer.advice.sharing_options import (
    MOVABLE,
    ColocationSettings,
    WorkloadPair,
    is_movable,
    shared_option,
    sharing_commands,
    slice_options,
    workload_pairs,
)
from rightsizer.advice.verdict import CaseSubject
from rightsizer.model.values import (
    CONSTANT,
    Action,
    Finding,
    Option,
    Reason,
    Risk,
    Savings,
    Spec,
    WorkloadClass,
    format_duration,
    percent_text,
)

_REASONS: Final = {
    Action.SHARE_MIG: Reason.SHARING_CANDIDATE_MIG,
    Action.SHARE_MPS: Reason.SHARING_CANDIDATE_MPS,
    Action.SHARE_TIMESLICE: Reason.SHARING_CANDIDATE_TIME_SLICE,
}
_APART: Final = "partners of other namespaces would fit; only MIG slices keep those apart"
_TOGETHER: Final = (
    "a fault of one workload may end the other under MPS and in turns, but not in a MIG slice"
)
_ACCEPTABLE: Final = frozenset({Risk.VERY_LOW, Risk.LOW, Risk.MEDIUM})


class SharingSettings(SizeRuleSettings, frozen=True):
    """Thresholds for GPUs worth sharing.

    Attributes:
        on_ratio: Share of the GPU free at the highest need plus margin.
            Source: half a GPU is what another workload can use
        most_partners: Maximum partner workloads listed.
    """

    most_partners: Annotated[int, Spec(within=(1, 20))] = 3
    colocation: Annotated[ColocationSettings, CONSTANT] = ColocationSettings()
    conduct: OpeningPolicy = OpeningPolicy.sizing()


_UNKNOWN_CLASS: Final = "the workload's class is unknown; state it in a policy"


def judge(subject: CaseSubject, settings: SharingSettings) -> Finding:
    """Whether the only GPU of a workload has room for another workload, and for which."""
    if (early := _early(subject, settings)) is not None:
        return early
    case = subject.case
    free = case.provisioning[0].overprovisioned or 0.0
    factors = sizing_factors(case, abs(free - settings.on_ratio))
    evidence: dict[str, object] = {"free_ratio": round(free, 4)}
    if free < settings.on_ratio:
        summary = f"{subject.name}: the largest need leaves {percent_text(free)} free."
        return subject.find_nothing(summary, factors, evidence)
    near = workload_pairs(case, settings.colocation, are_same_owner=True)
    options = _options(subject, near, settings)
    if options or not subject.is_counted:
        others = workload_pairs(case, settings.colocation, are_same_owner=False)
        named = (*near, *others)[: settings.most_partners]
        evidence["partners"] = [_about(pair) for pair in named]
    if not options:
        summary = f"{subject.name}: no slice fits, and no workload on this node goes with it."
        return subject.find_nothing(summary, factors, evidence)
    best = options[0]
    actions = dict.fromkeys(option.action for option in options if option.action is not None)
    name = case.workload.name if case.workload else ""
    return subject.find_problem(
        reasons=tuple(_REASONS[action] for action in actions),
        action=best.action or Action.NONE,
        summary=(
            f"{subject.name} of {name}: {percent_text(round(free, 4))} of the GPU is free for "
            f"another workload; best for it: {best.description}."
        ),
        factors=factors,
        risk=best.risk,
        evidence=evidence
        | {"isolation": _TOGETHER if all(pair.is_same_owner for pair in named) else _APART},
        options=options,
        target=best.target,
        savings=best.savings or Savings(reason="no workload shares it yet"),
        instructions=sharing_commands(case, best),
        affected_gpus=0.5,
    )


def _early(subject: CaseSubject, settings: SharingSettings) -> Finding | None:
    case = subject.case
    workload = subject.case.workload
    if len(case.devices) != 1 or workload is None or case.devices[0].mig is not None:
        return subject.find_nothing("Not a whole GPU held by a workload.")
    if is_shared(case):
        return subject.find_nothing(f"{subject.name}: shared already.")
    if workload.workload_class is WorkloadClass.UNKNOWN:
        return subject.abstain(_UNKNOWN_CLASS)
    if not is_movable(case):
        kind = workload.workload_class
        return subject.find_nothing(f"A {kind} workload keeps its GPU to itself.")
    (fit,) = case.provisioning
    if fit.active_seconds < settings.minimum_known_seconds:
        why = f"only {format_duration(fit.active_seconds)} of activity to size by"
        return subject.abstain(why, Reason.INSUFFICIENT_DATA)
    if fit.is_underprovisioned:
        return subject.find_nothing("Under pressure, so it shares nothing.")
    if media := why_media_is_needed(case):
        return subject.abstain(media)
    return None if fit.overprovisioned is not None else subject.abstain(why_unmeasured(case))


def _options(
    subject: CaseSubject, pairs: tuple[WorkloadPair, ...], settings: SharingSettings
) -> tuple[Option, ...]:
    """Options to share, without high risks; `pairs` are of one owner."""
    case = subject.case
    market = subject.market
    near = [pair for pair in pairs if pair.risk in _ACCEPTABLE]
    options = (
        *(shared_option(case, market, pair) for pair in near[: settings.most_partners]),
        *(option for option in slice_options(case, market) if option.risk is not Risk.HIGH),
    )
    slowest = market.settings.tolerated_slowdown_ratio
    return ranked(option for option in options if (option.time_ratio or 1.0) <= slowest)


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


def screen(table: SubjectTable, settings: SharingSettings) -> Screen:
    """Settle which subjects cannot share, or cannot be told to."""
    yield well(~table.is_single | ~table.is_held | table.is_shared)
    yield unmeasured(table.is_of(WorkloadClass.UNKNOWN), _UNKNOWN_CLASS)
    yield well(~table.is_of(*MOVABLE))
    yield too_little(table.active_seconds < settings.minimum_known_seconds)
    yield well(table.is_underprovisioned)


RULE: Final = Rule("sharing", SharingSettings(), judge, screen)
