"""Policies over a fleet, by the pool of a workload's GPUs."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.advice.policy import Policy, PolicySet, policies_of_pool, with_policy
from rightsizer.advice.rules.rule import Judgement, Rule
from rightsizer.fleet.model import FleetInventory
from rightsizer.model.values import Case, Nanoseconds


class FleetPolicies(Struct, frozen=True):
    """Policies over a fleet; pickled to worker processes."""

    by_device: Mapping[str, PolicySet]
    """Policies of the device's pool, by uuid."""
    others: PolicySet = PolicySet(())
    """For subjects without a known device."""

    @classmethod
    def of(cls, policies: Sequence[Policy], inventory: FleetInventory) -> "FleetPolicies":
        """Create the policies of a fleet's devices."""
        if not policies:
            return cls({})
        sets = {
            pool: PolicySet(pool_policies)
            for pool, pool_policies in _by_pool(policies, inventory).items()
        }
        return cls(
            {uuid: sets[device.pool] for uuid, device in inventory.devices.items()}, sets[""]
        )

    def with_thresholds(self, rule: Rule[Any], case: Case) -> Rule[Any]:
        """Return the rule with the thresholds for a workload."""
        if not self.by_device:
            return rule
        return self._of(device.uuid for device in case.devices).with_thresholds(rule, case)

    def suppressed(
        self, judgements: Iterable[Judgement], now: Nanoseconds
    ) -> tuple[Judgement, ...]:
        """Suppress judgements that policies ignore, so that they cannot become advice."""
        suppressed = (self._of(e.finding.devices).suppressed((e,), now) for e in judgements)
        return tuple(chain.from_iterable(suppressed))

    def _of(self, uuids: Iterable[str]) -> PolicySet:
        """Return the policies of the first known device's pool; a workload is in one pool."""
        return next((self.by_device[uuid] for uuid in uuids if uuid in self.by_device), self.others)


def _by_pool(
    policies: Sequence[Policy], inventory: FleetInventory
) -> dict[str, tuple[Policy, ...]]:
    """Return each pool's policies, which match its name with or without its cluster's."""
    by_pool = {"": policies_of_pool(policies, "")}
    for device in inventory.devices.values():
        if device.pool not in by_pool:
            name_in_cluster = device.pool.removeprefix(f"{device.cluster}/")
            by_pool[device.pool] = policies_of_pool(policies, device.pool, name_in_cluster)
    return by_pool


def with_stated(
    inventory: FleetInventory, holders: Mapping[str, str], policies: Sequence[Policy]
) -> FleetInventory:
    """Set the classes and allocators that policies state.

    Policies match by one device of each workload: `holders`, by workload key.
    """
    if not policies:
        return inventory
    pools = {uuid: device.pool for uuid, device in inventory.devices.items()}
    by_pool = _by_pool(policies, inventory)
    workloads = {}
    for key, workload in inventory.workloads.items():
        holder = holders.get(key, "")
        workloads[key] = with_policy(workload, holder, by_pool[pools.get(holder, "")])
    return replace(inventory, workloads=workloads)
