"""A node that runs a scenario: its devices, and what is true of each of them at any time."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.domain.clock_event import ClockEvent
from rightsizer.domain.device import Device
from rightsizer.domain.reading import Process
from rightsizer.domain.state import Condition, State
from rightsizer.domain.units import Nanoseconds
from rightsizer.domain.workload import Workload
from rightsizer.telemetry.simulated.counters import STEP, Counters, Integral, Rates
from rightsizer.telemetry.simulated.course import Course, Start
from rightsizer.telemetry.simulated.crew import Crew, Member
from rightsizer.telemetry.simulated.fault import Unload
from rightsizer.telemetry.simulated.outlook import HEALTHY, Health, Outlook
from rightsizer.telemetry.simulated.physics import BoardState
from rightsizer.telemetry.simulated.plan import Host, Scenario, Spot
from rightsizer.telemetry.simulated.rig import Rig
from rightsizer.telemetry.simulated.truth import truth_of
from rightsizer.telemetry.simulated.unit import Unit, unit_of

__all__ = ["Node", "Unit"]

_KEPT_STATES: Final = 64
_HEAT: Final = ClockEvent.SW_THERMAL_SLOWDOWN | ClockEvent.HW_THERMAL_SLOWDOWN


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
        self.units = tuple(unit_of(scenario, slot, catalogue) for slot in scenario.slots)
        everything = [unit for gpu in self.units for unit in (gpu, *gpu.instances)]
        self._by_uuid = {unit.device.uuid: unit for unit in everything}
        self._crew = Crew(scenario)
        self._outlook, self._start = Outlook(scenario.faults), Start(start)
        self._courses = [
            Course(gpu.slot, gpu.around, self._outlook, self._start) for gpu in self.units
        ]
        self._rigs = [
            Rig(scenario.seed, gpu.slot, course, self._crew)
            for gpu, course in zip(self.units, self._courses, strict=True)
        ]
        self._states: dict[str, dict[Nanoseconds, BoardState]] = {
            unit.device.uuid: {} for unit in everything
        }
        self._integrals: dict[str, Integral] = {}
        self._counter_step = counter_step

    @property
    def devices(self) -> tuple[Device, ...]:
        """The GPUs in order, each followed by the MIG instances that it has without faults."""
        return tuple(
            unit.device
            for gpu in self.units
            for unit in (gpu, *gpu.instances[: len(gpu.slot.profiles)])
        )

    @property
    def has_faults(self) -> bool:
        """Whether anything ever goes wrong."""
        return bool(self._outlook)

    def present(self, time: Nanoseconds) -> tuple[Unit, ...]:
        """The GPUs in their slots, each with the instances that it has at a time."""
        if not self._outlook:
            return self.units
        return tuple(
            self.as_cut(gpu, time) for gpu in self.units if not self.course(gpu).is_absent(time)
        )

    def as_cut(self, gpu: Unit, time: Nanoseconds) -> Unit:
        """A GPU with the instances that it has at a time."""
        if not gpu.slot.recuts:
            return gpu
        instances = tuple(gpu.instances[spot.instance or 0] for spot in self._spots(gpu, time))
        device = replace(gpu.device, has_mig_instances=bool(instances))
        return replace(gpu, device=device, instances=instances)

    def course(self, unit: Unit) -> Course:
        """What becomes of a GPU, or of the GPU of an instance."""
        return self._courses[unit.spot.gpu]

    def unload(self, time: Nanoseconds) -> Unload | None:
        """How the driver is away, `None` where it is there."""
        return self._outlook.unload(time, self._start.at(time)) if self._outlook else None

    def loaded_at(self, time: Nanoseconds) -> Nanoseconds:
        """When the driver was loaded and the GPUs were last awoken."""
        return self._outlook.loaded_at(time, self._start.at(time))

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
            spot = self._by_uuid[uuid].spot
            state = self._rigs[spot.gpu].state(spot, time)
            if len(kept) >= _KEPT_STATES:
                self._states[uuid] = kept = {}
            kept[time] = state
        return state

    def counters(self, uuid: str, time: Nanoseconds) -> Counters:
        """What a GPU has used and moved since the driver was loaded, all 0 before the start."""
        integral = self._integrals.get(uuid)
        if integral is None:
            step = self._counter_step
            start = time - time % step if self.start is None else self.start
            integral = Integral(lambda moment: self._rates(uuid, moment), start, step)
            integral = self._integrals.setdefault(uuid, integral)
        counters = integral.at(time)
        if not self._outlook or (loaded := self.loaded_at(time)) == self._start.at(time):
            return counters
        return counters.since(integral.at(min(loaded, time)))

    def health(self, uuid: str, time: Nanoseconds) -> Health:
        """What has gone wrong with a GPU in its life."""
        return self.course(self._by_uuid[uuid]).health(time)

    def recent_health(self, uuid: str, time: Nanoseconds) -> Health:
        """What of it was counted since the driver was loaded."""
        whole = self.health(uuid, time)
        if whole is HEALTHY:
            return whole
        return whole.since(self.health(uuid, min(time, self.loaded_at(time) - 1)))

    def processes(self, uuid: str, time: Nanoseconds) -> tuple[Process, ...]:
        """The compute processes on a device; a MIG parent has those of all its instances."""
        spot = self._by_uuid[uuid].spot
        parts = self._courses[spot.gpu].spots(time) if spot.instance is None else ()
        rig = self._rigs[spot.gpu]
        return tuple(
            process
            for part in parts or (spot,)
            for member in rig.members(part, time)
            for process in member.processes
        )

    def members(self, uuid: str, time: Nanoseconds) -> tuple[Member, ...]:
        """The workloads at work on a device, with their processes there."""
        spot = self._by_uuid[uuid].spot
        return self._rigs[spot.gpu].members(spot, time)

    def truth(self, uuid: str, time: Nanoseconds) -> tuple[State, frozenset[Condition]]:
        """What is really the case.

        A MIG parent with instances is `unknown`, having no state, and so is what cannot be read.
        """
        unit = self._by_uuid[uuid]
        if self.unload(time) is not None or self.course(unit).is_silent(time):
            return State.UNKNOWN, frozenset()
        if not unit.is_instance and self._spots(unit, time):
            return State.UNKNOWN, frozenset()
        around = self.course(unit).around(time)
        return truth_of(self.state(uuid, time), around, self.members(uuid, time))

    def host(self, time: Nanoseconds) -> Host:
        """The node's own CPU and pressure."""
        return self._crew.host(time, self.scenario.cores)

    def owner_host(self, pids: Iterable[int], time: Nanoseconds) -> Host | None:
        """The same for the workloads that processes belong to; `None` where they belong to none."""
        return self._crew.owner_host(pids, time)

    def workload_of(self, pid: int) -> Workload | None:
        """Whose process it is."""
        return self._crew.workload_of(pid)

    def _spots(self, gpu: Unit, time: Nanoseconds) -> tuple[Spot, ...]:
        return self._courses[gpu.spot.gpu].spots(time)

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
            1.0 if reasons & ClockEvent.HW_THERMAL_SLOWDOWN else 0.0,
            1.0 if reasons & ClockEvent.HW_POWER_BRAKE_SLOWDOWN else 0.0,
        )
