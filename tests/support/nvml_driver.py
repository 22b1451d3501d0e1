"""A tiny driver library of Python functions for faults: hangs, refusals, gaps and changes.

It is independent of the simulator: any object with NVML's functions can replace it.
"""

import ctypes
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pynvml

from nvml_gpus import FakeGpu, FakeInstance
from rightsizer.catalogue.catalogue import built_in
from rightsizer.host.collector import ProcHostCollector
from rightsizer.host.process_cache import CachedProcessTable
from rightsizer.io.clock import Clock, FastClock
from rightsizer.model.units import nanoseconds
from rightsizer.owners.resolver import OwnerResolver
from rightsizer.telemetry.host_context import HostContextCollector, NodeHostProbe
from rightsizer.telemetry.live import LiveSource
from rightsizer.telemetry.nvml.library import use_library
from rightsizer.telemetry.nvml.settings import LiveSettings
from rightsizer.telemetry.source import ReleaseController, SecondarySource

__all__ = [
    "FUNCTIONS",
    "FakeDriver",
    "FakeGpu",
    "FakeInstance",
    "constant",
    "installed",
    "patient_settings",
    "reading",
    "tick",
]

_OK = pynvml.NVML_SUCCESS
_ABSENT = pynvml.NVML_ERROR_NOT_SUPPORTED
_HANDLES_PER_GPU = 100
_PATIENCE_SECONDS = 5.0
_ALWAYS = ("nvmlShutdown", "nvmlGpmSampleFree")  # These need no driver.


class FakeDriver:
    """Replaces the bindings' `libnvidia-ml.so.1`."""

    def __init__(self, *gpus: FakeGpu) -> None:
        self.gpus = list(gpus)
        self.is_loaded = True
        self.openings = 0
        self.closings = 0
        self.calls: list[str] = []
        self.lacking: set[str] = set()
        self.more: dict[str, Callable[..., int]] = {}
        """Functions beside the default ones, or in their place."""
        self.codes: dict[str, int] = {}
        self.codes_of: dict[tuple[str, int], int] = {}
        """By function and index of the GPU."""
        self.raising: dict[str, Exception] = {}
        self.hanging: dict[tuple[str, int], threading.Event] = {}
        """By function and index of the GPU (-1: without one): set the event to release it."""
        self.samples_alive = 0
        self.counting = threading.Lock()
        self.sampled_by: dict[int, set[int]] = {}

    def __getattr__(self, name: str) -> Callable[..., int]:
        answer = self.more.get(name) or _ANSWERS.get(name)
        if answer is None or name in self.lacking:
            raise AttributeError(name)

        def call(*arguments: Any) -> int:
            return self._call(name, answer, arguments)

        return call

    def _call(self, name: str, answer: Callable[..., int], arguments: tuple[Any, ...]) -> int:
        self.calls.append(name)
        index = _index(arguments)
        hanging = self.hanging.get((name, index))
        if hanging is not None:
            hanging.wait()
        if name in self.raising:
            raise self.raising[name]
        if not self.is_loaded and name not in _ALWAYS:
            return int(
                pynvml.NVML_ERROR_DRIVER_NOT_LOADED
                if name == "nvmlInitWithFlags"
                else pynvml.NVML_ERROR_UNINITIALIZED
            )
        code = self.codes_of.get((name, index), self.codes.get(name))
        if code is not None:
            return code
        if index >= len(self.gpus) or (index >= 0 and self.gpus[index].is_lost):
            return int(pynvml.NVML_ERROR_GPU_IS_LOST)
        return int(answer(self, *arguments))


def patient_settings(**settings: Any) -> LiveSettings:
    """Settings that tolerate a busy machine, unless a deadline is given."""
    if "deadline_seconds" not in settings:
        patience = ("deadline_seconds", "first_look_patience_seconds", "hung_after_seconds")
        settings = {**dict.fromkeys(patience, 60.0), **settings}
    return LiveSettings(**settings)


@contextmanager
def reading(
    driver: object,
    clock: Clock,
    root: Path | None = None,
    *,
    controls: ReleaseController | None = None,
    neighbors: Sequence[SecondarySource] = (),
    **settings: Any,
) -> Iterator[LiveSource]:
    """A live source over the driver, with the host files under `root`."""
    root = root or Path("/nowhere")
    sysfs = root / "sys"
    processes = CachedProcessTable(root / "proc", clock.time)
    host = ProcHostCollector(
        root / "proc", root / "cgroup", clock, sysfs=sysfs, processes=processes
    )
    owners = OwnerResolver.on_host(root / "proc", sysfs=sysfs, processes=processes)
    with installed(driver):
        source = LiveSource(
            clock=clock,
            interval=nanoseconds(1),
            settings=patient_settings(**settings),
            catalogue=built_in(),
            host_context=HostContextCollector(NodeHostProbe(host, owners, sysfs, processes)),
            sysfs=sysfs,
            root=root,
            secondary=neighbors,
            controls=controls,
        )
        try:
            yield source
        finally:
            source.close()


def tick(clock: FastClock, duration_seconds: float = 1.0) -> None:
    """Let time pass."""
    clock.wait_until(clock.time() + nanoseconds(duration_seconds), threading.Event())


@contextmanager
def installed(driver: object) -> Iterator[None]:
    """The driver, below the bindings, within the block."""
    others = set(threading.enumerate())
    use_library(driver)
    try:
        yield
    finally:
        # A short deadline leaves threads behind: what they give back is this driver's, and the
        # bindings would take it to the one that is installed next. What hangs for good is left.
        deadline = time.monotonic() + _PATIENCE_SECONDS
        for thread in set(threading.enumerate()) - others:
            thread.join(max(0.0, deadline - time.monotonic()))
        use_library(None)


def _number(handle: Any) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0


def _set_handle(reference: Any, number: int) -> int:
    ctypes.c_void_p.from_buffer(reference._obj).value = number
    return int(_OK)


def _index(arguments: tuple[Any, ...]) -> int:
    if arguments and isinstance(arguments[0], pynvml.c_nvmlDevice_t):
        return _number(arguments[0]) // _HANDLES_PER_GPU - 1
    return -1


def _gpu(driver: FakeDriver, handle: Any) -> FakeGpu:
    return driver.gpus[_index((handle,))]


def _instance(driver: FakeDriver, handle: Any) -> FakeInstance | None:
    place = _number(handle) % _HANDLES_PER_GPU
    instances = _gpu(driver, handle).instances
    return instances[place - 1] if place and instances else None


def _text(buffer: Any, text: str) -> int:
    buffer.value = text.encode()
    return int(_OK)


def _put(reference: Any, value: float) -> int:
    reference._obj.value = value
    return int(_OK)


def _init(driver: FakeDriver, _flags: Any) -> int:
    driver.openings += 1
    return int(_OK)


def _shutdown(driver: FakeDriver) -> int:
    driver.closings += 1
    return int(_OK)


def _handle_by_index(driver: FakeDriver, index: Any, handle: Any) -> int:
    if driver.gpus[index.value].is_lost:
        return int(pynvml.NVML_ERROR_GPU_IS_LOST)
    return _set_handle(handle, (index.value + 1) * _HANDLES_PER_GPU)


def _name(driver: FakeDriver, handle: Any, buffer: Any, _size: Any) -> int:
    instance = _instance(driver, handle)
    suffix = f" MIG {instance.profile}" if instance else ""
    return _text(buffer, _gpu(driver, handle).name + suffix)


def _uuid(driver: FakeDriver, handle: Any, buffer: Any, _size: Any) -> int:
    return _text(buffer, (_instance(driver, handle) or _gpu(driver, handle)).uuid)


def _pci(driver: FakeDriver, handle: Any, info: Any) -> int:
    info._obj.busId = _gpu(driver, handle).bus_id
    return int(_OK)


def _mig_mode(driver: FakeDriver, handle: Any, current: Any, pending: Any) -> int:
    enabled = _gpu(driver, handle).instances is not None
    _put(pending, enabled)
    return _put(current, enabled)


def _mig_handle(driver: FakeDriver, handle: Any, place: Any, instance: Any) -> int:
    instances = _gpu(driver, handle).instances or []
    if place.value >= len(instances):
        return int(pynvml.NVML_ERROR_NOT_FOUND)
    return _set_handle(instance, _number(handle) + place.value + 1)


def _instance_id(driver: FakeDriver, handle: Any, number: Any) -> int:
    instance = _instance(driver, handle)
    return _put(number, instance.gpu_instance_id) if instance else int(_ABSENT)


def _attributes(driver: FakeDriver, handle: Any, attributes: Any) -> int:
    instance = _instance(driver, handle)
    if instance is None:
        return int(_ABSENT)
    attributes._obj.gpuInstanceSliceCount = instance.slices
    attributes._obj.computeInstanceSliceCount = instance.slices
    attributes._obj.memorySizeMB = instance.memory_total >> 20
    return int(_OK)


def _utilization(driver: FakeDriver, handle: Any, rates: Any) -> int:
    if _gpu(driver, handle).instances is not None:
        return int(_ABSENT)
    rates._obj.gpu = _gpu(driver, handle).busy_percent
    rates._obj.memory = 11
    return int(_OK)


def _engine(driver: FakeDriver, handle: Any, percent: Any, period: Any) -> int:
    if _gpu(driver, handle).instances is not None:
        return int(_ABSENT)
    _put(period, 167000)
    return _put(percent, 5)


def _memory(driver: FakeDriver, handle: Any, info: Any) -> int:
    gpu = _gpu(driver, handle)
    instance = _instance(driver, handle)
    info._obj.total = instance.memory_total if instance else gpu.memory_total
    info._obj.used = gpu.memory_used
    info._obj.free = info._obj.total - gpu.memory_used - (1 << 30)
    if hasattr(info._obj, "reserved"):
        info._obj.reserved = 1 << 30
    return int(_OK)


def _power(driver: FakeDriver, handle: Any, power: Any) -> int:
    if _instance(driver, handle):
        return int(_ABSENT)
    return _put(power, _gpu(driver, handle).power_milliwatts)


def _fields(driver: FakeDriver, handle: Any, count: Any, values: Any) -> int:
    gpu = _gpu(driver, handle)
    known = {pynvml.NVML_FI_DEV_MEMORY_TEMP: gpu.temperature + 10, **gpu.fields}
    for index in range(count.value):
        value = values._obj[index]
        found = known.get((value.fieldId, value.scopeId), known.get(value.fieldId))
        value.nvmlReturn = _ABSENT if found is None else _OK
        value.valueType = pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG
        value.value.ullVal = found or 0
    return int(_OK)


def _processes(driver: FakeDriver, handle: Any, count: Any, infos: Any) -> int:
    processes = (_instance(driver, handle) or _gpu(driver, handle)).processes
    room = count._obj.value
    count._obj.value = len(processes)
    if not processes:
        return int(_OK)
    if infos is None or room < len(processes):
        return int(pynvml.NVML_ERROR_INSUFFICIENT_SIZE)
    for index, (pid, used) in enumerate(processes.items()):
        infos[index].pid = pid
        infos[index].usedGpuMemory = 2**64 - 1 if used is None else used
    return int(_OK)


def _gpm_support(driver: FakeDriver, handle: Any, support: Any) -> int:
    support._obj.isSupportedDevice = _gpu(driver, handle).gpm is not None
    return int(_OK)


def _gpm_alloc(driver: FakeDriver, sample: Any) -> int:
    with driver.counting:
        driver.samples_alive += 1
    return _set_handle(sample, 1_000_000 + len(driver.calls))


def _gpm_free(driver: FakeDriver, sample: Any) -> int:
    with driver.counting:
        driver.samples_alive -= 1
    return int(_OK)


def _gpm_sample(driver: FakeDriver, handle: Any, sample: Any) -> int:
    driver.sampled_by.setdefault(_number(sample), set()).add(threading.get_ident())
    return int(_OK)


def _gpm_mig_sample(driver: FakeDriver, handle: Any, instance: Any, sample: Any) -> int:
    known = {found.gpu_instance_id for found in _gpu(driver, handle).instances or ()}
    number = getattr(instance, "value", instance)
    return _gpm_sample(driver, handle, sample) if number in known else int(_ABSENT)


def _gpm_metrics(driver: FakeDriver, query: Any) -> int:
    known = next((gpu.gpm for gpu in driver.gpus if gpu.gpm is not None), {})
    for index in range(query._obj.numMetrics):
        metric = query._obj.metrics[index]
        value = known.get(metric.metricId)
        metric.nvmlReturn = _ABSENT if value is None else _OK
        metric.value = value or 0.0
    return int(_OK)


def constant(value: int) -> Callable[..., int]:
    """An answer whose last argument takes a number that never changes."""
    return lambda _driver, *arguments: _put(arguments[-1], value)


_ANSWERS: dict[str, Callable[..., int]] = {
    "nvmlInitWithFlags": _init,
    "nvmlShutdown": _shutdown,
    "nvmlDeviceGetCount_v2": lambda driver, count: _put(count, len(driver.gpus)),
    "nvmlDeviceGetHandleByIndex_v2": _handle_by_index,
    "nvmlDeviceGetName": _name,
    "nvmlDeviceGetUUID": _uuid,
    "nvmlDeviceGetPciInfo_v3": _pci,
    "nvmlDeviceGetArchitecture": lambda driver, handle, found: _put(
        found, _gpu(driver, handle).architecture
    ),
    "nvmlDeviceGetPersistenceMode": lambda driver, handle, mode: _put(
        mode, _gpu(driver, handle).is_persistent
    ),
    "nvmlDeviceGetMigMode": _mig_mode,
    "nvmlDeviceGetMaxMigDeviceCount": constant(7),
    "nvmlDeviceGetMigDeviceHandleByIndex": _mig_handle,
    "nvmlDeviceGetGpuInstanceId": _instance_id,
    "nvmlDeviceGetComputeInstanceId": constant(0),
    "nvmlDeviceGetAttributes_v2": _attributes,
    "nvmlDeviceGetUtilizationRates": _utilization,
    "nvmlDeviceGetEncoderUtilization": _engine,
    "nvmlDeviceGetDecoderUtilization": _engine,
    "nvmlDeviceGetJpgUtilization": _engine,
    "nvmlDeviceGetOfaUtilization": _engine,
    "nvmlDeviceGetMemoryInfo": _memory,
    "nvmlDeviceGetMemoryInfo_v2": _memory,
    "nvmlDeviceGetPowerUsage": _power,
    "nvmlDeviceGetEnforcedPowerLimit": constant(700_000),
    "nvmlDeviceGetPowerManagementDefaultLimit": constant(700_000),
    "nvmlDeviceGetTotalEnergyConsumption": constant(123_456),
    "nvmlDeviceGetClockInfo": constant(1410),
    "nvmlDeviceGetMaxClockInfo": constant(1980),
    "nvmlDeviceGetCurrentClocksEventReasons": constant(4),
    "nvmlDeviceGetCurrentClocksThrottleReasons": constant(4),
    "nvmlDeviceGetTemperature": lambda driver, handle, _sensor, found: _put(
        found, _gpu(driver, handle).temperature
    ),
    "nvmlDeviceGetFieldValues": _fields,
    "nvmlDeviceGetCurrPcieLinkGeneration": constant(5),
    "nvmlDeviceGetCurrPcieLinkWidth": constant(16),
    "nvmlDeviceGetMaxPcieLinkGeneration": constant(5),
    "nvmlDeviceGetMaxPcieLinkWidth": constant(16),
    "nvmlDeviceGetPcieThroughput": constant(1024),
    "nvmlDeviceGetComputeRunningProcesses_v3": _processes,
    "nvmlDeviceGetComputeRunningProcesses_v2": _processes,
    "nvmlGpmQueryDeviceSupport": _gpm_support,
    "nvmlGpmSampleAlloc": _gpm_alloc,
    "nvmlGpmSampleFree": _gpm_free,
    "nvmlGpmSampleGet": _gpm_sample,
    "nvmlGpmMigSampleGet": _gpm_mig_sample,
    "nvmlGpmMetricsGet": _gpm_metrics,
}
FUNCTIONS = tuple(_ANSWERS)
