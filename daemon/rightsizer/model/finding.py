"""What a rule says of a workload's devices, and what could be done about it."""

import math
from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Self

from rightsizer.model.block import Blocks, Measure
from rightsizer.model.device import Device
from rightsizer.model.driver_codes import XidLog
from rightsizer.model.frozen import dataclass, field
from rightsizer.model.pattern import Exceedance, Past, Shape, Trend
from rightsizer.model.reading import Reading
from rightsizer.model.topology import Topology
from rightsizer.model.units import seconds
from rightsizer.model.window import Provisioning, Window
from rightsizer.model.workload import Holding, Workload, WorkloadClass


class FindingKind(StrEnum):
    """The verdict, in one word."""

    IDLE = "idle"
    OVERPROVISIONED = "overprovisioned"
    UNDERPROVISIONED = "underprovisioned"
    INEFFICIENT = "inefficient"
    MISPLACED = "misplaced"
    DEGRADED = "degraded"
    OPTIMIZED = "optimized"
    UNKNOWN = "unknown"


class Reason(StrEnum):
    """Why; stable names, the four GPU ones are AWS Compute Optimizer's."""

    kind: FindingKind
    """What a complaint for this reason first is, unless its rule knows better."""

    def __new__(cls, value: str, kind: FindingKind = FindingKind.INEFFICIENT) -> Self:
        """A member; what has no kind of its own keeps a workload from using its GPUs well."""
        member = str.__new__(cls, value)
        member._value_, member.kind = value, kind
        return member

    IDLE_EMPTY = "IdleEmpty", FindingKind.IDLE
    IDLE_HELD = "IdleHeld", FindingKind.IDLE
    ALLOCATED_WITHOUT_PROCESS = "AllocatedWithoutProcess", FindingKind.IDLE
    HIDDEN_STALL = "HiddenStall"
    RANK_IMBALANCE = "RankImbalance"
    HOST_BOUND = "HostBound"
    STORAGE_BOUND = "StorageBound"
    NETWORK_BOUND = "NetworkBound"
    COMMUNICATION_BOUND = "CommunicationBound"
    PERIODIC_STARVATION = "PeriodicStarvation"
    PCIE_BOUND = "PcieBound"
    LAUNCH_BOUND = "LaunchBound"
    MEMORY_BANDWIDTH_BOUND = "MemoryBandwidthBound"
    COMPUTE_SATURATED = "ComputeSaturated", FindingKind.UNDERPROVISIONED
    TENSOR_CORES_UNUSED = "TensorCoresUnused"
    KERNEL_INEFFICIENT = "KernelInefficient"
    GPU_MEMORY_OVERPROVISIONED = "GpuMemoryOverprovisioned", FindingKind.OVERPROVISIONED
    GPU_MEMORY_UNDERPROVISIONED = "GpuMemoryUnderprovisioned", FindingKind.UNDERPROVISIONED
    GPU_OVERPROVISIONED = "GpuOverprovisioned", FindingKind.OVERPROVISIONED
    GPU_UNDERPROVISIONED = "GpuUnderprovisioned", FindingKind.UNDERPROVISIONED
    GPU_COUNT_OVERPROVISIONED = "GpuCountOverprovisioned", FindingKind.OVERPROVISIONED
    SHARING_CANDIDATE_MIG = "SharingCandidateMig", FindingKind.OVERPROVISIONED
    SHARING_CANDIDATE_MPS = "SharingCandidateMps", FindingKind.OVERPROVISIONED
    SHARING_CANDIDATE_TIME_SLICE = "SharingCandidateTimeSlice", FindingKind.OVERPROVISIONED
    POWER_THROTTLED = "PowerThrottled", FindingKind.DEGRADED
    THERMAL_THROTTLED = "ThermalThrottled", FindingKind.DEGRADED
    POWER_CAP_OPPORTUNITY = "PowerCapOpportunity"
    PCIE_LINK_DEGRADED = "PcieLinkDegraded", FindingKind.DEGRADED
    NUMA_MISPLACED = "NumaMisplaced", FindingKind.MISPLACED
    NVLINK_ABSENT = "NvlinkAbsent", FindingKind.MISPLACED
    CAPACITY_FRAGMENTED = "CapacityFragmented", FindingKind.MISPLACED
    DIURNAL_AUTOSCALE = "DiurnalAutoscale", FindingKind.OVERPROVISIONED
    EXHAUSTION_FORECAST = "ExhaustionForecast", FindingKind.UNDERPROVISIONED
    HARDWARE_UNHEALTHY = "HardwareUnhealthy", FindingKind.DEGRADED
    TELEMETRY_LOST = "TelemetryLost", FindingKind.DEGRADED
    INSUFFICIENT_DATA = "InsufficientData"
    UNSUPPORTED_TELEMETRY = "UnsupportedTelemetry"


class Action(StrEnum):
    """What to do."""

    RELEASE = "release"
    SCALE_TO_ZERO = "scale_to_zero"
    AUTOSCALE = "autoscale"
    REDUCE_REPLICAS = "reduce_replicas"
    REDUCE_GPU_COUNT = "reduce_gpu_count"
    SHARE_MIG = "share_mig"
    SHARE_MPS = "share_mps"
    SHARE_TIMESLICE = "share_timeslice"
    CHANGE_GPU_TYPE = "change_gpu_type"
    REBIND_NUMA = "rebind_numa"
    RESEAT_OR_DRAIN = "reseat_or_drain"
    FIX_INPUT_PIPELINE = "fix_input_pipeline"
    FIX_CHECKPOINTING = "fix_checkpointing"
    RAISE_BATCH = "raise_batch"
    ENABLE_CUDA_GRAPHS = "enable_cuda_graphs"
    ENABLE_MIXED_PRECISION = "enable_mixed_precision"
    OPTIMIZE_KERNEL = "optimize_kernel"
    FUSE_KERNELS = "fuse_kernels"
    OVERLAP_COMMUNICATION = "overlap_communication"
    INVESTIGATE_STRAGGLER = "investigate_straggler"
    SET_POWER_LIMIT = "set_power_limit"
    MOVE_GPUS = "move_gpus"
    """The same number, placed nearer to one another."""
    RESTORE_TELEMETRY = "restore_telemetry"
    NONE = "none"


class Risk(StrEnum):
    """How likely an option fails the workload, best first."""

    VERY_LOW = "VeryLow"
    LOW = "Low"
    MEDIUM = "Medium"
    HIGH = "High"
    UNKNOWN = "Unknown"

    @property
    def rank(self) -> int:
        """A number that is greater for what is riskier; what is unknown is ranked as high."""
        return tuple(Risk).index(Risk.HIGH if self is Risk.UNKNOWN else self)


class Severity(StrEnum):
    """How much it matters to act, least first; Google Cloud's words for insights."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        """A number that is greater for what is more severe."""
        return tuple(Severity).index(self)


@dataclass(frozen=True, slots=True)
class Instruction:
    """How to do what is advised: a command, a fragment of a manifest, or words."""

    title: str
    """One line that says what it does."""
    text: str
    language: str = "text"
    """`sh`, `yaml` or `text`."""


@dataclass(frozen=True, slots=True)
class Savings:
    """What acting would save, as an interval; `reason` says why there is no figure."""

    gpus_low: float | None = None
    gpus_high: float | None = None
    dollars_per_hour_low: float | None = None
    dollars_per_hour_high: float | None = None
    reason: str = ""
    gpu_hours_per_month_low: float | None = None
    gpu_hours_per_month_high: float | None = None
    kilowatt_hours_per_month_low: float | None = None
    kilowatt_hours_per_month_high: float | None = None
    """At the GPUs; a building takes more."""
    price_source: str = ""
    price_date: str = ""
    """When the price held; it is no quote of today."""
    dollars_per_hour_typical: float | None = None
    """At the median of prices; the middle of the interval where only its ends are known."""

    @property
    def dollars_per_hour(self) -> float:
        """What is typically saved; 0 without a price."""
        ends = self.dollars_per_hour_low, self.dollars_per_hour_high
        return typical(*ends, self.dollars_per_hour_typical)

    @property
    def gpus(self) -> float:
        """How many are typically saved; 0 where that is unknown."""
        return typical(self.gpus_low, self.gpus_high)


def typical(low: float | None, high: float | None, point: float | None = None) -> float:
    """The point of an interval, its middle where none is stated; 0 where it is unknown."""
    if point is not None:
        return point
    return 0.0 if low is None else (low + (low if high is None else high)) / 2


Rank = tuple[bool, float, int, float]
"""Sort key of recommendations on page, terminal and in documents."""
UNADVISED: Final[Rank] = (True, math.inf, 0, 0.0)
"""Of what nothing is recommended for: after all others."""


def worth_rank(severity: str, dollars: float, confidence: float) -> Rank:
    """Critical first, then by savings; without a price by severity."""
    return severity != Severity.CRITICAL, -dollars, -Severity(severity).rank, -confidence


@dataclass(frozen=True, slots=True)
class Option:
    """One way to act on a finding."""

    description: str
    risk: Risk
    target: str = ""
    """A board, a MIG profile or a count; empty where there is none."""
    action: Action | None = None
    """What choosing it means to do; `None` where it is the finding's."""
    time_ratio: float | None = None
    """The time of the same work, of that which it takes now; `None` where not projected."""
    time_ratio_low: float | None = None
    time_ratio_high: float | None = None
    utilization: Mapping[str, float] = field(default_factory=dict, hash=False)
    """Mean shares that are expected there, by signal, idle time included."""
    fits: bool | None = None
    """Whether its memory holds what is needed; `None` where that is not known."""
    dollars_per_hour_low: float | None = None
    dollars_per_hour_high: float | None = None
    """What it costs, all GPUs of the workload together."""
    savings: Savings | None = None
    risks: Mapping[str, Risk] = field(default_factory=dict, hash=False)
    """By resource; the option's risk is the worst of them."""


@dataclass(frozen=True, slots=True)
class Node:
    """The machine around a workload as the last snapshot had it, and what else is judged there."""

    devices: tuple[Device, ...] = ()
    """All of the node, parents of MIG instances included."""
    readings: Mapping[str, Reading] = field(default_factory=dict)
    """The last of each device, by uuid."""
    xids: Mapping[str, XidLog] = field(default_factory=dict)
    """By uuid, of devices that are down too."""
    holdings: Mapping[str, tuple[Holding, ...]] = field(default_factory=dict)
    """Who holds each device, by uuid."""
    topology: Topology | None = None
    cases: "tuple[Case, ...]" = ()
    """All workloads of the node over the same span, this one included; these have no node."""


@dataclass(frozen=True, slots=True)
class Case:
    """What a rule judges: the devices that one workload holds, over one window of time."""

    key: str
    """The workload's key, or the device's uuid where its holder is not known."""
    workload: Workload | None
    devices: tuple[Device, ...]
    windows: tuple[Window, ...]
    """One for each device, in the same order."""
    provisioning: tuple[Provisioning, ...]
    """One for each device, in the same order."""
    past: Past | None = field(default=None, compare=False, repr=False)
    """What is known beyond the windows; `None` where nothing is."""
    node: Node | None = field(default=None, compare=False, repr=False)
    """The machine around it as it stands now; `None` where only a history is known."""

    @property
    def known_seconds(self) -> float:
        """The known time of the device that least is known of."""
        return min((window.known_seconds for window in self.windows), default=0.0)

    @property
    def span_facts(self) -> Mapping[str, object]:
        """What each finding says of the span that it rests on."""
        windows = self.windows
        return {
            "window_seconds": max((seconds(w.end - w.start) for w in windows), default=0.0),
            "known_seconds": self.known_seconds,
            "coverage_ratio": round(min((w.coverage_ratio for w in windows), default=0.0), 4),
            "tier": [str(window.tier) for window in windows],
        }

    @property
    def workload_class(self) -> WorkloadClass:
        """The workload's; unknown without a workload."""
        return self.workload.workload_class if self.workload else WorkloadClass.UNKNOWN

    @property
    def gpus(self) -> float:
        """Of its devices, MIG instances by their part."""
        return sum(device.capacity_ratio for device in self.devices)

    @property
    def workload_window(self) -> Window | None:
        """What the workload did over all the devices that it held within the window of time.

        Its blocks are sums over its devices at the same moments, in devices' worth. Without a
        workload it is that of the device.
        """
        return None if self.past is None else self.past.window

    @property
    def remembered(self) -> Blocks:
        """What the workload did over all its devices, as far back as the history goes."""
        return Blocks() if self.past is None else self.past.blocks()

    def shape(self, measure: Measure = Measure.BUSY) -> Shape | None:
        """How the load repeats itself, over all that is remembered; `None` where nothing is."""
        return None if self.past is None else self.past.shape(measure)

    def trend(self, measure: Measure = Measure.BUSY) -> Trend | None:
        """Where the load is heading, over all that is remembered; `None` where unknown."""
        return None if self.past is None else self.past.trend(measure)

    def effective_samples(self, measure: Measure = Measure.BUSY) -> float:
        """How many independent five minutes the window of time holds; 0 where none are known."""
        return 0.0 if self.past is None else self.past.effective_samples(self._blocks, measure)

    def exceedance(self, measure: Measure, capacity: float) -> Exceedance | None:
        """How often a device's peak went beyond a capacity, of the device that did most often.

        `None` where the measure is unknown of any device.
        """
        past = self.past
        if past is None:
            return None
        found = [past.exceedance(each.blocks, measure, capacity) for each in self.windows]
        known = [each for each in found if each is not None]
        if not known or len(known) < len(found):
            return None
        return max(known, key=lambda each: (each.share, -each.effective_blocks))

    def group_exceedance(self, measure: Measure, capacity: float) -> Exceedance | None:
        """How often all devices together went beyond a capacity, in devices' worth or bytes."""
        past = self.past
        return None if past is None else past.exceedance(self._blocks, measure, capacity)

    @property
    def _blocks(self) -> Blocks:
        found = self.workload_window
        return Blocks() if found is None else found.blocks


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule's verdict. `optimized` means that the rule found nothing to complain of."""

    id: str
    rule: str
    kind: FindingKind
    reasons: tuple[Reason, ...]
    devices: tuple[str, ...]
    culprits: tuple[str, ...]
    """The devices that the trouble comes from, where that can be told."""
    workload: str | None
    action: Action
    summary: str
    options: tuple[Option, ...]
    confidence: float
    confidence_factors: Mapping[str, float]
    risk: Risk
    savings: Savings
    evidence: Mapping[str, object] = field(default_factory=dict)
    abstained: str | None = None
    """Why the rule would not say, `None` where it did."""
    severity: Severity = Severity.LOW
    instructions: tuple[Instruction, ...] = ()
    """What to run or apply, first things first; empty where there is nothing to type."""
    exclusive_group: str | None = None
    """Of findings with the same group only one can be acted on."""

    @property
    def rank(self) -> Rank:
        """Where a recommendation for it stands among others."""
        return worth_rank(self.severity, self.savings.dollars_per_hour, self.confidence)

    @property
    def is_complaint(self) -> bool:
        """Whether there is something to do."""
        return self.abstained is None and self.kind not in (
            FindingKind.OPTIMIZED,
            FindingKind.UNKNOWN,
        )
