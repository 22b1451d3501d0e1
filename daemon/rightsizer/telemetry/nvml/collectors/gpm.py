"""GPM: profiling counters of Hopper and later, as means between two samples."""

from collections.abc import Collection
from contextlib import suppress
from ctypes import Structure
from typing import Any, Final

import pynvml

from rightsizer.model.values import Missing, Signal, Unit, seconds
from rightsizer.telemetry.nvml.collector import NvmlCollector
from rightsizer.telemetry.nvml.handle import DeviceHandle
from rightsizer.telemetry.nvml.library import NvmlFailure, failure_of
from rightsizer.telemetry.nvml.reading_builder import ReadingBuilder

_METRICS: Final = {
    Signal.GPU_BUSY: pynvml.NVML_GPM_METRIC_GRAPHICS_UTIL,
    Signal.SM_ACTIVE: pynvml.NVML_GPM_METRIC_SM_UTIL,
    Signal.SM_OCCUPANCY: pynvml.NVML_GPM_METRIC_SM_OCCUPANCY,
    Signal.TENSOR_ACTIVE: pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL,
    Signal.DRAM_ACTIVE: pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL,
    Signal.FP64_ACTIVE: pynvml.NVML_GPM_METRIC_FP64_UTIL,
    Signal.FP32_ACTIVE: pynvml.NVML_GPM_METRIC_FP32_UTIL,
    Signal.FP16_ACTIVE: pynvml.NVML_GPM_METRIC_FP16_UTIL,
    Signal.INTEGER_ACTIVE: pynvml.NVML_GPM_METRIC_INTEGER_UTIL,
    Signal.PCIE_TRANSMIT_BYTES_PER_SECOND: pynvml.NVML_GPM_METRIC_PCIE_TX_PER_SEC,
    Signal.PCIE_RECEIVE_BYTES_PER_SECOND: pynvml.NVML_GPM_METRIC_PCIE_RX_PER_SEC,
    Signal.NVLINK_RECEIVE_BYTES_PER_SECOND: pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC,
    Signal.NVLINK_TRANSMIT_BYTES_PER_SECOND: pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC,
}
_RATES: Final = frozenset(signal for signal in _METRICS if signal.unit is Unit.BYTES_PER_SECOND)
"""Signals in mebibytes a second; all others are percentages."""
_MEBIBYTE: Final = 2.0**20
_FIRST: Final = NvmlFailure(Missing.NO_SAMPLE, "nvmlGpmSampleGet", "the first of two samples")
_UNSUPPORTED: Final = NvmlFailure(
    Missing.NOT_SUPPORTED, "nvmlGpmQueryDeviceSupport", "the device has no GPM"
)
_RELEASED: Final = NvmlFailure(
    Missing.RELEASED, "nvmlGpmSampleGet", "the counters were released for a profiler"
)


def _early(apart_seconds: float) -> NvmlFailure:
    why = f"{apart_seconds:.3f} s after the one before"
    return NvmlFailure(Missing.NO_SAMPLE, "nvmlGpmSampleGet", why)


class _Metric(Structure):
    """The bindings' structure without their attribute conversion, which is the largest cost."""

    _fields_ = pynvml.c_nvmlGpmMetric_t._fields_


class _Sampler:
    """Two sample buffers of one device, used alternately, by one thread at a time.

    Sharing buffers between threads has crashed hosts.
    """

    def __init__(self, handle: DeviceHandle) -> None:
        self._handle = handle
        self._query = pynvml.c_nvmlGpmMetricsGet_t()
        self._query.version = pynvml.NVML_GPM_METRICS_GET_VERSION
        place = pynvml.c_nvmlGpmMetricsGet_t.metrics.offset
        self._answers = (_Metric * len(self._query.metrics)).from_buffer(self._query, place)
        self._metrics: dict[Signal, Any] = {}
        self._absent: dict[Signal, NvmlFailure] = {}
        self._want(tuple(_METRICS))
        self._buffers: list[Any] = []
        self._sampled_at: int | None = None
        self._has_answer = False
        """Whether the query holds metrics of the last two samples."""
        self._is_supported = False
        self._refused: NvmlFailure | None = None
        self._retries = handle.retries
        handle.resources.callback(self.close)

    def sample(self) -> NvmlFailure | None:
        """Take a sample and compute metrics since the previous one; return why not, or `None`.

        A sample that comes too early is not taken; the metrics of the previous one hold.
        """
        if self._retries != self._handle.retries:
            self._retries = self._handle.retries
            self._refused = None
            if self._absent:
                self._absent.clear()
                self._want(tuple(_METRICS))
        failure = self._why_not() or self._allocate()
        if failure is not None:
            return failure
        now = self._handle.clock.time()
        if self._sampled_at is not None:
            apart = seconds(now - self._sampled_at)
            if apart < self._handle.settings.gpm_shortest_seconds:
                return None if self._has_answer else _early(apart)
        self._has_answer = False
        answer = self._fill(self._buffers[1])
        if isinstance(answer, NvmlFailure):
            self._sampled_at = None
            return answer
        is_first = self._sampled_at is None
        self._sampled_at = now
        if not is_first:
            self._query.sample1, self._query.sample2 = self._buffers
            answer = self._ask("nvmlGpmMetricsGet", self._query)
        self._buffers.reverse()
        if is_first or isinstance(answer, NvmlFailure):
            return _FIRST if is_first else answer
        self._has_answer = True
        return None

    def put(self, builder: ReadingBuilder) -> None:
        overshoot = self._handle.settings.gpm_overshoot_ratio
        for signal, metric in self._metrics.items():
            if metric.nvmlReturn != pynvml.NVML_SUCCESS:
                failure = failure_of(pynvml.NVMLError(metric.nvmlReturn), "nvmlGpmMetricsGet")
                if failure.is_unsupported:
                    self._absent[signal] = failure  # It is not asked for again.
                else:
                    builder.fail(signal, failure)
            elif signal in _RATES:
                builder.put(signal, metric.value, _MEBIBYTE)
            else:
                builder.put_percent(signal, metric.value, overshoot)
        if len(self._metrics) + len(self._absent) > len(_METRICS):
            self._want([signal for signal in _METRICS if signal not in self._absent])
            if not self._metrics:
                self._refused = next(iter(self._absent.values()))
        for signal, failure in self._absent.items():
            builder.fail(signal, failure)

    def release(self, builder: ReadingBuilder) -> None:
        self.close()
        failure = self._why_not() or _RELEASED
        for signal in _METRICS:
            builder.fail(signal, self._absent.get(signal, failure))

    def close(self) -> None:
        """Free each buffer once, even if an abandoned thread and the pool close concurrently."""
        while self._buffers:
            with suppress(IndexError):
                self._handle.library.ask("nvmlGpmSampleFree", self._buffers.pop())
        self._sampled_at = None

    def _want(self, signals: Collection[Signal]) -> None:
        self._has_answer = False
        self._query.numMetrics = len(signals)
        self._metrics = dict(zip(signals, self._answers, strict=False))
        for signal, metric in self._metrics.items():
            metric.metricId = _METRICS[signal]

    def _why_not(self) -> NvmlFailure | None:
        """Return why the device has no GPM; asked again until the driver answers."""
        if self._is_supported or self._refused is not None:
            return self._refused
        support = self._handle.library.ask(
            "nvmlGpmQueryDeviceSupport", self._handle.target.sampled_handle
        )
        if not isinstance(support, NvmlFailure):
            self._is_supported = bool(support.isSupportedDevice)
            self._refused = None if self._is_supported else _UNSUPPORTED
            return self._refused
        if support.is_unsupported:
            self._refused = support
        return support

    def _allocate(self) -> NvmlFailure | None:
        for _ in range(2 - len(self._buffers)):
            buffer = self._ask("nvmlGpmSampleAlloc")
            if isinstance(buffer, NvmlFailure):
                self.close()
                return buffer
            self._buffers.append(buffer)
        return None

    def _fill(self, buffer: Any) -> Any:
        target = self._handle.target
        mig = target.device.mig
        if mig is None:
            return self._ask("nvmlGpmSampleGet", target.sampled_handle, buffer)
        return self._ask("nvmlGpmMigSampleGet", target.sampled_handle, mig.gpu_instance_id, buffer)

    def _ask(self, call: str, *arguments: Any) -> Any:
        """Call NVML; a permanent failure frees the buffers and stops further calls."""
        answer = self._handle.library.ask(call, *arguments)
        if isinstance(answer, NvmlFailure) and answer.is_unsupported:
            self._refused = answer
            self.close()
        return answer


def _read(handle: DeviceHandle, builder: ReadingBuilder) -> None:
    sampler = handle.hold(_Sampler)
    failure = sampler.sample()
    if failure is None:
        sampler.put(builder)
    else:
        builder.fail_all(_METRICS, failure)


GPM: Final = NvmlCollector(
    "gpm",
    tuple(_METRICS),
    _read,
    on_mig_parent=False,
    is_essential=True,
    on_mig_instance=True,
    settles=True,
    release=lambda handle, builder: handle.hold(_Sampler).release(builder),
)
