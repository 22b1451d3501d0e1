"""Survey of the node for people: what the driver offers, and what else is on the bus."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.host.pcie import BusGpu, expected_gpus, kernel_address
from rightsizer.host.topology import TopologyFacts, read_topology
from rightsizer.io.worker import Crashed, Stuck, Worker
from rightsizer.model.device import Device
from rightsizer.model.topology import Topology
from rightsizer.telemetry.nvml.driver import NvmlDriver, explain
from rightsizer.telemetry.nvml.library import NvmlFailure


@dataclass(frozen=True, slots=True)
class NodeSurvey:
    """What was found."""

    topology: Topology
    devices: tuple[Device, ...]
    """The GPUs; one that the driver does not offer has its PCI address in place of a uuid."""
    offered: frozenset[str]
    """The uuids of those that the driver offers."""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _DriverAnswer:
    """What the driver said, or why it said nothing."""

    devices: tuple[Device, ...] = ()
    told: TopologyFacts = field(default_factory=TopologyFacts)
    trouble: str | None = None


def survey_node(sysfs: Path, catalogue: Catalogue, *, patience_seconds: float) -> NodeSurvey:
    """Look at driver and bus, and put together what both say.

    Args:
        sysfs: Where sysfs is mounted.
        catalogue: Names the boards.
        patience_seconds: How long the driver is waited for; after it, the bus must do.
    """
    on_bus = expected_gpus(sysfs)
    answer = _ask_driver(sysfs, catalogue, patience_seconds)
    offered = {kernel_address(device.pci_bus_id) for device in answer.devices}
    rest = [gpu for gpu in on_bus if gpu.pci_bus_id not in offered]
    devices = (*answer.devices, *_without_driver(rest, first=len(answer.devices)))
    return NodeSurvey(
        topology=read_topology(sysfs, devices, answer.told),
        devices=devices,
        offered=frozenset(device.uuid for device in answer.devices),
        warnings=tuple(map(_absence, rest)) if answer.trouble is None else (answer.trouble,),
    )


def _ask_driver(sysfs: Path, catalogue: Catalogue, patience_seconds: float) -> _DriverAnswer:
    worker: Worker[NvmlDriver, _DriverAnswer] = Worker(
        "nvml",
        lambda: NvmlDriver(count(), catalogue, sysfs),
        abandon_after_seconds=patience_seconds,
        abandoned_maximum=0,
    )
    deadline = time.monotonic() + patience_seconds
    worker.ask(_survey_with_driver)
    answer = worker.answer(deadline)
    worker.close()
    worker.join(deadline)
    if isinstance(answer, Stuck):
        call = answer.state.library.asking if answer.state else None
        return _DriverAnswer(
            trouble=f"NVML hangs in {call or 'opening'} for {answer.seconds:.1f} s"
        )
    if isinstance(answer, Crashed):
        return _DriverAnswer(trouble=f"asking the driver failed: {answer.error!r}")
    return answer


def _survey_with_driver(driver: NvmlDriver) -> _DriverAnswer:
    found = driver.look()
    if isinstance(found, NvmlFailure):
        return _DriverAnswer(trouble=explain(found))
    devices = tuple(gpu.whole.device for gpu in found.gpus)
    return _DriverAnswer(devices, found.told)


def _without_driver(gpus: Iterable[BusGpu], *, first: int) -> tuple[Device, ...]:
    return tuple(
        Device(uuid=gpu.pci_bus_id, index=index, pci_bus_id=gpu.pci_bus_id)
        for index, gpu in enumerate(gpus, start=first)
    )


def _absence(gpu: BusGpu) -> str:
    if gpu.is_asleep:
        return f"{gpu.pci_bus_id} is asleep, and asking the driver would wake it"
    held = f"with the kernel's driver {gpu.driver_name}" if gpu.driver_name else "without a driver"
    return f"{gpu.pci_bus_id} is on the bus {held}, and NVML does not offer it"
