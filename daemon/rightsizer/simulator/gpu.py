"""One simulated GPU over time: faults on its slot, workloads on it, sensor noise."""

from collections.abc import Iterator
from typing import Final, TypeVar

from msgspec.structs import replace

from rightsizer.model.values import NANOSECONDS_PER_SECOND, Nanoseconds, link_bytes_per_second
from rightsizer.simulator.activity import IDLE, DeviceLoad
from rightsizer.simulator.faults import (
    HEALTHY,
    CallFailure,
    CallHang,
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

_Effect = TypeVar("_Effect", bound=FaultEffect)
_SENSOR_STEP: Final[Nanoseconds] = NANOSECONDS_PER_SECOND // 10
_POWER_ERROR: Final = 0.006
_LOAD_ERROR: Final = 0.01
_TEMPERATURE_ERROR_CELSIUS: Final = 0.6
_DRIVER_BYTES: Final = 2 * 2**20
"""Memory shown as used on an empty board, beside the reserved memory."""


class GpuTimeline:
    """Faults and environment of a GPU over time, without its load."""

    def __init__(self, slot: BoardSlot, around: BoardEnvironment, faults: FaultSchedule) -> None:
        self._slot = slot
        self._around = around
        self._faults = faults
        self._varies = faults.has(slot.index, ForcedThrottle, PcieDegradation, NvlinkDegradation)
        self._is_recut = faults.has(slot.index, MigReconfiguration)
        self._usual = tuple(
            DeviceLocation(slot.index, number) for number in range(len(slot.profiles))
        )

    def around(self, time: Nanoseconds) -> BoardEnvironment:
        """Return power limit, cooling and links of the slot at a time."""
        around = self._around
        if not self._varies:
            return around
        for throttle in self.effects(ForcedThrottle, time):
            limit = throttle.power_limit_watts or around.power_limit_watts
            around = replace(
                around,
                power_limit_watts=min(around.power_limit_watts, limit),
                ambient_celsius=throttle.ambient_celsius or around.ambient_celsius,
                clock_ceiling_ratio=min(around.clock_ceiling_ratio, throttle.clock_ratio or 1.0),
                ceiling_reasons=around.ceiling_reasons | throttle.reasons,
            )
        for trouble in self.effects(PcieDegradation, time):
            generation = trouble.generation or around.pcie_generation
            around = replace(
                around,
                pcie_generation=min(around.pcie_generation, generation),
                pcie_width=min(around.pcie_width, trouble.width or around.pcie_width),
                idle_pcie_generation=trouble.idle_generation or around.idle_pcie_generation,
            )
        links = link_count(around.board)
        down = sum(link < links for link in self.health(time).links_down)
        return replace(around, nvlinks_up_ratio=1.0 - down / links) if down else around

    def spots(self, time: Nanoseconds) -> tuple[DeviceLocation, ...]:
        """Return the MIG instances at a time; empty for an undivided GPU."""
        recut = next(self.effects(MigReconfiguration, time), None) if self._is_recut else None
        if recut is None:
            return self._usual
        return tuple(
            DeviceLocation(self._slot.index, recut.first_instance + number)
            for number in range(len(recut.profiles))
        )

    def holds(self, spot: DeviceLocation, time: Nanoseconds) -> bool:
        """Whether the GPU or instance exists for workloads."""
        if not self._is_recut:
            return True
        spots = self.spots(time)
        return spot in spots if spots else spot.instance is None

    def health(self, time: Nanoseconds) -> GpuHealth:
        """Return the errors since the start."""
        return self._faults.health(self._slot.index, time) if self._faults else HEALTHY

    def effects(self, kind: type[_Effect], time: Nanoseconds) -> Iterator[_Effect]:
        """Yield the active faults of a kind."""
        return self._faults.effects(self._slot.index, kind, time)

    def has(self, kind: type[FaultEffect], time: Nanoseconds) -> bool:
        """Whether a fault of a kind is active."""
        return next(self.effects(kind, time), None) is not None

    def is_silent(self, time: Nanoseconds) -> bool:
        """Whether nothing can be read from the GPU."""
        if not self._faults:
            return False
        return any(self.has(kind, time) for kind in (GpuAbsence, GpuLoss, CallHang)) or any(
            not failure.function for failure in self.effects(CallFailure, time)
        )

    def xids(self, after: Nanoseconds, until: Nanoseconds) -> list[tuple[Nanoseconds, int]]:
        """Return the Xids after one time and up to another."""
        return self._faults.xids(self._slot.index, after, until)


class SimulatedGpu:
    """Readable state of a GPU under its workloads."""

    def __init__(
        self, seed: int, slot: BoardSlot, timeline: GpuTimeline, workloads: SimulatedWorkloads
    ) -> None:
        self._slot = slot
        self._timeline = timeline
        self._workloads = workloads
        self._whole = DeviceLocation(slot.index)
        self._profiles = slot.all_profiles
        self._last: dict[DeviceLocation, tuple[Nanoseconds, tuple[DeviceTask, ...]]] = {}
        self._sensors = channel(seed, "sensors", slot.index)
        parts = (DeviceLocation(slot.index, number) for number in range(len(self._profiles)))
        self._noise = {
            spot: channel(seed, "load", slot.index, spot.instance) for spot in (self._whole, *parts)
        }

    def members(self, spot: DeviceLocation, time: Nanoseconds) -> tuple[DeviceTask, ...]:
        """Return the workloads on the GPU or an instance; empty if the instance does not exist."""
        last = self._last.get(spot)
        if last is not None and last[0] == time:
            return last[1]
        tasks = self._workloads.members(spot, time) if self._timeline.holds(spot, time) else ()
        self._last[spot] = time, tasks
        return tasks

    def state(self, spot: DeviceLocation, time: Nanoseconds) -> BoardState:
        """Return the readable state of the GPU or of an instance."""
        around = self._timeline.around(time)
        parts = self._timeline.spots(time)
        members = self.members(spot, time)
        load = board_load = _sum(members)
        has_context = bool(members)
        if parts:
            taskses = [self.members(part, time) for part in parts]
            board_load, has_context = self._board_load(parts, taskses)
        if parts and spot.instance is None:
            load = board_load
            members = tuple(member for tasks in taskses for member in tasks)
        electrical = settle(around, board_load, has_context=has_context)
        electrical = self._measured(around, electrical, time)
        load = self._observed(spot, load, time)
        board = self._slot.board
        profile = self._slot.profile(spot.instance)
        link = link_bytes_per_second(electrical.pcie_generation, electrical.pcie_width) or 0.0
        is_linked = nvlink_is_up(board)
        is_asleep = electrical.performance_state > 0
        nvlink = board.nvlink_bytes_per_second * around.nvlinks_up_ratio if is_linked else 0.0
        idle_reads = around.family.idle_memory_controller_busy if is_asleep else 0.0
        return BoardState(
            load=load,
            electrical=electrical,
            memory_controller_busy=min(1.0, max(idle_reads, load.dram_active)),
            memory_total_bytes=instance_memory_bytes(board, profile),
            memory_reserved_bytes=reserved_memory_bytes(board, profile),
            memory_used_bytes=int(sum(member.memory_bytes for member in members)) + _DRIVER_BYTES,
            pcie_receive_bytes_per_second=load.pcie_receive * link,
            pcie_transmit_bytes_per_second=load.pcie_transmit * link,
            nvlink_receive_bytes_per_second=load.nvlink_receive * nvlink,
            nvlink_transmit_bytes_per_second=load.nvlink_transmit * nvlink,
        )

    def _board_load(
        self, parts: tuple[DeviceLocation, ...], members: list[tuple[DeviceTask, ...]]
    ) -> tuple[DeviceLoad, bool]:
        shares = [self._profiles[spot.instance or 0].compute_share for spot in parts]
        sums = [_sum(member) for member in members]
        load = DeviceLoad.total(zip(sums, shares, strict=True))
        # The clock depends on whether anything runs, not on the share of the GPU.
        busy = max((device_load.gpu_busy for device_load in sums), default=0.0)
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
        # The clock moves in steps of 15 MHz and is read exactly; only a capped one fluctuates.
        hertz = true.sm_clock_hertz
        if hertz < top and true.clock_event_reasons & ~1:
            hertz = min(top, round(hertz * (1.0 + 0.01 * clock) / 15e6) * 15e6)
        return replace(
            true,
            power_watts=true.power_watts * (1.0 + _POWER_ERROR * power),
            sm_clock_hertz=hertz,
            temperature_celsius=true.temperature_celsius + _TEMPERATURE_ERROR_CELSIUS * heat,
            memory_temperature_celsius=(
                true.memory_temperature_celsius + _TEMPERATURE_ERROR_CELSIUS * heat
            ),
        )


def _sum(members: tuple[DeviceTask, ...]) -> DeviceLoad:
    if len(members) == 1:
        return members[0].load
    return DeviceLoad.total((member.load, 1.0) for member in members) if members else IDLE
