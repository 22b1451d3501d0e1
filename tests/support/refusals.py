"""A simulated driver that refuses calls, and the allowed effect of each refusal."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import pynvml
from msgspec import Struct

from instrumented_library import InstrumentedLibrary
from nvml_driver import reading, tick
from rightsizer.io.clock import FastClock
from rightsizer.model.reading import Missing, Reading
from rightsizer.model.signal import Signal
from rightsizer.model.snapshot import Snapshot
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Unit
from rightsizer.simulator.library.faults import XidReportEvent
from rightsizer.simulator.signals import SIGNALS
from simulated_driver import hour, node_of

__all__ = [
    "CODES",
    "COSTS",
    "ENUMERATION",
    "OTHERWISE",
    "Prepare",
    "Run",
    "asked_of",
    "check_sane",
    "costs_of",
    "usual",
    "watch",
]

MINUTE: Final = 60 * NANOSECONDS_PER_SECOND

Prepare = Callable[[InstrumentedLibrary], object]
"""Makes the driver refuse what it is to refuse; may put another library in its place."""

CODES: Final[Mapping[int, Missing]] = {
    pynvml.NVML_ERROR_NOT_SUPPORTED: Missing.NOT_SUPPORTED,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: Missing.NOT_SUPPORTED,
    pynvml.NVML_ERROR_NO_PERMISSION: Missing.NO_PERMISSION,
    pynvml.NVML_ERROR_UNKNOWN: Missing.FAILED,
    pynvml.NVML_ERROR_GPU_IS_LOST: Missing.LOST,
}
"""A driver's error codes, and the reasons that they map to."""

ENUMERATION: Final = frozenset(
    {
        "nvmlDeviceGetMigMode",
        "nvmlDeviceGetMaxMigDeviceCount",
        "nvmlDeviceGetMigDeviceHandleByIndex",
    }
)
"""Without these no one can know of MIG instances."""

_MEMORY: Final = (
    Signal.MEMORY_USED_BYTES,
    Signal.MEMORY_TOTAL_BYTES,
    Signal.MEMORY_FREE_BYTES,
    Signal.MEMORY_RESERVED_BYTES,
)
_PCIE_RATES: Final = (
    Signal.PCIE_RECEIVE_BYTES_PER_SECOND,
    Signal.PCIE_TRANSMIT_BYTES_PER_SECOND,
)
_NVLINK_RATES: Final = (
    Signal.NVLINK_RECEIVE_BYTES_PER_SECOND,
    Signal.NVLINK_TRANSMIT_BYTES_PER_SECOND,
)
_NVLINKS: Final = (Signal.NVLINK_LINKS, Signal.NVLINK_LINKS_UP, Signal.NVLINK_ERRORS)
_BUSY: Final = (Signal.GPU_BUSY, Signal.MEMORY_CONTROLLER_BUSY)
_PROFILED: Final = (
    Signal.SM_ACTIVE,
    Signal.SM_OCCUPANCY,
    Signal.TENSOR_ACTIVE,
    Signal.DRAM_ACTIVE,
    Signal.FP64_ACTIVE,
    Signal.FP32_ACTIVE,
    Signal.FP16_ACTIVE,
    Signal.INTEGER_ACTIVE,
)
_RATES: Final = (*_PCIE_RATES, *_NVLINK_RATES)
_ECC: Final = (
    Signal.ECC_CORRECTED_ERRORS,
    Signal.ECC_UNCORRECTED_ERRORS,
    Signal.ECC_CORRECTED_ERRORS_LIFETIME,
    Signal.ECC_UNCORRECTED_ERRORS_LIFETIME,
)
_REMAPPED: Final = tuple(signal for signal in Signal if signal.startswith("remapped_rows"))
_RETIRED: Final = tuple(signal for signal in Signal if signal.startswith("retired_pages"))
_VIOLATIONS: Final = (Signal.POWER_VIOLATION_SECONDS, Signal.THERMAL_VIOLATION_SECONDS)
_FIELDS: Final = (
    *(row.signal for row in SIGNALS if row.field is not None),
    *_RATES,
    *_NVLINKS,
)
_GPM: Final = (Signal.GPU_BUSY, *_PROFILED, *_RATES)
_GPM_CALLS: Final = (
    "nvmlGpmQueryDeviceSupport",
    "nvmlGpmSampleAlloc",
    "nvmlGpmSampleGet",
    "nvmlGpmMigSampleGet",
    "nvmlGpmMetricsGet",
)

COSTS: Final[Mapping[str, frozenset[Signal]]] = {
    name: frozenset(signals)
    for name, signals in {
        **{call: [row.signal] for row in SIGNALS for call in row.calls},
        **dict.fromkeys(_GPM_CALLS, _GPM),
        "nvmlDeviceGetFieldValues": _FIELDS,
        "nvmlDeviceGetUtilizationRates": _BUSY,
        "nvmlDeviceGetEncoderUtilization": [Signal.ENCODER],
        "nvmlDeviceGetDecoderUtilization": [Signal.DECODER],
        "nvmlDeviceGetJpgUtilization": [Signal.JPEG],
        "nvmlDeviceGetOfaUtilization": [Signal.OFA],
        "nvmlDeviceGetEncoderStats": [Signal.ENCODER_SESSIONS],
        "nvmlDeviceGetMemoryInfo_v2": _MEMORY,
        "nvmlDeviceGetMemoryInfo": _MEMORY,
        "nvmlDeviceGetBAR1MemoryInfo": [Signal.BAR1_USED_BYTES, Signal.BAR1_TOTAL_BYTES],
        "nvmlDeviceGetViolationStatus": _VIOLATIONS,
        "nvmlDeviceGetClockInfo": [
            Signal.SM_CLOCK_HERTZ,
            Signal.MEMORY_CLOCK_HERTZ,
            Signal.VIDEO_CLOCK_HERTZ,
        ],
        "nvmlDeviceGetMaxClockInfo": [
            Signal.SM_CLOCK_MAXIMUM_HERTZ,
            Signal.MEMORY_CLOCK_MAXIMUM_HERTZ,
        ],
        "nvmlDeviceGetApplicationsClock": [
            Signal.SM_CLOCK_APPLICATION_HERTZ,
            Signal.MEMORY_CLOCK_APPLICATION_HERTZ,
        ],
        "nvmlDeviceGetTemperature": [Signal.TEMPERATURE_CELSIUS],
        "nvmlDeviceGetTemperatureV": [Signal.TEMPERATURE_CELSIUS],
        "nvmlDeviceGetMarginTemperature": [Signal.TEMPERATURE_MARGIN_CELSIUS],
        "nvmlDeviceGetNumFans": [Signal.FAN_SPEED],
        "nvmlDeviceGetFanSpeed_v2": [Signal.FAN_SPEED],
        "nvmlDeviceGetNvLinkState": _NVLINKS,
        "nvmlDeviceGetGpuFabricInfoV": [Signal.FABRIC_STATE],
        "nvmlDeviceGetGpuFabricInfo": [Signal.FABRIC_STATE],
        "nvmlDeviceGetTotalEccErrors": _ECC,
        "nvmlDeviceGetMemoryErrorCounter": [Signal.ECC_UNCORRECTED_ERRORS],
        "nvmlDeviceGetRemappedRows": _REMAPPED,
        "nvmlDeviceGetRetiredPages": _RETIRED,
        "nvmlDeviceGetRetiredPagesPendingStatus": _RETIRED,
        "nvmlDeviceGetComputeRunningProcesses_v3": [Signal.PROCESS_COUNT],
        "nvmlDeviceGetComputeRunningProcesses_v2": [Signal.PROCESS_COUNT],
    }.items()
}
"""Signals that may be missing when a function is refused; others affect no signal at all."""

OTHERWISE: Final[Mapping[str, frozenset[Signal]]] = {
    **dict.fromkeys(_GPM_CALLS, frozenset({*_BUSY, *_RATES})),
    "nvmlDeviceGetSamples": frozenset(_BUSY),
    "nvmlDeviceGetFieldValues": frozenset({*_RATES, Signal.ENERGY_JOULES, *_VIOLATIONS}),
    # The first form of the structure counts the driver's own part as used.
    "nvmlDeviceGetMemoryInfo_v2": frozenset(_MEMORY),
    # Those who compute are still counted.
    "nvmlDeviceGetGraphicsRunningProcesses_v3": frozenset({Signal.PROCESS_COUNT}),
    "nvmlDeviceGetGraphicsRunningProcesses_v2": frozenset({Signal.PROCESS_COUNT}),
    "nvmlDeviceGetMPSComputeRunningProcesses_v3": frozenset({Signal.PROCESS_COUNT}),
    "nvmlDeviceGetMPSComputeRunningProcesses_v2": frozenset({Signal.PROCESS_COUNT}),
}
"""Signals with another source and value when a function is refused."""


class Run(Struct, frozen=True):
    """Some ticks of a live source, and how often each function was called in each."""

    snapshots: Sequence[Snapshot]
    calls: Sequence[Counter[str]]

    @property
    def last(self) -> Snapshot:
        """The last of the snapshots."""
        return self.snapshots[-1]


def watch(scenario: str, prepare: Prepare, ticks: int = 2, **options: Any) -> Run:
    """Read a packaged scenario's node at noon, one second a tick."""
    node = node_of(scenario, hour(12) - MINUTE)
    clock = FastClock(hour(12))
    library = InstrumentedLibrary(node, clock.wall_time, counts_calls=True)
    driver = prepare(library) or library
    snapshots = []
    calls = []
    with reading(driver, clock, **options) as source:
        for _ in range(ticks):
            before = Counter(library.calls)
            snapshots.append(source.read())
            calls.append(library.calls - before)
            tick(clock)
        # The one who listens for errors would be waited for.
        library.faults.report(XidReportEvent(node.units[0].device.uuid, 13))
    for snapshot in snapshots:
        check_sane(snapshot)
    return Run(snapshots, calls)


@lru_cache
def usual(scenario: str) -> Run:
    """The same node with a driver that refuses nothing but what the boards do not have."""
    return watch(scenario, lambda _: None)


@lru_cache
def asked_of(scenario: str) -> tuple[str, ...]:
    """Every function that the agent calls on a node, including substitutes."""
    usually = {name for calls in usual(scenario).calls for name in calls}
    refused = [name for name in usually if name in COSTS and name not in OTHERWISE]

    def refuse(library: InstrumentedLibrary) -> None:
        for name in (*refused, *OTHERWISE):
            library.faults.answer(name, pynvml.NVML_ERROR_NOT_SUPPORTED)

    instead = {name for calls in watch(scenario, refuse).calls for name in calls}
    return tuple(sorted(usually | instead))


def check_sane(snapshot: Snapshot) -> None:
    """Every device is read or down with a reason, and what was read can be true."""
    listed = {device.uuid for device in snapshot.devices}
    assert snapshot.readings.keys() | snapshot.down.keys() == listed
    assert not snapshot.readings.keys() & snapshot.down.keys()
    assert all(down.detail for down in snapshot.down.values())
    for found in snapshot.readings.values():
        _check_reading(found)


def _check_reading(found: Reading) -> None:
    assert found.values
    assert not found.values.keys() & found.missing.keys()
    for signal, value in found.values.items():
        assert math.isfinite(value), signal
        if signal.unit is Unit.RATIO:
            assert 0 <= value <= 1, (signal, value)
        else:
            assert value < 2**56, (signal, value)


def costs_of(functions: Iterable[str]) -> tuple[frozenset[Signal], frozenset[Signal]]:
    """Signals that may be missing, and ones that may change, when some functions are refused."""
    names = tuple(functions)
    nothing: frozenset[Signal] = frozenset()
    missing = nothing.union(*(COSTS.get(name, nothing) for name in names))
    return missing, nothing.union(*(OTHERWISE.get(name, nothing) for name in names))
