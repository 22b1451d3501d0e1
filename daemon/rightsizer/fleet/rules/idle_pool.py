"""Rule: pools with GPUs that were never needed: how many can be released, and which nodes.

Abstains until every hour of a week was observed, and while its usage grows to its size. Work that
waits for the pool takes what it needs first. Diurnal load is left to the rule `pool_autoscale`.
"""

from typing import Annotated, Final

from rightsizer.advice.risk import risk_of
from rightsizer.advice.rules.rule import OpeningPolicy
from rightsizer.fleet.pools.hourly import (
    GrowthSettings,
    SpareCapacity,
    SpareSettings,
    independent_hours,
    is_filling,
    spare_of,
)
from rightsizer.fleet.pools.pool import PoolRuleSettings, PoolSubject, may_wait_for
from rightsizer.fleet.pools.reclaim import take_out
from rightsizer.fleet.rules.rule import WEEKLY, pool_rule
from rightsizer.io.terminal import counted
from rightsizer.model.values import Action, Finding, Option, Reason, Spec

NAME: Final = "idle_pool"
_STEPS: Final = 20
"""Targets of large pools are rounded to twentieths, to keep advice stable from day to day."""


class IdlePoolSettings(PoolRuleSettings, frozen=True):
    """Thresholds for spare GPUs of a pool.

    Attributes:
        on_ratio: Share of a pool's GPUs that must be spare.
            Source: a node in ten; less is what a pool keeps for a busy day
    """

    on_ratio: Annotated[float, Spec(within=(0.01, 1))] = 0.1
    spare: SpareSettings = SpareSettings()
    growth: GrowthSettings = GrowthSettings()
    conduct: OpeningPolicy = WEEKLY


def judge(subject: PoolSubject, settings: IdlePoolSettings) -> Finding:
    """Whether a pool has GPUs that were never needed."""
    pool = subject.pool
    size = subject.size
    waiting = may_wait_for(subject.view, pool)
    if (too_little := subject.too_little(settings)) is not None:
        return too_little
    if is_filling(pool, settings.growth):
        return subject.find_nothing(
            f"{pool.name}: what is held grows, and all of it will be within the horizon."
        )
    spare = spare_of(pool, settings.spare, waiting)
    evidence: dict[str, object] = {
        "gpus": size,
        "held_most": spare.needed,
        "keep": spare.keep,
        "margin_ratio": settings.spare.margin_ratio,
        "spare_nodes": list(spare.nodes),
    }
    if waiting:
        evidence["waiting_gpus"] = waiting
    if not spare.gpus or spare.gpus / size < settings.on_ratio:
        summary = f"{pool.name}: {spare.needed} of its {size} GPUs were held at once."
        return subject.find_nothing(summary, subject.factors(0.0), evidence)
    return _problem(subject, spare, evidence)


def _problem(subject: PoolSubject, spare: SpareCapacity, evidence: dict[str, object]) -> Finding:
    pool = subject.pool
    size = subject.size
    is_empty = spare.keep == 0
    risk = risk_of(0.0, independent_hours(pool.held_peak.values))
    action = Action.RELEASE if is_empty else Action.REDUCE_GPU_COUNT
    nodes = counted(len(spare.nodes), "whole node")
    less = counted(spare.gpus, "GPU")
    summary = f"{pool.name}: none of its {size} GPUs was held at any moment."
    if not is_empty:
        beside = f", {nodes} among them" if spare.nodes else ""
        summary = (
            f"{pool.name}: at no moment were more than {spare.needed} of its {size} GPUs held; "
            f"{less} can go{beside}, and {spare.keep} leave room."
        )
    options = []
    of_nodes = sum(pool.size_by_node[node] for node in spare.nodes)
    if of_nodes:
        named = f"{nodes}: {', '.join(spare.nodes)}"
        options.append((named, f"{len(spare.nodes)} nodes", of_nodes))
    if of_nodes != spare.gpus:
        options.append((f"{less} less, {spare.keep} in all", str(spare.keep), spare.gpus))
    named_uuids = {device.uuid for device in subject.case.devices}
    emptied = {device.device.uuid for device in pool.devices if device.node in spare.nodes}
    step = max(1, size // _STEPS)
    return subject.find_problem(
        reasons=(Reason.IDLE_EMPTY if is_empty else Reason.GPU_COUNT_OVERPROVISIONED,),
        action=action,
        summary=summary,
        factors=subject.factors(spare.gpus / size),
        risk=risk,
        evidence=evidence,
        culprits=tuple(sorted(emptied & named_uuids)),
        options=tuple(
            Option(what, risk, target, action, fits=True, savings=subject.savings(gpus, gpus))
            for what, target, gpus in options
        ),
        target=str(min(size, -(-spare.keep // step) * step)),
        savings=subject.savings(spare.gpus, spare.gpus),
        instructions=take_out(spare.nodes, subject.scheduler),
        affected_gpus=spare.gpus,
    )


RULE: Final = pool_rule(NAME, IdlePoolSettings(), judge)
