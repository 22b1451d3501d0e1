"""A board: what is known of one kind of GPU."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

__all__ = ["Board", "MigProfile", "Precision"]


class Precision(StrEnum):
    """The number formats that a peak is known for. All peaks are dense, without sparsity."""

    FP32 = "fp32"
    TF32 = "tf32"
    BF16 = "bf16"
    FP8 = "fp8"
    INT8 = "int8"
    FP4 = "fp4"


@dataclass(frozen=True, slots=True)
class MigProfile:
    """A way to cut a slice off a board."""

    name: str
    compute_share: float
    memory_share: float
    sm_count: int | None
    maximum_count: int


@dataclass(frozen=True, slots=True)
class Board:
    """One kind of GPU; a figure that nobody knows is `None`.

    `verified` names the fields that were checked against a public table; the others are
    recalled from datasheets. `source` says which.
    """

    key: str
    names: tuple[str, ...]
    """What NVML calls it; the first is the usual one."""
    architecture: str
    compute_capability: tuple[int, int]
    sm_count: int
    memory_bytes: float
    """What NVML reports, which is less than what the box says."""
    memory_bandwidth_bytes_per_second: float
    power_limit_watts: float
    sm_clock_maximum_hertz: float | None
    pcie_generation: int
    pcie_width: int
    nvlink_generation: int | None
    nvlink_bytes_per_second: float
    """One direction over all links; 0 where there is no NVLink."""
    l2_bytes: float | None
    peak_per_second: Mapping[Precision, float] = field(default_factory=dict)
    achievable_compute_ratio: float = 0.8
    achievable_bandwidth_ratio: float = 0.8
    mig_profiles: tuple[MigProfile, ...] = ()
    form_factor: str = ""
    memory_type: str = ""
    release_year: int | None = None
    verified: frozenset[str] = frozenset()
    source: str = ""
    notes: str = ""
