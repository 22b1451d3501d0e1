"""Survey of a node without an agent: its GPUs and topology, by one look at driver and bus."""

import time
from pathlib import Path

from msgspec import Struct

from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.host.pcie import BusGpu, expected_gpus, kernel_address
from rightsizer.host.topology import read_topology
from rightsizer.io.clock import SystemClock
from rightsizer.model.values import Device, Topology
from rightsizer.telemetry.nvml.connection import NvmlConnection
from rightsizer.telemetry.nvml.inventory import Inventory
from rightsizer.telemetry.nvml.settings import LiveSettings


class NodeSurvey(Struct, frozen=True):
    """Topology and GPUs of a node, found without an agent."""

    topology: Topology
    devices: tuple[Device, ...]
    """All GPUs; one that the driver does not offer has its PCI address as uuid."""
    offered: frozenset[str]
    """Uuids of the GPUs that the driver offers."""
    warnings: tuple[str, ...] = ()


def survey_node(sysfs: Path, catalogue: Catalogue, *, patience_seconds: float = 10.0) -> NodeSurvey:
    """Read driver and bus, and merge the results.

    What the driver has not answered within the patience is left out, and the hanging call named:
    opening NVML takes about 3 s without a persistence daemon.
    """
    on_bus = expected_gpus(sysfs)
    clock = SystemClock()
    settings = LiveSettings()
    connection = NvmlConnection(
        clock=clock, settings=settings, catalogue=catalogue, sysfs=sysfs, root=Path("/")
    )
    connection.advance(time.monotonic() + patience_seconds)
    hanging = connection.stuck_probes.calls
    connection.close(time.monotonic() + settings.deadline_seconds)
    inventory = connection.inventory or Inventory(0, ())
    offered = tuple(gpu.whole.device for gpu in inventory.gpus)
    addresses = {kernel_address(device.pci_bus_id) for device in offered}
    rest = [gpu for gpu in on_bus if gpu.pci_bus_id not in addresses]
    without_driver = (
        Device(uuid=gpu.pci_bus_id, index=index, pci_bus_id=gpu.pci_bus_id)
        for index, gpu in enumerate(rest, start=len(offered))
    )
    devices = (*offered, *without_driver)
    return NodeSurvey(
        topology=read_topology(sysfs, devices, inventory.topology),
        devices=devices,
        offered=frozenset(device.uuid for device in offered),
        warnings=(
            *(f"NVML hangs in {call}" for call in hanging),
            *(f"GPU {index}: {failure}" for index, failure in inventory.unopened.items()),
            *map(_absence, rest),
        )
        if connection.inventory is not None
        else (str(connection.trouble),),
    )


def _absence(gpu: BusGpu) -> str:
    if gpu.is_asleep:
        return f"{gpu.pci_bus_id} is asleep, and asking the driver would wake it"
    held = f"with the kernel's driver {gpu.driver_name}" if gpu.driver_name else "without a driver"
    return f"{gpu.pci_bus_id} is on the bus {held}, and NVML does not offer it"
