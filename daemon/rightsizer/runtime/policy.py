"""What an operator knows of a workload and telemetry cannot see, and what he wants of advice."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatchcase
from typing import Any

from rightsizer.advice.exclusion import Exclusion
from rightsizer.advice.judgement import Judgement
from rightsizer.advice.rules import RULES
from rightsizer.advice.rules.rule import Rule
from rightsizer.domain.finding import Case
from rightsizer.domain.settings import setting
from rightsizer.domain.snapshot import Snapshot
from rightsizer.domain.units import Nanoseconds
from rightsizer.domain.workload import Allocator, Workload, WorkloadClass
from rightsizer.runtime.threshold_tree import ThresholdTree, overridden

__all__ = ["Guidance", "Match", "NodeSettings", "Policy", "apply", "as_told", "of_pool"]


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """What an operator says of this machine."""

    pool: str = setting("", help="The pool of machines that it belongs to; policies match by it.")


@dataclass(frozen=True, slots=True)
class Match:
    """Which workloads a policy is about; every pattern given must fit."""

    owner: str = setting("*", help="Shell pattern of the workload's name.")
    namespace: str = setting("*", help="Shell pattern of its namespace.")
    pool: str = setting("*", help="Shell pattern of the machine's `node.pool`.")
    gpu: str = setting("*", help="Shell pattern of the uuid of a GPU that it holds.")

    def fits(self, workload: Workload | None, uuids: Iterable[str]) -> bool:
        """Whether it is about a workload, or about GPUs that nobody holds; see `of_pool`."""
        name, namespace = ("", "") if workload is None else (workload.name, workload.namespace)
        return (
            fnmatchcase(name, self.owner)
            and fnmatchcase(namespace, self.namespace)
            and fnmatchcase("", self.pool)
            and any(fnmatchcase(uuid, self.gpu) for uuid in uuids)
        )


@dataclass(frozen=True, slots=True)
class Policy:
    """What holds for the workloads that match."""

    match: Match = field(default_factory=Match)
    class_: WorkloadClass = setting(
        WorkloadClass.UNKNOWN, help="What kind of service the workload gives."
    )
    allocator: Allocator = setting(
        Allocator.UNKNOWN, help="How the workload's framework takes memory."
    )
    thresholds: ThresholdTree = field(default_factory=ThresholdTree)
    ignore: tuple[Exclusion, ...] = setting(
        (), help="Findings that are not to become advice, why, and until when."
    )

    def __post_init__(self) -> None:
        """Refuse thresholds that a rule refuses, now rather than in a run."""
        for rule in RULES:
            try:
                overridden(rule.settings, getattr(self.thresholds, rule.name))
            except ValueError as error:
                raise ValueError(f"thresholds.{rule.name}: {error}") from None


def of_pool(policies: Iterable[Policy], pool: str) -> tuple[Policy, ...]:
    """The policies that are about a machine of a pool, for use on that machine."""
    return tuple(
        replace(policy, match=replace(policy.match, pool="*"))
        for policy in policies
        if fnmatchcase(pool, policy.match.pool)
    )


def apply(snapshot: Snapshot, policies: Sequence[Policy]) -> Snapshot:
    """The snapshot with what the first matching policy says of each holder."""
    if not policies or not snapshot.holdings:
        return snapshot
    return replace(
        snapshot,
        holdings={
            uuid: tuple(
                replace(held, workload=as_told(held.workload, uuid, policies)) for held in holdings
            )
            for uuid, holdings in snapshot.holdings.items()
        },
    )


class Guidance:
    """What policies say of the rules' verdicts; the first that fits a workload decides."""

    def __init__(self, policies: Sequence[Policy] = ()) -> None:
        self._policies = tuple(policies)
        self._tuned: dict[tuple[str, int], Rule[Any]] = {}

    def tuned(self, rule: Rule[Any], case: Case) -> Rule[Any]:
        """The rule with the thresholds that hold for a workload."""
        place = self._place(case.workload, [device.uuid for device in case.devices])
        if place is None:
            return rule
        changes = getattr(self._policies[place].thresholds, rule.name, None)
        if changes is None or all(getattr(changes, each.name) is None for each in fields(changes)):
            return rule
        key = (rule.name, place)
        if key not in self._tuned:
            self._tuned[key] = rule.with_settings(overridden(rule.settings, changes))
        return self._tuned[key]

    def withheld(self, judgements: Iterable[Judgement], now: Nanoseconds) -> tuple[Judgement, ...]:
        """The judgements, where what is to be ignored may not become advice."""
        return tuple(self._under(judgement, now) for judgement in judgements)

    def _under(self, judgement: Judgement, now: Nanoseconds) -> Judgement:
        place = self._place(judgement.workload, judgement.finding.devices)
        ignored = () if place is None else self._policies[place].ignore
        return judgement.under(ignored, now) if ignored else judgement

    def _place(self, workload: Workload | None, uuids: Sequence[str]) -> int | None:
        return next(
            (
                place
                for place, policy in enumerate(self._policies)
                if policy.match.fits(workload, uuids)
            ),
            None,
        )


def as_told(workload: Workload, uuid: str, policies: Sequence[Policy]) -> Workload:
    """The workload with what the first matching policy says of it, on a device that it holds."""
    for policy in policies:
        if policy.match.fits(workload, (uuid,)):
            return replace(
                workload,
                workload_class=workload.workload_class
                if policy.class_ is WorkloadClass.UNKNOWN
                else policy.class_,
                allocator=workload.allocator
                if policy.allocator is Allocator.UNKNOWN
                else policy.allocator,
            )
    return workload
