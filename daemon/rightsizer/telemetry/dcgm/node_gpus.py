"""GPUs of this node: what its driver, its PCI bus and earlier pages of the exporter say."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from rightsizer.host.pcie import BusGpu, kernel_address
from rightsizer.model.values import Device

GPUS_MAXIMUM: Final = 32
"""Source: DCGM_MAX_NUM_DEVICES of dcgm_structs.h."""
INSTANCES_MAXIMUM: Final = 8
"""Of one GPU. Source: DCGM_MAX_INSTANCES_PER_GPU of dcgm_structs.h."""


class NodeGpus(Struct, frozen=True):
    """Identity and number of the GPUs that a node can have."""

    uuids: frozenset[str] = frozenset()
    addresses: frozenset[str] = frozenset()
    """PCI addresses in the kernel's spelling; empty if unknown."""
    spare: int = GPUS_MAXIMUM
    """Number of GPUs that it can have beside those with a known uuid."""

    @classmethod
    def of(
        cls,
        devices: Iterable[Device],
        bus: Iterable[BusGpu],
        listed: frozenset[str] = frozenset(),
    ) -> "NodeGpus":
        """Combine the driver's devices, the GPUs on the bus, and those of earlier pages.

        Earlier pages count only where neither driver nor bus have a GPU.
        """
        gpus = [device for device in devices if device.mig is None]
        on_bus = frozenset(gpu.pci_bus_id for gpu in bus)
        if not (gpus or on_bus):
            return cls(listed, spare=GPUS_MAXIMUM - len(listed))
        addresses = {kernel_address(gpu.pci_bus_id) for gpu in gpus}
        addresses.discard(None)
        return cls(
            uuids=frozenset(gpu.uuid for gpu in gpus),
            addresses=on_bus | frozenset(filter(None, addresses)),
            spare=max(0, len(on_bus) - len(gpus)),
        )

    def own(self, boards: Mapping[str, str | None]) -> frozenset[str]:
        """Return the node's own of some GPUs, given with their PCI addresses.

        If more of them may be its own than it can have, only those with a known uuid or address
        are. Of several that claim one address, none is.
        """
        places = {uuid: kernel_address(address) for uuid, address in boards.items()}
        named = {uuid for uuid in places if uuid in self.uuids}
        claims = Counter(place for uuid, place in places.items() if uuid not in named)
        placed = {
            uuid
            for uuid, place in places.items()
            if uuid not in named and place in self.addresses and claims[place] == 1
        }
        possible = {
            uuid
            for uuid, place in places.items()
            if uuid not in named and (place is None or not self.addresses)
        }
        if len(placed) + len(possible) > self.spare:
            possible = set()
        return frozenset(named | placed | possible)
