"""Rule: GPUs larger than anything that was ever asked of them, and the boards that would do."""

from collections.abc import Iterator
from typing import Final

from rightsizer.advice.board_options import smaller_boards
from rightsizer.advice.board_status import is_shared, why_unmeasured, works_on_media
from rightsizer.advice.market import Market
from rightsizer.advice.rules.rule import OpeningPolicy, Rule, sizing_opening_policy
from rightsizer.advice.verdict import (
    abstain,
    complain,
    find_nothing,
    holder_of,
    names_of,
    sizing_factors,
)
from rightsizer.model.device import Device
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
from rightsizer.model.state import Resource, Tier
from rightsizer.model.units import format_duration
from rightsizer.model.window import Provisioning
from rightsizer.model.workload import WorkloadClass

_GIB = 2.0**30


def unknown_board(device: Device) -> str:
    """Why nothing can be projected from a device; empty where the catalogue knows its board."""
    if device.board is not None:
        return ""
    name = device.name or "the GPU"
    told = ", ".join(_told(device))
    says = f" (its driver says: {told})" if told else ""
    return f"{name} is unknown to the catalogue{says}; describe it in catalogue.boards_file"


def _told(device: Device) -> Iterator[str]:
    if device.architecture is not None:
        yield device.architecture
    if device.memory_total_bytes is not None:
        yield f"{device.memory_total_bytes / _GIB:.1f} GiB"
    if device.power_limit_watts is not None:
        yield f"{device.power_limit_watts:.0f} W"
    if "cores" in device.facts:
        yield f"{device.facts['cores']} cores"


NAME: Final = "overprovisioned"
NO_TARGET: Final = Savings(reason="no smaller place is known to hold it")
_RESIZABLE: Final = frozenset({WorkloadClass.SERVING, WorkloadClass.NOTEBOOK})


@dataclass(frozen=True, slots=True)
class OverprovisionedSettings:
    """From when on a GPU is too large."""

    on_ratio: float = setting(
        0.5,
        help="Part of the GPU that even the largest need, with its margin, leaves free.",
        within=(0.05, 1),
        source="half a GPU is the coarsest step down that MIG or another board offers",
    )
    minimum_known_seconds: float = setting(
        600.0,
        help="Active time under which the rule abstains.",
        source="docs/definitions.md, provisioning",
    )
    conduct: OpeningPolicy = field(default_factory=sizing_opening_policy)


def judge(case: Case, settings: OverprovisionedSettings, market: Market) -> Finding:
    """Whether every GPU of the workload is too large for all that was asked of it."""
    active = min((each.active_seconds for each in case.provisioning), default=0.0)
    if active < settings.minimum_known_seconds:
        why = f"only {format_duration(active)} of activity to size by"
        return abstain(NAME, case, Reason.INSUFFICIENT_DATA, why)
    if case.workload_class is WorkloadClass.BATCH:
        why = "a batch job would only run longer on a smaller GPU"
        return abstain(NAME, case, Reason.UNSUPPORTED_TELEMETRY, why)
    if any(each.is_underprovisioned for each in case.provisioning):
        return find_nothing(NAME, case, "Under pressure, so not too large.", {}, _evidence(case))
    if is_shared(case):
        summary = f"{names_of(case.devices)}: shared, so its size is not one workload's affair."
        return find_nothing(NAME, case, summary, {}, _evidence(case))
    if works_on_media(case):
        why = "it works on the media engines, and nobody knows how much of them it needs"
        return abstain(NAME, case, Reason.UNSUPPORTED_TELEMETRY, why)
    if any(each.overprovisioned is None for each in case.provisioning):
        return abstain(NAME, case, Reason.UNSUPPORTED_TELEMETRY, why_unmeasured(case))
    over = min(each.overprovisioned or 0.0 for each in case.provisioning)
    if over >= settings.on_ratio:
        return _too_large(case, over, settings, market)
    least = min(_over_at_least(each) for each in case.provisioning)
    if least >= settings.on_ratio:
        return _inefficient(case, least, settings)
    factors = sizing_factors(case, settings.on_ratio - over)
    summary = f"{names_of(case.devices)}: the largest need leaves {over:.0%} free."
    return find_nothing(NAME, case, summary, factors, _evidence(case))


def _too_large(
    case: Case, over: float, settings: OverprovisionedSettings, market: Market
) -> Finding:
    memory = [each.resources.get(Resource.MEMORY) for each in case.provisioning]
    memory_over = min((fit.overprovisioned or 0.0) if fit else 0.0 for fit in memory)
    reasons = [Reason.GPU_OVERPROVISIONED]
    if memory_over >= settings.on_ratio:
        reasons.append(Reason.GPU_MEMORY_OVERPROVISIONED)
    options = _options(case, market)
    return complain(
        NAME,
        case,
        kind=FindingKind.OVERPROVISIONED,
        reasons=tuple(reasons),
        action=(options[0].action or Action.NONE) if options else Action.NONE,
        summary=(
            f"{names_of(case.devices)}{holder_of(case)}: even the largest need, with its margin, "
            f"leaves {over:.0%} of the GPU free."
        ),
        factors=sizing_factors(case, over - settings.on_ratio),
        risk=options[0].risk if options else Risk.UNKNOWN,
        evidence=_evidence(case)
        | {"overprovisioned_ratio": over, "options": _about_options(case, options)},
        options=options,
        target=options[0].target if options else "",
        savings=(options[0].savings or NO_TARGET) if options else NO_TARGET,
        minimum_confidence_ratio=market.settings.minimum_confidence_ratio,
        affected_gpus=over * case.gpus,
    )


def _inefficient(case: Case, least: float, settings: OverprovisionedSettings) -> Finding:
    return complain(
        NAME,
        case,
        kind=FindingKind.INEFFICIENT,
        reasons=(Reason.GPU_OVERPROVISIONED,),
        action=Action.NONE,
        summary=(
            f"{names_of(case.devices)}: the SMs are occupied, yet what they compute would "
            f"leave {least:.0%} of the GPU free."
        ),
        factors=sizing_factors(case, least - settings.on_ratio),
        risk=Risk.UNKNOWN,
        evidence=_evidence(case) | {"overprovisioned_at_most_ratio": least},
    )


def _options(case: Case, market: Market) -> tuple[Option, ...]:
    """Smaller boards, for a workload whose class allows another size."""
    return smaller_boards(case, market) if case.workload_class in _RESIZABLE else ()


def _over_at_least(fit: Provisioning) -> float:
    needs = [
        each.need
        for resource, each in fit.resources.items()
        if each.need is not None and resource is not Resource.COMPUTE
    ]
    if fit.compute_need_at_least is None:
        return 0.0
    return max(0.0, 1.0 - max([fit.compute_need_at_least, *needs]))


def _about_options(case: Case, options: tuple[Option, ...]) -> str:
    if options:
        return "alternatives: one of them, not several"
    if case.workload_class is WorkloadClass.UNKNOWN:
        return "none: the workload's class is unknown; state it in a policy"
    unknown = next(filter(None, map(unknown_board, case.devices)), "")
    if unknown:
        return f"none: {unknown}"
    if any(window.tier is not Tier.PROFILING for window in case.windows):
        return "none: without profiling telemetry other boards cannot be projected"
    return "none: no other board fits for less; see the rules sharing and gpu_count"


def _evidence(case: Case) -> dict[str, object]:
    return {
        "need_ratio": {
            device.uuid: {
                str(resource): round(each.need, 4)
                for resource, each in fit.resources.items()
                if each.need is not None
            }
            for device, fit in zip(case.devices, case.provisioning, strict=True)
        }
    }


RULE: Final = Rule(NAME, OverprovisionedSettings(), judge)
