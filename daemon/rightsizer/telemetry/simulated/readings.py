"""Readings straight from the model: what NVML would have given, without a driver between."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from rightsizer.domain.nvlink import Nvlink
from rightsizer.domain.reading import Missing, Process, Reading
from rightsizer.domain.signal import Signal
from rightsizer.domain.units import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.telemetry.simulated.feature import Feature
from rightsizer.telemetry.simulated.host import host_signals
from rightsizer.telemetry.simulated.library.clocks import VIDEO_RATIO
from rightsizer.telemetry.simulated.library.fabric import FABRIC_COMPLETED
from rightsizer.telemetry.simulated.library.gpm import INTEGER_RATIO
from rightsizer.telemetry.simulated.library.health import recovery_action
from rightsizer.telemetry.simulated.library.memory import BAR1_USED_BYTES, bar1_total_bytes
from rightsizer.telemetry.simulated.library.sessions import encoder_sessions
from rightsizer.telemetry.simulated.library.thermal import fan_percent
from rightsizer.telemetry.simulated.link_readings import read_links
from rightsizer.telemetry.simulated.moments import shown_watts
from rightsizer.telemetry.simulated.node import Node, Unit
from rightsizer.telemetry.simulated.offered import PROFILED, offered_by, signals_of_driver
from rightsizer.telemetry.simulated.physics import HIGHEST_CELSIUS, BoardState
from rightsizer.telemetry.simulated.support import support_of

__all__ = ["Reader"]

_MEGAHERTZ: Final = 1e6
_SLOW: Final[Nanoseconds] = 10 * NANOSECONDS_PER_SECOND


class Reader:
    """Reads one device of a node."""

    def __init__(self, node: Node, unit: Unit) -> None:
        """A device, with what its kind of board does not offer."""
        self._node = node
        self._unit = unit
        self._course = node.course(unit)
        self._support = support_of(unit.slot.board)
        self._offers = {cut: _Offer(unit, is_cut=cut) for cut in (False, True)}
        self._varies = not self._course.is_uneventful
        self._limits = {} if unit.is_instance or self._varies else self._limits_at(0)
        self._errors = {} if self._varies else self._errors_at(0)
        self._links: tuple[int, tuple[Nvlink, ...]] = (-1, ())

    def read(self, time: Nanoseconds) -> Reading:
        """The device at a time."""
        uuid, unit = self._unit.device.uuid, self._unit
        is_cut = not unit.is_instance and bool(self._course.spots(time))
        offer = self._offers[is_cut]
        state = self._node.state(uuid, time)
        values = self._activity(state, time) | _memory(state)
        values |= self._errors_at(time) if self._varies else self._errors
        if not unit.is_instance:
            values |= self._limits_at(time) if self._varies else self._limits
            values |= self._board(state, time)
        processes = None if is_cut else self._processes(time)
        if processes is not None:
            values[Signal.PROCESS_COUNT] = float(len(processes))
        links = self._links_at(time) if offer.links else ()
        if links:
            values[Signal.NVLINK_LINKS] = float(len(links))
            values[Signal.NVLINK_LINKS_UP] = float(sum(link.is_up for link in links))
        for signal in offer.dropped:
            values.pop(signal, None)
        if processes:
            host = self._node.owner_host((process.pid for process in processes), time)
            values |= host_signals(host) if host is not None else {}
        return Reading(uuid, time, values, offer.missing, processes, links)

    def _activity(self, state: BoardState, time: Nanoseconds) -> dict[Signal, float]:
        load = state.load
        values = {
            Signal.GPU_BUSY: load.gpu_busy,
            Signal.SM_ACTIVE: load.sm_active,
            Signal.SM_OCCUPANCY: load.sm_occupancy,
            Signal.TENSOR_ACTIVE: load.tensor_active,
            Signal.FP32_ACTIVE: load.fp32_active,
            Signal.FP16_ACTIVE: load.fp16_active,
            Signal.FP64_ACTIVE: load.fp64_active,
            Signal.INTEGER_ACTIVE: INTEGER_RATIO * load.sm_active,
            Signal.DRAM_ACTIVE: load.dram_active,
            Signal.PCIE_RECEIVE_BYTES_PER_SECOND: state.pcie_receive_bytes_per_second,
            Signal.PCIE_TRANSMIT_BYTES_PER_SECOND: state.pcie_transmit_bytes_per_second,
            Signal.NVLINK_RECEIVE_BYTES_PER_SECOND: state.nvlink_receive_bytes_per_second,
            Signal.NVLINK_TRANSMIT_BYTES_PER_SECOND: state.nvlink_transmit_bytes_per_second,
            Signal.MEMORY_CONTROLLER_BUSY: round(state.memory_controller_busy, 2),
            Signal.ENCODER: round(load.encoder, 2),
            Signal.DECODER: round(load.decoder, 2),
            Signal.JPEG: round(load.jpeg, 2),
            Signal.OFA: round(load.ofa, 2),
            Signal.ENCODER_SESSIONS: float(encoder_sessions(load.encoder)),
        }
        is_dead = self._course.has_dead_counters(time)
        if is_dead:
            values |= dict.fromkeys(PROFILED, 0.0)
        if is_dead or not self._support.has(Feature.GPM):
            values[Signal.GPU_BUSY] = round(load.gpu_busy, 2)
        return values

    def _board(self, state: BoardState, time: Nanoseconds) -> dict[Signal, float]:
        board, around = state.electrical, self._unit.around
        counters = self._node.counters(self._unit.device.uuid, time)
        watts = shown_watts(state, around, time, averages=self._support.has(Feature.POWER_AVERAGE))
        celsius = round(board.temperature_celsius)
        return {
            Signal.POWER_WATTS: int(watts * 1e3) / 1e3,
            Signal.ENERGY_JOULES: int(counters.energy_joules * 1e3) / 1e3,
            Signal.POWER_VIOLATION_SECONDS: counters.power_violation_seconds,
            Signal.THERMAL_VIOLATION_SECONDS: counters.thermal_violation_seconds,
            Signal.SM_CLOCK_HERTZ: _megahertz(board.sm_clock_hertz),
            Signal.MEMORY_CLOCK_HERTZ: _megahertz(board.memory_clock_hertz),
            Signal.VIDEO_CLOCK_HERTZ: _megahertz(VIDEO_RATIO * board.sm_clock_hertz),
            Signal.CLOCK_EVENT_REASONS: float(board.clock_event_reasons),
            Signal.PERFORMANCE_STATE: float(board.performance_state),
            Signal.TEMPERATURE_CELSIUS: float(celsius),
            Signal.TEMPERATURE_MARGIN_CELSIUS: float(max(0, HIGHEST_CELSIUS - celsius)),
            Signal.MEMORY_TEMPERATURE_CELSIUS: float(round(board.memory_temperature_celsius)),
            Signal.FAN_SPEED: fan_percent(celsius) / 100.0,
            Signal.PCIE_LINK_GENERATION: float(board.pcie_generation),
            Signal.PCIE_LINK_WIDTH: float(board.pcie_width),
        }

    def _limits_at(self, time: Nanoseconds) -> dict[Signal, float]:
        around = self._course.around(time)
        highest = _megahertz(around.sm_clock_maximum_hertz)
        memory_highest = _megahertz(around.family.memory_clock_hertz)
        return {
            Signal.POWER_LIMIT_WATTS: around.power_limit_watts,
            Signal.SM_CLOCK_MAXIMUM_HERTZ: highest,
            Signal.SM_CLOCK_APPLICATION_HERTZ: highest,
            Signal.MEMORY_CLOCK_MAXIMUM_HERTZ: memory_highest,
            Signal.MEMORY_CLOCK_APPLICATION_HERTZ: memory_highest,
        }

    def _errors_at(self, time: Nanoseconds) -> dict[Signal, float]:
        if self._unit.is_instance:
            return {Signal.ECC_UNCORRECTED_ERRORS: 0.0}
        uuid = self._unit.device.uuid
        health, recent = self._node.health(uuid, time), self._node.recent_health(uuid, time)
        rows = float(health.rows_correctable), float(health.rows_uncorrectable)
        pending = float(health.is_remapping_pending)
        return {
            Signal.PCIE_REPLAYS: float(health.pcie_replays),
            Signal.NVLINK_ERRORS: float(sum(each.total for each in health.link_errors.values())),
            Signal.FABRIC_STATE: float(FABRIC_COMPLETED),
            Signal.ECC_CORRECTED_ERRORS: float(recent.corrected_errors),
            Signal.ECC_UNCORRECTED_ERRORS: float(recent.uncorrected_errors),
            Signal.ECC_CORRECTED_ERRORS_LIFETIME: float(health.corrected_errors),
            Signal.ECC_UNCORRECTED_ERRORS_LIFETIME: float(health.uncorrected_errors),
            Signal.RETIRED_PAGES_CORRECTABLE: rows[0],
            Signal.RETIRED_PAGES_UNCORRECTABLE: rows[1],
            Signal.RETIRED_PAGES_PENDING: pending,
            Signal.REMAPPED_ROWS_CORRECTABLE: rows[0],
            Signal.REMAPPED_ROWS_UNCORRECTABLE: rows[1],
            Signal.REMAPPED_ROWS_PENDING: pending,
            Signal.REMAPPED_ROWS_FAILED: float(health.has_remapping_failed),
            Signal.RECOVERY_ACTION: float(recovery_action(health)),
        }

    def _links_at(self, time: Nanoseconds) -> tuple[Nvlink, ...]:
        """Read as seldom as the live source does, while nothing happens to them."""
        step = time if self._varies else time // _SLOW
        if self._links[0] != step:
            self._links = step, read_links(self._node, self._unit, time)
        return self._links[1]

    def _processes(self, time: Nanoseconds) -> tuple[Process, ...]:
        """Those on the device, with the share of each that is at work."""
        uuid = self._unit.device.uuid
        if self._unit.is_instance:
            return self._node.processes(uuid, time)
        found: list[Process] = []
        for member in self._node.members(uuid, time):
            load = member.load
            works = load.gpu_busy > 0.0 or load.engines > 0.0
            share = round(load.sm_active / len(member.pids), 2) if works else None
            found.extend(replace(process, gpu_busy=share) for process in member.processes)
        return tuple(found)


class _Offer:
    """What a device offers, cut into instances or whole."""

    def __init__(self, unit: Unit, *, is_cut: bool) -> None:
        offered = offered_by(unit, is_cut=is_cut)
        self.dropped = tuple(signals_of_driver() - offered)
        self.missing: Mapping[Signal, Missing] = dict.fromkeys(self.dropped, Missing.NOT_SUPPORTED)
        self.links = Signal.NVLINK_LINKS in offered


def _memory(state: BoardState) -> dict[Signal, float]:
    total, reserved = state.memory_total_bytes, state.memory_reserved_bytes
    return {
        Signal.MEMORY_USED_BYTES: float(state.memory_used_bytes),
        Signal.MEMORY_TOTAL_BYTES: float(total),
        Signal.MEMORY_FREE_BYTES: float(max(0, total - reserved - state.memory_used_bytes)),
        Signal.MEMORY_RESERVED_BYTES: float(reserved),
        Signal.BAR1_USED_BYTES: float(BAR1_USED_BYTES),
        Signal.BAR1_TOTAL_BYTES: float(bar1_total_bytes(total)),
    }


def _megahertz(hertz: float) -> float:
    """As exactly as the driver tells a clock."""
    return round(hertz / _MEGAHERTZ) * _MEGAHERTZ
