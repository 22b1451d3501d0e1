"""Where the time of a device goes by a profiler's time line, in place of what telemetry assumes."""

from dataclasses import dataclass, replace
from typing import Final

from rightsizer.sizing.capacity_ratios import CapacityRatios

__all__ = ["SMALL_KERNEL_SECONDS", "ProfiledTime"]

SMALL_KERNEL_SECONDS: Final = 10e-6
"""Kernels that are shorter on average may be mostly latency, which is the same on any GPU. Source:
a launch takes 5 to 20 us by HolisticTraceAnalysis, and a kernel of no work some 3 us."""
_UNKNOWN_IN_PRODUCTS_RATIO: Final = 0.5
"""Of kernels whose names do not tell, those taken to be products of matrices; an assumption."""

_NOTHING: Final = 1e-9
"""Shares below it are what rounding left of none."""


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
    def in_memory(self) -> float:
        """Taken to be bound by the memory's bandwidth, where no counter tells."""
        return self.kernels - self.in_products

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
        return replace(
            self,
            tensor=self.tensor * more,
            plain=self.plain * more,
            unknown=self.unknown * more + (0.0 if was_busy else busy),
            collective=self.collective * more,
            copy=self.copy * less,
            host_wait=self.host_wait * less,
            gap=self.gap * less + (0.0 if was_idle else 1.0 - busy),
        )

    def kernel_range(self, speeds: CapacityRatios) -> tuple[float, float]:
        """Within which its kernels would take, whichever resource each of them waits for.

        Kernels that use the tensor cores wait for them or for the memory, others for the vector
        pipes or the memory; small ones may wait for nothing that differs between GPUs.
        """
        always = (1.0,) if self.are_kernels_small else ()
        tensor = (speeds.compute, speeds.memory_bandwidth, *always)
        plain = (speeds.vector, speeds.memory_bandwidth, *always)
        parts = ((self.tensor, tensor), (self.plain, plain), (self.unknown, (*tensor, *plain)))
        return (
            sum(share * min(of) for share, of in parts),
            sum(share * max(of) for share, of in parts),
        )
