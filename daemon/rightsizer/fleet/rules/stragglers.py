"""Nodes that are the slow ones of several jobs.

Which GPU lags in one job is said by the rule `rank_imbalance`; a node that lags whoever runs on
it has a trouble of its own, which no single job can tell.
"""

from collections.abc import Mapping
from typing import Final

from rightsizer.advice.market import Market
from rightsizer.advice.observation import minimum_known, on_ratio
from rightsizer.advice.rules.rank_imbalance import RULE as RANK_IMBALANCE
from rightsizer.advice.rules.rule import OpeningPolicy
from rightsizer.advice.verdict import abstain, complain, confidence_of, find_nothing
from rightsizer.fleet.model import FleetPool, FleetView
from rightsizer.fleet.pools.pool import pool_key, pool_subject, workloads_in
from rightsizer.fleet.rules.rule import FleetRule, FleetVerdict
from rightsizer.model.finding import (
    Action,
    Case,
    Finding,
    FindingKind,
    Instruction,
    Reason,
    Risk,
    Savings,
)
from rightsizer.model.frozen import dataclass, field, replace
from rightsizer.model.settings import setting

NAME: Final = "stragglers"
_MOST_DEVICES: Final = 64


@dataclass(frozen=True, slots=True)
class StragglersSettings:
    """When a node counts as a slow one."""

    on_ratio: float = on_ratio(
        0.3,
        "Share of the span for which each of the jobs must be out of balance.",
        "as for one job",
    )
    minimum_known_seconds: float = minimum_known()
    minimum_jobs: int = setting(
        2,
        help="Jobs in which the node must be the odd one.",
        within=(2, 100),
        source="one job's odd rank is that job's affair",
    )
    conduct: OpeningPolicy = field(
        default_factory=lambda: OpeningPolicy(
            long_seconds=86400.0,
            short_seconds=21600.0,
            minimum_known_seconds=21600.0,
            close_after_seconds=21600.0,
        )
    )


@dataclass(frozen=True, slots=True)
class _Slow:
    jobs: tuple[str, ...]
    devices: tuple[str, ...]
    factors: Mapping[str, float]
    """Of the job that is least sure."""


def judge(
    view: FleetView, settings: StragglersSettings, market: Market
) -> tuple[FleetVerdict, ...]:
    """Whether a node of a pool is the slow one of several jobs."""
    return tuple(
        FleetVerdict(pool_key(pool.name), _of_pool(view, pool, settings, market))
        for pool in view.pools
    )


def _of_pool(
    view: FleetView, pool: FleetPool, settings: StragglersSettings, market: Market
) -> Finding:
    case = pool_subject(view, pool).case
    nodes = {each.device.uuid: each.node for each in pool.devices}
    if not nodes:
        return abstain(NAME, case, Reason.INSUFFICIENT_DATA, "it has no GPU now")
    odd = _odd(view, pool, nodes, settings)
    slow = {node: each for node, each in odd.items() if len(each.jobs) >= settings.minimum_jobs}
    evidence = {"jobs_by_node": {node: list(each.jobs) for node, each in sorted(odd.items())}}
    if not slow:
        return find_nothing(
            NAME, case, f"{pool.name}: no node is the slow one of several jobs.", {}, evidence
        )
    return _complaint(case, pool, slow, evidence, market)


def _odd(
    view: FleetView, pool: FleetPool, nodes: Mapping[str, str], settings: StragglersSettings
) -> dict[str, _Slow]:
    """By node, the jobs in which all that is odd lies on it, and others of the job do not."""
    rule = RANK_IMBALANCE.with_settings(
        replace(
            RANK_IMBALANCE.settings,
            on_ratio=settings.on_ratio,
            minimum_known_seconds=settings.minimum_known_seconds,
        )
    )
    found: dict[str, list[tuple[str, Finding]]] = {}
    for each in workloads_in(view, pool):
        if len(each.nodes) <= 1 or len(each.case.devices) <= 1:
            continue
        finding = rule.judge(each.case)
        places = {nodes.get(uuid) for uuid in finding.culprits}
        node = places.pop() if len(places) == 1 else None
        if finding.is_complaint and node is not None:
            found.setdefault(node, []).append((each.case.key, finding))
    return {node: _slow(judged) for node, judged in found.items()}


def _slow(judged: list[tuple[str, Finding]]) -> _Slow:
    least = min(
        (finding.confidence_factors for _, finding in judged),
        key=lambda each: (confidence_of(each), sorted(each.items())),
    )
    devices = sorted({uuid for _, finding in judged for uuid in finding.culprits})
    return _Slow(tuple(key for key, _ in judged), tuple(devices), least)


def _complaint(
    case: Case,
    pool: FleetPool,
    slow: Mapping[str, _Slow],
    evidence: Mapping[str, object],
    market: Market,
) -> Finding:
    names = sorted(slow)
    jobs = sum(len(each.jobs) for each in slow.values())
    devices = sorted(uuid for each in slow.values() for uuid in each.devices)
    factors = min(
        (each.factors for each in slow.values()),
        key=lambda each: (confidence_of(each), sorted(each.items())),
    )
    return complain(
        NAME,
        case,
        kind=FindingKind.INEFFICIENT,
        reasons=(Reason.RANK_IMBALANCE,),
        action=Action.INVESTIGATE_STRAGGLER,
        summary=(
            f"{pool.name}: {' and '.join(names)} {'is' if len(names) == 1 else 'are'} the odd one "
            f"in {jobs} jobs of several nodes."
        ),
        factors=factors,
        risk=Risk.VERY_LOW,
        evidence=evidence,
        culprits=tuple(devices[:_MOST_DEVICES]),
        target=",".join(names),
        savings=Savings(reason="what the jobs wait is said of each of them"),
        minimum_confidence_ratio=market.settings.minimum_confidence_ratio,
        instructions=tuple(map(_compare, names)),
        affected_gpus=float(len(devices)),
    )


def _compare(node: str) -> Instruction:
    text = (
        f"# On {node}, and on a node that keeps up; take it out of the pool meanwhile.\n"
        "nvidia-smi -q -d PERFORMANCE,CLOCK,POWER,TEMPERATURE,PCIE\n"
        "dcgmi diag -r 2\n"
    )
    return Instruction(f"Compare {node} with another node", text, "sh")


RULE: Final = FleetRule(NAME, StragglersSettings(), judge)
