"""A port of an InfiniBand or RoCE adapter: what leaves the node beside the GPUs."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class FabricPort:
    """One port with its counters, which only grow while the adapter runs."""

    adapter: str
    """As in `mlx5_0`."""
    number: int
    link_layer: str
    """`InfiniBand`, or `Ethernet` for RoCE."""
    is_active: bool
    state: str
    """The kernel's word, as in `ACTIVE`."""
    pci_bus_id: str | None = None
    numa_node: int | None = None
    rate_bytes_per_second: float | None = None
    """One direction."""
    receive_bytes: float | None = None
    transmit_bytes: float | None = None
    transmit_wait: float | None = None
    """Ticks during which data was there and could not be sent."""
    errors: Mapping[str, float] = field(default_factory=dict)
    """By the kernel's name of the counter: `symbol_error`, `link_downed`."""

    @property
    def name(self) -> str:
        """As in `mlx5_0/1`."""
        return f"{self.adapter}/{self.number}"
