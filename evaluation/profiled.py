"""DCGM's profiling counters of boards without GPM, from the simulator's model."""

from typing import Final

from msgspec.structs import replace

from rightsizer.model.reading import Reading
from rightsizer.model.signal import Signal
from rightsizer.model.snapshot import Snapshot
from rightsizer.simulator.device import SimulatedDevice
from rightsizer.simulator.node import SimulatedNode

_ARCHITECTURES: Final = frozenset({"Volta", "Turing", "Ampere", "Ada"})
"""Datacenter boards of these have profiling counters in DCGM and no GPM; GeForce has neither."""
_DECIMALS: Final = 6


def with_dcgm(snapshot: Snapshot, node: SimulatedNode) -> Snapshot:
    """The same with DCGM's counters; MIG instances have none, as where DCGM is not asked."""
    readings = {
        uuid: _profiled(reading, node) if _is_profiled(node.unit(uuid)) else reading
        for uuid, reading in snapshot.readings.items()
    }
    return replace(snapshot, readings=readings)


def _is_profiled(unit: SimulatedDevice) -> bool:
    board = unit.slot.board
    is_workstation = any("GeForce" in name for name in board.names)
    return board.architecture in _ARCHITECTURES and not is_workstation and not unit.slot.profiles


def _profiled(reading: Reading, node: SimulatedNode) -> Reading:
    state = node.state(reading.uuid, reading.time)
    load = state.load
    counters = {
        Signal.GPU_BUSY: load.gpu_busy,
        Signal.SM_ACTIVE: load.sm_active,
        Signal.SM_OCCUPANCY: load.sm_occupancy,
        Signal.TENSOR_ACTIVE: load.tensor_active,
        Signal.FP32_ACTIVE: load.fp32_active,
        Signal.FP16_ACTIVE: load.fp16_active,
        Signal.FP64_ACTIVE: load.fp64_active,
        Signal.DRAM_ACTIVE: load.dram_active,
        Signal.PCIE_RECEIVE_BYTES_PER_SECOND: state.pcie_receive_bytes_per_second,
        Signal.PCIE_TRANSMIT_BYTES_PER_SECOND: state.pcie_transmit_bytes_per_second,
    }
    rounded = {name: round(value, _DECIMALS) for name, value in counters.items()}
    return replace(reading, values={**reading.values, **rounded})
