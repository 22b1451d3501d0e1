"""More GPUs than a workload has work for: some are never used, or fewer replicas would do.

One idle rank in the middle of a job is no GPU to take away; only one that was never used for a
day and holds no more than a context is. Load that comes and goes by the hour gets a schedule
instead, and nothing is taken from a workload under pressure (docs/definitions.md).
"""

import math
from collections.abc import Mapping
from typing import Final

from rightsizer.advice.autoscale_schedule import ScalingSettings, replicas_for
from rightsizer.advice.market import Market
from rightsizer.advice.projection import place_of
from rightsizer.advice.replica_load import ReplicaLoad, ReplicaSettings, replica_load
from rightsizer.advice.risk import group_risks, risk_of, worst
from rightsizer.advice.rules.diurnal_autoscale import RULE as DIURNAL
from rightsizer.advice.rules.rule import OpeningPolicy, Rule
from rightsizer.advice.verdict import (
    abstain,
    complain,
    direct_factors,
    find_nothing,
    names_of,
    released,
)
from rightsizer.model.block import Measure
from rightsizer.model.device import Device
from rightsizer.model.finding import Action, Case, Finding, FindingKind, Option, Reason
from rightsizer.model.frozen import dataclass, field
from rightsizer.model.settings import setting
from rightsizer.model.state import Resource
from rightsizer.model.units import format_duration
from rightsizer.model.window import Window
from rightsizer.model.workload import WorkloadClass
from rightsizer.owners.registry import owner_of

NAME: Final = "gpu_count"
_DAY_SECONDS: Final = 86400.0
_PLACES: Final = 6
_NOISE_RATIO: Final = 0.01


@dataclass(frozen=True, slots=True)
class GpuCountSettings:
    """When a GPU counts as not needed."""

    on_ratio: float = setting(
        0.05,
        help="Part of a workload's GPUs that must be too many.",
        within=(0.01, 1),
        source="one of sixteen GPUs is worth a word",
    )
    minimum_known_seconds: float = setting(
        _DAY_SECONDS,
        help="Known time of each GPU under which the rule abstains.",
        within=(3600, None),
        source="docs/definitions.md, sources: never busy for 24 h",
    )
    unused_ratio: float = setting(
        0.01,
        help="Busy share that an unused GPU never exceeds.",
        within=(0, 0.5),
        source="docs/definitions.md, sources: never above 1 %",
    )
    context_bytes: float = setting(
        2.0**30,
        help="Memory that a GPU may hold and still be unused: that of a context.",
        source="a CUDA context takes 0.3 to 0.6 GiB; the buffers of a collective more than 1 GiB",
    )
    minimum_days: float = setting(
        2.0,
        help="Days of history under which nothing is said of the number of replicas.",
        unit="days",
        within=(1, 30),
        source="docs/definitions.md, conduct: not before the history covers the load's cycle",
    )
    uncovered_ratio: float = setting(
        0.7,
        help="How far the number of replicas is believed before every hour of a week was seen.",
        source="most loads repeat by the day; a weekend is not excluded",
    )
    replicas: ReplicaSettings = field(default_factory=ReplicaSettings)
    scaling: ScalingSettings = field(default_factory=ScalingSettings)
    conduct: OpeningPolicy = field(
        default_factory=lambda: OpeningPolicy(
            long_seconds=14 * _DAY_SECONDS,
            short_seconds=3 * _DAY_SECONDS,
            minimum_known_seconds=_DAY_SECONDS,
            close_after_seconds=_DAY_SECONDS,
        )
    )


def judge(case: Case, settings: GpuCountSettings, market: Market) -> Finding:
    """Whether a workload of several GPUs has more than it ever used."""
    count = len(case.devices)
    if case.workload is None or count == 1:
        return find_nothing(NAME, case, "A single GPU has no number.")
    known = min(_known_seconds(window) for window in case.windows)
    if known < settings.minimum_known_seconds:
        why = f"only {format_duration(known)} of telemetry of every GPU"
        return abstain(NAME, case, Reason.INSUFFICIENT_DATA, why)
    if any(each.is_underprovisioned for each in case.provisioning):
        return find_nothing(NAME, case, "Under pressure, so not too many.")
    unused = tuple(
        device
        for device, window in zip(case.devices, case.windows, strict=True)
        if _is_unused(window, settings)
    )
    if unused and settings.on_ratio * count <= len(unused) < count:
        return _without(case, unused, settings, market)
    return _replicas(case, settings, market)


def _known_seconds(window: Window) -> float:
    return sum(window.blocks.series(Measure.BUSY).known_seconds)


def _is_unused(window: Window, settings: GpuCountSettings) -> bool:
    """Whether not one reading shows work, or memory beyond a context; unread memory does."""
    busy = window.blocks.series(Measure.BUSY).peaks
    if max(busy, default=1.0) > settings.unused_ratio:
        return False
    held = window.blocks.series(Measure.MEMORY_BYTES).peaks
    return len(held) == len(busy) and max(held) <= settings.context_bytes


def _without(
    case: Case, unused: tuple[Device, ...], settings: GpuCountSettings, market: Market
) -> Finding:
    windows = {window.uuid: window for window in case.windows}
    known = min(_known_seconds(windows[device.uuid]) for device in unused)
    name = case.workload.name if case.workload else ""
    return _complaint(
        case,
        market,
        Action.REDUCE_GPU_COUNT,
        len(case.devices) - len(unused),
        summary=(
            f"{names_of(unused)} of {name}: never used for "
            f"{format_duration(known)}, while its other GPUs worked."
        ),
        factors=direct_factors(case, 1.0, 1.0 - settings.on_ratio),
        evidence={
            "unused": [device.uuid for device in unused],
            "busy_peak_ratio": _peaks(windows, unused, Measure.BUSY),
            "memory_peak_bytes": _peaks(windows, unused, Measure.MEMORY_BYTES),
        },
        unused=unused,
    )


def _complaint(  # noqa: PLR0913 - what differs between GPUs and replicas.
    case: Case,
    market: Market,
    action: Action,
    left: int,
    *,
    summary: str,
    factors: Mapping[str, float],
    evidence: Mapping[str, object],
    unused: tuple[Device, ...] = (),
) -> Finding:
    """Fewer GPUs: those that are unused, or any of a group of replicas."""
    workload, count = case.workload, len(case.devices)
    part = len(unused) / count if unused else 1.0 - left / count
    risks = {} if unused else group_risks(case, left)
    risk = risk_of(0.0, case.effective_samples()).risk if unused else worst(risks.values())
    savings = released(case, market, part, part)
    option = Option(
        description=f"{left} of the {count} {'GPUs' if unused else 'replicas'}",
        risk=risk,
        target=str(left),
        action=action,
        fits=True,
        savings=savings,
        risks=risks,
    )
    return complain(
        NAME,
        case,
        kind=FindingKind.OVERPROVISIONED,
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
        minimum_confidence_ratio=market.settings.minimum_confidence_ratio,
        instructions=owner_of(workload.kind).request_gpus(workload, left) if workload else (),
        affected_gpus=sum(each.capacity_ratio for each in unused) if unused else part * case.gpus,
    )


def _peaks(
    windows: Mapping[str, Window], devices: tuple[Device, ...], measure: Measure
) -> dict[str, float]:
    return {
        device.uuid: max(windows[device.uuid].blocks.series(measure).peaks) for device in devices
    }


def _replicas(case: Case, settings: GpuCountSettings, market: Market) -> Finding:
    """Whether a service of replicas never needed as many of them."""
    if case.workload_class is not WorkloadClass.SERVING:
        return find_nothing(NAME, case, "Every GPU was used.")
    load = replica_load(case, settings.replicas)
    if load is None or load.size == 1 or not _is_known_apart(case, market):
        what = "every GPU was used, and they may be parts of one model."
        return find_nothing(NAME, case, f"{names_of(case.devices)}: {what}")
    shape = case.shape()
    if shape is None or shape.known_days < settings.minimum_days:
        why = "the history does not cover a cycle of the load"
        return abstain(NAME, case, Reason.INSUFFICIENT_DATA, why)
    if shape.is_daily or shape.is_weekly or DIURNAL.in_market(market).judge(case).is_complaint:
        summary = f"{names_of(case.devices)}: the load comes and goes by the hour."
        return find_nothing(NAME, case, summary)
    enough = _enough(case, load, settings)
    saved = 1.0 - enough / load.size
    evidence: dict[str, object] = {
        "replicas": load.size,
        "replicas_needed_most": max(load.needed),
        "replicas_enough": enough,
        "covers_cycle": shape.covers_cycle,
    }
    if saved < settings.on_ratio:
        summary = f"{names_of(case.devices)}: as many replicas as the load needs."
        return find_nothing(NAME, case, summary, load.factors(case, 0.0), evidence)
    factors = load.factors(case, saved - settings.on_ratio)
    if not shape.covers_cycle:
        factors["cycle"] = settings.uncovered_ratio
    name = case.workload.name if case.workload else ""
    summary = (
        f"{names_of(case.devices)} of {name}: at no time were more than "
        f"{max(load.needed)} of {len(case.devices)} replicas needed; {enough} leave room."
    )
    return _complaint(
        case,
        market,
        Action.REDUCE_REPLICAS,
        enough,
        summary=summary,
        factors=factors,
        evidence=evidence,
    )


def _is_known_apart(case: Case, market: Market) -> bool:
    """Whether no device has anything to say to another: what is unmeasured may be much."""
    for device, fit in zip(case.devices, case.provisioning, strict=True):
        link = fit.resources.get(Resource.NVLINK)
        place = place_of(device, market)
        is_silent = link is not None and link.need is not None and link.need <= _NOISE_RATIO
        has_none = place is not None and place.link_bytes_per_second == 0.0
        if not is_silent and not has_none:
            return False
    return True


def _enough(case: Case, load: ReplicaLoad, settings: GpuCountSettings) -> int:
    """Replicas for the worst five minutes; all that is needed, memory too, must fit on them."""
    fits = [fit.resources for fit in case.provisioning]
    needs = max(
        sum(fit[resource].need or 0.0 for fit in fits if resource in fit) for resource in Resource
    )
    by_load = replicas_for(max(load.needed), load.size, settings.scaling)
    return min(load.size, max(1, by_load, math.ceil(round(needs, _PLACES))))


RULE: Final = Rule(NAME, GpuCountSettings(), judge)
