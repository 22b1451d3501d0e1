"""Board: figures of one GPU model, each with its origin."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct, field

_PCIE_BYTES_PER_SECOND: Final = (0.25e9, 0.5e9, 0.985e9, 1.969e9, 3.938e9, 7.563e9)
"""Per lane and direction, after encoding, indexed by generation - 1."""
_FIRST_WITH_BF16: Final = (8, 0)


class Precision(StrEnum):
    """Number formats with a known peak. All peaks are dense, without sparsity."""

    FP32 = "fp32"
    TF32 = "tf32"
    BF16 = "bf16"
    """Also fp16; both accumulate in fp32."""
    FP16_ACC16 = "fp16_acc16"
    """Accumulates in fp16, which GeForce boards do at twice the rate."""
    FP8 = "fp8"
    INT8 = "int8"
    FP4 = "fp4"


class OriginKind(StrEnum):
    """Origin of a figure, most reliable first."""

    STATED = "stated"
    """By the operator, in their own file."""
    MEASURED = "measured"
    VERIFIED = "verified"
    """From memory, checked against a public table."""
    RECALLED = "recalled"
    """From a datasheet, unchecked."""
    ASSUMED = "assumed"
    """Derived from similar boards."""


class FactOrigin(Struct, frozen=True):
    """Kind and source of a figure."""

    kind: OriginKind
    source: str


_STAND_INS: Final[Mapping[Precision, Precision]] = {
    **dict.fromkeys((Precision.FP4, Precision.INT8), Precision.FP8),
    **dict.fromkeys((Precision.FP8, Precision.FP16_ACC16), Precision.BF16),
    **dict.fromkeys((Precision.TF32, Precision.FP32), Precision.BF16),
}
"""Closest format to use if a format's own ratio is unknown: first by width, then by kind."""


def _usual() -> Mapping[Precision, float]:
    return {Precision.BF16: 0.8}


class Efficiency(Struct, frozen=True):
    """Achieved fractions of a board's dense peaks and memory bandwidth, by number format."""

    gemm: Mapping[Precision, float] = field(default_factory=_usual)
    """Large matrix products, fraction of the peak; includes the loss at a low power limit."""
    weight_read: Mapping[Precision, float] = field(default_factory=_usual)
    """Products with few rows, fraction of the memory bandwidth."""
    decode_attention: Mapping[Precision, float] = field(default_factory=_usual)
    """Attention of one new token, fraction of the memory bandwidth, by cache format."""
    power_cap_ratio: float = 1.0
    """Fraction of the assumed values left by the power limit; 1 for measured values."""

    def gemm_ratio(self, precision: Precision) -> float:
        """Fraction of a format's peak, or that of the closest format."""
        while precision not in self.gemm and precision in _STAND_INS:
            precision = _STAND_INS[precision]
        return self.gemm[precision]


class AllReduce(Struct, frozen=True):
    """Cost of an all-reduce over several GPUs."""

    bytes_per_second: float
    """Bus bandwidth: algorithm bandwidth times 2 (n - 1) / n, as the NCCL tests print it."""
    small_message_seconds: float


class MigProfile(Struct, frozen=True):
    """MIG profile of a board."""

    name: str
    compute_share: float
    memory_share: float
    sm_count: int | None
    maximum_count: int
    memory_bytes: float | None = None
    """Memory visible in an instance, less than its share."""
    is_memory_assumed: bool = True
    """Computed from the board's memory, not read from an instance."""


class Board(Struct, frozen=True):
    """One GPU model; unknown figures are `None`.

    `origin` gives the origin of a figure by its name in the catalogue file.
    """

    key: str
    names: tuple[str, ...]
    """Names reported by NVML, the usual one first."""
    architecture: str
    compute_capability: tuple[int, int]
    """AMD targets use the same form: gfx942 is (9, 4), as PyTorch reports it."""
    sm_count: int
    memory_bytes: float
    """As reported by NVML, less than the nominal size."""
    memory_bandwidth_bytes_per_second: float
    power_limit_watts: float
    sm_clock_maximum_hertz: float | None
    pcie_generation: int
    pcie_width: int
    nvlink_generation: int | None
    nvlink_bytes_per_second: float
    """One direction over all links; 0 without NVLink."""
    l2_bytes: float | None
    peak_per_second: Mapping[Precision, float] = {}
    achievable_compute_ratio: float = 0.8
    """Fraction of pipe cycles, so independent of a low power limit, which lowers the clock."""
    achievable_bandwidth_ratio: float = 0.8
    mig_profiles: tuple[MigProfile, ...] = ()
    form_factor: str = ""
    memory_type: str = ""
    release_year: int | None = None
    source: str = ""
    notes: str = ""
    vendor: str = "NVIDIA"
    other_names: tuple[str, ...] = ()
    """Names reported by tools other than NVML, such as amd-smi."""
    nominal_memory_bytes: float | None = None
    """Size according to the vendor's name of the product."""
    linked_gpu_count: int | None = None
    """Maximum number of GPUs joined by its own links: 2 with a bridge, 8 on a baseboard."""
    infinity_fabric_bytes_per_second: float = 0.0
    """One direction over all links; 0 without Infinity Fabric."""
    reaches_peers: bool = True
    """Whether its memory is read by others over PCIe, not through the host's memory alone."""
    efficiency: Efficiency = Efficiency()
    all_reduce: Mapping[int, AllReduce] = {}
    """By number of GPUs: 2, 4, 8."""
    origins: Mapping[str, FactOrigin] = {}
    """Only figures with an origin other than `source`."""

    def __hash__(self) -> int:
        return hash(self.key)

    @property
    def usual_name(self) -> str:
        """Usual name in its vendor's tools, or the key if unknown."""
        return next(iter((*self.names, *self.other_names)), self.key)

    @property
    def pcie_bytes_per_second(self) -> float:
        """One direction over all lanes."""
        return _PCIE_BYTES_PER_SECOND[self.pcie_generation - 1] * self.pcie_width

    @property
    def link_bytes_per_second(self) -> float:
        """One direction over its NVLink or Infinity Fabric links; 0 if it has neither."""
        return self.nvlink_bytes_per_second or self.infinity_fabric_bytes_per_second

    @property
    def achieved_bytes_per_second(self) -> float:
        """Memory bandwidth of large kernels."""
        return self.memory_bandwidth_bytes_per_second * self.achievable_bandwidth_ratio

    @property
    def computes_in_bf16(self) -> bool:
        """Whether it supports bfloat16; older boards use fp16 instead."""
        return self.compute_capability >= _FIRST_WITH_BF16

    def peak(self, precision: Precision) -> float | None:
        """Dense peak of a format, or `None` if the board does not support it."""
        if precision is Precision.FP16_ACC16:
            precision = precision if precision in self.peak_per_second else Precision.BF16
        return self.peak_per_second.get(precision)

    def achieved(self, precision: Precision) -> float | None:
        """Throughput of large matrix products: the peak times the achieved fraction."""
        peak = self.peak(precision)
        return None if peak is None else peak * self.efficiency.gemm_ratio(precision)

    def origin(self, figure: str) -> FactOrigin:
        """Origin of a figure, by its name in the catalogue file.

        Nested figures are named with a dot, `dense_peak_tera.bf16`; the origin of a group applies
        to its members.
        """
        name = figure
        while name not in self.origins and "." in name:
            name = name.rpartition(".")[0]
        return self.origins.get(name) or FactOrigin(OriginKind.RECALLED, self.source)
