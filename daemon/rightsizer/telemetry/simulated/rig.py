"""One GPU with all that runs on it: from the workloads' loads to readings with sensor noise."""

from dataclasses import replace
from typing import Final

from rightsizer.domain.pcie import link_bytes_per_second
from rightsizer.domain.units import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.telemetry.simulated.activity import IDLE, Load
from rightsizer.telemetry.simulated.course import Course
from rightsizer.telemetry.simulated.crew import Crew, Member
from rightsizer.telemetry.simulated.memory import instance_memory_bytes, reserved_memory_bytes
from rightsizer.telemetry.simulated.noise import channel, jitter
from rightsizer.telemetry.simulated.physics import (
    BoardState,
    Electrical,
    Surroundings,
    nvlink_is_up,
    settle,
)
from rightsizer.telemetry.simulated.plan import Slot, Spot

__all__ = ["Rig"]

_SENSOR_STEP: Final[Nanoseconds] = NANOSECONDS_PER_SECOND // 10
_POWER_ERROR: Final = 0.006
_LOAD_ERROR: Final = 0.01
_TEMPERATURE_ERROR_CELSIUS: Final = 0.6
_DRIVER_BYTES: Final = 2 * 2**20
"""What the driver shows as used on an empty board, beside what it reserves."""


class Rig:
    """A GPU of the node at work."""

    def __init__(self, seed: int, slot: Slot, course: Course, crew: Crew) -> None:
        """The GPU in a slot, with the workloads of its node."""
        self._slot = slot
        self._course = course
        self._crew = crew
        self._whole = Spot(slot.index)
        self._profiles = slot.all_profiles
        self._last: dict[Spot, tuple[Nanoseconds, tuple[Member, ...]]] = {}
        self._sensors = channel(seed, "sensors", slot.index)
        parts = (Spot(slot.index, number) for number in range(len(self._profiles)))
        self._noise = {
            spot: channel(seed, "load", slot.index, spot.instance) for spot in (self._whole, *parts)
        }

    def members(self, spot: Spot, time: Nanoseconds) -> tuple[Member, ...]:
        """Who is at work on the GPU or an instance; nobody while there is no such instance."""
        last = self._last.get(spot)
        if last is not None and last[0] == time:
            return last[1]
        found = self._crew.members(spot, time) if self._course.holds(spot, time) else ()
        self._last[spot] = time, found
        return found

    def state(self, spot: Spot, time: Nanoseconds) -> BoardState:
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
        self, parts: tuple[Spot, ...], members: list[tuple[Member, ...]]
    ) -> tuple[Load, bool]:
        shares = [self._profiles[spot.instance or 0].compute_share for spot in parts]
        sums = [_sum(found) for found in members]
        load = Load.total(zip(sums, shares, strict=True))
        # The clock looks at whether anything runs, not at how much of the GPU it runs on.
        busy = max((found.gpu_busy for found in sums), default=0.0)
        return replace(load, gpu_busy=busy), any(members)

    def _observed(self, spot: Spot, load: Load, time: Nanoseconds) -> Load:
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
        return Load(*seen, *values[len(errors) :])

    def _measured(self, around: Surroundings, true: Electrical, time: Nanoseconds) -> Electrical:
        power, heat, clock, _ = jitter(self._sensors, time // _SENSOR_STEP)
        top = around.sm_clock_maximum_hertz
        # The clock moves in steps of 15 MHz and is read exactly; only a capped one hunts.
        hertz = true.sm_clock_hertz
        if hertz < top and true.clock_event_reasons & ~1:
            hertz = min(top, round(hertz * (1.0 + 0.01 * clock) / 15e6) * 15e6)
        return Electrical(
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
        around: Surroundings,
        spot: Spot,
        load: Load,
        electrical: Electrical,
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


def _sum(members: tuple[Member, ...]) -> Load:
    if len(members) == 1:
        return members[0].load
    return Load.total((member.load, 1.0) for member in members) if members else IDLE
