"""Rule: GPUs that are too small: at a limit while the application waits.

A saturated GPU is well used; only the application's own pressure (queue, cache, latency) makes it
too small. Shortages of memory that is not a serving engine's cache belong to `near_out_of_memory`.
"""

import math
from typing import Annotated, Final

from rightsizer.advice.board_options import faster_boards
from rightsizer.advice.confidence import direct_factors, opposite_factors
from rightsizer.advice.market import Market
from rightsizer.advice.rules.rule import OpeningPolicy, Rule, RuleSettings
from rightsizer.advice.savings import TOO_SMALL
from rightsizer.advice.screen import Screen, SubjectTable, too_little, unmeasured, well
from rightsizer.advice.verdict import CaseSubject, names_of
from rightsizer.model.values import (
    CONSTANT,
    Action,
    Case,
    Finding,
    Option,
    Reason,
    Resource,
    Risk,
    Spec,
    WorkloadClass,
    percent_text,
)
from rightsizer.owners.registry import owner_of


class UnderprovisionedSettings(RuleSettings, frozen=True):
    """Thresholds for services short of GPU.

    Attributes:
        on_ratio: Share of time short of a resource other than memory.
            Source: docs/definitions.md, provisioning: under-provisioned from 0.05 of the time on
        minimum_known_seconds: Known time below which the rule abstains.
            Source: two blocks of five minutes
        more_ratio: Additional replicas, as a share of the short ones; at least one.
            Source: a visible step
    """

    on_ratio: Annotated[float, Spec(within=(0.001, 1))] = 0.05
    minimum_known_seconds: Annotated[float, CONSTANT] = 600.0
    more_ratio: Annotated[float, Spec(within=(0.01, 4)), CONSTANT] = 0.25
    conduct: OpeningPolicy = OpeningPolicy(long_seconds=6 * 3600.0, short_seconds=1800.0)


_UNTOLD: Final = "no application told of its queue or its latency, so what waited is unknown"


def judge(subject: CaseSubject, settings: UnderprovisionedSettings) -> Finding:
    """Whether a service is short of compute, bandwidth or links while its users wait."""
    case = subject.case
    if (early := subject.abstain_early(settings.minimum_known_seconds)) is not None:
        return early
    if case.workload_class is WorkloadClass.BATCH:
        return subject.find_nothing("A job at its limit is well used.")
    shares = {
        device.uuid: {
            str(resource): provisioning.underprovisioned
            for resource, provisioning in fit.resources.items()
            if provisioning.underprovisioned is not None
            and (
                resource is not Resource.MEMORY
                or (fit.memory_is_preallocated and provisioning.underprovisioned > 0.0)
            )
        }
        for device, fit in zip(case.devices, case.provisioning, strict=True)
    }
    if not any(shares.values()):
        return subject.abstain(_UNTOLD)
    highest = {uuid: max(ratios.values(), default=0.0) for uuid, ratios in shares.items()}
    share = max(highest.values())
    factors = direct_factors(case, share, settings.on_ratio)
    evidence: dict[str, object] = {
        "short_ratio": {
            uuid: {name: round(ratio, 4) for name, ratio in ratios.items()}
            for uuid, ratios in shares.items()
        },
        "threshold_ratio": settings.on_ratio,
    }
    if share < settings.on_ratio:
        summary = f"{subject.name}: short of something {share:.1%} of the time."
        return subject.find_nothing(summary, opposite_factors(factors), evidence)
    what = sorted({name for ratios in shares.values() for name, ratio in ratios.items() if ratio})
    short = tuple(device for device in case.devices if highest[device.uuid] >= settings.on_ratio)
    options = _options(case, settings, subject.market)
    workload = case.workload
    target = next((option.target for option in options if option.action is Action.AUTOSCALE), "")
    more = owner_of(workload.kind).add_replicas(workload, target) if workload and target else ()
    # Add the specific reason, which the rule `compute_saturated` gives.
    nearer = (Reason.COMPUTE_SATURATED,) if what == [Resource.COMPUTE] else ()
    return subject.find_problem(
        reasons=(Reason.GPU_UNDERPROVISIONED, *nearer),
        action=(options[0].action or Action.NONE) if options else Action.NONE,
        summary=(
            f"{names_of(short)}{subject.holder}: short of {', '.join(what)} {percent_text(share)} "
            f"of {subject.span}, while requests waited."
        ),
        factors=factors,
        risk=options[0].risk if options else Risk.VERY_LOW,
        evidence=evidence,
        culprits=tuple(device.uuid for device in short),
        options=options,
        savings=TOO_SMALL,
        instructions=more,
        affected_gpus=share * sum(device.capacity_ratio for device in short),
    )


def _options(case: Case, settings: UnderprovisionedSettings, market: Market) -> tuple[Option, ...]:
    """More replicas of a service, or a faster board; none if the class is unknown."""
    if (workload_class := case.workload_class) is WorkloadClass.UNKNOWN:
        return ()
    faster = faster_boards(case, market)
    if workload_class is not WorkloadClass.SERVING:
        return faster
    count = len(case.devices)
    target = count + max(1, math.ceil(count * settings.more_ratio))
    more = Option(
        description=f"{target} replicas instead of {count}, where each has a GPU of its own",
        risk=Risk.VERY_LOW,
        target=str(target),
        action=Action.AUTOSCALE,
    )
    return (more, *faster)


def screen(table: SubjectTable, settings: UnderprovisionedSettings) -> Screen:
    """Settle of which subjects no application told that it waited."""
    yield too_little(table.known_seconds < settings.minimum_known_seconds)
    yield well(table.is_of(WorkloadClass.BATCH))
    is_told = sum(table.pressed_share(resource) > 0.0 for resource in Resource) > 0
    yield unmeasured(~is_told, _UNTOLD)


RULE: Final = Rule("underprovisioned", UnderprovisionedSettings(), judge, screen)
