"""Encoder and frame buffer capture sessions, and the driver's accounting."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from rightsizer.simulator.library.calls import NvmlCallError, NvmlCode, number, out, put
from rightsizer.simulator.library.driver import SimulatedDriver, SimulatedHandle
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


def _statistics(
    driver: SimulatedDriver, device: SimulatedHandle, sessions: Any, frames: Any, latency: Any
) -> None:
    del driver
    device.need(BoardFeature.ENCODER_DECODER)
    busy = device.state.load.encoder
    rate = _FRAMES_PER_SECOND * busy
    put(sessions, encoder_sessions(busy))
    put(frames, round(rate))
    put(latency, round(_MICROSECONDS / rate) if rate else 0)


def _sessions(driver: SimulatedDriver, device: SimulatedHandle, count: Any, sessions: Any) -> None:
    device.need(BoardFeature.ENCODER_DECODER)
    busy = device.state.load.encoder
    held = encoder_sessions(busy)
    room = out(count).value if sessions is not None else held
    put(count, held)
    if room < held:
        raise NvmlCallError(NvmlCode.INSUFFICIENT_SIZE)
    if not held or sessions is None:
        return
    target = sessions[0]
    pids = [process.pid for process in driver.node.processes(device.uuid, driver.now())]
    target.sessionId, target.pid = 1, pids[0] if pids else 0
    target.hResolution, target.vResolution = _WIDTH, _HEIGHT
    target.averageFps = round(_FRAMES_PER_SECOND * busy)
    target.encodeLatency = round(_MICROSECONDS / (_FRAMES_PER_SECOND * busy))


def _capacity(driver: SimulatedDriver, device: SimulatedHandle, kind: Any, capacity: Any) -> None:
    del driver
    device.need(BoardFeature.ENCODER_DECODER)
    if not 0 <= number(kind) < _KINDS_OF_ENCODER:
        raise NvmlCallError(NvmlCode.INVALID_ARGUMENT)
    put(capacity, _ENCODER_CAPACITY)


def _capture_statistics(driver: SimulatedDriver, device: SimulatedHandle, statistics: Any) -> None:
    del driver
    device.need(BoardFeature.ENCODER_DECODER)
    target = out(statistics)
    target.sessionsCount = target.averageFPS = target.averageLatency = 0


def _capture_sessions(
    driver: SimulatedDriver, device: SimulatedHandle, count: Any, sessions: Any
) -> None:
    del driver, sessions
    device.need(BoardFeature.ENCODER_DECODER)
    put(count, 0)


def _accounting_mode(driver: SimulatedDriver, device: SimulatedHandle, mode: Any) -> None:
    del driver
    device.need(BoardFeature.ACCOUNTING)
    put(mode, 0)


def _accounting_pids(
    driver: SimulatedDriver, device: SimulatedHandle, count: Any, pids: Any
) -> None:
    del driver, pids
    device.need(BoardFeature.ACCOUNTING)
    put(count, 0)


def _accounting_statistics(
    driver: SimulatedDriver, device: SimulatedHandle, pid: Any, statistics: Any
) -> None:
    """Nobody has turned accounting on, so that no process was accounted for."""
    del driver, pid, statistics
    device.need(BoardFeature.ACCOUNTING)
    raise NvmlCallError(NvmlCode.NOT_FOUND)


def _accounting_buffer(driver: SimulatedDriver, device: SimulatedHandle, size: Any) -> None:
    del driver
    device.need(BoardFeature.ACCOUNTING)
    put(size, _ACCOUNTING_BUFFER)


SESSIONS: Final[Mapping[str, Callable[..., None]]] = {
    "nvmlDeviceGetEncoderStats": _statistics,
    "nvmlDeviceGetEncoderSessions": _sessions,
    "nvmlDeviceGetEncoderCapacity": _capacity,
    "nvmlDeviceGetFBCStats": _capture_statistics,
    "nvmlDeviceGetFBCSessions": _capture_sessions,
    "nvmlDeviceGetAccountingMode": _accounting_mode,
    "nvmlDeviceGetAccountingPids": _accounting_pids,
    "nvmlDeviceGetAccountingStats": _accounting_statistics,
    "nvmlDeviceGetAccountingBufferSize": _accounting_buffer,
}
