"""Effect of a workload on a GPU: while its kernels run (activity), and on average (load)."""

from collections.abc import Iterable
from operator import attrgetter
from typing import Final

from msgspec import Struct


class KernelActivity(Struct, frozen=True):
    """Physical behavior of one phase; all figures are ratios, 0 to 1.

    `residency` is the share of time with a kernel on the GPU. Figures up to `dram` apply while a
    kernel runs; links and engines work beside kernels and are means over all time.
    """

    residency: float = 0.0
    coverage: float = 0.0
    """Share of SMs with a warp on them."""
    occupancy: float = 0.0
    """Resident warps of those SMs, relative to the maximum."""
    tensor: float = 0.0
    fp32: float = 0.0
    fp16: float = 0.0
    fp64: float = 0.0
    dram: float = 0.0
    pcie_receive: float = 0.0
    pcie_transmit: float = 0.0
    nvlink_receive: float = 0.0
    nvlink_transmit: float = 0.0
    encoder: float = 0.0
    decoder: float = 0.0
    jpeg: float = 0.0
    ofa: float = 0.0


class DeviceLoad(Struct, frozen=True):
    """Mean loads at one time, relative to the capacity of the GPU or instance."""

    gpu_busy: float = 0.0
    sm_active: float = 0.0
    sm_occupancy: float = 0.0
    tensor_active: float = 0.0
    fp32_active: float = 0.0
    fp16_active: float = 0.0
    fp64_active: float = 0.0
    dram_active: float = 0.0
    pcie_receive: float = 0.0
    pcie_transmit: float = 0.0
    nvlink_receive: float = 0.0
    nvlink_transmit: float = 0.0
    encoder: float = 0.0
    decoder: float = 0.0
    jpeg: float = 0.0
    ofa: float = 0.0

    @classmethod
    def of(
        cls, activity: KernelActivity, intensity: float = 1.0, vigor: float = 1.0
    ) -> "DeviceLoad":
        """Scale an activity to a part of its full load.

        Args:
            activity: Behavior while the workload is busy.
            intensity: Remaining share of its busy time, and of its links and engines.
            vigor: Work rate of its kernels, relative to the activity's figures.
        """
        share = min(1.0, activity.residency * intensity)
        # A faster pace fills gaps; a kernel that never ends has none.
        busy = min(1.0, share * (1.0 + (vigor - 1.0) * (1.0 - share)))
        work = busy * vigor
        moved = intensity * vigor
        active = busy * activity.coverage
        at_work = activity.tensor, activity.fp32, activity.fp16, activity.fp64, activity.dram
        beside = (
            activity.pcie_receive,
            activity.pcie_transmit,
            activity.nvlink_receive,
            activity.nvlink_transmit,
            activity.encoder,
            activity.decoder,
            activity.jpeg,
            activity.ofa,
        )
        return cls(
            busy,
            active,
            active * activity.occupancy,
            *(min(busy, work * ratio) for ratio in at_work),
            *(min(1.0, moved * ratio) for ratio in beside),
        )

    @classmethod
    def total(cls, parts: Iterable[tuple["DeviceLoad", float]]) -> "DeviceLoad":
        """Sum of loads with their shares of the whole; capped at 1."""
        sums = [0.0] * len(cls.__struct_fields__)
        for load, share in parts:
            for index, value in enumerate(load.values()):
                sums[index] += value * share
        return cls(*(min(1.0, value) for value in sums))

    def values(self) -> tuple[float, ...]:
        """All ratios, in the order of the fields."""
        ratios: tuple[float, ...] = _RATIOS(self)
        return ratios

    @property
    def engines(self) -> float:
        """Load of the busiest media engine."""
        return max(self.encoder, self.decoder, self.jpeg, self.ofa)


_RATIOS: Final = attrgetter(*(field for field in DeviceLoad.__struct_fields__))
IDLE: Final = DeviceLoad()
