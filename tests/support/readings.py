"""Hand-made devices, readings, snapshots and entries, with defaults."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rightsizer.model.device import Device
from rightsizer.model.metric_family import Origin
from rightsizer.model.reading import Missing, Reading
from rightsizer.model.signal import Signal
from rightsizer.model.snapshot import Down, Snapshot
from rightsizer.model.state import Cause, State, Tier
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds, nanoseconds
from rightsizer.model.window import Entry
from rightsizer.model.workload import Allocator, Holding, Workload, WorkloadClass, WorkloadKind

SECOND: Final = NANOSECONDS_PER_SECOND
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
EPOCH: Final[Nanoseconds] = 1_767_225_600 * SECOND
"""2026-01-01 00:00:00 UTC."""
GIBIBYTE: Final = 2.0**30

Signals = Mapping[Signal, float]

SERVING_SIGNALS: Final = tuple(signal for signal in Signal if signal.origin is Origin.SERVING)
"""Signals that serving engines report."""

EMPTY: Final[Signals] = {
    Signal.GPU_BUSY: 0.0,
    Signal.MEMORY_USED_BYTES: 0.25 * GIBIBYTE,
    Signal.POWER_WATTS: 70.0,
    Signal.PROCESS_COUNT: 0.0,
}
HELD: Final[Signals] = {
    **EMPTY,
    Signal.MEMORY_USED_BYTES: 20 * GIBIBYTE,
    Signal.PROCESS_COUNT: 1.0,
}
TRAINING: Final[Signals] = {
    Signal.GPU_BUSY: 0.97,
    Signal.SM_ACTIVE: 0.8,
    Signal.TENSOR_ACTIVE: 0.6,
    Signal.DRAM_ACTIVE: 0.4,
    Signal.MEMORY_USED_BYTES: 40 * GIBIBYTE,
    Signal.POWER_WATTS: 600.0,
    Signal.PROCESS_COUNT: 1.0,
}
SPINNING: Final[Signals] = {
    Signal.GPU_BUSY: 1.0,
    Signal.MEMORY_USED_BYTES: 40 * GIBIBYTE,
    Signal.POWER_WATTS: 120.0,
    Signal.PROCESS_COUNT: 1.0,
}
"""On the power tier, a rank that waits in a collective."""


def gpu(index: int = 0, **facts: Any) -> Device:
    """An H100 of 80 GiB and 700 W."""
    usual: dict[str, Any] = {
        "uuid": f"GPU-{index}",
        "index": index,
        "name": "NVIDIA H100 80GB HBM3",
        "board": "H100-SXM5-80GB",
        "memory_total_bytes": 80 * GIBIBYTE,
        "power_limit_watts": 700.0,
        "sm_clock_maximum_hertz": 1980e6,
        "pcie_generation_maximum": 5,
        "pcie_width_maximum": 16,
        "nvlink_bytes_per_second": 450e9,
    }
    return Device(**usual | facts)


def reading(device: Device, at_seconds: float, values: Signals) -> Reading:
    """A reading of a device at a time on the steady clock."""
    return Reading(device.uuid, nanoseconds(at_seconds), values)


def snapshot(  # noqa: PLR0913 - one for each thing that a test may vary.
    at_seconds: float,
    devices: Sequence[Device],
    readings: Mapping[Device, Signals],
    *,
    interval_seconds: float = 1.0,
    down: Sequence[Device] = (),
    holders: Mapping[Device, Workload] | None = None,
    host: Signals | None = None,
    wall_time: Nanoseconds | None = None,
) -> Snapshot:
    """The node at a time; a device without a reading is silent, or down where that is said."""
    time = nanoseconds(at_seconds)
    return Snapshot(
        wall_time=EPOCH + time if wall_time is None else wall_time,
        time=time,
        interval=nanoseconds(interval_seconds),
        devices=tuple(devices),
        readings={
            device.uuid: reading(device, at_seconds, values) for device, values in readings.items()
        },
        down={device.uuid: Down(Missing.TIMED_OUT, "no answer") for device in down},
        host=host or {},
        holdings={
            device.uuid: (Holding(workload, 1.0),) for device, workload in (holders or {}).items()
        },
    )


def workload(
    name: str = "llama",
    workload_class: WorkloadClass = WorkloadClass.BATCH,
    allocator: Allocator = Allocator.GROWING,
) -> Workload:
    """A job of some class."""
    return Workload(
        f"slurm/{name}", WorkloadKind.SLURM, name, workload_class, allocator, unproven=""
    )


def entry(
    start_seconds: float, end_seconds: float, state: State = State.PRODUCTIVE, **facts: Any
) -> Entry:
    """A stretch of time of GPU-0 from one second to another after the epoch of the tests."""
    usual: dict[str, Any] = {
        "uuid": "GPU-0",
        "start": EPOCH + nanoseconds(start_seconds),
        "end": EPOCH + nanoseconds(end_seconds),
        "state": state,
        "second_cause": None,
        "score": 1.0,
        "conditions": frozenset(),
        "tier": Tier.POWER,
        "signals": {},
        "shares": {},
        "compute_at_least": None,
        "saturated": frozenset(),
        "pressed": frozenset(),
        "used_ratio": 0.25,
        "waste": {Cause.HEADROOM: 0.75},
        "energy_joules": 100.0 * (end_seconds - start_seconds),
    }
    return Entry(**usual | facts)
