"""Rule: GPUs with well-used compute but far too much memory.

Applies to batch jobs too, since a board that is no slower costs them nothing.
"""

from typing import Annotated, Final

from rightsizer.advice.board_options import lighter_boards
from rightsizer.advice.board_status import PREALLOCATED, UNMEASURED, is_shared
from rightsizer.advice.confidence import sizing_factors
from rightsizer.advice.rules.rule import OpeningPolicy, Rule, SizeRuleSettings
from rightsizer.advice.screen import ROUNDING, Screen, SubjectTable, too_little, unmeasured, well
from rightsizer.advice.verdict import CaseSubject
from rightsizer.model.values import (
    CONSTANT,
    Action,
    Finding,
    Reason,
    Resource,
    Savings,
    Spec,
    WorkloadClass,
    format_duration,
    percent_text,
)

_NO_SAVINGS: Final = Savings(reason="no price of the other board is known")


class MemoryOverprovisionedSettings(SizeRuleSettings, frozen=True):
    """Thresholds for boards with too much memory.

    Attributes:
        on_ratio: Share of the memory free at the highest need plus margin.
            Source: boards of one speed differ by half of their memory and more
        unused_ratio: Free share of the GPU from which more than its memory is too large; not for
            batch jobs.
            Source: the threshold of the rule overprovisioned
        slowest_ratio: Maximum run time on a board with less memory, relative to the present one.
            Source: a starting point: below the error of a projection
    """

    unused_ratio: Annotated[float, Spec(within=(0.05, 1))] = 0.5
    slowest_ratio: Annotated[float, Spec(within=(1, 2)), CONSTANT] = 1.1
    conduct: OpeningPolicy = OpeningPolicy.sizing()


_UNKNOWN_CLASS: Final = "the workload's class is unknown; state it in a policy"


def judge(subject: CaseSubject, settings: MemoryOverprovisionedSettings) -> Finding:
    """Whether a board with less memory, and no slower, would suffice for every GPU."""
    if (early := _early(subject, settings)) is not None:
        return early
    case = subject.case
    fits = subject.case.provisioning
    needs = {
        device.uuid: fit.resources[Resource.MEMORY].need
        for device, fit in zip(case.devices, fits, strict=True)
        if Resource.MEMORY in fit.resources
    }
    known_needs = [need for need in needs.values() if need is not None]
    if len(known_needs) < len(fits) or any(
        provisioning.overprovisioned is None for provisioning in fits
    ):
        return subject.abstain(UNMEASURED)
    free = 1.0 - max(known_needs)
    factors = sizing_factors(case, abs(free - settings.on_ratio))
    evidence: dict[str, object] = {
        "memory_need_ratio": {uuid: round(need or 0.0, 4) for uuid, need in needs.items()},
        "threshold_ratio": settings.on_ratio,
    }
    summary = f"{subject.name}: the largest need leaves {percent_text(free)} of the memory free"
    if free < settings.on_ratio:
        return subject.find_nothing(f"{summary}.", factors, evidence)
    unused = min(provisioning.overprovisioned or 0.0 for provisioning in fits)
    if case.workload_class is not WorkloadClass.BATCH and unused >= settings.unused_ratio:
        what = f"{summary}, and as much of the rest: see overprovisioned."
        return subject.find_nothing(what, {}, evidence)
    if not (options := lighter_boards(case, subject.market, settings.slowest_ratio)):
        what = f"{summary}; no cheaper board with less is as fast."
        return subject.find_nothing(what, factors, evidence)
    best = options[0]
    return subject.find_problem(
        reasons=(Reason.GPU_MEMORY_OVERPROVISIONED,),
        action=Action.CHANGE_GPU_TYPE,
        summary=f"{summary}; {best.description} has less of it and is as fast.",
        factors=factors,
        risk=best.risk,
        evidence=evidence,
        options=options,
        target=best.target,
        savings=best.savings or _NO_SAVINGS,
    )


def _early(subject: CaseSubject, settings: MemoryOverprovisionedSettings) -> Finding | None:
    case = subject.case
    fits = subject.case.provisioning
    active = min((provisioning.active_seconds for provisioning in fits), default=0.0)
    if active < settings.minimum_known_seconds:
        why = f"only {format_duration(active)} of activity to size by"
        return subject.abstain(why, Reason.INSUFFICIENT_DATA)
    if any(provisioning.is_underprovisioned for provisioning in fits):
        return subject.find_nothing("Under pressure, so not too large.")
    if is_shared(case):
        return subject.find_nothing(
            f"{subject.name}: shared, so its size is not one workload's affair."
        )
    if case.workload_class is WorkloadClass.UNKNOWN:
        return subject.abstain(_UNKNOWN_CLASS)
    if any(provisioning.memory_is_preallocated for provisioning in fits):
        return subject.abstain(PREALLOCATED)
    return None


def screen(table: SubjectTable, settings: MemoryOverprovisionedSettings) -> Screen:
    """Settle which subjects need their memory, or cannot be told to."""
    yield too_little(table.active_seconds < settings.minimum_known_seconds)
    yield well(table.is_underprovisioned | table.is_shared)
    yield unmeasured(table.is_of(WorkloadClass.UNKNOWN), _UNKNOWN_CLASS)
    yield unmeasured(table.is_preallocated, PREALLOCATED)
    need = table.need(Resource.MEMORY)
    is_unknown = ~((need >= 0.0) & (table.overprovisioned >= 0.0))
    yield unmeasured(is_unknown, UNMEASURED)
    yield well(1.0 - need < settings.on_ratio - ROUNDING)


RULE: Final = Rule("memory_overprovisioned", MemoryOverprovisionedSettings(), judge, screen)
