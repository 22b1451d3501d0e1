"""Recordings made by hand as CSV of signals: what was true of each second is known."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from rightsizer.agent.replay import Replay, replay
from rightsizer.agent.settings import Settings
from rightsizer.catalogue.catalogue import built_in
from rightsizer.model.signal import Signal
from rightsizer.model.state import State
from rightsizer.recordings.source import open_recording

__all__ = ["BOARD", "SIGNALS_OF", "START", "replayed", "write_recording", "write_states"]

BOARD: Final = "H100-SXM5-80GB"
START: Final = 1_767_225_600
"""2026-01-01 00:00:00 UTC, in seconds."""

_QUIET: Final[Mapping[Signal, float]] = {
    Signal.GPU_BUSY: 0.0,
    Signal.SM_ACTIVE: 0.0,
    Signal.TENSOR_ACTIVE: 0.0,
    Signal.FP32_ACTIVE: 0.0,
    Signal.DRAM_ACTIVE: 0.0,
    Signal.PCIE_RECEIVE: 0.0,
    Signal.MEMORY_USED: 0.5,
    Signal.POWER_WATTS: 400.0,
    Signal.PROCESS_COUNT: 1.0,
    Signal.CPU_PRESSURE: 0.0,
    Signal.IO_PRESSURE: 0.0,
}
SIGNALS_OF: Final[Mapping[State, Mapping[Signal, float]]] = {
    State.IDLE_EMPTY: {
        Signal.POWER_WATTS: 70.0,
        Signal.MEMORY_USED: 0.003,
        Signal.PROCESS_COUNT: 0.0,
    },
    State.IDLE_HELD: {Signal.POWER_WATTS: 75.0},
    State.HIDDEN_STALL: {
        Signal.GPU_BUSY: 1.0,
        Signal.SM_ACTIVE: 0.12,
        Signal.FP32_ACTIVE: 0.006,
        Signal.DRAM_ACTIVE: 0.012,
        Signal.POWER_WATTS: 130.0,
    },
    State.PCIE_BOUND: {
        Signal.GPU_BUSY: 0.55,
        Signal.SM_ACTIVE: 0.3,
        Signal.FP32_ACTIVE: 0.1,
        Signal.PCIE_RECEIVE: 0.8,
    },
    State.MEMORY_BANDWIDTH_BOUND: {
        Signal.GPU_BUSY: 0.97,
        Signal.SM_ACTIVE: 0.7,
        Signal.TENSOR_ACTIVE: 0.16,
        Signal.DRAM_ACTIVE: 0.8,
    },
    State.COMPUTE_BOUND: {
        Signal.GPU_BUSY: 0.98,
        Signal.SM_ACTIVE: 0.9,
        Signal.TENSOR_ACTIVE: 0.6,
        Signal.DRAM_ACTIVE: 0.35,
    },
    State.LAUNCH_BOUND: {
        Signal.GPU_BUSY: 0.9,
        Signal.SM_ACTIVE: 0.15,
        Signal.FP32_ACTIVE: 0.11,
        Signal.DRAM_ACTIVE: 0.08,
    },
    State.STORAGE_BOUND: {
        Signal.GPU_BUSY: 0.3,
        Signal.SM_ACTIVE: 0.28,
        Signal.TENSOR_ACTIVE: 0.1,
        Signal.IO_PRESSURE: 0.5,
    },
    State.HOST_BOUND: {
        Signal.GPU_BUSY: 0.35,
        Signal.SM_ACTIVE: 0.3,
        Signal.TENSOR_ACTIVE: 0.15,
        Signal.CPU_PRESSURE: 0.45,
    },
    State.PRODUCTIVE: {
        Signal.GPU_BUSY: 0.8,
        Signal.SM_ACTIVE: 0.6,
        Signal.TENSOR_ACTIVE: 0.3,
        Signal.DRAM_ACTIVE: 0.3,
    },
}
"""What each state but `unknown` looks like with profiling counters, beside a quiet device."""


def write_recording(path: Path, rows: Iterable[tuple[float, str, Mapping[Signal, float]]]) -> Path:
    """A CSV of signals: seconds since the start, device, and what differs from a quiet one."""
    lines = [",".join(("timestamp", "device", *_QUIET))]
    for at_seconds, device, signals in rows:
        values = {**_QUIET, **signals}
        cells = [f"{START + at_seconds:.6f}", device, *(f"{values[name]:g}" for name in _QUIET)]
        lines.append(",".join(cells))
    path.write_text("\n".join(lines) + "\n")
    return path


def write_states(
    path: Path,
    *states: tuple[State, int],
    device: str = "GPU-0",
    interval_seconds: float = 1.0,
) -> Path:
    """A recording of one device that is in one state after the other, each for some seconds.

    It begins with a reading that accounts for nothing; `unknown` is a gap without readings.
    """
    rows: list[tuple[float, str, Mapping[Signal, float]]] = []
    at_seconds = 0.0
    rows.append((at_seconds, device, SIGNALS_OF[states[0][0]]))
    for state, duration_seconds in states:
        end = at_seconds + duration_seconds
        while at_seconds < end:
            at_seconds += interval_seconds
            if state is not State.UNKNOWN:
                rows.append((at_seconds, device, SIGNALS_OF[state]))
    return write_recording(path, rows)


def replayed(*paths: Path, settings: Settings | None = None) -> Replay:
    """What comes of a recording of H100."""
    source = open_recording(paths, catalogue=built_in(), board=BOARD)
    try:
        return replay(source, settings or Settings())
    finally:
        source.close()
