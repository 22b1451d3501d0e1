"""Profile of a measured workload: shares by telemetry, and times by a profiler's timeline."""

from enum import StrEnum
from typing import Final, Self

from rightsizer.catalogue.board import Board, Precision
from rightsizer.model.errors import RequirementError
from rightsizer.model.frozen import dataclass, replace
from rightsizer.sizing.place import CapacityRatios, GpuPlace

SMALL_KERNEL_SECONDS: Final = 10e-6
"""Kernels that are shorter on average may be mostly latency, which is the same on any GPU. Source:
a launch takes 5 to 20 us by HolisticTraceAnalysis, and a kernel of no work some 3 us."""
_UNKNOWN_IN_PRODUCTS_RATIO: Final = 0.5
"""Of kernels whose names do not tell, those taken to be products of matrices; an assumption."""

_NOTHING: Final = 1e-9
"""Shares below it are what rounding left of none."""
_BY_TENSOR_CORES: Final = (Precision.TF32, Precision.FP32)
"""The tensor cores know no fp32; a board without tf32 computes it in its vector pipes."""
_HALVES: Final = (Precision.BF16,)
_NARROWEST: Final = (Precision.FP4, Precision.FP8, Precision.BF16)


@dataclass(frozen=True, slots=True)
class ProfiledTime:
    """Parts of a device's time, which sum to 1."""

    tensor: float
    """With a kernel that is known to use the tensor cores."""
    plain: float
    """With a kernel that is known to use none."""
    unknown: float
    """With a kernel of which that is not known."""
    collective: float
    """With a collective and no other kernel."""
    copy: float
    """With a copy and no kernel."""
    host_wait: float
    """Without either, while the next kernel was not launched yet."""
    gap: float
    """Without either, for other reasons: between kernels, events, other streams."""
    launch: float = 0.0
    """That of the host in calls that launch, of the whole; no part of the sum."""
    kernel_seconds: float = 1.0
    """Mean length of a kernel."""

    @property
    def kernels(self) -> float:
        """With any kernel that is more than a collective by itself."""
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
        """Taken to be bound by compute, where no counter tells."""
        return self.tensor + self.unknown * _UNKNOWN_IN_PRODUCTS_RATIO

    @property
    def are_kernels_small(self) -> bool:
        """Whether they may be mostly latency."""
        return self.kernel_seconds < SMALL_KERNEL_SECONDS

    def at_busy(self, busy: float) -> "ProfiledTime":
        """The same program in a window that was busy for another share of it.

        Telemetry's window is longer than a profile, and no profiler slows it.
        """
        idle = self.copy + self.host
        was_busy, was_idle = self.busy > _NOTHING, idle > _NOTHING
        more = busy / self.busy if was_busy else 0.0
        less = (1.0 - busy) / idle if was_idle else 0.0
        working = ("tensor", "plain", "unknown", "collective")
        parts = {part: getattr(self, part) * more for part in working}
        parts |= {part: getattr(self, part) * less for part in ("copy", "host_wait", "gap")}
        parts["unknown"] += 0.0 if was_busy else busy
        parts["gap"] += 0.0 if was_idle else 1.0 - busy
        return replace(self, **parts)

    def kernel_range(self, speeds: CapacityRatios) -> tuple[float, float]:
        """Within which its kernels would take, whichever resource each of them waits for.

        Kernels that use the tensor cores wait for them or for the memory, others for the vector
        pipes or the memory; small ones may wait for nothing that differs between GPUs.
        """
        always = (1.0,) if self.are_kernels_small else ()
        tensor = (speeds.compute, speeds.memory_bandwidth, *always)
        plain = (speeds.vector, speeds.memory_bandwidth, *always)
        parts = ((self.tensor, tensor), (self.plain, plain), (self.unknown, (*tensor, *plain)))
        least, most = (sum(share * end(of) for share, of in parts) for end in (min, max))
        return least, most


class ComputeFormat(StrEnum):
    """The format that the weights are in, which decides what the tensor cores compute in."""

    precisions: tuple[Precision, ...]
    """What the tensor cores compute in, best first; the rest where a board lacks it."""
    weight_bytes: float
    """Of one weight, which is what reading it takes."""

    def __new__(
        cls, name: str, precisions: tuple[Precision, ...] = _HALVES, weight_bytes: float = 2.0
    ) -> Self:
        """Make a member; of 16 bits where nothing else is said."""
        made = str.__new__(cls, name)
        made._value_, made.precisions, made.weight_bytes = name, precisions, weight_bytes
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
    """Unpacked to 16 bits before it is multiplied with; so are the next six."""
    NF4 = "nf4", _HALVES, 0.5
    NF4_DOUBLE_QUANTIZED = "nf4-dq", _HALVES, 0.5
    Q4_K_M = "q4_k_m", _HALVES, 0.6
    Q5_K_M = "q5_k_m", _HALVES, 0.7
    Q6_K = "q6_k", _HALVES, 0.8
    Q8_0 = "q8_0", _HALVES, 1.1

    @property
    def required(self) -> tuple[Precision, ...]:
        """The same where the format is stated: only fp32 has a stand-in, which is itself."""
        known = self.precisions
        return known if Precision.FP32 in known else known[:1]


@dataclass(frozen=True, slots=True)
class UsageShares:
    """Means over the whole window, idle time included, 0 to 1; `None` where not measured."""

    sm_active: float | None = None
    tensor_active: float | None = None
    dram_active: float | None = None
    gpu_busy: float | None = None
    """With a kernel; the rest is the host's and stays as it is."""
    pcie_receive: float | None = None
    pcie_transmit: float | None = None
    nvlink_receive: float | None = None
    nvlink_transmit: float | None = None
    sm_clock_ratio: float | None = None
    """Over the highest clock: pipe activity counts cycles, not time."""
    fp32_active: float | None = None

    @property
    def pcie(self) -> float:
        """The busier direction; 0 where neither was measured."""
        return max(self.pcie_receive or 0.0, self.pcie_transmit or 0.0)

    @property
    def nvlink(self) -> float:
        """The busier direction; 0 where neither was measured."""
        return max(self.nvlink_receive or 0.0, self.nvlink_transmit or 0.0)


@dataclass(frozen=True, slots=True)
class WorkloadProfile:
    """A workload as it was measured."""

    place: GpuPlace
    shares: UsageShares
    precision: ComputeFormat = ComputeFormat.BF16
    memory_bytes: float | None = None
    """The most that it used; `None` where it is not known."""
    profiled: ProfiledTime | None = None
    """Where the time goes by a profiler's timeline; counters may stand beside it."""

    @property
    def has_counters(self) -> bool:
        """Whether counters tell what its kernels wait for."""
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
        """What its tensor cores compute in."""
        for precision in self.precision.required:
            if self.place.peak(precision) is not None:
                return precision
        fault = f"{self.place.board.key} does not compute in {self.precision}"
        remedy = "state the format that was really run, such as bf16"
        raise RequirementError(f"precision.from: {fault}; {remedy}")


@dataclass(frozen=True, slots=True)
class ProfiledRun:
    """One program on all of its devices."""

    source: str
    """The names of its files."""
    devices: int
    """With a timeline."""
    device_name: str
    """As its driver calls it; empty where no file says."""
    board: Board | None
    """What that means; `None` where the catalogue does not know it."""
    time: ProfiledTime
    """Of all devices together."""
    steps: int
    """Over which the time was taken, on one device; 0 where none is marked."""
    step_seconds: float | None
    """Mean length of a step."""
    memory_peak_bytes: int | None
    """The most that any device used; `None` where it is not in the files."""
    is_launch_known: bool
    """Whether most kernels have their launch in the files, which idle causes rest on."""
