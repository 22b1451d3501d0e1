"""The metrics that carry signals: last readings as gauges, seconds as histograms."""

from typing import Final

from rightsizer.domain.metric_family import MetricFamily, MetricKind, Origin
from rightsizer.domain.signal import SIGNALS, Signal
from rightsizer.domain.units import Unit

__all__ = [
    "DISTRIBUTION_SIGNALS",
    "QUANTITY_SIGNALS",
    "RATIO_SIGNALS",
    "SIGNAL_METRICS",
    "distribution_metric_name",
    "signal_metric_name",
]

RATIO_SIGNALS: Final = (
    Signal.GPU_BUSY,
    Signal.SM_ACTIVE,
    Signal.SM_OCCUPANCY,
    Signal.SM_WORK,
    Signal.TENSOR_ACTIVE,
    Signal.FP32_ACTIVE,
    Signal.FP16_ACTIVE,
    Signal.FP64_ACTIVE,
    Signal.DRAM_ACTIVE,
    Signal.MEMORY_CONTROLLER_BUSY,
    Signal.MEMORY_USED,
    Signal.POWER,
    Signal.ENCODER,
    Signal.DECODER,
)
"""The ratios that are exported as gauges. Links have theirs as bytes per second, their shares as
the need of a resource; JPEG and optical flow engines are rare, and series are not free."""

DISTRIBUTION_SIGNALS: Final = (
    Signal.GPU_BUSY,
    Signal.SM_WORK,
    Signal.TENSOR_ACTIVE,
    Signal.DRAM_ACTIVE,
    Signal.MEMORY_USED,
    Signal.POWER,
)
"""The ratios that are exported as histograms too."""

QUANTITY_SIGNALS: Final = (
    Signal.MEMORY_USED_BYTES,
    Signal.MEMORY_TOTAL_BYTES,
    Signal.MEMORY_RESERVED_BYTES,
    Signal.POWER_WATTS,
    Signal.POWER_LIMIT_WATTS,
    Signal.ENERGY_JOULES,
    Signal.TEMPERATURE_CELSIUS,
    Signal.MEMORY_TEMPERATURE_CELSIUS,
    Signal.SM_CLOCK_HERTZ,
    Signal.SM_CLOCK_MAXIMUM_HERTZ,
    Signal.MEMORY_CLOCK_HERTZ,
    Signal.PCIE_LINK_GENERATION,
    Signal.PCIE_LINK_WIDTH,
    Signal.PCIE_RECEIVE_BYTES_PER_SECOND,
    Signal.PCIE_TRANSMIT_BYTES_PER_SECOND,
    Signal.NVLINK_RECEIVE_BYTES_PER_SECOND,
    Signal.NVLINK_TRANSMIT_BYTES_PER_SECOND,
    Signal.PROCESS_COUNT,
)
"""The readings with a unit that are exported as they are."""

_PROFILING_SIGNALS: Final = frozenset(
    {
        Signal.SM_ACTIVE,
        Signal.SM_OCCUPANCY,
        Signal.SM_WORK,
        Signal.TENSOR_ACTIVE,
        Signal.FP32_ACTIVE,
        Signal.FP16_ACTIVE,
        Signal.FP64_ACTIVE,
        Signal.DRAM_ACTIVE,
        Signal.NVLINK_RECEIVE_BYTES_PER_SECOND,
        Signal.NVLINK_TRANSMIT_BYTES_PER_SECOND,
    }
)
_POWER_SIGNALS: Final = frozenset(
    {Signal.POWER, Signal.POWER_WATTS, Signal.POWER_LIMIT_WATTS, Signal.ENERGY_JOULES}
)
_IRREGULAR_NAMES: Final = {
    Signal.ENERGY_JOULES: "rightsizer_energy_joules_total",
    # Prometheus keeps the suffix `_count` for histograms.
    Signal.PROCESS_COUNT: "rightsizer_device_processes",
}


def signal_metric_name(signal: Signal) -> str:
    """The name of the metric that carries a signal's last reading."""
    if SIGNALS[signal].unit is Unit.RATIO:
        return f"rightsizer_{signal}_ratio"
    return _IRREGULAR_NAMES.get(signal, f"rightsizer_{signal}")


def distribution_metric_name(signal: Signal) -> str:
    """The name of the histogram of a signal's seconds."""
    return f"rightsizer_{signal}_distribution_ratio"


def _signal_origin(signal: Signal) -> Origin:
    if signal in _PROFILING_SIGNALS:
        return Origin.PROFILING
    return Origin.POWER if signal in _POWER_SIGNALS else Origin.BASIC


def _signal(signal: Signal) -> MetricFamily:
    name = signal_metric_name(signal)
    kind = MetricKind.COUNTER if name.endswith("_total") else MetricKind.GAUGE
    return MetricFamily(name, kind, SIGNALS[signal].meaning, ("uuid",), _signal_origin(signal))


def _distribution(signal: Signal) -> MetricFamily:
    return MetricFamily(
        distribution_metric_name(signal),
        MetricKind.HISTOGRAM,
        f"Seconds by {signal}, one observation a second: {SIGNALS[signal].meaning}",
        ("uuid",),
        _signal_origin(signal),
    )


SIGNAL_METRICS: Final = (
    *map(_distribution, DISTRIBUTION_SIGNALS),
    *map(_signal, RATIO_SIGNALS),
    *map(_signal, QUANTITY_SIGNALS),
)
"""In the order of the exposition."""
