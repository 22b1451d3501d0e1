"""GPU or MIG instance: identity and capacities."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

BY_INDEX: Final = "index:"
BY_ADDRESS: Final = "pci:"
PLACEHOLDERS: Final = (BY_INDEX, BY_ADDRESS)
"""What names of GPUs without a uuid begin with."""


class MigInstance(Struct, frozen=True):
    """Slice of a GPU that makes up a MIG device."""

    parent_uuid: str
    profile: str
    """Driver's name, e.g. `1g.10gb`; cannot be computed from sizes."""
    gpu_instance_id: int
    compute_instance_id: int
    compute_share: float
    """Compute slices of the instance over those of the whole GPU, 0 to 1."""
    memory_share: float
    """Memory slices of the instance over those of the whole GPU, 0 to 1."""


class Device(Struct, frozen=True):
    """Device as described by its driver, recording or scenario.

    Unknown capacities are `None`, and ratios derived from them are missing.
    """

    uuid: str
    index: int
    """Sort key if the source states no index; `has_index` is then false."""
    name: str = ""
    board: str | None = None
    """Board key in the catalogue, or `None` if the name is not in it."""
    architecture: str | None = None
    pci_bus_id: str | None = None
    numa_node: int | None = None
    mig: MigInstance | None = None
    has_mig_instances: bool = False
    """A parent with instances has no state of its own; in MIG mode without instances it does."""
    memory_total_bytes: float | None = None
    power_limit_watts: float | None = None
    """Default limit; a reading's enforced limit takes precedence."""
    power_limit_minimum_watts: float | None = None
    power_limit_maximum_watts: float | None = None
    temperature_slowdown_celsius: float | None = None
    """Temperature from which the hardware reduces the clocks."""
    temperature_shutdown_celsius: float | None = None
    sm_clock_maximum_hertz: float | None = None
    pcie_generation_maximum: int | None = None
    """Limit of device and slot together."""
    pcie_width_maximum: int | None = None
    nvlink_bytes_per_second: float | None = None
    """One direction, summed over all active links."""
    achievable_compute_ratio: float = 0.8
    """Share of peak FLOPS that a good matrix product reaches; from the catalogue if listed."""
    achievable_bandwidth_ratio: float = 0.8
    """Share of peak bandwidth that a good stream reaches; from the catalogue if listed."""

    facts: Mapping[str, str] = {}
    """Other static facts: `vbios_version`, `compute_mode`."""
    assumed: tuple[str, ...] = ()
    """Names of capacities that were not stated and come from the catalogue."""
    host: str = ""
    """Host name when devices of several hosts are listed; empty on a node."""
    has_index: bool = True
    """Whether the source states the index."""

    def __hash__(self) -> int:
        return hash(self.uuid)

    @property
    def title(self) -> str:
        """Display name: `GPU 3`, `MIG 6:2` for instance 2 of GPU 6, or the source's identifier."""
        return self.board_title if self.mig is None else f"MIG {self.number}"

    @property
    def number(self) -> str:
        """Display name without a word: `3`, `6:2` for instance 2 of GPU 6, or the identifier."""
        if self.mig is not None:
            return f"{self.index}:{self.mig.gpu_instance_id}"
        return str(self.index) if self.has_index else self.board_uuid

    @property
    def label(self) -> str:
        """Display name with the profile of an instance: `MIG 6:2 (1g.10gb)`."""
        return self.title if self.mig is None else f"{self.title} ({self.mig.profile})"

    @property
    def board_title(self) -> str:
        """Display name of the GPU itself, also for its instances."""
        return f"GPU {self.index}" if self.has_index else self.board_uuid

    @property
    def board_uuid(self) -> str:
        """UUID of the GPU itself or of the instance's parent."""
        return self.uuid if self.mig is None else self.mig.parent_uuid

    @property
    def stated_index(self) -> int | None:
        """Index as stated by the source, or `None`."""
        return self.index if self.has_index else None

    def stated(self, capacity: str) -> float | None:
        """Capacity by name, or `None` if it is only assumed."""
        value: float | None = getattr(self, capacity)
        return None if capacity in self.assumed else value

    @property
    def capacity_ratio(self) -> float:
        """1 for a GPU, the compute share for a MIG instance."""
        return 1.0 if self.mig is None else self.mig.compute_share

    @property
    def awaits_mig_instances(self) -> bool:
        """Whether it is a GPU in MIG mode without instances, which cannot run anything."""
        is_cut = self.mig is not None or self.has_mig_instances
        return not is_cut and self.facts.get("mig_mode") == "enabled"

    @property
    def is_given_out(self) -> bool:
        """Whether work can be placed on it: a MIG instance or an undivided GPU."""
        return not self.has_mig_instances and not self.awaits_mig_instances
