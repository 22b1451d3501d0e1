"""Days of sample devices, made by hand: one for each thing a page must show."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from rightsizer.model.reading import Missing
from rightsizer.model.snapshot import Down
from rightsizer.model.state import Condition, Resource, State, Tier
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.model.workload import Allocator, Workload, WorkloadClass, WorkloadKind

NOW: Nanoseconds = 1_767_790_800 * NANOSECONDS_PER_SECOND
"""2026-01-07 13:00:00 UTC."""
HOUR = 3600 * NANOSECONDS_PER_SECOND
GIB = 2.0**30

TRAINING = Workload(
    "kubernetes/research/llama-pretrain",
    WorkloadKind.KUBERNETES,
    "llama-pretrain",
    WorkloadClass.BATCH,
    Allocator.GROWING,
    "research",
    "llama-pretrain-0",
    "trainer",
)
SERVING = Workload(
    "kubernetes/chat/vllm-70b",
    WorkloadKind.KUBERNETES,
    "vllm-70b",
    WorkloadClass.SERVING,
    Allocator.PREALLOCATING,
    "chat",
    "vllm-70b-7d9f",
    "engine",
)
NOTEBOOK = Workload(
    "slurm/4711", WorkloadKind.SLURM, "jupyter", WorkloadClass.NOTEBOOK, Allocator.GROWING
)
TUNING = Workload(
    "slurm/4802", WorkloadKind.SLURM, "lora-tune", WorkloadClass.BATCH, Allocator.GROWING
)
EMBEDDING = Workload(
    "kubernetes/search/embedder",
    WorkloadKind.KUBERNETES,
    "embedder",
    WorkloadClass.SERVING,
    Allocator.GROWING,
    "search",
    "embedder-0",
    "server",
)


class SampleDevice(Struct, frozen=True):
    """History of one device: its day in hours, and its present state."""

    workload: Workload | None
    day: Sequence[tuple[float, Mapping[State, float]]]
    """Intervals that sum to 24 h: number of hours, and their states."""
    busy: float = 0.0
    sm: float = 0.0
    tensor: float = 0.0
    dram: float = 0.0
    memory: float = 0.0
    power: float = 0.0
    conditions: Mapping[Condition, float] = {}
    """Seconds of the day."""
    needs: Mapping[Resource, float] = {}
    pressed: Mapping[Resource, float] = {}
    tier: Tier = Tier.PROFILING
    down: Down | None = None
    clock_event_reasons: int = 0


_S = State
SAMPLE_DEVICES: tuple[SampleDevice, ...] = (
    SampleDevice(
        TRAINING,
        (
            (7, {_S.COMPUTE_BOUND: 0.82, _S.STORAGE_BOUND: 0.12, _S.PRODUCTIVE: 0.06}),
            (1, {_S.STORAGE_BOUND: 0.7, _S.COMPUTE_BOUND: 0.3}),
            (16, {_S.COMPUTE_BOUND: 0.86, _S.STORAGE_BOUND: 0.08, _S.PRODUCTIVE: 0.06}),
        ),
        0.99,
        0.86,
        0.61,
        0.47,
        0.78,
        0.91,
        conditions={Condition.POWER_THROTTLED: 5200.0},
        needs={Resource.COMPUTE: 0.97, Resource.MEMORY: 0.88, Resource.MEMORY_BANDWIDTH: 0.62},
        clock_event_reasons=0x04,
    ),
    SampleDevice(
        TRAINING,
        (
            (9, {_S.COMPUTE_BOUND: 0.84, _S.STORAGE_BOUND: 0.1, _S.PRODUCTIVE: 0.06}),
            (15, {_S.HIDDEN_STALL: 1.0}),
        ),
        1.0,
        0.98,
        0.0,
        0.01,
        0.78,
        0.11,
        needs={Resource.COMPUTE: 0.95, Resource.MEMORY: 0.88, Resource.MEMORY_BANDWIDTH: 0.6},
    ),
    SampleDevice(
        SERVING,
        (
            (6, {_S.IDLE_HELD: 0.7, _S.MEMORY_BANDWIDTH_BOUND: 0.3}),
            (3, {_S.MEMORY_BANDWIDTH_BOUND: 0.6, _S.PRODUCTIVE: 0.25, _S.IDLE_HELD: 0.15}),
            (15, {_S.MEMORY_BANDWIDTH_BOUND: 0.75, _S.PRODUCTIVE: 0.2, _S.LAUNCH_BOUND: 0.05}),
        ),
        0.88,
        0.52,
        0.18,
        0.71,
        0.91,
        0.58,
        needs={Resource.COMPUTE: 0.34, Resource.MEMORY_BANDWIDTH: 0.92},
    ),
    SampleDevice(
        NOTEBOOK,
        (
            (5, {_S.IDLE_EMPTY: 1.0}),
            (1, {_S.PRODUCTIVE: 0.5, _S.LAUNCH_BOUND: 0.3, _S.IDLE_HELD: 0.2}),
            (18, {_S.IDLE_HELD: 1.0}),
        ),
        0.0,
        0.0,
        0.0,
        0.0,
        0.22,
        0.01,
        needs={Resource.COMPUTE: 0.18, Resource.MEMORY: 0.27, Resource.MEMORY_BANDWIDTH: 0.11},
        clock_event_reasons=0x01,
    ),
    SampleDevice(
        TUNING,
        (
            (10, {_S.IDLE_EMPTY: 1.0}),
            (14, {_S.COMPUTE_BOUND: 0.5, _S.PRODUCTIVE: 0.3, _S.HOST_BOUND: 0.2}),
        ),
        0.93,
        0.63,
        0.38,
        0.4,
        0.972,
        0.66,
        conditions={Condition.NEAR_OUT_OF_MEMORY: 21600.0},
        needs={Resource.COMPUTE: 0.71, Resource.MEMORY: 1.12, Resource.MEMORY_BANDWIDTH: 0.5},
        pressed={Resource.MEMORY: 0.43},
    ),
    SampleDevice(
        None,
        ((15, {_S.IDLE_EMPTY: 1.0}), (9, {_S.UNKNOWN: 1.0})),
        conditions={Condition.HARDWARE_SLOWDOWN: 120.0},
        down=Down(Missing.LOST, "NVML: GPU is lost; it has fallen off the bus"),
    ),
    SampleDevice(None, (), tier=Tier.NONE),
    SampleDevice(
        EMBEDDING,
        ((24, {_S.PRODUCTIVE: 0.35, _S.PCIE_BOUND: 0.15, _S.IDLE_HELD: 0.5}),),
        0.41,
        0.3,
        0.12,
        0.22,
        0.31,
        0.0,
        needs={Resource.COMPUTE: 0.38, Resource.MEMORY: 0.45, Resource.MEMORY_BANDWIDTH: 0.4},
    ),
    SampleDevice(
        None,
        ((20, {_S.UNKNOWN: 1.0}), (4, {_S.UNKNOWN: 0.4, _S.IDLE_EMPTY: 0.6})),
        tier=Tier.NONE,
    ),
)
PARENT = 6
INSTANCE = 7
SILENT = 8


def uuid_of(index: int) -> str:
    """The uuid of a story's device."""
    kind = "MIG" if index == INSTANCE else "GPU"
    return f"{kind}-{index:08x}-1111-2222-3333-444455556666"
