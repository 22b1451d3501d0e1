"""Profile of a measured workload: shares from telemetry, and times from a profiler's timeline."""

from enum import StrEnum
from typing import Annotated, Final, Self

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.catalogue.board import Board, Precision
from rightsizer.model.errors import RequirementError
from rightsizer.model.settings import Spec
from rightsizer.sizing.place import CapacityRatios, GpuPlace

SMALL_KERNEL_SECONDS: Final = 10e-6
"""Kernels with a shorter average may be mostly latency, which is the same on any GPU. Source:
a launch takes 5 to 20 us according to HolisticTraceAnalysis, and an empty kernel about 3 us."""
_UNKNOWN_IN_PRODUCTS_RATIO: Final = 0.5
"""Fraction of kernels with inconclusive names assumed to be matrix products."""

_NOTHING: Final = 1e-9
"""Smaller shares are rounding errors of 0."""
_BY_TENSOR_CORES: Final = (Precision.TF32, Precision.FP32)
"""Tensor cores do not support fp32; a board without tf32 computes it in its vector pipes."""
_HALVES: Final = (Precision.BF16,)
_NARROWEST: Final = (Precision.FP4, Precision.FP8, Precision.BF16)


class ProfiledTime(Struct, frozen=True):
    """Parts of a device's time, which sum to 1."""

    tensor: float
    """With a kernel known to use tensor cores."""
    plain: float
    """With a kernel known not to use them."""
    unknown: float
    """With a kernel of unknown kind."""
    collective: float
    """With a collective and no other kernel."""
    copy: float
    """With a copy and no kernel."""
    host_wait: float
    """With neither, before the next kernel was launched."""
    gap: float
    """With neither, for other reasons: between kernels, events, other streams."""
    launch: float = 0.0
    """Host time in launch calls, relative to the whole; not part of the sum."""
    kernel_seconds: float = 1.0
    """Mean length of a kernel."""

    @property
    def kernels(self) -> float:
        """With any kernel other than a lone collective."""
        return self.tensor + self.plain + self.unknown

    @property
    def busy(self) -> float:
        """With any kernel."""
        return self.kernels + self.collective

    @property
    def host(self) -> float:
        """With neither a kernel nor a copy."""
        return self.host_wait + self.gap

    @property
    def in_products(self) -> float:
        """Assumed to be compute-bound, without counters."""
        return self.tensor + self.unknown * _UNKNOWN_IN_PRODUCTS_RATIO

    @property
    def are_kernels_small(self) -> bool:
        """Whether kernels may be mostly latency."""
        return self.kernel_seconds < SMALL_KERNEL_SECONDS

    def at_busy(self, busy: float) -> "ProfiledTime":
        """Parts of the same program in a window with another busy share.

        The window of telemetry is longer than a profile, and not slowed by a profiler.
        """
        idle = self.copy + self.host
        was_busy = self.busy > _NOTHING
        was_idle = idle > _NOTHING
        more = busy / self.busy if was_busy else 0.0
        less = (1.0 - busy) / idle if was_idle else 0.0
        working = ("tensor", "plain", "unknown", "collective")
        parts = {part: getattr(self, part) * more for part in working}
        parts |= {part: getattr(self, part) * less for part in ("copy", "host_wait", "gap")}
        parts["unknown"] += 0.0 if was_busy else busy
        parts["gap"] += 0.0 if was_idle else 1.0 - busy
        return replace(self, **parts)

    def kernel_range(self, speeds: CapacityRatios) -> tuple[float, float]:
        """Minimum and maximum time of its kernels over all resources that each may wait for.

        Kernels that use tensor cores wait for these or for memory, others for vector pipes or
        memory; small ones may be independent of the GPU.
        """
        always = (1.0,) if self.are_kernels_small else ()
        tensor = (speeds.compute, speeds.memory_bandwidth, *always)
        plain = (speeds.vector, speeds.memory_bandwidth, *always)
        parts = ((self.tensor, tensor), (self.plain, plain), (self.unknown, (*tensor, *plain)))
        least, greatest = (sum(share * end(of) for share, of in parts) for end in (min, max))
        return least, greatest


class ComputeFormat(StrEnum):
    """Format of the weights, which determines the format used by tensor cores."""

    precisions: tuple[Precision, ...]
    """Formats for tensor cores, best first; later ones are used if a board lacks the first."""
    weight_bytes: float
    """Size of one weight when read."""

    def __new__(
        cls, name: str, precisions: tuple[Precision, ...] = _HALVES, weight_bytes: float = 2.0
    ) -> Self:
        """Create a member; 16 bits by default."""
        made = str.__new__(cls, name)
        made._value_ = name
        made.precisions = precisions
        made.weight_bytes = weight_bytes
        return made

    FP32 = "fp32", _BY_TENSOR_CORES, 4.0
    TF32 = "tf32", _BY_TENSOR_CORES, 4.0
    BF16 = "bf16"
    FP16 = "fp16"
    FP8 = "fp8", (Precision.FP8, Precision.BF16), 1.0
    INT8 = "int8", (Precision.INT8, Precision.FP8, Precision.BF16), 1.0
    FP4 = "fp4", _NARROWEST, 0.5
    NVFP4 = "nvfp4", _NARROWEST, 0.5
    INT4 = "int4", _HALVES, 0.5
    """Unpacked to 16 bits before the product; likewise the next eight."""
    NF4 = "nf4", _HALVES, 0.5
    NF4_DOUBLE_QUANTIZED = "nf4-dq", _HALVES, 0.5
    Q2_K = "q2_k", _HALVES, 0.4
    Q3_K_M = "q3_k_m", _HALVES, 0.5
    Q4_K_M = "q4_k_m", _HALVES, 0.6
    Q5_K_M = "q5_k_m", _HALVES, 0.7
    Q6_K = "q6_k", _HALVES, 0.8
    Q8_0 = "q8_0", _HALVES, 1.1

    @property
    def required(self) -> tuple[Precision, ...]:
        """Formats allowed if it is stated: only fp32 has an alternative, which is itself."""
        formats = self.precisions
        return formats if Precision.FP32 in formats else formats[:1]


class UsageShares(Struct, frozen=True):
    """Means over the whole window including idle time, 0 to 1; `None` if not measured."""

    sm_active: float | None = None
    tensor_active: float | None = None
    dram_active: float | None = None
    gpu_busy: float | None = None
    """With a kernel; the rest is host time and stays unchanged."""
    pcie_receive: float | None = None
    pcie_transmit: float | None = None
    nvlink_receive: float | None = None
    nvlink_transmit: float | None = None
    sm_clock_ratio: Annotated[float | None, Spec(within=(0.01, 1.0))] = None
    """Relative to the maximum clock: pipe activity counts cycles, not time."""
    fp32_active: float | None = None

    @property
    def pcie(self) -> float:
        """Busier direction; 0 if neither was measured."""
        return max(self.pcie_receive or 0.0, self.pcie_transmit or 0.0)

    @property
    def nvlink(self) -> float:
        """Busier direction; 0 if neither was measured."""
        return max(self.nvlink_receive or 0.0, self.nvlink_transmit or 0.0)


class WorkloadProfile(Struct, frozen=True):
    """Measured workload."""

    place: GpuPlace
    shares: UsageShares
    precision: ComputeFormat = ComputeFormat.BF16
    memory_bytes: float | None = None
    """Peak usage; `None` if unknown."""
    profiled: ProfiledTime | None = None
    """Time according to a profiler's timeline; may be combined with counters."""

    @property
    def has_counters(self) -> bool:
        """Whether counters show which resource its kernels wait for."""
        return None not in {self.shares.tensor_active, self.shares.dram_active}

    def __post_init__(self) -> None:
        named = ("sm_active", "tensor_active", "dram_active")
        missing = [name for name in named if getattr(self.shares, name) is None]
        if self.profiled is None and missing:
            fault = f"without {', '.join(missing)} nothing can be said; how busy NVML calls a GPU"
            fault += " does not tell what its kernels wait for"
            remedy = "measure with GPM (Hopper and later) or with the profiling fields of DCGM"
            raise RequirementError(f"shares: {fault}; {remedy}")
        if self.profiled is not None and len({*missing} & {*named[1:]}) == 1:
            fault = "tensor_active and dram_active divide the time of kernels together"
            remedy = "give both, or leave both to what the profile tells"
            raise RequirementError(f"shares: {fault}; {remedy}")
        if self.shares.nvlink > 0.0 and self.place.link_bytes_per_second == 0.0:
            fault = f"{self.place.name} has no NVLink to receive or transmit over"
            remedy = "leave nvlink_receive and nvlink_transmit out, or correct gpu"
            raise RequirementError(f"shares: {fault}; {remedy}")

    def peak_precision(self) -> Precision:
        """Format used by its tensor cores."""
        for precision in self.precision.required:
            if self.place.peak(precision) is not None:
                return precision
        fault = f"{self.place.board.key} does not compute in {self.precision}"
        remedy = "state the format that was really run, such as bf16"
        raise RequirementError(f"precision.from: {fault}; {remedy}")


class ProfiledRun(Struct, frozen=True):
    """Profile of one program on all of its devices."""

    source: str
    """Names of its files."""
    devices: int
    """Number of devices with a timeline."""
    device_name: str
    """Name reported by the driver; empty if not in the files."""
    board: Board | None
    """Board with that name; `None` if not in the catalogue."""
    time: ProfiledTime
    """Over all devices together."""
    steps: int
    """Number of steps covered by the time, on one device; 0 if none is marked."""
    step_seconds: float | None
    """Mean length of a step."""
    memory_peak_bytes: int | None
    """Peak usage of any device; `None` if not in the files."""
    is_launch_known: bool
    """Whether the files have the launches of most kernels, needed to find causes of idle time."""
