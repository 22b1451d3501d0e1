"""Rule: nodes that are the slow ones of several jobs.

The rule `rank_imbalance` finds the slow GPU of one job; a node that is slow in every job has a
fault of its own, which no single job can show.
"""

from typing import Annotated, Final

from msgspec.structs import replace

from rightsizer.advice.rules.rank_imbalance import RULE as RANK_IMBALANCE
from rightsizer.advice.rules.rule import OpeningPolicy, RuleSettings
from rightsizer.fleet.pools.pool import MOST_DEVICES, PoolSubject
from rightsizer.fleet.rules.rule import least_certain, pool_rule
from rightsizer.model.values import (
    CONSTANT,
    Action,
    Finding,
    Instruction,
    Reason,
    Risk,
    Savings,
    Spec,
)

NAME: Final = "stragglers"
_COMPARE: Final = """\
# On {node}, and on a node that keeps up; take it out of the pool meanwhile.
nvidia-smi -q -d PERFORMANCE,CLOCK,POWER,TEMPERATURE,PCIE
dcgmi diag -r 2
"""


class StragglersSettings(RuleSettings, frozen=True):
    """Thresholds for slow nodes.

    Attributes:
        on_ratio: Share of the span that each of the jobs must be out of balance.
            Source: as for one job
        minimum_jobs: Minimum jobs in which the node must be slow.
            Source: one is enough for rank_imbalance
    """

    on_ratio: Annotated[float, Spec(within=(0.001, 1))] = 0.3
    minimum_jobs: Annotated[int, Spec(within=(2, 100)), CONSTANT] = 2
    conduct: OpeningPolicy = OpeningPolicy(
        long_seconds=86400.0,
        short_seconds=21600.0,
        minimum_known_seconds=21600.0,
        close_after_seconds=21600.0,
    )


def judge(subject: PoolSubject, settings: StragglersSettings) -> Finding:
    """Whether a node of a pool is the slow one in several jobs."""
    if not subject.pool.devices:
        return subject.abstain("it has no GPU now")
    odd = _odd(subject, settings)
    slow = {node: jobs for node, jobs in odd.items() if len(jobs) >= settings.minimum_jobs}
    evidence = {"jobs_by_node": {node: list(jobs) for node, jobs in sorted(odd.items())}}
    if not slow:
        summary = f"{subject.name}: no node is the slow one of several jobs."
        return subject.find_nothing(summary, {}, evidence)
    names = sorted(slow)
    findings = [finding for jobs in slow.values() for finding in jobs.values()]
    devices = sorted({uuid for finding in findings for uuid in finding.culprits})
    return subject.find_problem(
        reasons=(Reason.RANK_IMBALANCE,),
        action=Action.INVESTIGATE_STRAGGLER,
        summary=(
            f"{subject.name}: {' and '.join(names)} {'is' if len(names) == 1 else 'are'} the odd "
            f"one in {len(findings)} jobs of several nodes."
        ),
        factors=least_certain(dict(finding.confidence_factors) for finding in findings),
        risk=Risk.VERY_LOW,
        evidence=evidence,
        culprits=tuple(devices[:MOST_DEVICES]),
        target=",".join(names),
        savings=Savings(reason="see the recommendations of the jobs"),
        instructions=tuple(
            Instruction(f"Compare {node} with another node", _COMPARE.format(node=node), "sh")
            for node in names
        ),
        affected_gpus=float(len(devices)),
    )


def _odd(subject: PoolSubject, settings: StragglersSettings) -> dict[str, dict[str, Finding]]:
    """Return verdicts by node and job with all findings on that node, if the job has others."""
    nodes = {device.device.uuid: device.node for device in subject.pool.devices}
    known_seconds = settings.minimum_known_seconds
    rank_imbalance_settings = replace(
        RANK_IMBALANCE.settings, on_ratio=settings.on_ratio, minimum_known_seconds=known_seconds
    )
    rule = RANK_IMBALANCE.with_settings(rank_imbalance_settings)
    findings_by_node: dict[str, dict[str, Finding]] = {}
    for workload in subject.workloads:
        if len(workload.nodes) <= 1 or len(workload.case.devices) <= 1:
            continue
        finding = rule.judge(workload.case)
        places = {nodes.get(uuid) for uuid in finding.culprits}
        node = places.pop() if len(places) == 1 else None
        if finding.is_actionable and node is not None:
            findings_by_node.setdefault(node, {})[workload.case.key] = finding
    return findings_by_node


RULE: Final = pool_rule(NAME, StragglersSettings(), judge)
