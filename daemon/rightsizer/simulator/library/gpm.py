"""GPM: two samples of a GPU or instance, and means between them."""

from functools import partial
from typing import Any, Final

from rightsizer.model.values import MIB, NANOSECONDS_PER_SECOND, Nanoseconds, Unit
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
from rightsizer.simulator.signals import SIGNALS, SimulatedSignal
from rightsizer.simulator.support import BoardFeature
from rightsizer.simulator.view import DeviceView

_SHORTEST_OF_INSTANCE: Final[Nanoseconds] = NANOSECONDS_PER_SECOND // 10
_LONGEST_STEP: Final[Nanoseconds] = 10 * NANOSECONDS_PER_SECOND
_MOST_STEPS: Final = 12
_VERSION: Final = 1
_METRICS: Final = {
    row.metric: (row, 1.0 / MIB if row.signal.unit is Unit.BYTES_PER_SECOND else 100.0)
    for row in SIGNALS
    if row.metric is not None
}
"""Rows with the driver's units in one of the signal's, by NVML's id of the metric."""


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
        row, per = _METRICS.get(metric.metricId, (None, 0.0))
        if row is None or not _offered(handle, row):
            metric.nvmlReturn = NvmlCode.NOT_SUPPORTED
            continue
        metric.nvmlReturn = NvmlCode.SUCCESS
        total = sum(weight * row.read(view) for view, weight in weighted)
        metric.value = 0.0 if is_dead else per * total


def _offered(handle: SimulatedHandle, row: SimulatedSignal) -> bool:
    """Whether a device has a metric: links belong to the whole GPU."""
    scope = "instance" if handle.unit.is_instance else "whole"
    return scope in row.scopes and handle.support.has(row.feature)


def _between(
    driver: SimulatedDriver, first: GpmSample, second: GpmSample
) -> list[tuple[DeviceView, float]]:
    """Return views between two samples with their weights in the mean."""
    span = second.time - first.time
    steps = min(_MOST_STEPS, -(-span // _LONGEST_STEP))
    times = [first.time + span * step // steps for step in range(steps + 1)]
    unit = driver.node.unit(second.uuid)
    return [
        (
            DeviceView(driver.node, unit, partial(int, time)),
            (1.0 if 0 < step < steps else 0.5) / steps,
        )
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
