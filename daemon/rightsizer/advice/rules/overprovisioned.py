"""GPUs that are larger than anything that was ever asked of them.

Never said while any resource is under pressure, never of a batch job (it would only run
longer), never before the history covers the load's cycle (docs/definitions.md, conduct).
"""

from dataclasses import dataclass, field
from typing import Final

from rightsizer.advice.confidence import sizing_factors
from rightsizer.advice.risk import risk_of
from rightsizer.advice.rules.rule import Conduct, Rule
from rightsizer.advice.verdict import Complaint, abstain, complain, find_nothing, names_of
from rightsizer.catalogue.catalogue import Catalogue, built_in
from rightsizer.domain.finding import Action, Case, Finding, FindingKind, Option, Reason, Risk
from rightsizer.domain.settings import setting
from rightsizer.domain.state import Resource
from rightsizer.domain.units import format_duration
from rightsizer.domain.window import Provisioning
from rightsizer.domain.workload import Workload, WorkloadClass
from rightsizer.sizing.slices import Need, fitting_slices

__all__ = ["RULE", "OverprovisionedSettings"]

NAME: Final = "overprovisioned"


@dataclass(frozen=True, slots=True)
class OverprovisionedSettings:
    """From when on a GPU is too large."""

    on_ratio: float = setting(
        0.5,
        help="Part of the GPU that even the largest need, with its margin, leaves free.",
        unit="ratio",
        minimum=0.05,
        maximum=1,
        source="half a GPU is the coarsest step down that MIG or another board offers",
    )
    minimum_known_seconds: float = setting(
        600.0,
        help="Active time under which the rule abstains.",
        unit="seconds",
        minimum=0,
        source="docs/definitions.md, provisioning",
    )
    conduct: Conduct = field(
        default_factory=lambda: Conduct(
            long_seconds=14 * 86400.0,
            short_seconds=3 * 86400.0,
            minimum_known_seconds=7 * 86400.0,
            close_after_seconds=86400.0,
        )
    )


def judge(case: Case, settings: OverprovisionedSettings) -> Finding:
    """Whether every GPU of the workload is too large for all that was asked of it."""
    active = min((each.active_seconds for each in case.provisioning), default=0.0)
    if active < settings.minimum_known_seconds:
        why = f"only {format_duration(active)} of activity to size by"
        return abstain(NAME, case, Reason.INSUFFICIENT_DATA, why)
    workload_class = case.workload.workload_class if case.workload else WorkloadClass.UNKNOWN
    if workload_class is WorkloadClass.BATCH:
        why = "a batch job would only run longer on a smaller GPU"
        return abstain(NAME, case, Reason.UNSUPPORTED_TELEMETRY, why)
    if any(each.is_underprovisioned for each in case.provisioning):
        return find_nothing(NAME, case, "Under pressure, so not too large.", {}, _evidence(case))
    if any(each.overprovisioned is None for each in case.provisioning):
        return abstain(NAME, case, Reason.UNSUPPORTED_TELEMETRY, _why_unknown(case))
    over = min(each.overprovisioned or 0.0 for each in case.provisioning)
    if over >= settings.on_ratio:
        return _too_large(case, over, settings)
    least = min(_over_at_least(each) for each in case.provisioning)
    if least >= settings.on_ratio:
        return _inefficient(case, least, settings)
    factors = sizing_factors(case, settings.on_ratio - over)
    summary = f"{names_of(case.devices)}: the largest need leaves {over:.0%} free."
    return find_nothing(NAME, case, summary, factors, _evidence(case))


def conduct(_: Workload | None, settings: OverprovisionedSettings) -> Conduct:
    """The same for every class."""
    return settings.conduct


def _too_large(case: Case, over: float, settings: OverprovisionedSettings) -> Finding:
    memory = [each.resources.get(Resource.MEMORY) for each in case.provisioning]
    memory_over = min((fit.overprovisioned or 0.0) if fit else 0.0 for fit in memory)
    reasons = [Reason.GPU_OVERPROVISIONED]
    if memory_over >= settings.on_ratio:
        reasons.append(Reason.GPU_MEMORY_OVERPROVISIONED)
    options = _options(case, built_in())
    holder = f" of {case.workload.name}" if case.workload else ""
    return complain(
        NAME,
        case,
        Complaint(
            finding=FindingKind.OVERPROVISIONED,
            reasons=tuple(reasons),
            action=Action.SHARE_MIG if options else Action.NONE,
            summary=(
                f"{names_of(case.devices)}{holder}: even the largest need, with its margin, "
                f"leaves {over:.0%} of the GPU free."
            ),
            factors=sizing_factors(case, over - settings.on_ratio),
            risk=options[0].risk if options else Risk.UNKNOWN,
            evidence=_evidence(case)
            | {"overprovisioned_ratio": over, "options": _about_options(case, options)},
            options=options,
            target=options[0].target if options else "",
        ),
    )


def _inefficient(case: Case, least: float, settings: OverprovisionedSettings) -> Finding:
    return complain(
        NAME,
        case,
        Complaint(
            finding=FindingKind.INEFFICIENT,
            reasons=(Reason.GPU_OVERPROVISIONED,),
            action=Action.NONE,
            summary=(
                f"{names_of(case.devices)}: the SMs are occupied, yet what they compute would "
                f"leave {least:.0%} of the GPU free."
            ),
            factors=sizing_factors(case, least - settings.on_ratio),
            risk=Risk.UNKNOWN,
            evidence=_evidence(case) | {"overprovisioned_at_most_ratio": least},
        ),
    )


def _options(case: Case, catalogue: Catalogue) -> tuple[Option, ...]:
    """MIG slices for a single GPU whose class allows another size."""
    if case.workload is None or len(case.devices) != 1:
        return ()
    if case.workload.workload_class not in (WorkloadClass.SERVING, WorkloadClass.NOTEBOOK):
        return ()
    (device,), (fit,) = case.devices, case.provisioning
    board = catalogue.boards.get(device.board or "")
    if board is None or device.mig is not None:
        return ()
    needs = {resource: each.need or 0.0 for resource, each in fit.resources.items()}
    need = Need(
        compute_ratio=needs.get(Resource.COMPUTE, 1.0),
        memory_ratio=needs.get(Resource.MEMORY, 1.0),
        memory_bandwidth_ratio=needs.get(Resource.MEMORY_BANDWIDTH, 0.0),
        uses_nvlink=needs.get(Resource.NVLINK, 0.0) > 0.01,  # noqa: PLR2004 - a bin of noise.
    )
    return tuple(
        Option(
            description=(
                f"MIG slice {profile.name}: {profile.compute_share:.0%} of the compute and "
                f"{profile.memory_share:.0%} of the memory"
            ),
            risk=_slice_risk(case, profile.compute_share, profile.memory_share),
            target=profile.name,
        )
        for profile in fitting_slices(board, need)
    )


def _slice_risk(case: Case, compute_share: float, memory_share: float) -> Risk:
    """By the share of active time whose demand exceeds the slice (docs/definitions.md, conduct)."""
    (window,) = case.windows
    exceeding = 0.0
    for resource, capacity in (
        (Resource.COMPUTE, compute_share),
        (Resource.MEMORY, memory_share),
        (Resource.MEMORY_BANDWIDTH, memory_share),
    ):
        histogram = window.demands.get(resource)
        if histogram is not None and histogram.total > 0:
            exceeding = max(exceeding, 1.0 - histogram.at_most(capacity) / histogram.total)
    return risk_of(exceeding, window.known_seconds).risk


def _over_at_least(fit: Provisioning) -> float:
    needs = [
        each.need
        for resource, each in fit.resources.items()
        if each.need is not None and resource is not Resource.COMPUTE
    ]
    if fit.compute_need_at_least is None:
        return 0.0
    return max(0.0, 1.0 - max([fit.compute_need_at_least, *needs]))


def _why_unknown(case: Case) -> str:
    if any(each.memory_is_preallocated for each in case.provisioning):
        return "memory looks preallocated, so the memory needed is not known"
    return "compute or memory use is not measured"


def _about_options(case: Case, options: tuple[Option, ...]) -> str:
    if options:
        return "MIG slices of this board; other boards need a projection"
    if len(case.devices) > 1:
        return "none: the workload holds several GPUs; fewer or other ones need a projection"
    if case.workload is None or case.workload.workload_class is WorkloadClass.UNKNOWN:
        return "none: the workload's class is unknown; state it in a policy"
    return "none: no MIG slice of this board fits"


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


RULE: Final = Rule(NAME, OverprovisionedSettings(), judge, conduct)
