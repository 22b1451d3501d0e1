"""A board: facts of one kind of GPU, each with its origin."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from rightsizer.model.frozen import dataclass, field

_PCIE_BYTES_PER_SECOND: Final = (0.25e9, 0.5e9, 0.985e9, 1.969e9, 3.938e9, 7.563e9)
"""One lane, one direction, after encoding, by generation from the first on."""
_FIRST_WITH_BF16: Final = (8, 0)


class Precision(StrEnum):
    """The number formats that a peak is known for. All peaks are dense, without sparsity."""

    FP32 = "fp32"
    TF32 = "tf32"
    BF16 = "bf16"
    """Also fp16; either accumulates in fp32."""
    FP16_ACC16 = "fp16_acc16"
    """Accumulates in fp16, which GeForce boards do at twice the rate."""
    FP8 = "fp8"
    INT8 = "int8"
    FP4 = "fp4"


class OriginKind(StrEnum):
    """How a figure came to be known, the surest first."""

    STATED = "stated"
    """By the operator, in a file of their own."""
    MEASURED = "measured"
    VERIFIED = "verified"
    """Recalled, and compared with a public table."""
    RECALLED = "recalled"
    """From a datasheet, not compared with anything."""
    ASSUMED = "assumed"
    """From what is known of boards alike."""


@dataclass(frozen=True, slots=True)
class FactOrigin:
    """How a figure came to be known, and from whom."""

    kind: OriginKind
    source: str


_STAND_INS: Final[Mapping[Precision, Precision]] = {
    **dict.fromkeys((Precision.FP4, Precision.INT8), Precision.FP8),
    **dict.fromkeys((Precision.FP8, Precision.FP16_ACC16), Precision.BF16),
    **dict.fromkeys((Precision.TF32, Precision.FP32), Precision.BF16),
}
"""What a format is likest to where nothing is known of itself: first in width, then in kind."""


def _usual() -> Mapping[Precision, float]:
    return {Precision.BF16: 0.8}


@dataclass(frozen=True, slots=True)
class Efficiency:
    """Achieved parts of a board's dense peaks and of its memory bandwidth, by number format."""

    gemm: Mapping[Precision, float] = field(default_factory=_usual)
    """Large matrix products, of the peak; what a low power limit takes is taken off."""
    weight_read: Mapping[Precision, float] = field(default_factory=_usual)
    """Products with few rows, of the memory bandwidth."""
    decode_attention: Mapping[Precision, float] = field(default_factory=_usual)
    """Attention of one new token, of the memory bandwidth, by the format of the cache."""
    power_cap_ratio: float = 1.0
    """What the power limit leaves of the assumed parts; 1 where they are measured."""

    def gemm_ratio(self, precision: Precision) -> float:
        """The part of a format's peak, or that of the format likest to it."""
        while precision not in self.gemm and precision in _STAND_INS:
            precision = _STAND_INS[precision]
        return self.gemm[precision]


@dataclass(frozen=True, slots=True)
class AllReduce:
    """What a sum over several GPUs costs."""

    bytes_per_second: float
    """Bus bandwidth: algorithm bandwidth times 2 (n - 1) / n, as the NCCL tests print it."""
    small_message_seconds: float


@dataclass(frozen=True, slots=True)
class MigProfile:
    """A way to cut a slice off a board."""

    name: str
    compute_share: float
    memory_share: float
    sm_count: int | None
    maximum_count: int
    memory_bytes: float | None = None
    """What a slice shows, which is less than its share."""
    is_memory_assumed: bool = True
    """Reckoned from the board's, not read off a slice."""


@dataclass(frozen=True, slots=True)
class Board:
    """One kind of GPU; a figure that is unknown is `None`.

    `origin` tells of each figure, by its name in the catalogue's file, how it came to be known;
    `verified` names those that were checked against a public table.
    """

    key: str
    names: tuple[str, ...]
    """What NVML calls it; the first is the usual one."""
    architecture: str
    compute_capability: tuple[int, int]
    """AMD's targets read alike: gfx942 is (9, 4), as PyTorch reports it."""
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
    """Of the pipes' cycles, so that a low power limit, which lowers the clock, is not in it."""
    achievable_bandwidth_ratio: float = 0.8
    mig_profiles: tuple[MigProfile, ...] = ()
    form_factor: str = ""
    memory_type: str = ""
    release_year: int | None = None
    verified: frozenset[str] = frozenset()
    source: str = ""
    notes: str = ""
    vendor: str = "NVIDIA"
    other_names: tuple[str, ...] = ()
    """What tools other than NVML call it, amd-smi among them."""
    nominal_memory_bytes: float | None = None
    """What the box says."""
    linked_gpu_count: int | None = None
    """How many GPUs its own links join at most: 2 with a bridge, 8 on a baseboard."""
    infinity_fabric_bytes_per_second: float = 0.0
    """One direction over all links; 0 where there is none."""
    efficiency: Efficiency = field(default_factory=Efficiency)
    all_reduce: Mapping[int, AllReduce] = field(default_factory=dict)
    """By the number of GPUs: 2, 4, 8."""
    origins: Mapping[str, FactOrigin] = field(default_factory=dict)
    """Of the figures that do not come from `source` alone."""

    @property
    def usual_name(self) -> str:
        """What its own tools call it, or its key where unknown."""
        return next(iter((*self.names, *self.other_names)), self.key)

    @property
    def pcie_bytes_per_second(self) -> float:
        """One direction over all lanes."""
        return _PCIE_BYTES_PER_SECOND[self.pcie_generation - 1] * self.pcie_width

    @property
    def link_bytes_per_second(self) -> float:
        """One direction over whatever joins it to its like: NVLink, Infinity Fabric; else 0."""
        return self.nvlink_bytes_per_second or self.infinity_fabric_bytes_per_second

    @property
    def computes_in_bf16(self) -> bool:
        """Whether it knows bfloat16; older boards do the same in fp16."""
        return self.compute_capability >= _FIRST_WITH_BF16

    def peak(self, precision: Precision) -> float | None:
        """The dense peak of a format; `None` where the board does not compute in it."""
        if precision is Precision.FP16_ACC16:
            precision = precision if precision in self.peak_per_second else Precision.BF16
        return self.peak_per_second.get(precision)

    def achieved(self, precision: Precision) -> float | None:
        """What large matrix products reach of that peak."""
        peak = self.peak(precision)
        return None if peak is None else peak * self.efficiency.gemm_ratio(precision)

    def origin(self, figure: str) -> FactOrigin:
        """How a figure came to be known, by its name in the catalogue's file.

        Parts are named with a dot, `dense_peak_tera.bf16`; what is known of a whole holds for
        its parts.
        """
        name = figure
        while name not in self.origins and "." in name:
            name = name.rpartition(".")[0]
        return self.origins.get(name) or FactOrigin(OriginKind.RECALLED, self.source)
