"""Devices of a simulated node as its driver lists them: GPUs and MIG instances."""

import uuid as uuids
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.catalogue.catalogue import Catalogue, mig_instance
from rightsizer.model.values import Device
from rightsizer.simulator.physics import (
    SHUTDOWN_CELSIUS,
    SLOWDOWN_CELSIUS,
    BoardEnvironment,
    board_environment,
    instance_memory_bytes,
    lowest_limit_watts,
    nvlink_is_up,
)
from rightsizer.simulator.scenario import BoardSlot, DeviceLocation, SimulatedScenario
from rightsizer.simulator.support import BoardFeature, support_of
from rightsizer.simulator.transients import channel

_BUSES: Final = (0x19, 0x3B, 0x4C, 0x5D, 0x9B, 0xBB, 0xCB, 0xDB)
"""PCI buses of the GPUs on an HGX board; the first four are nearest to NUMA node 0."""
_GPUS_IN_DOMAIN: Final = len(_BUSES)
_SMALL_NODE: Final = 4


class SimulatedDevice(Struct, frozen=True):
    """A GPU or MIG instance of the node, with all that the driver knows of it."""

    device: Device
    slot: BoardSlot
    spot: DeviceLocation
    around: BoardEnvironment
    bus: int
    domain: int
    instances: tuple["SimulatedDevice", ...] = ()
    """All instances that ever exist; the node knows which exist at a time."""

    @property
    def is_instance(self) -> bool:
        """Whether it is a MIG instance."""
        return self.spot.instance is not None


def simulated_device(
    scenario: SimulatedScenario, slot: BoardSlot, catalogue: Catalogue
) -> SimulatedDevice:
    """Create the GPU in a slot, with all instances that ever exist."""
    board = slot.board
    around = board_environment(
        board,
        power_limit_watts=slot.power_limit_watts,
        ambient_celsius=slot.ambient_celsius,
        pcie_generation=slot.pcie_generation,
        pcie_width=slot.pcie_width,
    )
    domain, place = divmod(slot.index, _GPUS_IN_DOMAIN)
    bus = _BUSES[place]
    common = _common(slot, catalogue, f"{domain:08x}:{bus:02x}:00.0", len(scenario.slots))
    uuid = f"GPU-{_uuid(scenario.seed, slot.index)}"
    has_thresholds = support_of(board).has(BoardFeature.TEMPERATURE_THRESHOLDS)
    device = Device(
        uuid=uuid,
        name=board.usual_name,
        memory_total_bytes=float(instance_memory_bytes(board, None)),
        power_limit_watts=board.power_limit_watts,
        power_limit_minimum_watts=lowest_limit_watts(board),
        power_limit_maximum_watts=board.power_limit_watts,
        temperature_slowdown_celsius=float(SLOWDOWN_CELSIUS) if has_thresholds else None,
        temperature_shutdown_celsius=float(SHUTDOWN_CELSIUS) if has_thresholds else None,
        nvlink_bytes_per_second=board.nvlink_bytes_per_second if nvlink_is_up(board) else None,
        has_mig_instances=bool(slot.profiles),
        pcie_generation_maximum=board.pcie_generation,
        pcie_width_maximum=board.pcie_width,
        **common,
    )
    whole = SimulatedDevice(device, slot, DeviceLocation(slot.index), around, bus, domain)
    parts = (
        (DeviceLocation(slot.index, number), _instance(scenario.seed, slot, number, uuid, common))
        for number in range(len(slot.all_profiles))
    )
    instances = tuple(replace(whole, spot=spot, device=part) for spot, part in parts)
    return replace(whole, instances=instances)


def _common(slot: BoardSlot, catalogue: Catalogue, pci_bus_id: str, gpus: int) -> Mapping[str, Any]:
    board = slot.board
    listed_board = catalogue.find(board.usual_name)
    half = max(1, gpus // 2) if gpus >= _SMALL_NODE else gpus
    return {
        "index": slot.index,
        "board": listed_board.key if listed_board else None,
        "architecture": board.architecture,
        "pci_bus_id": pci_bus_id,
        "numa_node": min(1, slot.index // half),
        "sm_clock_maximum_hertz": board.sm_clock_maximum_hertz,
        "achievable_compute_ratio": board.achievable_compute_ratio,
        "achievable_bandwidth_ratio": board.achievable_bandwidth_ratio,
    }


def _instance(
    seed: int, slot: BoardSlot, number: int, parent_uuid: str, common: Mapping[str, Any]
) -> Device:
    profile = slot.all_profiles[number]
    board = slot.board
    return Device(
        uuid=f"MIG-{_uuid(seed, slot.index, number)}",
        name=f"{board.usual_name} MIG {profile.name}",
        memory_total_bytes=float(instance_memory_bytes(board, profile)),
        mig=mig_instance(board, profile.name, parent_uuid, number + 1),
        **common,
    )


def _uuid(seed: int, *place: int) -> uuids.UUID:
    high = channel(seed, "uuid", *place, "high")
    low = channel(seed, "uuid", *place, "low")
    return uuids.UUID(int=high << 64 | low, version=4)
