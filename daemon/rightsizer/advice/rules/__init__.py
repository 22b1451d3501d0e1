"""Rules, one file each with settings and one function; register a new rule here."""

from typing import Any, Final

from rightsizer.advice.rules import (
    compute_saturated,
    diurnal_autoscale,
    exhaustion_forecast,
    gpu_count,
    hardware_unhealthy,
    hidden_stall,
    host_bound,
    idle,
    launch_bound,
    memory_bandwidth_bound,
    memory_overprovisioned,
    near_out_of_memory,
    network_bound,
    numa_misplaced,
    nvlink_absent,
    overprovisioned,
    pcie_bound,
    pcie_link_degraded,
    periodic_starvation,
    power_cap,
    power_throttled,
    rank_imbalance,
    sharing,
    storage_bound,
    tensor_cores_unused,
    thermal_throttled,
    underprovisioned,
)
from rightsizer.advice.rules.rule import Rule, checked_rule
from rightsizer.io.extensions import extended

_OURS: Final[tuple[Rule[Any], ...]] = (
    idle.RULE,
    hidden_stall.RULE,
    rank_imbalance.RULE,
    host_bound.RULE,
    storage_bound.RULE,
    network_bound.RULE,
    periodic_starvation.RULE,
    pcie_bound.RULE,
    launch_bound.RULE,
    memory_bandwidth_bound.RULE,
    compute_saturated.RULE,
    tensor_cores_unused.RULE,
    overprovisioned.RULE,
    near_out_of_memory.RULE,
    memory_overprovisioned.RULE,
    underprovisioned.RULE,
    gpu_count.RULE,
    sharing.RULE,
    diurnal_autoscale.RULE,
    exhaustion_forecast.RULE,
    power_throttled.RULE,
    thermal_throttled.RULE,
    power_cap.RULE,
    pcie_link_degraded.RULE,
    numa_misplaced.RULE,
    nvlink_absent.RULE,
    hardware_unhealthy.RULE,
)
RULES: Final[tuple[Rule[Any], ...]] = extended(
    "rules", _OURS, checked_rule, lambda rule: str(rule.name)
)
"""Those of other packages are the last."""
