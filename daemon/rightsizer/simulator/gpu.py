"""One simulated GPU over time: faults on its slot, workloads on it, sensor noise."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, TypeVar

from rightsizer.model.topology import link_bytes_per_second
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.simulator.activity import IDLE, DeviceLoad
from rightsizer.simulator.faults import (
    HEALTHY,
    CallFailure,
    CallHang,
    DeadCounters,
    FaultEffect,
    FaultSchedule,
    ForcedThrottle,
    GpuAbsence,
    GpuHealth,
    GpuLoss,
    MigReconfiguration,
    NvlinkDegradation,
    PcieDegradation,
)
from rightsizer.simulator.physics import (
    BoardEnvironment,
    BoardState,
    ElectricalState,
    instance_memory_bytes,
    link_count,
    nvlink_is_up,
    reserved_memory_bytes,
    settle,
)
from rightsizer.simulator.scenario import BoardSlot, DeviceLocation
from rightsizer.simulator.transients import channel, jitter
from rightsizer.simulator.workloads import DeviceTask, SimulatedWorkloads

_Kind = TypeVar("_Kind", bound=FaultEffect)

_OF_SURROUNDINGS: Final = (ForcedThrottle, PcieDegradation, NvlinkDegradation)


class SimulationStart:
    """When the simulation started: as it was told, or when it was first asked for."""

    def __init__(self, time: Nanoseconds | None) -> None:
        """A start that is known, or `None`."""
        self._time = time

    def at(self, now: Nanoseconds) -> Nanoseconds:
        """The start; now where nobody has asked before."""
        if self._time is None:
            self._time = now
        return self._time


class GpuTimeline:
    """What is the case with a GPU at any time, its load apart."""

    def __init__(
        self,
        slot: BoardSlot,
        around: BoardEnvironment,
        outlook: FaultSchedule,
        start: SimulationStart,
    ) -> None:
        """The GPU in a slot, in good health but for the faults."""
        self._slot = slot
        self._around = around
        self._outlook = outlook
        self._start = start
        self._varies = outlook.has(slot.index, *_OF_SURROUNDINGS)
        self._is_recut = outlook.has(slot.index, MigReconfiguration)
        self._usual = tuple(
            DeviceLocation(slot.index, number) for number in range(len(slot.profiles))
        )

    @property
    def is_uneventful(self) -> bool:
        """Whether nothing ever happens to it."""
        return not self._outlook

    def around(self, time: Nanoseconds) -> BoardEnvironment:
        """The slot's power, cooling and links."""
        if not self._varies:
            return self._around
        around = self._around
        for throttle in self._effects(ForcedThrottle, time):
            around = _throttled(around, throttle)
        for trouble in self._effects(PcieDegradation, time):
            around = replace(
                around,
                pcie_generation=min(
                    around.pcie_generation, trouble.generation or around.pcie_generation
                ),
                pcie_width=min(around.pcie_width, trouble.width or around.pcie_width),
                idle_pcie_generation=trouble.idle_generation or around.idle_pcie_generation,
            )
        links = link_count(around.board)
        down = sum(link < links for link in self.health(time).links_down)
        return replace(around, nvlinks_up_ratio=1.0 - down / links) if down else around

    def spots(self, time: Nanoseconds) -> tuple[DeviceLocation, ...]:
        """The instances that it is cut into; none where it is whole."""
        recut = self._effect(MigReconfiguration, time) if self._is_recut else None
        if recut is None:
            return self._usual
        return tuple(
            DeviceLocation(self._slot.index, recut.first_instance + number)
            for number in range(len(recut.profiles))
        )

    def holds(self, spot: DeviceLocation, time: Nanoseconds) -> bool:
        """Whether workloads can be on the GPU or an instance of it."""
        if not self._is_recut:
            return True
        spots = self.spots(time)
        return spot in spots if spots else spot.instance is None

    def health(self, time: Nanoseconds) -> GpuHealth:
        """Its errors since the start."""
        if not self._outlook:
            return HEALTHY
        return self._outlook.health(self._slot.index, time, self._start.at(time))

    def is_absent(self, time: Nanoseconds) -> bool:
        """Whether it is not in its slot."""
        return self._effect(GpuAbsence, time) is not None

    def is_lost(self, time: Nanoseconds) -> bool:
        """Whether it has fallen off the bus."""
        return self._effect(GpuLoss, time) is not None

    def hangs(self, time: Nanoseconds) -> tuple[CallHang, ...]:
        """Which calls on it do not come back."""
        return tuple(self._effects(CallHang, time))

    def answers(self, time: Nanoseconds) -> tuple[CallFailure, ...]:
        """Which calls on it answer with a code."""
        return tuple(self._effects(CallFailure, time))

    def is_silent(self, time: Nanoseconds) -> bool:
        """Whether nothing can be read of it."""
        if not self._outlook:
            return False
        return (
            self.is_absent(time)
            or self.is_lost(time)
            or bool(self.hangs(time))
            or any(not answer.function for answer in self.answers(time))
        )

    def has_dead_counters(self, time: Nanoseconds) -> bool:
        """Whether its profiling counters read 0."""
        return self._effect(DeadCounters, time) is not None

    def xids(self, after: Nanoseconds, until: Nanoseconds) -> list[tuple[Nanoseconds, int]]:
        """Its Xids between two times, the second included."""
        return self._outlook.xids(self._slot.index, after, until, self._start.at(until))

    def _effects(self, kind: type[_Kind], time: Nanoseconds) -> Iterator[_Kind]:
        return self._outlook.effects(self._slot.index, kind, time, self._start.at(time))

    def _effect(self, kind: type[_Kind], time: Nanoseconds) -> _Kind | None:
        return next(self._effects(kind, time), None)


def _throttled(around: BoardEnvironment, throttle: ForcedThrottle) -> BoardEnvironment:
    return replace(
        around,
        power_limit_watts=min(
            around.power_limit_watts, throttle.power_limit_watts or around.power_limit_watts
        ),
        ambient_celsius=throttle.ambient_celsius or around.ambient_celsius,
        clock_ceiling_ratio=min(around.clock_ceiling_ratio, throttle.clock_ratio or 1.0),
        ceiling_reasons=around.ceiling_reasons | throttle.reasons,
    )


_SENSOR_STEP: Final[Nanoseconds] = NANOSECONDS_PER_SECOND // 10
_POWER_ERROR: Final = 0.006
_LOAD_ERROR: Final = 0.01
_TEMPERATURE_ERROR_CELSIUS: Final = 0.6
_DRIVER_BYTES: Final = 2 * 2**20
"""What the driver shows as used on an empty board, beside what it reserves."""


class SimulatedGpu:
    """A GPU of the node at work."""

    def __init__(
        self, seed: int, slot: BoardSlot, course: GpuTimeline, crew: SimulatedWorkloads
    ) -> None:
        """The GPU in a slot, with the workloads of its node."""
        self._slot = slot
        self._course = course
        self._crew = crew
        self._whole = DeviceLocation(slot.index)
        self._profiles = slot.all_profiles
        self._last: dict[DeviceLocation, tuple[Nanoseconds, tuple[DeviceTask, ...]]] = {}
        self._sensors = channel(seed, "sensors", slot.index)
        parts = (DeviceLocation(slot.index, number) for number in range(len(self._profiles)))
        self._noise = {
            spot: channel(seed, "load", slot.index, spot.instance) for spot in (self._whole, *parts)
        }

    def members(self, spot: DeviceLocation, time: Nanoseconds) -> tuple[DeviceTask, ...]:
        """Who is at work on the GPU or an instance; nobody while there is no such instance."""
        last = self._last.get(spot)
        if last is not None and last[0] == time:
            return last[1]
        found = self._crew.members(spot, time) if self._course.holds(spot, time) else ()
        self._last[spot] = time, found
        return found

    def state(self, spot: DeviceLocation, time: Nanoseconds) -> BoardState:
        """What can be read of the GPU, or of one of its instances."""
        around, parts = self._course.around(time), self._course.spots(time)
        members = self.members(spot, time)
        load = board_load = _sum(members)
        has_context = bool(members)
        if parts:
            found = [self.members(part, time) for part in parts]
            board_load, has_context = self._board_load(parts, found)
        if parts and spot.instance is None:
            load, members = board_load, tuple(member for each in found for member in each)
        electrical = settle(around, board_load, has_context=has_context)
        electrical = self._measured(around, electrical, time)
        held = sum(member.memory_bytes for member in members)
        return self._assembled(around, spot, self._observed(spot, load, time), electrical, held)

    def _board_load(
        self, parts: tuple[DeviceLocation, ...], members: list[tuple[DeviceTask, ...]]
    ) -> tuple[DeviceLoad, bool]:
        shares = [self._profiles[spot.instance or 0].compute_share for spot in parts]
        sums = [_sum(found) for found in members]
        load = DeviceLoad.total(zip(sums, shares, strict=True))
        # The clock looks at whether anything runs, not at how much of the GPU it runs on.
        busy = max((found.gpu_busy for found in sums), default=0.0)
        return replace(load, gpu_busy=busy), any(members)

    def _observed(self, spot: DeviceLocation, load: DeviceLoad, time: Nanoseconds) -> DeviceLoad:
        if load.gpu_busy == 0.0 and load.engines == 0.0:
            return load
        step = 4 * (time // _SENSOR_STEP)
        key = self._noise[spot]
        errors = (*jitter(key, step), *jitter(key, step + 1), *jitter(key, step + 2))
        values = load.values()
        seen = [
            min(1.0, value * (1.0 + _LOAD_ERROR * error))
            for value, error in zip(values, errors, strict=False)
        ]
        return DeviceLoad(*seen, *values[len(errors) :])

    def _measured(
        self, around: BoardEnvironment, true: ElectricalState, time: Nanoseconds
    ) -> ElectricalState:
        power, heat, clock, _ = jitter(self._sensors, time // _SENSOR_STEP)
        top = around.sm_clock_maximum_hertz
        # The clock moves in steps of 15 MHz and is read exactly; only a capped one hunts.
        hertz = true.sm_clock_hertz
        if hertz < top and true.clock_event_reasons & ~1:
            hertz = min(top, round(hertz * (1.0 + 0.01 * clock) / 15e6) * 15e6)
        return ElectricalState(
            true.power_watts * (1.0 + _POWER_ERROR * power),
            hertz,
            true.memory_clock_hertz,
            true.clock_event_reasons,
            true.performance_state,
            true.temperature_celsius + _TEMPERATURE_ERROR_CELSIUS * heat,
            true.memory_temperature_celsius + _TEMPERATURE_ERROR_CELSIUS * heat,
            true.pcie_generation,
            true.pcie_width,
        )

    def _assembled(
        self,
        around: BoardEnvironment,
        spot: DeviceLocation,
        load: DeviceLoad,
        electrical: ElectricalState,
        held_bytes: float,
    ) -> BoardState:
        board = self._slot.board
        profile = self._slot.profile(spot.instance)
        link = link_bytes_per_second(electrical.pcie_generation, electrical.pcie_width) or 0.0
        nvlink = board.nvlink_bytes_per_second * around.nvlinks_up_ratio
        if not nvlink_is_up(board):
            nvlink = 0.0
        idle_reads = around.family.idle_memory_controller_busy
        if not electrical.performance_state:
            idle_reads = 0.0
        return BoardState(
            load=load,
            electrical=electrical,
            memory_controller_busy=min(1.0, max(idle_reads, load.dram_active)),
            memory_total_bytes=instance_memory_bytes(board, profile),
            memory_reserved_bytes=reserved_memory_bytes(board, profile),
            memory_used_bytes=int(held_bytes) + _DRIVER_BYTES,
            pcie_receive_bytes_per_second=load.pcie_receive * link,
            pcie_transmit_bytes_per_second=load.pcie_transmit * link,
            nvlink_receive_bytes_per_second=load.nvlink_receive * nvlink,
            nvlink_transmit_bytes_per_second=load.nvlink_transmit * nvlink,
        )


def _sum(members: tuple[DeviceTask, ...]) -> DeviceLoad:
    if len(members) == 1:
        return members[0].load
    return DeviceLoad.total((member.load, 1.0) for member in members) if members else IDLE
