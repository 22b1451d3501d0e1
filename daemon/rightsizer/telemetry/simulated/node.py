"""A node that runs a scenario: its devices, and what is true of each of them at any time."""

import uuid as uuids
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.domain.device import Device, MigInstance
from rightsizer.domain.reading import Process
from rightsizer.domain.state import Condition, State
from rightsizer.domain.units import Nanoseconds
from rightsizer.domain.workload import Workload
from rightsizer.telemetry.simulated.counters import STEP, Counters, Integral, Rates
from rightsizer.telemetry.simulated.crew import Crew, Member
from rightsizer.telemetry.simulated.memory import instance_memory_bytes
from rightsizer.telemetry.simulated.noise import channel
from rightsizer.telemetry.simulated.physics import BoardState, Surroundings, surroundings_of
from rightsizer.telemetry.simulated.plan import Host, Scenario, Slot, Spot
from rightsizer.telemetry.simulated.rig import Rig
from rightsizer.telemetry.simulated.truth import truth_of

__all__ = ["Node", "Unit"]

_BUSES: Final = (0x19, 0x3B, 0x4C, 0x5D, 0x9B, 0xBB, 0xCB, 0xDB)
"""Where an HGX board has its GPUs; the first four are nearest to NUMA node 0."""
_GPUS_IN_DOMAIN: Final = len(_BUSES)
_SMALL_NODE: Final = 4
_KEPT_STATES: Final = 64


@dataclass(frozen=True, slots=True)
class Unit:
    """A GPU of the node, or a MIG instance of one, with all that the driver knows of it."""

    device: Device
    slot: Slot
    spot: Spot
    around: Surroundings
    bus: int
    domain: int
    instances: tuple["Unit", ...] = ()

    @property
    def is_instance(self) -> bool:
        """Whether it is a MIG instance."""
        return self.spot.instance is not None


class Node:
    """The truth that the driver library and the source both read from.

    Times are wall time, nanoseconds since the epoch, and times of day are UTC: a workload that
    starts at "08:00" starts then on every day. A node can be asked about any time in any order;
    only its counters begin somewhere, at `start`.
    """

    def __init__(
        self,
        scenario: Scenario,
        catalogue: Catalogue,
        start: Nanoseconds | None = None,
        *,
        counter_step: Nanoseconds = STEP,
    ) -> None:
        """A node that runs a scenario.

        Args:
            scenario: What runs on it.
            catalogue: Names the boards of the devices.
            start: When the driver was loaded and its counters began; `None` for the first time
                that a counter is read at. One in the far past makes that reading slow, for it
                adds up all the time since.
            counter_step: How finely the counters are added up.
        """
        self.scenario = scenario
        self.start = start
        self.units = tuple(_unit(scenario, slot, catalogue) for slot in scenario.slots)
        everything = [unit for gpu in self.units for unit in (gpu, *gpu.instances)]
        self._by_uuid = {unit.device.uuid: unit for unit in everything}
        self._crew = Crew(scenario)
        self._rigs = {
            gpu.device.uuid: Rig(scenario.seed, gpu.slot, gpu.around, self._crew)
            for gpu in self.units
        }
        self._states: dict[str, dict[Nanoseconds, BoardState]] = {
            unit.device.uuid: {} for unit in everything
        }
        self._integrals: dict[str, Integral] = {}
        self._counter_step = counter_step

    @property
    def devices(self) -> tuple[Device, ...]:
        """The GPUs in order, each followed by its MIG instances."""
        return tuple(unit.device for gpu in self.units for unit in (gpu, *gpu.instances))

    def unit(self, uuid: str) -> Unit:
        """A device with what the driver knows of it.

        Raises:
            KeyError: the node has no such device.
        """
        return self._by_uuid[uuid]

    def state(self, uuid: str, time: Nanoseconds) -> BoardState:
        """What can be read of a device at a time; power and clocks of an instance are its GPU's."""
        kept = self._states[uuid]
        state = kept.get(time)
        if state is None:
            unit = self._by_uuid[uuid]
            parent = unit.device.mig.parent_uuid if unit.device.mig else uuid
            state = self._rigs[parent].state(unit.spot, time)
            if len(kept) >= _KEPT_STATES:
                self._states[uuid] = kept = {}
            kept[time] = state
        return state

    def counters(self, uuid: str, time: Nanoseconds) -> Counters:
        """Energy and traffic of a GPU since `start`, all 0 before it."""
        integral = self._integrals.get(uuid)
        if integral is None:
            step = self._counter_step
            start = time - time % step if self.start is None else self.start
            integral = Integral(lambda moment: self._rates(uuid, moment), start, step)
            integral = self._integrals.setdefault(uuid, integral)
        return integral.at(time)

    def processes(self, uuid: str, time: Nanoseconds) -> tuple[Process, ...]:
        """The compute processes on a device; a MIG parent has those of all its instances."""
        unit = self._by_uuid[uuid]
        spots = [instance.spot for instance in unit.instances] or [unit.spot]
        return tuple(process for spot in spots for process in self._crew.processes(spot, time))

    def members(self, uuid: str, time: Nanoseconds) -> tuple[Member, ...]:
        """The workloads at work on a device, with their processes there."""
        return self._crew.members(self._by_uuid[uuid].spot, time)

    def truth(self, uuid: str, time: Nanoseconds) -> tuple[State, frozenset[Condition]]:
        """What is really the case; a MIG parent with instances is `unknown`, having no state."""
        unit = self._by_uuid[uuid]
        if unit.instances:
            return State.UNKNOWN, frozenset()
        state = self.state(uuid, time)
        return truth_of(state, unit.around, self._crew.members(unit.spot, time))

    def host(self, time: Nanoseconds) -> Host:
        """The node's own CPU and pressure."""
        return self._crew.host(time, self.scenario.cores)

    def owner_host(self, pids: Iterable[int], time: Nanoseconds) -> Host | None:
        """The same for the workloads that processes belong to; `None` where they belong to none."""
        return self._crew.owner_host(pids, time)

    def workload_of(self, pid: int) -> Workload | None:
        """Whose process it is."""
        return self._crew.workload_of(pid)

    def _rates(self, uuid: str, time: Nanoseconds) -> Rates:
        state = self.state(uuid, time)
        return (
            state.power_watts,
            state.pcie_receive_bytes_per_second,
            state.pcie_transmit_bytes_per_second,
            state.nvlink_receive_bytes_per_second,
            state.nvlink_transmit_bytes_per_second,
        )


def _unit(scenario: Scenario, slot: Slot, catalogue: Catalogue) -> Unit:
    board = slot.board
    around = surroundings_of(
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
    device = Device(
        uuid=uuid,
        name=board.names[0],
        memory_total_bytes=float(instance_memory_bytes(board, None)),
        power_limit_watts=board.power_limit_watts,
        nvlink_bytes_per_second=board.nvlink_bytes_per_second or None,
        has_mig_instances=bool(slot.profiles),
        pcie_generation_maximum=board.pcie_generation,
        pcie_width_maximum=board.pcie_width,
        **common,
    )
    instances = tuple(
        Unit(
            _instance(scenario.seed, slot, number, uuid, common),
            slot,
            Spot(slot.index, number),
            around,
            bus,
            domain,
        )
        for number in range(len(slot.profiles))
    )
    return Unit(device, slot, Spot(slot.index), around, bus, domain, instances)


def _common(slot: Slot, catalogue: Catalogue, pci_bus_id: str, gpus: int) -> Mapping[str, Any]:
    board = slot.board
    found = catalogue.find(board.names[0])
    half = max(1, gpus // 2) if gpus >= _SMALL_NODE else gpus
    return {
        "index": slot.index,
        "board": found.key if found else None,
        "architecture": board.architecture,
        "pci_bus_id": pci_bus_id,
        "numa_node": min(1, slot.index // half),
        "sm_clock_maximum_hertz": board.sm_clock_maximum_hertz,
        "achievable_compute_ratio": board.achievable_compute_ratio,
        "achievable_bandwidth_ratio": board.achievable_bandwidth_ratio,
    }


def _instance(
    seed: int, slot: Slot, number: int, parent_uuid: str, common: Mapping[str, Any]
) -> Device:
    profile = slot.profiles[number]
    board = slot.board
    return Device(
        uuid=f"MIG-{_uuid(seed, slot.index, number)}",
        name=f"{board.names[0]} MIG {profile.name}",
        memory_total_bytes=float(instance_memory_bytes(board, profile)),
        mig=MigInstance(
            parent_uuid=parent_uuid,
            profile=profile.name,
            gpu_instance_id=number + 1,
            compute_instance_id=0,
            compute_share=profile.compute_share,
            memory_share=profile.memory_share,
        ),
        **common,
    )


def _uuid(seed: int, *place: int) -> uuids.UUID:
    high, low = channel(seed, "uuid", *place, "high"), channel(seed, "uuid", *place, "low")
    return uuids.UUID(int=high << 64 | low, version=4)
