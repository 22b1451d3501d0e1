"""What a GPU is, as far as driver, sysfs and catalogue know: nothing that changes by itself."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import pynvml

from rightsizer.catalogue.board import Board
from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.domain.device import Device
from rightsizer.telemetry.nvml.failure import Failure
from rightsizer.telemetry.nvml.library import Library

__all__ = ["Facts", "describe_gpu"]

_ARCHITECTURES: Final[Mapping[int, str]] = MappingProxyType(
    {
        pynvml.NVML_DEVICE_ARCH_KEPLER: "Kepler",
        pynvml.NVML_DEVICE_ARCH_MAXWELL: "Maxwell",
        pynvml.NVML_DEVICE_ARCH_PASCAL: "Pascal",
        pynvml.NVML_DEVICE_ARCH_VOLTA: "Volta",
        pynvml.NVML_DEVICE_ARCH_TURING: "Turing",
        pynvml.NVML_DEVICE_ARCH_AMPERE: "Ampere",
        pynvml.NVML_DEVICE_ARCH_ADA: "Ada",
        pynvml.NVML_DEVICE_ARCH_HOPPER: "Hopper",
        10: "Blackwell",  # The oldest bindings that are allowed do not name it yet.
    }
)


@dataclass(frozen=True, slots=True)
class Facts:
    """Where facts come from."""

    library: Library
    catalogue: Catalogue
    sysfs: Path

    def ask(self, name: str, handle: Any, *arguments: Any) -> Any:
        """What the driver says of a device; `None` where it does not say."""
        answer = self.library.ask(name, handle, *arguments)
        return None if isinstance(answer, Failure) else answer

    def memory_total_bytes(self, handle: Any) -> float | None:
        """The framebuffer of a GPU or an instance."""
        memory = self.ask("nvmlDeviceGetMemoryInfo", handle)
        return float(memory.total) if memory is not None and memory.total else None

    def numa_node(self, pci_bus_id: str | None) -> int | None:
        """The node that the kernel places a device on; it says -1 where it does not know."""
        if pci_bus_id is None:
            return None
        domain, _, place = pci_bus_id.partition(":")
        # NVML writes domains with eight digits, the kernel with four.
        folder = self.sysfs / "bus/pci/devices" / f"{domain[-4:]}:{place}"
        try:
            node = int((folder / "numa_node").read_text())
        except (OSError, ValueError):
            return None
        return node if node >= 0 else None


def describe_gpu(facts: Facts, handle: Any, index: int, *, has_mig_instances: bool) -> Device:
    """A physical GPU. One that does not tell its uuid goes by its index."""
    name = facts.ask("nvmlDeviceGetName", handle) or ""
    pci = facts.ask("nvmlDeviceGetPciInfo", handle)
    pci_bus_id = None if pci is None else str(pci.busId).lower()
    power_limit = facts.ask("nvmlDeviceGetPowerManagementDefaultLimit", handle)
    sm_clock = facts.ask("nvmlDeviceGetMaxClockInfo", handle, pynvml.NVML_CLOCK_SM)
    device = Device(
        uuid=facts.ask("nvmlDeviceGetUUID", handle) or f"index:{index}",
        index=index,
        name=name,
        architecture=_ARCHITECTURES.get(facts.ask("nvmlDeviceGetArchitecture", handle)),
        pci_bus_id=pci_bus_id,
        numa_node=facts.numa_node(pci_bus_id),
        has_mig_instances=has_mig_instances,
        memory_total_bytes=facts.memory_total_bytes(handle),
        power_limit_watts=power_limit / 1e3 if power_limit else None,
        sm_clock_maximum_hertz=sm_clock * 1e6 if sm_clock else None,
        pcie_generation_maximum=facts.ask("nvmlDeviceGetMaxPcieLinkGeneration", handle),
        pcie_width_maximum=facts.ask("nvmlDeviceGetMaxPcieLinkWidth", handle),
    )
    board = facts.catalogue.find(name)
    return device if board is None else _with_board(device, board)


def _with_board(device: Device, board: Board) -> Device:
    return replace(
        device,
        board=board.key,
        architecture=device.architecture or board.architecture,
        nvlink_bytes_per_second=board.nvlink_bytes_per_second or None,
        achievable_compute_ratio=board.achievable_compute_ratio,
        achievable_bandwidth_ratio=board.achievable_bandwidth_ratio,
    )
