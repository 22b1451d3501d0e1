"""What was measured of a workload on the GPU that it ran on."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from rightsizer.catalogue.precision import Precision
from rightsizer.domain.errors import RequirementError
from rightsizer.sizing.place import Place
from rightsizer.sizing.profiled_time import ProfiledTime

__all__ = ["ComputeFormat", "Profile", "Shares"]


class ComputeFormat(StrEnum):
    """The format that the weights are in, which decides what the tensor cores compute in."""

    FP32 = "fp32"
    TF32 = "tf32"
    BF16 = "bf16"
    FP16 = "fp16"
    FP8 = "fp8"
    INT8 = "int8"
    FP4 = "fp4"
    NVFP4 = "nvfp4"
    INT4 = "int4"
    """Unpacked to 16 bits before it is multiplied with; so are the next three."""
    NF4 = "nf4"
    NF4_DOUBLE_QUANTIZED = "nf4-dq"
    Q4_K_M = "q4_k_m"

    @property
    def precisions(self) -> tuple[Precision, ...]:
        """What the tensor cores compute in, best first; the rest where a board lacks it."""
        return _PRECISIONS.get(self, (Precision.BF16,))

    @property
    def required(self) -> tuple[Precision, ...]:
        """The same where the format is stated: only fp32 has a stand-in, which is itself."""
        known = self.precisions
        return known if Precision.FP32 in known else known[:1]

    @property
    def weight_bytes(self) -> float:
        """Of one weight, which is what reading it takes."""
        return _WEIGHT_BYTES.get(self, 2.0)


_PRECISIONS: Final = {
    ComputeFormat.FP32: (Precision.TF32, Precision.FP32),
    ComputeFormat.TF32: (Precision.TF32, Precision.FP32),
    ComputeFormat.FP8: (Precision.FP8, Precision.BF16),
    ComputeFormat.INT8: (Precision.INT8, Precision.FP8, Precision.BF16),
    ComputeFormat.FP4: (Precision.FP4, Precision.FP8, Precision.BF16),
    ComputeFormat.NVFP4: (Precision.FP4, Precision.FP8, Precision.BF16),
}
"""The tensor cores know no fp32; a board without tf32 computes it in its vector pipes."""
_WEIGHT_BYTES: Final = {
    ComputeFormat.FP32: 4.0,
    ComputeFormat.TF32: 4.0,
    ComputeFormat.FP8: 1.0,
    ComputeFormat.INT8: 1.0,
    ComputeFormat.FP4: 0.5,
    ComputeFormat.NVFP4: 0.5,
    ComputeFormat.INT4: 0.5,
    ComputeFormat.NF4: 0.5,
    ComputeFormat.NF4_DOUBLE_QUANTIZED: 0.5,
    ComputeFormat.Q4_K_M: 0.6,
}


@dataclass(frozen=True, slots=True)
class Shares:
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
class Profile:
    """A workload as it was measured.

    Raises:
        RequirementError: the telemetry does not tell enough, or contradicts the place.
    """

    place: Place
    shares: Shares
    precision: ComputeFormat = ComputeFormat.BF16
    memory_bytes: float | None = None
    """The most that it used; `None` where nobody knows."""
    profiled: ProfiledTime | None = None
    """Where the time goes by a profiler's time line; counters may stand beside it."""

    @property
    def has_counters(self) -> bool:
        """Whether counters tell what its kernels wait for."""
        return None not in {self.shares.tensor_active, self.shares.dram_active}

    def __post_init__(self) -> None:
        """Refuse what cannot be projected."""
        named = ("sm_active", "tensor_active", "dram_active")
        missing = [name for name in named if getattr(self.shares, name) is None]
        if self.profiled is not None:
            self._check_beside_profile()
        elif missing:
            raise RequirementError(
                f"shares: without {', '.join(missing)} nothing can be said; how busy NVML "
                "calls a GPU does not tell what its kernels wait for; measure with GPM (Hopper and "
                "later) or with the profiling fields of DCGM"
            )
        if self.shares.nvlink > 0.0 and self.place.link_bytes_per_second == 0.0:
            raise RequirementError(
                f"shares: {self.place.name} has no NVLink to receive or transmit over; leave "
                "nvlink_receive and nvlink_transmit out, or mend gpu"
            )

    def _check_beside_profile(self) -> None:
        counted = (self.shares.tensor_active, self.shares.dram_active)
        if not self.has_counters and any(each is not None for each in counted):
            raise RequirementError(
                "shares: tensor_active and dram_active divide the time of kernels together; give "
                "both, or leave both to what the profile tells"
            )

    def peak_precision(self) -> Precision:
        """What its tensor cores compute in.

        Raises:
            RequirementError: the board does not compute in the format stated.
        """
        for precision in self.precision.required:
            if self.place.peak(precision) is not None:
                return precision
        raise RequirementError(
            f"precision.from: {self.place.board.key} does not compute in "
            f"{self.precision}; state the format that was really run, such as bf16"
        )
