"""How far a GPU has got in joining the NVLink fabric of its switches; Hopper and later."""

from ctypes import Structure, byref, c_uint, c_uint8, c_uint32, sizeof
from functools import partial
from typing import Final

import pynvml

from rightsizer.model.reading import Missing
from rightsizer.model.signal import Signal
from rightsizer.telemetry.nvml.collector import NvmlCollector
from rightsizer.telemetry.nvml.handle import DeviceHandle
from rightsizer.telemetry.nvml.library import NvmlFailure
from rightsizer.telemetry.nvml.reading_builder import ReadingBuilder

_CALL: Final = "nvmlDeviceGetGpuFabricInfoV"
_FORMER_CALL: Final = "nvmlDeviceGetGpuFabricInfo"
_UUID_BYTES: Final = 16
_REGISTRATION: Final = (
    ("clusterUuid", c_uint8 * _UUID_BYTES),
    ("status", c_uint),
    ("cliqueId", c_uint32),
    ("state", c_uint),
)


class _Info(Structure):
    """NVML's second form of the structure; the oldest bindings allowed have it too long."""

    _fields_ = (("version", c_uint), *_REGISTRATION, ("healthMask", c_uint32))


class _FormerInfo(Structure):
    """NVML's first form."""

    _fields_ = _REGISTRATION


_NO_FABRIC: Final = NvmlFailure(Missing.NOT_SUPPORTED, _CALL, "the GPU is in no fabric")


class _Registration:
    """The structures that the driver fills in, made once for each device."""

    def __init__(self, handle: DeviceHandle) -> None:
        self._handle = handle
        info, former = _Info(version=2 << 24 | sizeof(_Info)), _FormerInfo()
        self._forms = ((_CALL, info, byref(info)), (_FORMER_CALL, former, byref(former)))
        self._absent: NvmlFailure | None = None

    def state(self) -> int | NvmlFailure:
        """NVML's number of the state."""
        if self._absent is not None:
            return self._absent
        for call, info, reference in self._forms:
            answer = self._handle.ask(call, reference)
            if not isinstance(answer, NvmlFailure):
                return self._judge(info.state, info.status)
            if not answer.is_unsupported:
                return answer
        self._absent = _NO_FABRIC
        return _NO_FABRIC

    def _judge(self, state: int, status: int) -> int | NvmlFailure:
        if state == pynvml.NVML_GPU_FABRIC_STATE_NOT_SUPPORTED:
            self._absent = _NO_FABRIC
            return _NO_FABRIC
        # A registration that failed is completed too, and only its status says so.
        if state == pynvml.NVML_GPU_FABRIC_STATE_COMPLETED and status != pynvml.NVML_SUCCESS:
            return NvmlFailure(
                Missing.FAILED, _CALL, f"joining the fabric failed with code {status}"
            )
        return state


def _read(handle: DeviceHandle, builder: ReadingBuilder) -> None:
    registration = handle.hold(_Registration, partial(_Registration, handle))
    builder.put(Signal.FABRIC_STATE, registration.state())


FABRIC: Final = NvmlCollector(
    "fabric", (Signal.FABRIC_STATE,), _read, is_slow=True, part_of="nvlink"
)
