"""Rule: GPUs larger than any need seen, with smaller boards that suffice."""

from collections.abc import Iterator
from typing import Final

from rightsizer.advice.board_options import smaller_boards
from rightsizer.advice.board_status import (
    PREALLOCATED,
    UNMEASURED,
    is_shared,
    why_media_is_needed,
    why_unmeasured,
)
from rightsizer.advice.confidence import sizing_factors
from rightsizer.advice.rules.rule import OpeningPolicy, Rule, SizeRuleSettings
from rightsizer.advice.savings import UNPRICED
from rightsizer.advice.screen import ROUNDING, Screen, SubjectTable, too_little, unmeasured, well
from rightsizer.advice.sharing_options import slice_options
from rightsizer.advice.verdict import CaseSubject
from rightsizer.model.values import (
    GIB,
    Action,
    Device,
    Finding,
    FindingKind,
    Option,
    Provisioning,
    Reason,
    Resource,
    Risk,
    Savings,
    Tier,
    WorkloadClass,
    format_duration,
    percent_text,
)
from rightsizer.owners.registry import owner_of


def unknown_board(device: Device) -> str:
    """Reason why a device cannot be projected; empty if the catalogue lists its board."""
    if device.board is not None:
        return ""
    name = device.name or "the GPU"
    facts = ", ".join(_reported_facts(device))
    says = f" (its driver says: {facts})" if facts else ""
    return f"{name} is unknown to the catalogue{says}; describe it in catalogue.boards_file"


def _reported_facts(device: Device) -> Iterator[str]:
    if device.architecture is not None:
        yield device.architecture
    if device.memory_total_bytes is not None:
        yield f"{device.memory_total_bytes / GIB:.1f} GiB"
    if device.power_limit_watts is not None:
        yield f"{device.power_limit_watts:.0f} W"
    if "cores" in device.facts:
        yield f"{device.facts['cores']} cores"


_ONLY_LONGER: Final = "a batch job would only run longer on a smaller GPU"
NO_TARGET: Final = Savings(reason="no smaller option is known")
_RESIZABLE: Final = frozenset({WorkloadClass.SERVING, WorkloadClass.NOTEBOOK})


class OverprovisionedSettings(SizeRuleSettings, frozen=True):
    """Thresholds for GPUs that are too large.

    Attributes:
        on_ratio: Share of the GPU free at the highest need plus margin.
            Source: half a GPU is the coarsest step down that MIG or another board offers
    """

    conduct: OpeningPolicy = OpeningPolicy.sizing()


def judge(subject: CaseSubject, settings: OverprovisionedSettings) -> Finding:
    """Whether every GPU of the workload is larger than the workload ever needed."""
    case = subject.case
    fits = subject.case.provisioning
    active = min((provisioning.active_seconds for provisioning in fits), default=0.0)
    if active < settings.minimum_known_seconds:
        why = f"only {format_duration(active)} of activity to size by"
        return subject.abstain(why, Reason.INSUFFICIENT_DATA)
    if case.workload_class is WorkloadClass.BATCH:
        return subject.abstain(_ONLY_LONGER)
    needs = {
        device.uuid: {
            str(resource): round(part.need, 4)
            for resource, part in fit.resources.items()
            if part.need is not None
        }
        for device, fit in zip(case.devices, fits, strict=True)
    }
    evidence: dict[str, object] = {"need_ratio": needs}
    if any(provisioning.is_underprovisioned for provisioning in fits):
        return subject.find_nothing("Under pressure, so not too large.", {}, evidence)
    if is_shared(case):
        summary = f"{subject.name}: shared, so its size is not one workload's affair."
        return subject.find_nothing(summary, {}, evidence)
    if any(provisioning.overprovisioned is None for provisioning in fits):
        return subject.abstain(why_unmeasured(case))
    if (
        over := min(provisioning.overprovisioned or 0.0 for provisioning in fits)
    ) >= settings.on_ratio:
        if media := why_media_is_needed(case):
            return subject.abstain(media)
        return _too_large(subject, over, settings, evidence)
    if (least := min(map(_over_at_least, fits))) < settings.on_ratio:
        factors = sizing_factors(case, settings.on_ratio - over)
        summary = f"{subject.name}: the largest need leaves {percent_text(over)} free."
        return subject.find_nothing(summary, factors, evidence)
    return subject.find_problem(
        kind=FindingKind.INEFFICIENT,
        reasons=(Reason.GPU_OVERPROVISIONED,),
        action=Action.NONE,
        summary=(
            f"{subject.name}: the SMs are occupied, yet what they compute would "
            f"leave {percent_text(least)} of the GPU free."
        ),
        factors=sizing_factors(case, least - settings.on_ratio),
        risk=Risk.UNKNOWN,
        evidence=evidence | {"overprovisioned_at_most_ratio": least},
        savings=UNPRICED,
    )


def _too_large(
    subject: CaseSubject,
    over: float,
    settings: OverprovisionedSettings,
    evidence: dict[str, object],
) -> Finding:
    case = subject.case
    reasons = [Reason.GPU_OVERPROVISIONED]
    memory = [provisioning.resources.get(Resource.MEMORY) for provisioning in case.provisioning]
    memory_over = min((fit.overprovisioned or 0.0) if fit else 0.0 for fit in memory)
    if memory_over >= settings.on_ratio:
        reasons.append(Reason.GPU_MEMORY_OVERPROVISIONED)
    # Smaller boards only for classes that may be resized.
    is_resizable = case.workload_class in _RESIZABLE
    is_cut = any(device.mig for device in case.devices)
    smaller = slice_options if is_cut else smaller_boards
    options = smaller(case, subject.market) if is_resizable else ()
    options = tuple(option for option in options if not is_cut or option.risk is not Risk.HIGH)
    best = options[0] if options else Option("", Risk.UNKNOWN)
    owner = owner_of(case.workload.kind if case.workload else None)
    instructions = owner.request_slice(best.target) if is_cut and options else ()
    return subject.find_problem(
        reasons=tuple(reasons),
        action=best.action or Action.NONE,
        summary=(
            f"{subject.name}{subject.holder}: even the largest need, with its margin, "
            f"leaves {percent_text(over)} of the GPU free."
        ),
        factors=sizing_factors(case, over - settings.on_ratio),
        risk=best.risk,
        evidence=evidence
        | {"overprovisioned_ratio": over, "options": _about_options(subject, options)},
        options=options,
        target=best.target,
        savings=best.savings or NO_TARGET,
        instructions=instructions,
        affected_gpus=over * case.gpus,
    )


def _over_at_least(fit: Provisioning) -> float:
    needs = [
        part.need
        for resource, part in fit.resources.items()
        if part.need is not None and resource is not Resource.COMPUTE
    ]
    if fit.compute_need_at_least is None:
        return 0.0
    return max(0.0, 1.0 - max([fit.compute_need_at_least, *needs]))


def _about_options(subject: CaseSubject, options: tuple[Option, ...]) -> str:
    if options:
        return "alternatives: one of them, not several"
    case = subject.case
    if case.workload_class is WorkloadClass.UNKNOWN:
        return "none: the workload's class is unknown; state it in a policy"
    if unknown := next(filter(None, map(unknown_board, case.devices)), ""):
        return f"none: {unknown}"
    if any(window.tier is not Tier.PROFILING for window in case.windows):
        return "none: without profiling telemetry other boards cannot be projected"
    return "none: no other board fits for less; see the rules sharing and gpu_count"


def screen(table: SubjectTable, settings: OverprovisionedSettings) -> Screen:
    """Settle which subjects are not too large, or cannot be told to be."""
    yield too_little(table.active_seconds < settings.minimum_known_seconds)
    yield unmeasured(table.is_of(WorkloadClass.BATCH), _ONLY_LONGER)
    yield well(table.is_underprovisioned | table.is_shared)
    is_unknown = ~(table.overprovisioned >= 0.0)
    yield unmeasured(is_unknown & table.is_preallocated, PREALLOCATED)
    yield unmeasured(is_unknown, UNMEASURED)
    least = settings.on_ratio - ROUNDING
    yield well((table.overprovisioned < least) & (table.overprovisioned_at_most < least))


RULE: Final = Rule("overprovisioned", OverprovisionedSettings(), judge, screen)
