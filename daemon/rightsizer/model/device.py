"""A GPU, or a MIG instance of one: what it is and what it could do at most."""

from collections.abc import Mapping

from rightsizer.model.frozen import dataclass, field


@dataclass(frozen=True, slots=True)
class MigInstance:
    """The part of a GPU that a MIG device stands for."""

    parent_uuid: str
    profile: str
    """The driver's own name, as in `1g.10gb`; it does not follow from arithmetic on sizes."""
    gpu_instance_id: int
    compute_instance_id: int
    compute_share: float
    """Compute slices of the instance over those of the whole GPU, 0 to 1."""
    memory_share: float
    """Memory slices of the instance over those of the whole GPU, 0 to 1."""


@dataclass(frozen=True, slots=True)
class Device:
    """A device as its driver, its recording or its scenario describes it.

    Capacities are `None` where they are not known; ratios that need one are then missing too.
    """

    uuid: str
    index: int
    """Orders devices too where the source states none; then `has_index` is false."""
    name: str = ""
    board: str | None = None
    """The catalogue's key of the board, `None` where the name is unknown to it."""
    architecture: str | None = None
    pci_bus_id: str | None = None
    numa_node: int | None = None
    mig: MigInstance | None = None
    has_mig_instances: bool = False
    """A parent with instances has no state of its own; in MIG mode without one it has."""
    memory_total_bytes: float | None = None
    power_limit_watts: float | None = None
    """The default limit; a reading's enforced limit goes before it."""
    power_limit_minimum_watts: float | None = None
    power_limit_maximum_watts: float | None = None
    temperature_slowdown_celsius: float | None = None
    """From here on the hardware slows the clocks down."""
    temperature_shutdown_celsius: float | None = None
    sm_clock_maximum_hertz: float | None = None
    pcie_generation_maximum: int | None = None
    """What the device and its slot allow together."""
    pcie_width_maximum: int | None = None
    nvlink_bytes_per_second: float | None = None
    """One direction over all the links that are up."""
    achievable_compute_ratio: float = 0.8
    """What a good matrix product reaches of the peak; the catalogue's figure where it has one."""
    achievable_bandwidth_ratio: float = 0.8
    """What a good stream reaches of the memory bandwidth; the catalogue's where it has one."""

    facts: Mapping[str, str] = field(default_factory=dict, hash=False)
    """What else is known and does not change by itself: `vbios_version`, `compute_mode`."""
    assumed: tuple[str, ...] = ()
    """Names of the capacities that were not stated and are the catalogue's figures."""
    host: str = ""
    """The machine that it is in, where devices of several are looked at; empty on a node."""
    has_index: bool = True
    """Whether its source states the index."""

    @property
    def title(self) -> str:
        """What a person calls it: `GPU 3`; what its source calls it where that has no index."""
        return f"GPU {self.index}" if self.has_index else self.uuid

    @property
    def board_uuid(self) -> str:
        """The GPU that it is, or is an instance of."""
        return self.uuid if self.mig is None else self.mig.parent_uuid

    @property
    def stated_index(self) -> int | None:
        """The index as its source states it, `None` where it does not."""
        return self.index if self.has_index else None

    def stated(self, capacity: str) -> float | None:
        """A capacity by its name, `None` where it is only assumed."""
        value: float | None = getattr(self, capacity)
        return None if capacity in self.assumed else value

    @property
    def capacity_ratio(self) -> float:
        """1 for a GPU, the compute share for a MIG instance."""
        return 1.0 if self.mig is None else self.mig.compute_share

    @property
    def awaits_mig_instances(self) -> bool:
        """Whether it is a GPU in MIG mode without an instance, on which nothing can run."""
        is_cut = self.mig is not None or self.has_mig_instances
        return not is_cut and self.facts.get("mig_mode") == "enabled"

    @property
    def is_given_out(self) -> bool:
        """Whether work can be placed on it: an instance, or a GPU that is one piece."""
        return not self.has_mig_instances and not self.awaits_mig_instances
