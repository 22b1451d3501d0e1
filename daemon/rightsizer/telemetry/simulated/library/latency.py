"""How long a real driver is assumed to take for each call, until somebody has measured it."""

from collections.abc import Mapping
from typing import Final

__all__ = ["assumed_latency"]

_OTHERWISE_SECONDS: Final = 0.0001
_SECONDS: Final[Mapping[str, float]] = {
    "nvmlDeviceGetComputeRunningProcesses": 0.0015,
    "nvmlDeviceGetGraphicsRunningProcesses": 0.0015,
    "nvmlDeviceGetMPSComputeRunningProcesses": 0.0015,
    "nvmlDeviceGetProcessUtilization": 0.001,
    "nvmlDeviceGetProcessesUtilizationInfo": 0.001,
    "nvmlDeviceGetUtilizationRates": 0.0002,
    "nvmlDeviceGetPowerUsage": 0.0003,
    "nvmlDeviceGetMemoryInfo": 0.0002,
    "nvmlDeviceGetFieldValues": 0.0005,
    "nvmlDeviceGetSamples": 0.0005,
    "nvmlGpmSampleGet": 0.002,
    "nvmlGpmMigSampleGet": 0.002,
    # It waits for the end of its own sampling interval.
    "nvmlDeviceGetPcieThroughput": 0.02,
    # These two never reach the kernel.
    "nvmlErrorString": 0.0,
    "nvmlGpmMetricsGet": 0.0,
    # Whoever waits for events is woken by them.
    "nvmlEventSetWait": 0.0,
}


def assumed_latency(function: str) -> float:
    """Seconds for a function by its name, whatever its version."""
    return _SECONDS.get(function.partition("_v")[0], _OTHERWISE_SECONDS)
