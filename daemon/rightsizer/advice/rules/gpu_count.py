"""Rule: more GPUs than needed: some never used, or too many replicas.

Never applies to workloads under pressure (docs/definitions.md).
"""

import math
from collections.abc import Mapping
from typing import Annotated, Final

from rightsizer.advice.autoscale_schedule import ScalingSettings, replicas_for
from rightsizer.advice.confidence import direct_factors
from rightsizer.advice.market import Market
from rightsizer.advice.projection import place_of
from rightsizer.advice.replica_load import (
    ReplicaLoad,
    ReplicaSettings,
    are_separate_pods,
    replica_load,
)
from rightsizer.advice.risk import group_risks, risk_of, worst
from rightsizer.advice.rules.diurnal_autoscale import RULE as DIURNAL
from rightsizer.advice.rules.rule import OpeningPolicy, Rule, RuleSettings
from rightsizer.advice.savings import release_savings
from rightsizer.advice.screen import Screen, SubjectTable, well
from rightsizer.advice.verdict import CaseSubject, names_of
from rightsizer.model.values import (
    CONSTANT,
    DAY_SECONDS,
    Action,
    Case,
    Device,
    Finding,
    Measure,
    Option,
    Provisioning,
    Reason,
    Resource,
    Series,
    Spec,
    WorkloadClass,
    format_duration,
)
from rightsizer.owners.registry import owner_of

_PLACES: Final = 6
_NOISE_RATIO: Final = 0.01


class GpuCountSettings(RuleSettings, frozen=True):
    """Thresholds for unneeded GPUs.

    Attributes:
        on_ratio: Share of a workload's GPUs that must be unneeded.
            Source: one of sixteen GPUs is worth reporting
        minimum_known_seconds: Known time of each GPU required to judge it.
            Source: a day has every hour of a daily load
        unused_ratio: Utilization that an unused GPU never exceeds.
            Source: docs/definitions.md, sources: idle below 1%
        minimum_days: Days of history required to judge the number of replicas.
            Source: docs/definitions.md, conduct: not before the history covers the load's cycle
        uncovered_ratio: Confidence in the number of replicas until every hour of a week was seen.
            Source: most loads repeat daily; weekends may differ
        rest_quantile_ratio: Quantile of a replica's memory that it holds at rest.
            Source: less was there only while it started
    """

    on_ratio: Annotated[float, Spec(within=(0.01, 1))] = 0.05
    minimum_known_seconds: Annotated[float, Spec(within=(3600, None)), CONSTANT] = DAY_SECONDS
    unused_ratio: Annotated[float, Spec(within=(0, 0.5)), CONSTANT] = 0.01
    minimum_days: Annotated[float, Spec(unit="days", within=(1, 30)), CONSTANT] = 2.0
    uncovered_ratio: Annotated[float, CONSTANT] = 0.7
    rest_quantile_ratio: Annotated[float, Spec(within=(0, 0.5)), CONSTANT] = 0.05
    replicas: Annotated[ReplicaSettings, CONSTANT] = ReplicaSettings()
    scaling: ScalingSettings = ScalingSettings()
    conduct: OpeningPolicy = OpeningPolicy.sizing(DAY_SECONDS)


def judge(subject: CaseSubject, settings: GpuCountSettings) -> Finding:
    """Whether a workload holds more GPUs than it ever used."""
    case = subject.case
    count = len(subject.case.devices)
    if case.workload is None or count == 1:
        return subject.find_nothing("A single GPU has no number.")
    busy = {window.uuid: window.blocks.series(Measure.BUSY) for window in case.windows}
    known_seconds = {uuid: series.total_seconds for uuid, series in busy.items()}
    if min(known_seconds.values()) < settings.minimum_known_seconds:
        why = f"only {format_duration(min(known_seconds.values()))} of telemetry of every GPU"
        return subject.abstain(why, Reason.INSUFFICIENT_DATA)
    if any(provisioning.is_underprovisioned for provisioning in case.provisioning):
        return subject.find_nothing("Under pressure, so not too many.")
    # Memory that is merely held is no use: frameworks allocate it on every GPU they see.
    unused = tuple(
        device
        for device, fit in zip(case.devices, case.provisioning, strict=True)
        if _peak(busy[device.uuid]) <= settings.unused_ratio and not _has_traffic(fit)
    )
    if not unused or not settings.on_ratio * count <= len(unused) < count:
        return _replicas(subject, settings)
    uuids = [device.uuid for device in unused]
    duration = format_duration(min(known_seconds[uuid] for uuid in uuids))
    return _problem(
        subject,
        Action.REDUCE_GPU_COUNT,
        count - len(unused),
        f"{names_of(unused)} of {case.workload.name}: never used for {duration}, while its other "
        "GPUs worked.",
        direct_factors(case, 1.0, 1.0 - settings.on_ratio),
        {
            "unused": uuids,
            "busy_peak_ratio": {uuid: _peak(busy[uuid]) for uuid in uuids},
            "memory_peak_bytes": {
                window.uuid: window.blocks.series(Measure.MEMORY_BYTES).peak
                for window in case.windows
                if window.uuid in uuids
            },
        },
        unused,
    )


def _has_traffic(fit: Provisioning) -> bool:
    """Whether a device serves others without a kernel: by its links, or by media engines."""
    links = (fit.resources.get(link) for link in (Resource.NVLINK, Resource.PCIE))
    used = any(link is not None and (link.need or 0.0) > _NOISE_RATIO for link in links)
    return used or Resource.MEDIA in fit.resources


def _peak(series: Series) -> float:
    """Return the largest peak; without any, the device may have been used."""
    peak = series.peak
    return math.inf if peak is None else peak


def _problem(  # noqa: PLR0913, PLR0917 - what differs between GPUs and replicas.
    subject: CaseSubject,
    action: Action,
    left: int,
    summary: str,
    factors: Mapping[str, float],
    evidence: Mapping[str, object],
    unused: tuple[Device, ...] = (),
) -> Finding:
    """Complain about unused GPUs, or about surplus replicas."""
    case = subject.case
    workload = subject.case.workload
    count = len(subject.case.devices)
    part = len(unused) / count if unused else 1.0 - left / count
    risks = {} if unused else group_risks(case, left)
    risk = risk_of(0.0, case.effective_samples()) if unused else worst(risks.values())
    savings = release_savings(case, subject.market, part, part)
    option = Option(
        description=f"{left} of the {count} {'GPUs' if unused else 'replicas'}",
        risk=risk,
        target=str(left),
        action=action,
        fits=True,
        savings=savings,
        risks=risks,
    )
    return subject.find_problem(
        reasons=(Reason.GPU_COUNT_OVERPROVISIONED,),
        action=action,
        summary=summary,
        factors=factors,
        risk=risk,
        evidence=evidence,
        culprits=tuple(device.uuid for device in unused),
        options=(option,),
        target=option.target,
        savings=savings,
        instructions=owner_of(workload.kind).request_gpus(workload, left) if workload else (),
        affected_gpus=sum(device.capacity_ratio for device in unused)
        if unused
        else part * case.gpus,
    )


def _replicas(subject: CaseSubject, settings: GpuCountSettings) -> Finding:
    """Judge whether a service has more replicas than it ever needed."""
    case = subject.case
    count = len(subject.case.devices)
    if case.workload_class is not WorkloadClass.SERVING:
        return subject.find_nothing("Every GPU was used.")
    # Cheap check first: the load of all moments takes long.
    is_apart = is_known_apart(case, subject.market)
    load = replica_load(case, settings.replicas) if is_apart else None
    if load is None or load.size == 1:
        what = "every GPU was used, and they may be parts of one model."
        return subject.find_nothing(f"{subject.name}: {what}")
    if (shape := case.shape()) is None or shape.known_days < settings.minimum_days:
        why = "the history does not cover a cycle of the load"
        return subject.abstain(why, Reason.INSUFFICIENT_DATA)
    if DIURNAL.in_market(subject.market).judge(case).is_actionable:
        return subject.find_nothing(f"{subject.name}: diurnal load.")
    enough = _enough(case, load, settings)
    saved = 1.0 - enough / load.size
    evidence: dict[str, object] = {
        "replicas": load.size,
        "replicas_needed_most": load.pooled,
        "replicas_enough": enough,
        "covers_cycle": shape.covers_cycle,
    }
    if saved < settings.on_ratio:
        summary = f"{subject.name}: as many replicas as the load needs."
        return subject.find_nothing(summary, load.factors(case, 0.0), evidence)
    factors = load.factors(case, saved - settings.on_ratio)
    if not shape.covers_cycle:
        factors["cycle"] = settings.uncovered_ratio
    summary = (
        f"{subject.name} of {case.workload.name if case.workload else ''}: at no time were more "
        f"than {load.pooled} of {count} replicas needed; {enough} leave room."
    )
    return _problem(subject, Action.REDUCE_REPLICAS, enough, summary, factors, evidence)


def is_known_apart(case: Case, market: Market) -> bool:
    """Whether devices certainly do not communicate; unmeasured traffic may be high."""
    if are_separate_pods(case):
        return True
    for device, fit in zip(case.devices, case.provisioning, strict=True):
        link = fit.resources.get(Resource.NVLINK)
        place = place_of(device, market)
        is_silent = link is not None and link.need is not None and link.need <= _NOISE_RATIO
        has_none = place is not None and place.link_bytes_per_second == 0.0
        if not is_silent and not has_none:
            return False
    return True


def _enough(case: Case, load: ReplicaLoad, settings: GpuCountSettings) -> int:
    """Replicas sufficient for the worst five minutes and for all other needs, memory included.

    One is spare, and those that the worst moment fills have the margin of an autoscaler.
    """
    fits = [fit.resources for fit in case.provisioning]
    needs = max(
        sum(fit[resource].need or 0.0 for fit in fits if resource in fit)
        for resource in Resource
        if resource is not Resource.MEMORY
    )
    by_load = max(load.pooled + 1, replicas_for(load.busiest, load.size, settings.scaling))
    of_memory = _memory_need(case, settings.rest_quantile_ratio)
    by_needs = math.ceil(round(max(needs, of_memory), _PLACES))
    return min(load.size, max(1, by_load, by_needs))


def _memory_need(case: Case, quantile: float) -> float:
    """Replicas by memory: what each holds even at rest, and its part of what grows with the load.

    Preallocated memory does not grow.
    """
    fixed = 0.0
    growing = 0.0
    for device, window, fit in zip(case.devices, case.windows, case.provisioning, strict=True):
        memory = fit.resources.get(Resource.MEMORY)
        total = device.memory_total_bytes
        if memory and memory.demand and memory.need:
            means = sorted(window.blocks.series(Measure.MEMORY_BYTES).means)
            rest = means[int(quantile * len(means))] / total if means and total else 0.0
            fixed = max(fixed, min(rest, memory.demand))
            growing += memory.need * (1.0 - min(1.0, rest / memory.demand))
    return growing / (1.0 - fixed) if fixed < 1.0 else len(case.devices)


def screen(table: SubjectTable, _: GpuCountSettings) -> Screen:
    """Settle that single GPUs have no number."""
    yield well(~table.is_held | table.is_single)


RULE: Final = Rule("gpu_count", GpuCountSettings(), judge, screen)
