"""Readings straight from the model: what NVML would have given, without a driver between."""

from collections.abc import Mapping
from typing import Final

from rightsizer.domain.reading import Missing, Reading
from rightsizer.domain.signal import Signal
from rightsizer.domain.units import Nanoseconds
from rightsizer.telemetry.simulated.host import host_signals
from rightsizer.telemetry.simulated.library.support import support_of
from rightsizer.telemetry.simulated.node import Node, Unit
from rightsizer.telemetry.simulated.physics import BoardState

__all__ = ["Reader"]

_PROFILING: Final = (
    Signal.SM_ACTIVE,
    Signal.SM_OCCUPANCY,
    Signal.TENSOR_ACTIVE,
    Signal.DRAM_ACTIVE,
    Signal.FP64_ACTIVE,
    Signal.FP32_ACTIVE,
    Signal.FP16_ACTIVE,
)
_PCIE_TRAFFIC: Final = (
    Signal.PCIE_RECEIVE_BYTES_PER_SECOND,
    Signal.PCIE_TRANSMIT_BYTES_PER_SECOND,
)
_NVLINK_TRAFFIC: Final = (
    Signal.NVLINK_RECEIVE_BYTES_PER_SECOND,
    Signal.NVLINK_TRANSMIT_BYTES_PER_SECOND,
)
_ENGINES: Final = (
    Signal.MEMORY_CONTROLLER_BUSY,
    Signal.ENCODER,
    Signal.DECODER,
    Signal.JPEG,
    Signal.OFA,
)
_BOARD: Final = (
    Signal.POWER_WATTS,
    Signal.POWER_LIMIT_WATTS,
    Signal.ENERGY_JOULES,
    Signal.SM_CLOCK_HERTZ,
    Signal.SM_CLOCK_MAXIMUM_HERTZ,
    Signal.MEMORY_CLOCK_HERTZ,
    Signal.CLOCK_EVENT_REASONS,
    Signal.TEMPERATURE_CELSIUS,
    Signal.MEMORY_TEMPERATURE_CELSIUS,
    Signal.PCIE_LINK_GENERATION,
    Signal.PCIE_LINK_WIDTH,
)


class Reader:
    """Reads one device of a node."""

    def __init__(self, node: Node, unit: Unit) -> None:
        """A device, with what its kind of board does not offer."""
        self._node = node
        self._unit = unit
        self._is_parent = bool(unit.instances)
        unsupported = _unsupported(unit)
        self._counts_percents = Signal.SM_ACTIVE in unsupported
        self._unsupported = unsupported
        self._missing: Mapping[Signal, Missing] = dict.fromkeys(unsupported, Missing.NOT_SUPPORTED)

    def read(self, time: Nanoseconds) -> Reading:
        """The device at a time."""
        uuid = self._unit.device.uuid
        state = self._node.state(uuid, time)
        values = self._activity(state) | self._memory(state)
        if not self._unit.is_instance:
            values |= self._board(state, time)
        processes = None if self._is_parent else self._node.processes(uuid, time)
        if processes is not None:
            values[Signal.PROCESS_COUNT] = float(len(processes))
            host = self._node.owner_host((process.pid for process in processes), time)
            if host is not None:
                values |= host_signals(host)
        for signal in self._unsupported:
            values.pop(signal, None)
        return Reading(uuid, time, values, self._missing, processes)

    def _activity(self, state: BoardState) -> dict[Signal, float]:
        load = state.load
        busy = round(load.gpu_busy, 2) if self._counts_percents else load.gpu_busy
        return {
            Signal.GPU_BUSY: busy,
            Signal.SM_ACTIVE: load.sm_active,
            Signal.SM_OCCUPANCY: load.sm_occupancy,
            Signal.TENSOR_ACTIVE: load.tensor_active,
            Signal.FP32_ACTIVE: load.fp32_active,
            Signal.FP16_ACTIVE: load.fp16_active,
            Signal.FP64_ACTIVE: load.fp64_active,
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
        }

    def _memory(self, state: BoardState) -> dict[Signal, float]:
        return {
            Signal.MEMORY_USED_BYTES: float(state.memory_used_bytes),
            Signal.MEMORY_TOTAL_BYTES: float(state.memory_total_bytes),
            Signal.MEMORY_RESERVED_BYTES: float(state.memory_reserved_bytes),
        }

    def _board(self, state: BoardState, time: Nanoseconds) -> dict[Signal, float]:
        board, around = state.electrical, self._unit.around
        counters = self._node.counters(self._unit.device.uuid, time)
        return {
            Signal.POWER_WATTS: int(board.power_watts * 1e3) / 1e3,
            Signal.POWER_LIMIT_WATTS: around.power_limit_watts,
            Signal.ENERGY_JOULES: int(counters.energy_joules * 1e3) / 1e3,
            Signal.SM_CLOCK_HERTZ: round(board.sm_clock_hertz / 1e6) * 1e6,
            Signal.SM_CLOCK_MAXIMUM_HERTZ: round(around.sm_clock_maximum_hertz / 1e6) * 1e6,
            Signal.MEMORY_CLOCK_HERTZ: round(board.memory_clock_hertz / 1e6) * 1e6,
            Signal.CLOCK_EVENT_REASONS: float(board.clock_event_reasons),
            Signal.TEMPERATURE_CELSIUS: float(round(board.temperature_celsius)),
            Signal.MEMORY_TEMPERATURE_CELSIUS: float(round(board.memory_temperature_celsius)),
            Signal.PCIE_LINK_GENERATION: float(board.pcie_generation),
            Signal.PCIE_LINK_WIDTH: float(board.pcie_width),
        }


def _unsupported(unit: Unit) -> tuple[Signal, ...]:
    """What a device of this kind does not offer: the live source's collectors say the same."""
    support = support_of(unit.slot.board)
    is_parent, is_instance = bool(unit.instances), unit.is_instance
    profiles = support.profiling and not is_parent
    rules = (
        (not profiles, _PROFILING),
        (not profiles or is_instance, _PCIE_TRAFFIC),
        (not profiles or is_instance or not support.nvlink_links, _NVLINK_TRAFFIC),
        (is_parent or (is_instance and not profiles), (Signal.GPU_BUSY,)),
        (is_parent or is_instance, _ENGINES),
        (not support.jpeg, (Signal.JPEG,)),
        (not support.ofa, (Signal.OFA,)),
        (is_instance, _BOARD),
        (not support.memory_temperature, (Signal.MEMORY_TEMPERATURE_CELSIUS,)),
        (is_parent, (Signal.PROCESS_COUNT,)),
    )
    return tuple(
        dict.fromkeys(signal for without, signals in rules if without for signal in signals)
    )
