"""Fleet rules, one file each: settings and one function."""

from typing import Any, Final

from rightsizer.fleet.rules import (
    disappearance,
    empty_gpus,
    fragmentation,
    idle_pool,
    packing,
    pool_autoscale,
    pool_exhaustion,
    replica_consolidation,
    scattered_placement,
    stragglers,
    wrong_gpu_type,
)
from rightsizer.fleet.rules.rule import FleetRule

FLEET_RULES: Final[tuple[FleetRule[Any], ...]] = (
    idle_pool.RULE,
    empty_gpus.RULE,
    pool_autoscale.RULE,
    pool_exhaustion.RULE,
    fragmentation.RULE,
    packing.RULE,
    replica_consolidation.RULE,
    wrong_gpu_type.RULE,
    stragglers.RULE,
    scattered_placement.RULE,
    disappearance.RULE,
)
