"""A GPU's PCIe link as it is, as it could be, and which bridge stands in the way."""

from dataclasses import dataclass

from rightsizer.advice.standing import BoardStanding, board_uuid, standing_of
from rightsizer.domain.device import Device
from rightsizer.domain.finding import Case
from rightsizer.domain.pcie import link_bytes_per_second
from rightsizer.domain.signal import Signal
from rightsizer.domain.topology import Bridge, Placement

__all__ = ["LinkState", "link_state"]


@dataclass(frozen=True, slots=True)
class LinkState:
    """The link at the last reading, against what board and slot allow together."""

    generation: int
    width: int
    generation_maximum: int
    width_maximum: int
    placement: Placement | None = None
    """`None` without topology."""

    @property
    def is_narrow(self) -> bool:
        """Whether lanes are missing."""
        return self.width < self.width_maximum

    @property
    def lost_ratio(self) -> float:
        """The part of the possible bandwidth that is gone, 0 to 1."""
        now = link_bytes_per_second(self.generation, self.width)
        possible = link_bytes_per_second(self.generation_maximum, self.width_maximum)
        return 0.0 if now is None or not possible else max(0.0, 1.0 - now / possible)

    @property
    def narrowed(self) -> tuple[Bridge, ...]:
        """Bridges above the GPU with fewer lanes than they have; speeds at rest say nothing."""
        above = () if self.placement is None else self.placement.bridges
        return tuple(
            bridge
            for bridge in above
            if bridge.width and bridge.width_maximum and bridge.width < bridge.width_maximum
        )

    @property
    def limiting(self) -> tuple[Bridge, ...]:
        """Bridges that allow less than the GPU itself could do: the slot's nature, no fault."""
        placement = self.placement
        own = None if placement is None else placement.generation_maximum
        if placement is None or own is None:
            return ()
        return tuple(
            bridge
            for bridge in placement.bridges
            if bridge.generation_maximum and bridge.generation_maximum < own
        )

    @property
    def places(self) -> tuple[str, ...]:
        """The PCI addresses of both ends, then of what else is narrow."""
        placement = self.placement
        if placement is None:
            return ()
        own = (placement.pci_bus_id,) if placement.pci_bus_id else ()
        ends = tuple(bridge.pci_bus_id for bridge in placement.bridges[:1])
        return (*own, *ends, *(bridge.pci_bus_id for bridge in self.narrowed))

    def evidence(self) -> dict[str, object]:
        """The numbers."""
        found: dict[str, object] = {
            "generation": self.generation,
            "width": self.width,
            "generation_maximum": self.generation_maximum,
            "width_maximum": self.width_maximum,
            "lost_bandwidth_ratio": round(self.lost_ratio, 4),
        }
        if self.placement is not None:
            found["gpu_generation_maximum"] = self.placement.generation_maximum
            found["narrow_bridges"] = [bridge.pci_bus_id for bridge in self.narrowed]
            found["limiting_bridges"] = [bridge.pci_bus_id for bridge in self.limiting]
        return found

    def __str__(self) -> str:
        """For a person: `x8 instead of x16, at generation 3 instead of 5`."""
        parts = []
        if self.is_narrow:
            parts.append(f"x{self.width} instead of x{self.width_maximum}")
        if self.generation < self.generation_maximum:
            parts.append(f"generation {self.generation} instead of {self.generation_maximum}")
        text = ", ".join(parts) or (
            f"x{self.width} at generation {self.generation} at the last reading"
        )
        if self.narrowed:
            text += f"; narrow at bridge {self.narrowed[0].pci_bus_id}"
        if self.limiting:
            text += (
                f"; bridge {self.limiting[0].pci_bus_id} allows generation "
                f"{self.limiting[0].generation_maximum} at most, which is no fault"
            )
        return text


def link_state(case: Case, device: Device) -> LinkState | None:
    """The link of a device's GPU; `None` unless both ends of the comparison are known."""
    standing = standing_of(case, device)
    if standing is None:
        return None
    now = standing.get(Signal.PCIE_LINK_GENERATION), standing.get(Signal.PCIE_LINK_WIDTH)
    most = _most(standing)
    if now[0] is None or now[1] is None or most is None:
        return None
    topology = None if case.node is None else case.node.topology
    placement = None if topology is None else topology.placements.get(board_uuid(device))
    return LinkState(int(now[0]), int(now[1]), *most, placement)


def _most(standing: BoardStanding) -> tuple[int, int] | None:
    generation = standing.stated("pcie_generation_maximum")
    width = standing.stated("pcie_width_maximum")
    return None if generation is None or width is None else (int(generation), int(width))
