"""What the driver says of the GPUs' places, as plain values."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rightsizer.domain.topology import LinkKind

__all__ = ["Peer", "Seat", "Told"]


@dataclass(frozen=True, slots=True)
class Peer:
    """The way between two GPUs."""

    pcie_kind: LinkKind = LinkKind.UNKNOWN
    nvlinks: int | None = 0
    """Links that are up between them, or from each to a switch; `None` where they are joined by
    NVLink and nobody tells by how many."""
    can_read: bool | None = None
    """Whether one can read the other's memory."""


@dataclass(frozen=True, slots=True)
class Seat:
    """The place of one GPU."""

    numa_node: int | None = None
    memory_numa_node: int | None = None
    """That the GPU's own memory is."""
    cpus: tuple[int, ...] = ()
    generation: int | None = None
    """Of the link as it runs."""
    width: int | None = None


@dataclass(frozen=True, slots=True)
class Told:
    """All of it; empty where there is no driver."""

    peers: Mapping[tuple[str, str], Peer] = field(default_factory=dict)
    """By two uuids in the order of the GPUs."""
    seats: Mapping[str, Seat] = field(default_factory=dict)
    """By uuid."""

    def peer(self, one: str, other: str) -> Peer:
        """What was said of two GPUs, whichever comes first."""
        return self.peers.get((one, other)) or self.peers.get((other, one)) or Peer()

    def seat(self, uuid: str) -> Seat:
        """What was said of a GPU."""
        return self.seats.get(uuid) or Seat()
