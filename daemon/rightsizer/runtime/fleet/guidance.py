"""What policies say of an estate's workloads, each by the pool that it stands in."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rightsizer.advice.judgement import Judgement
from rightsizer.advice.rules.rule import Rule
from rightsizer.domain.finding import Case
from rightsizer.domain.units import Nanoseconds
from rightsizer.fleet.estate import Estate
from rightsizer.runtime.policy import Guidance, Policy, as_told, of_pool

__all__ = ["EstateGuidance", "informed"]


@dataclass(frozen=True, slots=True)
class EstateGuidance:
    """Policies over an estate; it goes to the processes that judge."""

    pools: Mapping[str, str]
    """Of each device, by uuid."""
    by_pool: Mapping[str, Guidance]

    @classmethod
    def of(cls, policies: Sequence[Policy], estate: Estate) -> "EstateGuidance":
        """What policies say of an estate."""
        if not policies:
            return cls({}, {})
        pools = {uuid: each.pool for uuid, each in estate.devices.items()}
        return cls(pools, {pool: Guidance(of_pool(policies, pool)) for pool in set(pools.values())})

    def tuned(self, rule: Rule[Any], case: Case) -> Rule[Any]:
        """The rule with the thresholds that hold for a workload."""
        guidance = self._of(device.uuid for device in case.devices)
        return rule if guidance is None else guidance.tuned(rule, case)

    def withheld(self, judgements: Iterable[Judgement], now: Nanoseconds) -> tuple[Judgement, ...]:
        """The judgements, where what is to be ignored may not become advice."""
        return tuple(self._under(judgement, now) for judgement in judgements)

    def _under(self, judgement: Judgement, now: Nanoseconds) -> Judgement:
        guidance = self._of(judgement.finding.devices)
        return judgement if guidance is None else guidance.withheld((judgement,), now)[0]

    def _of(self, uuids: Iterable[str]) -> Guidance | None:
        """Of the pool of the first device that is known; a workload stands in one."""
        pools = (self.pools[uuid] for uuid in uuids if uuid in self.pools)
        return self.by_pool.get(next(pools, ""))


def informed(estate: Estate, holders: Mapping[str, str], policies: Sequence[Policy]) -> Estate:
    """The estate with the classes and allocators that policies state.

    Args:
        estate: As the sources describe it.
        holders: A device of each workload, by the workload's key.
        policies: What operators know.
    """
    if not policies:
        return estate
    pools = {uuid: each.pool for uuid, each in estate.devices.items()}
    by_pool = {pool: of_pool(policies, pool) for pool in {"", *pools.values()}}
    workloads = {
        key: as_told(workload, holders.get(key, ""), by_pool[pools.get(holders.get(key, ""), "")])
        for key, workload in estate.workloads.items()
    }
    return replace(estate, workloads=workloads)
