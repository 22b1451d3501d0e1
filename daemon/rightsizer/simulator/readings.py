"""Reader of the model: the readings that NVML would give, without a driver in between."""

from typing import Final

from msgspec.structs import replace

from rightsizer.model.reading import Missing, Process, Reading, count_computing
from rightsizer.model.signal import Signal
from rightsizer.model.table import table_rows
from rightsizer.model.topology import Nvlink
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.simulator.device import SimulatedDevice
from rightsizer.simulator.faults import DeadCounters, NvlinkErrorCounts
from rightsizer.simulator.library.board import (
    BAR1_USED_BYTES,
    VIDEO_RATIO,
    bar1_total_bytes,
    fan_percent,
)
from rightsizer.simulator.library.gpm import INTEGER_RATIO
from rightsizer.simulator.library.health import recovery_action
from rightsizer.simulator.library.links import FABRIC_COMPLETED
from rightsizer.simulator.library.utilization import encoder_sessions
from rightsizer.simulator.node import SimulatedNode, host_signals
from rightsizer.simulator.physics import (
    HIGHEST_CELSIUS,
    BoardState,
    has_switches,
    link_count,
    link_megabytes_per_second,
    nvlink_is_up,
    peer_of_link,
)
from rightsizer.simulator.support import BoardFeature, support_of
from rightsizer.simulator.transients import shown_watts

_MEGABYTE: Final = 1e6
_MEGAHERTZ: Final = 1e6
_SLOW: Final[Nanoseconds] = 10 * NANOSECONDS_PER_SECOND
_OFFERS: Final = tuple(
    (
        BoardFeature(row["feature"]),
        frozenset(row["scopes"].split()),
        tuple(map(Signal, row["signals"].split())),
    )
    for row in table_rows(__file__, "offers.csv")
)
"""Signals by required feature and scope: whole GPUs, GPUs divided into instances, and
instances."""
_ALL_OFFERED: Final = frozenset(signal for *_, signals in _OFFERS for signal in signals)
_PROFILED: Final = next(offer[-1] for offer in _OFFERS if offer[0] is BoardFeature.GPM)
_SAME_AS_LOAD: Final = tuple(signal for signal in _PROFILED if signal is not Signal.INTEGER_ACTIVE)
_ENGINES: Final = (Signal.ENCODER, Signal.DECODER, Signal.JPEG, Signal.OFA)


def _not_offered(unit: SimulatedDevice, *, is_cut: bool) -> dict[Signal, Missing]:
    """Return the signals that a device lacks; `is_cut`: while it has MIG instances."""
    board = unit.slot.board
    features = set(support_of(board).features)
    if not nvlink_is_up(board):
        features.discard(BoardFeature.NVLINK)
    scope = "instance" if unit.is_instance else "cut" if is_cut else "whole"
    offered = {
        signal
        for feature, scopes, signals in _OFFERS
        if feature in features and scope in scopes
        for signal in signals
    }
    return dict.fromkeys(_ALL_OFFERED - offered, Missing.NOT_SUPPORTED)


def read_links(node: SimulatedNode, unit: SimulatedDevice, time: Nanoseconds) -> tuple[Nvlink, ...]:
    """Read the connected NVLinks."""
    board = unit.slot.board
    gpu = unit.spot.gpu
    health = node.health(unit.device.uuid, time)
    links = link_count(board)
    counters = node.counters(unit.device.uuid, time)
    speed = link_megabytes_per_second(board) * _MEGABYTE
    is_switched = has_switches(board)
    nvlinks: list[Nvlink] = []
    for link in range(links):
        peer = None if is_switched else peer_of_link(board, gpu, link, len(node.units))
        if peer is None and not is_switched:
            continue
        if link in health.links_down:
            nvlinks.append(Nvlink(link, is_up=False))
            continue
        errors = health.link_errors.get(link, NvlinkErrorCounts())
        nvlinks.append(
            Nvlink(
                link,
                is_up=True,
                generation=board.nvlink_generation,
                bytes_per_second=speed,
                remote_pci_bus_id=None if peer is None else node.units[peer].device.pci_bus_id,
                leads_to_switch=peer is None,
                receive_bytes=counters.nvlink_receive_bytes / links,
                transmit_bytes=counters.nvlink_transmit_bytes / links,
                crc_errors=errors.crc,
                replay_errors=errors.replay,
                recovery_errors=errors.recovery,
            )
        )
    return tuple(nvlinks)


class ModelReader:
    """Reader of one device of a node."""

    def __init__(self, node: SimulatedNode, unit: SimulatedDevice) -> None:
        self._node = node
        self._unit = unit
        self._timeline = node.timeline(unit)
        self._support = support_of(unit.slot.board)
        self._missing = {cut: _not_offered(unit, is_cut=cut) for cut in (False, True)}
        self._varies = node.has_faults
        self._limits = {} if unit.is_instance or self._varies else self._limits_at(0)
        self._errors = {} if self._varies else self._errors_at(0)
        self._links: tuple[int, tuple[Nvlink, ...]] = (-1, ())

    def read(self, time: Nanoseconds) -> Reading:
        """Read the device at a time."""
        uuid = self._unit.device.uuid
        unit = self._unit
        is_cut = not unit.is_instance and bool(self._timeline.spots(time))
        missing = self._missing[is_cut]
        state = self._node.state(uuid, time)
        values = self._activity(state, time) | _memory(state)
        values |= self._errors_at(time) if self._varies else self._errors
        if not unit.is_instance:
            values |= self._limits_at(time) if self._varies else self._limits
            values |= self._board(state, time)
        processes = None if is_cut else self._processes(time)
        if processes is not None:
            values[Signal.PROCESS_COUNT] = float(count_computing(processes))
        links = () if Signal.NVLINK_LINKS in missing else self._links_at(time)
        if links:
            values[Signal.NVLINK_LINKS] = float(len(links))
            values[Signal.NVLINK_LINKS_UP] = float(sum(link.is_up for link in links))
        for signal in missing:
            values.pop(signal, None)
        if processes:
            host = self._node.workloads.owner_host((process.pid for process in processes), time)
            values |= host_signals(host) if host is not None else {}
        return Reading(uuid, time, values, missing, processes, links)

    def _activity(self, state: BoardState, time: Nanoseconds) -> dict[Signal, float]:
        load = state.load
        values = {
            **{signal: getattr(load, signal.value) for signal in _SAME_AS_LOAD},
            Signal.INTEGER_ACTIVE: INTEGER_RATIO * load.sm_active,
            Signal.PCIE_RECEIVE_BYTES_PER_SECOND: state.pcie_receive_bytes_per_second,
            Signal.PCIE_TRANSMIT_BYTES_PER_SECOND: state.pcie_transmit_bytes_per_second,
            Signal.NVLINK_RECEIVE_BYTES_PER_SECOND: state.nvlink_receive_bytes_per_second,
            Signal.NVLINK_TRANSMIT_BYTES_PER_SECOND: state.nvlink_transmit_bytes_per_second,
            Signal.MEMORY_CONTROLLER_BUSY: round(state.memory_controller_busy, 2),
            **{signal: round(getattr(load, signal.value), 2) for signal in _ENGINES},
            Signal.ENCODER_SESSIONS: float(encoder_sessions(load.encoder)),
        }
        is_dead = self._timeline.has(DeadCounters, time)
        if is_dead:
            values |= dict.fromkeys(_PROFILED, 0.0)
        if is_dead or not self._support.has(BoardFeature.GPM):
            values[Signal.GPU_BUSY] = round(load.gpu_busy, 2)
        return values

    def _board(self, state: BoardState, time: Nanoseconds) -> dict[Signal, float]:
        board = state.electrical
        around = self._unit.around
        counters = self._node.counters(self._unit.device.uuid, time)
        watts = shown_watts(
            state, around, time, averages=self._support.has(BoardFeature.POWER_AVERAGE)
        )
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
        around = self._timeline.around(time)
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
        health = self._node.health(uuid, time)
        recent = self._node.recent_health(uuid, time)
        rows = float(health.rows_correctable), float(health.rows_uncorrectable)
        pending = float(health.is_remapping_pending)
        return {
            Signal.PCIE_REPLAYS: float(health.pcie_replays),
            Signal.NVLINK_ERRORS: float(sum(error.total for error in health.link_errors.values())),
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
        """Read the links, without faults only at the live source's slow interval."""
        step = time if self._varies else time // _SLOW
        if self._links[0] != step:
            self._links = step, read_links(self._node, self._unit, time)
        return self._links[1]

    def _processes(self, time: Nanoseconds) -> tuple[Process, ...]:
        """Return the processes on the device, with the shares of active ones."""
        uuid = self._unit.device.uuid
        if self._unit.is_instance:
            return self._node.processes(uuid, time)
        processes: list[Process] = []
        for member in self._node.members(uuid, time):
            load = member.load
            works = load.gpu_busy > 0.0 or load.engines > 0.0
            share = round(load.sm_active / len(member.pids), 2) if works else None
            processes.extend(replace(process, gpu_busy=share) for process in member.processes)
        return tuple(processes)


def _memory(state: BoardState) -> dict[Signal, float]:
    total = state.memory_total_bytes
    reserved = state.memory_reserved_bytes
    return {
        Signal.MEMORY_USED_BYTES: float(state.memory_used_bytes),
        Signal.MEMORY_TOTAL_BYTES: float(total),
        Signal.MEMORY_FREE_BYTES: float(max(0, total - reserved - state.memory_used_bytes)),
        Signal.MEMORY_RESERVED_BYTES: float(reserved),
        Signal.BAR1_USED_BYTES: float(BAR1_USED_BYTES),
        Signal.BAR1_TOTAL_BYTES: float(bar1_total_bytes(total)),
    }


def _megahertz(hertz: float) -> float:
    return round(hertz / _MEGAHERTZ) * _MEGAHERTZ
