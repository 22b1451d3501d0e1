"""What the other rooms see of the host."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from rightsizer.domain.fabric_port import FabricPort
from rightsizer.domain.signal import Signal
from rightsizer.domain.topology import Placement

__all__ = ["Host"]


class Host(Protocol):
    """Knows how the host fares; signals that it cannot tell are left out."""

    def node(self) -> Mapping[Signal, float]:
        """The whole node's signals."""

    def owner(self, pids: Sequence[int], near: Placement | None = None) -> Mapping[Signal, float]:
        """The signals of the control groups that processes run in, and of where they run.

        Args:
            pids: The processes that hold one GPU.
            near: Where that GPU sits; without it nothing is said of CPUs and memory near to it.
        """

    def ports(self) -> tuple[FabricPort, ...]:
        """The InfiniBand and RoCE ports, by name."""

    def device(self, near: Placement | None) -> Mapping[Signal, float]:
        """The throughput of the ports nearest to a GPU; none where its place is unknown."""
