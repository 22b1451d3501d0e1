"""GPM: two samples of a GPU or instance, and means between them."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from rightsizer.model.units import MIB, NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.simulator.faults import DeadCounters
from rightsizer.simulator.library.calls import (
    Functions,
    NvmlCode,
    out,
    read_pointer,
    refuse_if,
    versioned,
    write_pointer,
)
from rightsizer.simulator.library.driver import GpmSample, SimulatedDriver, SimulatedHandle
from rightsizer.simulator.physics import BoardState
from rightsizer.simulator.support import BoardFeature

INTEGER_RATIO: Final = 0.3
"""Relative to SM activity: addresses and loops take integer work in all kernels."""
_SHORTEST_OF_INSTANCE: Final[Nanoseconds] = NANOSECONDS_PER_SECOND // 10
_LONGEST_STEP: Final[Nanoseconds] = 10 * NANOSECONDS_PER_SECOND
_MOST_STEPS: Final = 12
_VERSION: Final = 1
_METRICS: Final[Mapping[int, Callable[[BoardState], float]]] = {
    1: lambda state: 100.0 * state.load.gpu_busy,
    2: lambda state: 100.0 * state.load.sm_active,
    3: lambda state: 100.0 * state.load.sm_occupancy,
    4: lambda state: 100.0 * INTEGER_RATIO * state.load.sm_active,
    5: lambda state: 100.0 * state.load.tensor_active,
    10: lambda state: 100.0 * state.load.dram_active,
    11: lambda state: 100.0 * state.load.fp64_active,
    12: lambda state: 100.0 * state.load.fp32_active,
    13: lambda state: 100.0 * state.load.fp16_active,
    20: lambda state: state.pcie_transmit_bytes_per_second / MIB,
    21: lambda state: state.pcie_receive_bytes_per_second / MIB,
    60: lambda state: state.nvlink_receive_bytes_per_second / MIB,
    61: lambda state: state.nvlink_transmit_bytes_per_second / MIB,
}
_NVLINK: Final = frozenset({60, 61})
_BUS: Final = frozenset({20, 21, 60, 61})
"""Not available for an instance: links belong to the whole GPU."""


def _sample(device: SimulatedHandle, sample: Any) -> None:
    driver = device.driver
    driver.samples.replace(read_pointer(sample), GpmSample(device.uuid, driver.now()))


def _take(device: SimulatedHandle, sample: Any) -> None:
    device.need(BoardFeature.GPM)
    _sample(device, sample)


def _take_of_instance(device: SimulatedHandle, instance: Any, sample: Any) -> None:
    device.need(BoardFeature.GPM)
    _sample(device.instance(instance, NvmlCode.INVALID_ARGUMENT), sample)


def _metrics(driver: SimulatedDriver, request: Any) -> None:
    target = versioned(request, _VERSION)
    first = driver.samples[read_pointer(target.sample1)]
    second = driver.samples[read_pointer(target.sample2)]
    refuse_if(not second.uuid)
    handle = driver.of_uuid(second.uuid)
    least = _SHORTEST_OF_INSTANCE if handle.unit.is_instance else 1
    refuse_if(first.uuid != second.uuid or second.time - first.time < least)
    weighted = _between(driver, first, second)
    is_dead = handle.timeline.has(DeadCounters, second.time)
    for metric in target.metrics[: target.numMetrics]:
        identifier = metric.metricId
        read = _METRICS.get(identifier)
        if read is None or not _offered(handle, identifier):
            metric.nvmlReturn = NvmlCode.NOT_SUPPORTED
            continue
        metric.nvmlReturn = NvmlCode.SUCCESS
        total = sum(weight * read(state) for state, weight in weighted)
        metric.value = 0.0 if is_dead else total


def _offered(handle: SimulatedHandle, identifier: int) -> bool:
    if handle.unit.is_instance and identifier in _BUS:
        return False
    return identifier not in _NVLINK or handle.support.has(BoardFeature.NVLINK)


def _between(
    driver: SimulatedDriver, first: GpmSample, second: GpmSample
) -> list[tuple[BoardState, float]]:
    """Return the states between two samples with their weights in the mean."""
    span = second.time - first.time
    steps = min(_MOST_STEPS, -(-span // _LONGEST_STEP))
    times = [first.time + span * step // steps for step in range(steps + 1)]
    return [
        (driver.node.state(second.uuid, time), (1.0 if 0 < step < steps else 0.5) / steps)
        for step, time in enumerate(times)
    ]


PROFILING_SYSTEM: Final[Functions] = {
    "nvmlGpmSampleAlloc": lambda driver, sample: write_pointer(
        sample, driver.samples.add(GpmSample("", 0))
    ),
    "nvmlGpmSampleFree": lambda driver, sample: driver.samples.remove(read_pointer(sample)),
    "nvmlGpmMetricsGet": _metrics,
}
PROFILING: Final[Functions] = {
    "nvmlGpmQueryDeviceSupport": lambda device, answer: setattr(
        out(answer), "isSupportedDevice", int(device.support.has(BoardFeature.GPM))
    ),
    "nvmlGpmSampleGet": _take,
    "nvmlGpmMigSampleGet": _take_of_instance,
}
