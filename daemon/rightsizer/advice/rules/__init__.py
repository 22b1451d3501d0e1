"""One file a rule: its settings and one function. A new rule is one more name here."""

from importlib import import_module
from typing import Any, Final

from rightsizer.advice.rules.rule import Rule

_NAMES: Final = """
    idle hidden_stall rank_imbalance host_bound storage_bound network_bound periodic_starvation
    pcie_bound launch_bound memory_bandwidth_bound compute_saturated tensor_cores_unused
    overprovisioned near_out_of_memory memory_overprovisioned underprovisioned gpu_count sharing
    diurnal_autoscale exhaustion_forecast power_throttled thermal_throttled power_cap
    pcie_link_degraded numa_misplaced nvlink_absent hardware_unhealthy
"""

RULES: Final[tuple[Rule[Any], ...]] = tuple(
    import_module(f"{__name__}.{name}").RULE for name in _NAMES.split()
)
