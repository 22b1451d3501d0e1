"""Encoder and frame buffer capture sessions, and the driver's accounting."""

from typing import Any, Final

from rightsizer.simulator.library.calls import (
    Functions,
    NvmlCallError,
    NvmlCode,
    one_of,
    out,
    put,
    refuse_if,
)
from rightsizer.simulator.library.driver import SimulatedHandle, structure, value
from rightsizer.simulator.support import BoardFeature

_FRAMES_PER_SECOND: Final = 240.0
"""Of an encoder with nothing else to do."""
_MICROSECONDS: Final = 1e6
_ENCODER_CAPACITY: Final = 100
_KINDS_OF_ENCODER: Final = 3
_ACCOUNTING_BUFFER: Final = 4000
_WIDTH, _HEIGHT = 1920, 1080


def encoder_sessions(encoder_busy: float) -> int:
    """How many sessions keep an encoder so busy."""
    return 1 if encoder_busy > 0.0 else 0


def _statistics(device: SimulatedHandle, sessions: Any, frames: Any, latency: Any) -> None:
    device.need(BoardFeature.ENCODER_DECODER)
    busy = device.state.load.encoder
    rate = _FRAMES_PER_SECOND * busy
    put(sessions, encoder_sessions(busy))
    put(frames, round(rate))
    put(latency, round(_MICROSECONDS / rate) if rate else 0)


def _sessions(device: SimulatedHandle, count: Any, sessions: Any) -> None:
    device.need(BoardFeature.ENCODER_DECODER)
    busy = device.state.load.encoder
    held = encoder_sessions(busy)
    room = out(count).value if sessions is not None else held
    put(count, held)
    refuse_if(room < held, NvmlCode.INSUFFICIENT_SIZE)
    if not held or sessions is None:
        return
    target = sessions[0]
    pids = [each.pid for each in device.processes]
    target.sessionId, target.pid = 1, pids[0] if pids else 0
    target.hResolution, target.vResolution = _WIDTH, _HEIGHT
    target.averageFps = round(_FRAMES_PER_SECOND * busy)
    target.encodeLatency = round(_MICROSECONDS / (_FRAMES_PER_SECOND * busy))


def _capacity(device: SimulatedHandle, kind: Any, capacity: Any) -> None:
    device.need(BoardFeature.ENCODER_DECODER)
    one_of(kind, range(_KINDS_OF_ENCODER))
    put(capacity, _ENCODER_CAPACITY)


def _accounting_statistics(device: SimulatedHandle, pid: Any, statistics: Any) -> None:
    """Accounting is off, so that no process was accounted for."""
    del pid, statistics
    device.need(BoardFeature.ACCOUNTING)
    raise NvmlCallError(NvmlCode.NOT_FOUND)


_no_accounting = value(lambda _: 0, BoardFeature.ACCOUNTING)
SESSIONS: Final[Functions] = {
    "nvmlDeviceGetEncoderStats": _statistics,
    "nvmlDeviceGetEncoderSessions": _sessions,
    "nvmlDeviceGetEncoderCapacity": _capacity,
    "nvmlDeviceGetFBCStats": structure(
        lambda _: dict.fromkeys(("sessionsCount", "averageFPS", "averageLatency"), 0),
        BoardFeature.ENCODER_DECODER,
    ),
    "nvmlDeviceGetFBCSessions": value(lambda _: 0, BoardFeature.ENCODER_DECODER),
    "nvmlDeviceGetAccountingMode": _no_accounting,
    "nvmlDeviceGetAccountingPids": _no_accounting,
    "nvmlDeviceGetAccountingStats": _accounting_statistics,
    "nvmlDeviceGetAccountingBufferSize": value(
        lambda _: _ACCOUNTING_BUFFER, BoardFeature.ACCOUNTING
    ),
}
