"""Further answers for the fake driver: constants by function, event sets, and MIG profiles."""

import ctypes
from collections import deque
from collections.abc import Callable
from typing import Any

import pynvml

from nvml_driver import FakeDriver

__all__ = ["FakeEvents", "by_link", "fabric", "mig_profiles", "refusing", "telling", "texts"]

_OK = int(pynvml.NVML_SUCCESS)
_XID = int(pynvml.nvmlEventTypeXidCriticalError)
_ANY_INSTANCE = 0xFFFFFFFF
_HANDLES_PER_GPU = 100
_FABRIC_VERSION = 0x02000024
"""The form, and how many bytes it has."""


def telling(*values: int) -> Callable[..., int]:
    """An answer that puts numbers into the last arguments."""

    def answer(_driver: FakeDriver, *arguments: Any) -> int:
        for reference, value in zip(arguments[-len(values) :], values, strict=True):
            reference._obj.value = value
        return _OK

    return answer


def texts(text: str) -> Callable[..., int]:
    """An answer that fills the buffer before the last argument, which is its size."""

    def answer(_driver: FakeDriver, *arguments: Any) -> int:
        arguments[-2].value = text.encode()
        return _OK

    return answer


def refusing(code: int) -> Callable[..., int]:
    """An answer that is only a code."""
    return lambda _driver, *_arguments: code


def by_link(answers: dict[int, int | str]) -> Callable[..., int]:
    """An answer by the number of the link: a number, or a PCI bus id; else a refusal."""

    def answer(_driver: FakeDriver, _device: Any, link: Any, reference: Any) -> int:
        found = answers.get(getattr(link, "value", link))
        if found is None:
            return int(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        if isinstance(found, str):
            reference._obj.busId = found
        else:
            reference._obj.value = found
        return _OK

    return answer


def fabric(state: int, status: int = _OK) -> Callable[..., int]:
    """State of the GPU's registration with the fabric."""

    def answer(_driver: FakeDriver, _device: Any, info: Any) -> int:
        if getattr(info._obj, "version", _FABRIC_VERSION) != _FABRIC_VERSION:
            return int(pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH)
        info._obj.state = state
        info._obj.status = status
        return _OK

    return answer


def mig_profiles(driver: FakeDriver, names: dict[int, str], instances: dict[int, int]) -> None:
    """Let the driver list MIG profiles by ID, and return each GPU instance's profile."""

    def profile(_driver: FakeDriver, _device: Any, number: Any, info: Any) -> int:
        ids = list(names)
        number = getattr(number, "value", number)
        if number >= len(ids):
            return int(pynvml.NVML_ERROR_NOT_SUPPORTED)
        name = names[ids[number]]
        info._obj.id = ids[number]
        info._obj.name = f"MIG {name}"
        info._obj.sliceCount = int(name.split("g.")[0])
        info._obj.memorySizeMB = int(name.split("g.")[1].split("gb")[0]) << 10
        info._obj.decoderCount = int("+" in name)
        return _OK

    def instance(_driver: FakeDriver, _device: Any, number: Any, handle: Any) -> int:
        ctypes.c_void_p.from_buffer(handle._obj).value = getattr(number, "value", number)
        return _OK

    def info(_driver: FakeDriver, handle: Any, target: Any) -> int:
        target._obj.profileId = instances[ctypes.cast(handle, ctypes.c_void_p).value or 0]
        return _OK

    driver.more |= {
        "nvmlDeviceGetGpuInstanceProfileInfoV": profile,
        "nvmlDeviceGetGpuInstanceById": instance,
        "nvmlGpuInstanceGetInfo": info,
    }


class FakeEvents:
    """The driver's event sets; a wait returns at once, with an event or without."""

    def __init__(self, driver: FakeDriver, kinds: int = _XID) -> None:
        self.sets: dict[int, set[int]] = {}
        """Live sets: indices of the registered GPUs, by the set's own number."""
        self._pending: deque[tuple[int, int, int, int, int]] = deque()
        driver.more |= {
            "nvmlEventSetCreate": self._create,
            "nvmlEventSetFree": self._free,
            "nvmlEventSetWait_v2": self._wait,
            "nvmlDeviceGetSupportedEventTypes": telling(kinds),
            "nvmlDeviceRegisterEvents": self._register,
        }

    @property
    def registered(self) -> set[int]:
        """GPUs of all live sets."""
        return {index for indices in self.sets.values() for index in indices}

    def report(
        self,
        index: int,
        code: int,
        instance: tuple[int, int] = (_ANY_INSTANCE, _ANY_INSTANCE),
        kind: int = _XID,
    ) -> None:
        """Let a GPU report an error, of one MIG instance or of the whole."""
        self._pending.append((index, code, *instance, kind))

    def _create(self, driver: FakeDriver, reference: Any) -> int:
        number = 5_000_000 + len(driver.calls)
        self.sets[number] = set()
        ctypes.c_void_p.from_buffer(reference._obj).value = number
        return _OK

    def _free(self, _driver: FakeDriver, event_set: Any) -> int:
        del self.sets[_address(event_set)]
        return _OK

    def _register(self, _driver: FakeDriver, device: Any, _kinds: Any, event_set: Any) -> int:
        self.sets[_address(event_set)].add(_address(device) // _HANDLES_PER_GPU - 1)
        return _OK

    def _wait(self, _driver: FakeDriver, _set: Any, data: Any, _milliseconds: Any) -> int:
        if not self._pending:
            return int(pynvml.NVML_ERROR_TIMEOUT)
        index, code, gpu_instance, compute_instance, kind = self._pending.popleft()
        ctypes.c_void_p.from_buffer(data._obj).value = (index + 1) * _HANDLES_PER_GPU
        data._obj.eventType = kind
        data._obj.eventData = code
        data._obj.gpuInstanceId = gpu_instance
        data._obj.computeInstanceId = compute_instance
        return _OK


def _address(handle: Any) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0
