"""The calls of a tick without the agent: the minimum for the same data."""

from types import TracebackType
from typing import Any, Final, Self

import pynvml

from rightsizer.telemetry.nvml.library import NvmlLibrary

_LIBRARY: Final = NvmlLibrary()
_FIELDS: Final = (pynvml.NVML_FI_DEV_MEMORY_TEMP,)
_METRICS: Final = (
    pynvml.NVML_GPM_METRIC_GRAPHICS_UTIL,
    pynvml.NVML_GPM_METRIC_SM_UTIL,
    pynvml.NVML_GPM_METRIC_SM_OCCUPANCY,
    pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL,
    pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL,
    pynvml.NVML_GPM_METRIC_FP64_UTIL,
    pynvml.NVML_GPM_METRIC_FP32_UTIL,
    pynvml.NVML_GPM_METRIC_FP16_UTIL,
    pynvml.NVML_GPM_METRIC_INTEGER_UTIL,
    pynvml.NVML_GPM_METRIC_PCIE_TX_PER_SEC,
    pynvml.NVML_GPM_METRIC_PCIE_RX_PER_SEC,
    pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC,
    pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC,
)


class BareBindings:
    """All GPUs, one after another, on the caller's own thread."""

    def __enter__(self) -> Self:
        pynvml.nvmlInit()
        count = pynvml.nvmlDeviceGetCount()
        self._gpus = [
            (pynvml.nvmlDeviceGetHandleByIndex(index), _Sampler()) for index in range(count)
        ]
        self.round()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for _, sampler in self._gpus:
            sampler.close()
        pynvml.nvmlShutdown()

    def round(self) -> None:
        """Make an agent's calls of a tick without slow readings, for every GPU."""
        for handle, sampler in self._gpus:
            sampler.sample(handle)
            _ask(handle)


class _Sampler:
    """Two profiling samples in turn."""

    def __init__(self) -> None:
        self._buffers = [pynvml.nvmlGpmSampleAlloc() for _ in range(2)]
        self._query = pynvml.c_nvmlGpmMetricsGet_t()
        self._query.version = pynvml.NVML_GPM_METRICS_GET_VERSION
        self._query.numMetrics = len(_METRICS)
        for place, metric in enumerate(_METRICS):
            self._query.metrics[place].metricId = metric
        self._is_first = True

    def sample(self, handle: Any) -> None:
        """Take a sample; return the metrics since the one before."""
        pynvml.nvmlGpmSampleGet(handle, self._buffers[1])
        if not self._is_first:
            self._query.sample1, self._query.sample2 = self._buffers
            pynvml.nvmlGpmMetricsGet(self._query)
        self._is_first = False
        self._buffers.reverse()

    def close(self) -> None:
        """Free the buffers."""
        for buffer in self._buffers:
            pynvml.nvmlGpmSampleFree(buffer)


def _ask(handle: Any) -> None:
    pynvml.nvmlDeviceGetUtilizationRates(handle)
    pynvml.nvmlDeviceGetEncoderUtilization(handle)
    pynvml.nvmlDeviceGetDecoderUtilization(handle)
    pynvml.nvmlDeviceGetJpgUtilization(handle)
    pynvml.nvmlDeviceGetOfaUtilization(handle)
    pynvml.nvmlDeviceGetMemoryInfo(handle, pynvml.nvmlMemory_v2)
    pynvml.nvmlDeviceGetPowerUsage(handle)
    pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM)
    pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_MEM)
    pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle)
    pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU)
    pynvml.nvmlDeviceGetCurrPcieLinkGeneration(handle)
    pynvml.nvmlDeviceGetCurrPcieLinkWidth(handle)
    pynvml.nvmlDeviceGetFieldValues(handle, _FIELDS)
    _LIBRARY.ask("nvmlDeviceGetComputeRunningProcesses", handle)  # The bindings' own are two.
