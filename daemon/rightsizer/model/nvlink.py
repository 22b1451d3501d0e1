"""One NVLink of a GPU: where it leads, how fast it is and how it fares."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Nvlink:
    """A link that the board has; what nobody tells is `None`."""

    number: int
    is_up: bool
    generation: int | None = None
    bytes_per_second: float | None = None
    """One direction, as negotiated."""
    remote_pci_bus_id: str | None = None
    """The GPU at the other end; `None` for a switch, which tells nobody its address."""
    leads_to_switch: bool = False
    receive_bytes: float | None = None
    """Since the driver was loaded."""
    transmit_bytes: float | None = None
    """Since the driver was loaded."""
    crc_errors: int | None = None
    replay_errors: int | None = None
    recovery_errors: int | None = None
