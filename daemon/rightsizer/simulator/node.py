"""SimulatedNode: runs a scenario's GPUs, host and process owners."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from msgspec.structs import replace

from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.host.collector import HostCollector
from rightsizer.model.values import (
    Allocator,
    ClockEvent,
    Condition,
    Device,
    Nanoseconds,
    Placement,
    Process,
    Signal,
    State,
)
from rightsizer.simulator.counters import STEP, GpuCounters, RateIntegral, Rates
from rightsizer.simulator.device import SimulatedDevice, simulated_device
from rightsizer.simulator.faults import HEALTHY, DriverUnload, FaultSchedule, GpuAbsence, GpuHealth
from rightsizer.simulator.gpu import GpuTimeline, SimulatedGpu
from rightsizer.simulator.physics import BoardEnvironment, BoardState
from rightsizer.simulator.scenario import DeviceLocation, HostLoad, SimulatedScenario
from rightsizer.simulator.workloads import DeviceTask, SimulatedWorkloads

_ACTIVE: Final = 0.005
_SLOWED: Final = 0.9
"""Relative to the maximum clock; a smaller loss does not count."""
_NEAR_OUT_OF_MEMORY: Final = 0.95
_SLOWED_BY: Final = {
    ClockEvent.SW_POWER_CAP: Condition.POWER_THROTTLED,
    ClockEvent.SW_THERMAL_SLOWDOWN: Condition.THERMAL_THROTTLED,
    ClockEvent.HW_SLOWDOWN: Condition.HARDWARE_SLOWDOWN,
}
_KEPT_STATES: Final = 64
_HEAT: Final = ClockEvent.SW_THERMAL_SLOWDOWN | ClockEvent.HW_THERMAL_SLOWDOWN


def true_state(
    state: BoardState, around: BoardEnvironment, members: Sequence[DeviceTask]
) -> tuple[State, frozenset[Condition]]:
    """Return the true state and conditions of a device."""
    conditions: set[Condition] = set()
    if around.pcie_width < around.board.pcie_width or (
        state.load.gpu_busy > _ACTIVE and around.pcie_generation < around.board.pcie_generation
    ):
        conditions.add(Condition.PCIE_LINK_DEGRADED)
    if state.electrical.sm_clock_hertz < _SLOWED * around.sm_clock_maximum_hertz:
        reasons = state.electrical.clock_event_reasons
        conditions |= {condition for bit, condition in _SLOWED_BY.items() if reasons & bit}
    if not members:
        return State.IDLE_EMPTY, frozenset(conditions)
    grows = any(member.task.workload.allocator is not Allocator.PREALLOCATING for member in members)
    if grows and state.memory_used_bytes >= _NEAR_OUT_OF_MEMORY * state.memory_total_bytes:
        conditions.add(Condition.NEAR_OUT_OF_MEMORY)
    main = max(members, key=lambda member: (member.load.gpu_busy, member.load.engines))
    if main.load.gpu_busy < _ACTIVE and main.load.engines < _ACTIVE:
        return State.IDLE_HELD, frozenset(conditions)
    return main.phase.state, frozenset(conditions | main.phase.conditions)


class SimulatedNode:
    """Ground truth for both the driver library and the source.

    Times are wall time, nanoseconds since the epoch; times of day are UTC: a workload that starts
    at "08:00" does so every day. Any time can be queried in any order; only counters have a
    beginning, `start`.
    """

    def __init__(
        self,
        scenario: SimulatedScenario,
        catalogue: Catalogue,
        start: Nanoseconds | None = None,
        *,
        counter_step: Nanoseconds = STEP,
    ) -> None:
        """Create a node that runs a scenario; counters are integrated in steps from `start` on.

        Without a start, counters begin at the first time they are read. A start far in the past
        makes the first read slow, since all steps since then are summed.
        """
        self.scenario = scenario
        self.start = start
        self.units = tuple(simulated_device(scenario, slot, catalogue) for slot in scenario.slots)
        everything = [unit for gpu in self.units for unit in (gpu, *gpu.instances)]
        self._by_uuid = {unit.device.uuid: unit for unit in everything}
        self.workloads = SimulatedWorkloads(scenario)
        self._faults = FaultSchedule(scenario.faults, start)
        self._timelines = [GpuTimeline(gpu.slot, gpu.around, self._faults) for gpu in self.units]
        self._gpus = [
            SimulatedGpu(scenario.seed, gpu.slot, timeline, self.workloads)
            for gpu, timeline in zip(self.units, self._timelines, strict=True)
        ]
        self.state = lru_cache(maxsize=_KEPT_STATES * len(everything))(self._state)
        """Returns a device's readable state; instances share power and clocks of their GPU."""
        self._integrals: dict[str, RateIntegral] = {}
        self._counter_step = counter_step

    @property
    def devices(self) -> tuple[Device, ...]:
        """GPUs in order, each followed by its MIG instances without faults."""
        usual = ((gpu, *gpu.instances[: len(gpu.slot.profiles)]) for gpu in self.units)
        return tuple(unit.device for units in usual for unit in units)

    @property
    def has_faults(self) -> bool:
        """Whether the scenario has faults."""
        return bool(self._faults)

    def present(self, time: Nanoseconds) -> tuple[SimulatedDevice, ...]:
        """Return the GPUs in their slots, with their instances at a time."""
        if not self._faults:
            return self.units
        there = (gpu for gpu in self.units if not self.timeline(gpu).has(GpuAbsence, time))
        return tuple(self.as_cut(gpu, time) for gpu in there)

    def as_cut(self, gpu: SimulatedDevice, time: Nanoseconds) -> SimulatedDevice:
        """Return a GPU with its instances at a time."""
        if not gpu.slot.mig_reconfigurations:
            return gpu
        instances = tuple(gpu.instances[spot.instance or 0] for spot in self._spots(gpu, time))
        device = replace(gpu.device, has_mig_instances=bool(instances))
        return replace(gpu, device=device, instances=instances)

    def timeline(self, unit: SimulatedDevice) -> GpuTimeline:
        """Return the fault timeline of a GPU, or of an instance's GPU."""
        return self._timelines[unit.spot.gpu]

    def unload(self, time: Nanoseconds) -> DriverUnload | None:
        """Return the active unload of the driver, or `None`."""
        return self._faults.unload(time) if self._faults else None

    def loaded_at(self, time: Nanoseconds) -> Nanoseconds:
        """Return when the driver was last loaded, which wakes the GPUs."""
        return self._faults.loaded_at(time)

    def unit(self, uuid: str) -> SimulatedDevice:
        """Return a device with what the driver knows of it."""
        return self._by_uuid[uuid]

    def counters(self, uuid: str, time: Nanoseconds) -> GpuCounters:
        """Return a GPU's totals since the driver was loaded; all 0 before the start."""
        integral = self._integrals.get(uuid)
        if integral is None:
            step = self._counter_step
            start = time - time % step if self.start is None else self.start
            integral = RateIntegral(lambda moment: self._rates(uuid, moment), start, step)
            integral = self._integrals.setdefault(uuid, integral)
        counters = integral.at(time)
        if not self._faults or (loaded := self.loaded_at(time)) == self._faults.start(time):
            return counters
        return counters.since(integral.at(min(loaded, time)))

    def health(self, uuid: str, time: Nanoseconds) -> GpuHealth:
        """Return the errors of a GPU over its life."""
        return self.timeline(self._by_uuid[uuid]).health(time)

    def recent_health(self, uuid: str, time: Nanoseconds) -> GpuHealth:
        """Return the errors since the driver was loaded."""
        whole = self.health(uuid, time)
        if whole is HEALTHY:
            return whole
        return whole.since(self.health(uuid, min(time, self.loaded_at(time) - 1)))

    def processes(self, uuid: str, time: Nanoseconds) -> tuple[Process, ...]:
        """Return the compute processes on a device; a MIG parent has those of all its instances."""
        spot = self._by_uuid[uuid].spot
        parts = self._timelines[spot.gpu].spots(time) if spot.instance is None else ()
        gpu = self._gpus[spot.gpu]
        members = (member for part in parts or (spot,) for member in gpu.members(part, time))
        return tuple(process for member in members for process in member.processes)

    def members(self, uuid: str, time: Nanoseconds) -> tuple[DeviceTask, ...]:
        """Return the active workloads on a device, with their processes there."""
        spot = self._by_uuid[uuid].spot
        return self._gpus[spot.gpu].members(spot, time)

    def truth(self, uuid: str, time: Nanoseconds) -> tuple[State, frozenset[Condition]]:
        """Return the true state and conditions.

        A MIG parent with instances, and a device that cannot be read, are `unknown`.
        """
        unit = self._by_uuid[uuid]
        if self.unload(time) is not None or self.timeline(unit).is_silent(time):
            return State.UNKNOWN, frozenset()
        if not unit.is_instance and self._spots(unit, time):
            return State.UNKNOWN, frozenset()
        around = self.timeline(unit).around(time)
        return true_state(self.state(uuid, time), around, self.members(uuid, time))

    def _state(self, uuid: str, time: Nanoseconds) -> BoardState:
        spot = self._by_uuid[uuid].spot
        return self._gpus[spot.gpu].state(spot, time)

    def _spots(self, gpu: SimulatedDevice, time: Nanoseconds) -> tuple[DeviceLocation, ...]:
        return self._timelines[gpu.spot.gpu].spots(time)

    def _rates(self, uuid: str, time: Nanoseconds) -> Rates:
        state = self.state(uuid, time)
        reasons = state.electrical.clock_event_reasons
        return (
            state.power_watts,
            state.pcie_receive_bytes_per_second,
            state.pcie_transmit_bytes_per_second,
            state.nvlink_receive_bytes_per_second,
            state.nvlink_transmit_bytes_per_second,
            1.0 if reasons & ClockEvent.SW_POWER_CAP else 0.0,
            1.0 if reasons & _HEAT else 0.0,
        )


class ScenarioHost(HostCollector):
    """Host collector of the scenario, in place of procfs and control groups."""

    def __init__(self, node: SimulatedNode, time: Callable[[], Nanoseconds]) -> None:
        self._node = node
        self._time = time

    def node(self) -> Mapping[Signal, float]:
        """Return the signals of the whole node."""
        return host_signals(self._node.workloads.host(self._time()))

    def owner(
        self,
        pids: Sequence[int],
        near: Placement | None = None,  # noqa: ARG002 - a scenario places no processes.
    ) -> Mapping[Signal, float]:
        """Return the signals of the processes' workload; empty if unknown."""
        host = self._node.workloads.owner_host(pids, self._time())
        return host_signals(host) if host is not None else {}


def host_signals(host: HostLoad) -> dict[Signal, float]:
    """Convert host loads to signals."""
    return {
        Signal.CPU: host.cpu,
        Signal.CPU_PRESSURE: host.cpu_pressure,
        Signal.IO_PRESSURE: host.io_pressure,
        Signal.MEMORY_PRESSURE: host.memory_pressure,
    }
