"""Registry of the rules over profiles, in order of rank; register a new rule here."""

from typing import Any, Final

from rightsizer.profiler.rules import (
    attention_unfused,
    communication_bound,
    dependency_bound,
    host_bound,
    kernel_inefficient,
    kernels_unfused,
    launch_bound,
    pcie_bound,
    rank_imbalance,
    storage_bound,
    tensor_cores_unused,
)
from rightsizer.profiler.rules.rule import ProfileRule

PROFILE_RULES: Final[tuple[ProfileRule[Any], ...]] = (
    launch_bound.RULE,
    host_bound.RULE,
    pcie_bound.RULE,
    communication_bound.RULE,
    storage_bound.RULE,
    tensor_cores_unused.RULE,
    kernels_unfused.RULE,
    attention_unfused.RULE,
    kernel_inefficient.RULE,
    rank_imbalance.RULE,
    dependency_bound.RULE,
)
