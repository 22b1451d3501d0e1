"""The metrics that carry signals: last readings as gauges, seconds as histograms."""

from typing import Final

from rightsizer.model.metric_family import Collector, MetricFamily, MetricKind, Origin
from rightsizer.model.signal import COUNTER_SIGNALS, HOST_SIGNALS, SERVING_SIGNALS, SIGNALS, Signal
from rightsizer.model.units import Unit

RATIO_SIGNALS: Final = (
    Signal.GPU_BUSY,
    Signal.SM_ACTIVE,
    Signal.SM_WORK,
    Signal.TENSOR_ACTIVE,
    Signal.DRAM_ACTIVE,
    Signal.MEMORY_CONTROLLER_BUSY,
    Signal.MEMORY_USED,
    Signal.POWER,
    Signal.ENCODER,
    Signal.DECODER,
    Signal.FAN_SPEED,
    Signal.KV_CACHE_USED,
)
"""The ratios that are exported as gauges. Links have theirs as bytes per second, their shares as
the need of a resource; JPEG and optical flow engines are rare."""

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
    Signal.POWER_WATTS,
    Signal.POWER_LIMIT_WATTS,
    Signal.ENERGY_JOULES,
    Signal.TEMPERATURE_CELSIUS,
    Signal.MEMORY_TEMPERATURE_CELSIUS,
    Signal.SM_CLOCK_HERTZ,
    Signal.MEMORY_CLOCK_HERTZ,
    Signal.PCIE_LINK_GENERATION,
    Signal.PCIE_LINK_WIDTH,
    Signal.PCIE_RECEIVE_BYTES_PER_SECOND,
    Signal.PCIE_TRANSMIT_BYTES_PER_SECOND,
    Signal.NVLINK_RECEIVE_BYTES_PER_SECOND,
    Signal.NVLINK_TRANSMIT_BYTES_PER_SECOND,
    Signal.NVLINK_LINKS_UP,
    Signal.NVLINK_ERRORS,
    Signal.PCIE_REPLAYS,
    Signal.ECC_UNCORRECTED_ERRORS,
    Signal.RETIRED_PAGES_CORRECTABLE,
    Signal.RETIRED_PAGES_UNCORRECTABLE,
    Signal.RETIRED_PAGES_PENDING,
    Signal.REMAPPED_ROWS_UNCORRECTABLE,
    Signal.REMAPPED_ROWS_PENDING,
    Signal.REMAPPED_ROWS_FAILED,
    Signal.RECOVERY_ACTION,
    Signal.PROCESS_COUNT,
    Signal.REQUESTS_RUNNING,
    Signal.REQUESTS_WAITING,
    Signal.PREEMPTIONS,
    Signal.TIME_TO_FIRST_TOKEN_SECONDS,
    Signal.TIME_PER_OUTPUT_TOKEN_SECONDS,
    Signal.REQUEST_LATENCY_SECONDS,
)
"""The readings with a unit that are exported as they are."""

DETAIL_SIGNALS: Final = tuple(
    signal
    for signal in Signal
    if signal not in {*RATIO_SIGNALS, *QUANTITY_SIGNALS, Signal.CLOCK_EVENT_REASONS}
)
"""The rest, exported only where details are asked for: series are not free."""

_PROFILING_SIGNALS: Final = frozenset(
    {
        Signal.SM_ACTIVE,
        Signal.SM_OCCUPANCY,
        Signal.SM_WORK,
        Signal.TENSOR_ACTIVE,
        Signal.FP32_ACTIVE,
        Signal.FP16_ACTIVE,
        Signal.FP64_ACTIVE,
        Signal.INTEGER_ACTIVE,
        Signal.DRAM_ACTIVE,
        Signal.NVLINK_RECEIVE_BYTES_PER_SECOND,
        Signal.NVLINK_TRANSMIT_BYTES_PER_SECOND,
    }
)
_HOST_SIGNALS: Final = frozenset(
    {
        *HOST_SIGNALS,
        Signal.CPU_AFFINITY_LOCAL,
        Signal.HOST_MEMORY_LOCAL,
        Signal.INFINIBAND_RECEIVE,
        Signal.INFINIBAND_TRANSMIT,
        Signal.INFINIBAND_RECEIVE_BYTES_PER_SECOND,
        Signal.INFINIBAND_TRANSMIT_BYTES_PER_SECOND,
    }
)
_POWER_SIGNALS: Final = frozenset(
    {Signal.POWER, Signal.POWER_WATTS, Signal.POWER_LIMIT_WATTS, Signal.ENERGY_JOULES}
)
_COLLECTOR_OF: Final = {
    signal: collector
    for collector, signals in (
        (
            Collector.ACTIVITY,
            (
                Signal.GPU_BUSY,
                Signal.SM_ACTIVE,
                Signal.SM_WORK,
                Signal.TENSOR_ACTIVE,
                Signal.DRAM_ACTIVE,
                Signal.MEMORY_CONTROLLER_BUSY,
                Signal.ENCODER,
                Signal.DECODER,
                Signal.PROCESS_COUNT,
            ),
        ),
        (
            Collector.MEMORY,
            (Signal.MEMORY_USED, Signal.MEMORY_USED_BYTES, Signal.MEMORY_TOTAL_BYTES),
        ),
        (Collector.POWER, tuple(_POWER_SIGNALS)),
        (
            Collector.TEMPERATURE,
            (Signal.TEMPERATURE_CELSIUS, Signal.MEMORY_TEMPERATURE_CELSIUS, Signal.FAN_SPEED),
        ),
        (Collector.CLOCKS, (Signal.SM_CLOCK_HERTZ, Signal.MEMORY_CLOCK_HERTZ)),
        (
            Collector.PCIE,
            (
                Signal.PCIE_LINK_GENERATION,
                Signal.PCIE_LINK_WIDTH,
                Signal.PCIE_RECEIVE_BYTES_PER_SECOND,
                Signal.PCIE_TRANSMIT_BYTES_PER_SECOND,
                Signal.PCIE_REPLAYS,
            ),
        ),
        (
            Collector.NVLINK,
            (
                Signal.NVLINK_RECEIVE_BYTES_PER_SECOND,
                Signal.NVLINK_TRANSMIT_BYTES_PER_SECOND,
                Signal.NVLINK_LINKS_UP,
                Signal.NVLINK_ERRORS,
            ),
        ),
        (
            Collector.ERRORS,
            (
                Signal.ECC_UNCORRECTED_ERRORS,
                Signal.RETIRED_PAGES_CORRECTABLE,
                Signal.RETIRED_PAGES_UNCORRECTABLE,
                Signal.RETIRED_PAGES_PENDING,
                Signal.REMAPPED_ROWS_UNCORRECTABLE,
                Signal.REMAPPED_ROWS_PENDING,
                Signal.REMAPPED_ROWS_FAILED,
                Signal.RECOVERY_ACTION,
            ),
        ),
        (Collector.SERVING, SERVING_SIGNALS),
    )
    for signal in signals
}
"""Those of a collector that is on by default; a test holds it complete."""
_IRREGULAR_NAMES: Final = {
    # Prometheus keeps the suffix `_count` for histograms.
    Signal.PROCESS_COUNT: "rightsizer_device_processes",
}


def signal_metric_name(signal: Signal) -> str:
    """The name of the metric that carries a signal's last reading."""
    if SIGNALS[signal].unit is Unit.RATIO:
        return f"rightsizer_{signal}_ratio"
    suffix = "_total" if signal in COUNTER_SIGNALS else ""
    return _IRREGULAR_NAMES.get(signal, f"rightsizer_{signal}{suffix}")


def distribution_metric_name(signal: Signal) -> str:
    """The name of the histogram of a signal's seconds."""
    return f"rightsizer_{signal}_distribution_ratio"


def _signal_origin(signal: Signal) -> Origin:
    if signal in _PROFILING_SIGNALS:
        return Origin.PROFILING
    if signal in SERVING_SIGNALS:
        return Origin.SERVING
    if signal in _HOST_SIGNALS:
        return Origin.HOST
    return Origin.POWER if signal in _POWER_SIGNALS else Origin.BASIC


def _signal(signal: Signal) -> MetricFamily:
    name = signal_metric_name(signal)
    kind = MetricKind.COUNTER if signal in COUNTER_SIGNALS else MetricKind.GAUGE
    return MetricFamily(
        name,
        kind,
        SIGNALS[signal].meaning,
        ("uuid",),
        _signal_origin(signal),
        _COLLECTOR_OF.get(signal, _collector_of_detail(signal)),
    )


def _collector_of_detail(signal: Signal) -> Collector:
    if signal.startswith("infiniband"):
        return Collector.FABRIC
    return Collector.HOST if signal in _HOST_SIGNALS else Collector.EXTRA


def _distribution(signal: Signal) -> MetricFamily:
    return MetricFamily(
        distribution_metric_name(signal),
        MetricKind.HISTOGRAM,
        f"Seconds by {signal}, one observation a second: {SIGNALS[signal].meaning}",
        ("uuid",),
        _signal_origin(signal),
        Collector.DISTRIBUTIONS,
    )


SIGNAL_METRICS: Final = (
    *map(_distribution, DISTRIBUTION_SIGNALS),
    *map(_signal, RATIO_SIGNALS),
    *map(_signal, QUANTITY_SIGNALS),
    *map(_signal, DETAIL_SIGNALS),
)
"""In the order of the exposition."""
