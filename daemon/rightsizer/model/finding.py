"""Findings: a rule's verdict on a workload's devices, with the options to act."""

import math
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from typing import Any, Final, Self

from msgspec import Struct, field

from rightsizer.model.block import Blocks, Measure
from rightsizer.model.device import Device
from rightsizer.model.driver_codes import XidLog
from rightsizer.model.pattern import Exceedance, IdleGap, Past, Shape, Trend
from rightsizer.model.reading import Reading
from rightsizer.model.snapshot import Down
from rightsizer.model.topology import Topology
from rightsizer.model.units import Nanoseconds, seconds
from rightsizer.model.window import Provisioning, Window
from rightsizer.model.workload import Holding, Workload, WorkloadClass


class FindingKind(StrEnum):
    """Category of a finding."""

    IDLE = "idle"
    OVERPROVISIONED = "overprovisioned"
    UNDERPROVISIONED = "underprovisioned"
    INEFFICIENT = "inefficient"
    MISPLACED = "misplaced"
    DEGRADED = "degraded"
    OPTIMIZED = "optimized"
    UNKNOWN = "unknown"


class Reason(StrEnum):
    """Reason of a finding; names are stable, the four GPU ones are AWS Compute Optimizer's."""

    kind: FindingKind
    """Default kind of findings with this reason; a rule may override it."""

    def __new__(cls, value: str, kind: FindingKind = FindingKind.INEFFICIENT) -> Self:
        """Make a member; the default kind is for reasons that keep GPUs from being used well."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.kind = kind
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
    DEPENDENCY_BOUND = "DependencyBound"
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
    """Recommended action."""

    RELEASE = "release"
    SCALE_TO_ZERO = "scale_to_zero"
    AUTOSCALE = "autoscale"
    REDUCE_REPLICAS = "reduce_replicas"
    REDUCE_GPU_COUNT = "reduce_gpu_count"
    ADD_GPUS = "add_gpus"
    """More GPUs of the same type."""
    CHANGE_LAYOUT = "change_layout"
    """Same GPUs, with another layout or format of the model."""
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
    """Same number of GPUs, placed closer together."""
    RESTORE_TELEMETRY = "restore_telemetry"
    NONE = "none"


class Risk(StrEnum):
    """Probability that an option breaks the workload, lowest first."""

    VERY_LOW = "VeryLow"
    LOW = "Low"
    MEDIUM = "Medium"
    HIGH = "High"
    UNKNOWN = "Unknown"

    @property
    def rank(self) -> int:
        """Sort key, greater for higher risk; unknown ranks as high."""
        return tuple(Risk).index(Risk.HIGH if self is Risk.UNKNOWN else self)


class Severity(StrEnum):
    """Importance of acting, lowest first; the levels of Google Cloud insights."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        """Sort key, greater for higher severity."""
        return tuple(Severity).index(self)


class SharedPart(StrEnum):
    """What several devices of a node have in common, smallest first."""

    BOARD = "board"
    """GPU, whoever holds it, of all its MIG instances."""
    PCIE = "pcie"
    """Switch or root port above several GPUs."""
    NVLINK = "nvlink"
    """GPUs that reach each other over NVLink."""
    NODE = "node"
    """Driver, power supplies and cooling of all GPUs."""

    @property
    def rank(self) -> int:
        """Sort key, greater for larger parts."""
        return tuple(SharedPart).index(self)


class Instruction(Struct, frozen=True):
    """How to carry out a recommendation: a command, a manifest fragment, or text."""

    title: str
    """One line that describes the effect."""
    text: str
    language: str = "text"
    """`sh`, `yaml` or `text`."""


class Savings(Struct, frozen=True):
    """Estimated savings as an interval; `reason` explains a missing estimate."""

    gpus_low: float | None = None
    gpus_high: float | None = None
    dollars_per_hour_low: float | None = None
    dollars_per_hour_high: float | None = None
    reason: str = ""
    gpu_hours_per_month_low: float | None = None
    gpu_hours_per_month_high: float | None = None
    kilowatt_hours_per_month_low: float | None = None
    kilowatt_hours_per_month_high: float | None = None
    """At the GPUs, without the building's overhead."""
    price_source: str = ""
    price_date: str = ""
    """Date of the price, which is not a current quote."""
    dollars_per_hour_typical: float | None = None
    """Savings at the median price; the midpoint of the interval if unknown."""

    @property
    def dollars_per_hour(self) -> float:
        """Typical savings; 0 without a price."""
        ends = self.dollars_per_hour_low, self.dollars_per_hour_high
        return typical(*ends, self.dollars_per_hour_typical)

    @property
    def gpus(self) -> float:
        """Midpoint of the GPUs saved; 0 if unknown."""
        return typical(self.gpus_low, self.gpus_high)


def typical(low: float | None, high: float | None, point: float | None = None) -> float:
    """Stated point of an interval, or else its midpoint; 0 if unknown."""
    if point is not None:
        return point
    return 0.0 if low is None else (low + (low if high is None else high)) / 2


Rank = tuple[bool, float, int, float]
"""Sort key of recommendations on page, terminal and in documents."""
UNADVISED: Final[Rank] = (True, math.inf, 0, 0.0)
"""Rank of subjects without a recommendation: last."""


def worth_rank(severity: str, dollars: float, confidence: float) -> Rank:
    """Critical first, then by savings, or by severity without a price."""
    return severity != Severity.CRITICAL, -dollars, -Severity(severity).rank, -confidence


class Option(Struct, frozen=True):
    """One way to act on a finding."""

    description: str
    risk: Risk
    target: str = ""
    """Board, MIG profile or count; empty if there is none."""
    action: Action | None = None
    """Action of this option; `None` for the finding's."""
    time_ratio: float | None = None
    """Projected duration relative to the current one; `None` without a projection."""
    time_ratio_low: float | None = None
    time_ratio_high: float | None = None
    utilization: Mapping[str, float] = {}
    """Expected mean utilization on the target by signal, idle time included."""
    fits: bool | None = None
    """Whether the workload fits into the target's memory; `None` if unknown."""
    dollars_per_hour_low: float | None = None
    dollars_per_hour_high: float | None = None
    """Cost of all GPUs of the workload."""
    savings: Savings | None = None
    risks: Mapping[str, Risk] = {}
    """By resource; the option's risk is the highest of them."""


class Node(Struct, frozen=True):
    """Node as of the last snapshot, with all cases judged there."""

    devices: tuple[Device, ...] = ()
    """All devices of the node, parents of MIG instances included."""
    readings: Mapping[str, Reading] = {}
    """Last reading by uuid."""
    xids: Mapping[str, XidLog] = {}
    """By uuid, including devices that are down."""
    down: Mapping[str, Down] = {}
    """Devices without readings, by uuid."""
    holdings: Mapping[str, tuple[Holding, ...]] = {}
    """Holders by uuid."""
    topology: Topology | None = None
    nvlinks_up: Mapping[str, float] = {}
    """Most NVLinks that were ever seen up, by uuid."""
    wall_time: Nanoseconds = 0
    """Time of the snapshot."""
    cases: "tuple[Case, ...]" = ()
    """All workloads of the node over the same span, this one included; their `node` is `None`."""


class Case(Struct, frozen=True, dict=True):
    """Input of a rule: the devices that one workload holds, over one window of time."""

    key: str
    """Workload key, or the device's uuid if its holder is unknown."""
    workload: Workload | None
    devices: tuple[Device, ...]
    windows: Sequence[Window]
    """One per device, in the same order."""
    provisioning: Sequence[Provisioning]
    """One per device, in the same order."""
    past: Past | None = None
    """Data beyond the windows, or `None`."""
    node: Node | None = None
    """Current state of the node; `None` if only a history is known."""

    def __eq__(self, other: object) -> bool:
        # Equal for a rule: of the history and the node each case has its own.
        return isinstance(other, Case) and self._judged == other._judged

    def __hash__(self) -> int:
        return hash((self.key, self.devices))

    @property
    def _judged(self) -> tuple[object, ...]:
        return self.key, self.workload, self.devices, self.windows, self.provisioning

    @cached_property
    def known_seconds(self) -> float:
        """Shortest known time of any device; cached, since most rules ask for it."""
        return min((window.known_seconds for window in self.windows), default=0.0)

    @cached_property
    def span_facts(self) -> Mapping[str, object]:
        """Facts about its time span, common to all findings."""
        windows = self.windows
        return {
            "window_seconds": max((seconds(w.end - w.start) for w in windows), default=0.0),
            "known_seconds": self.known_seconds,
            "coverage_ratio": round(min((w.coverage_ratio for w in windows), default=0.0), 4),
            "tier": [str(window.tier) for window in windows],
        }

    @property
    def workload_class(self) -> WorkloadClass:
        """Class of the workload; unknown without one."""
        return self.workload.workload_class if self.workload else WorkloadClass.UNKNOWN

    @property
    def gpus(self) -> float:
        """Number of GPUs; MIG instances count by their compute share."""
        return sum(device.capacity_ratio for device in self.devices)

    @property
    def workload_window(self) -> Window | None:
        """Window of the workload over all devices that it held in the case's span.

        Its blocks are sums over simultaneous devices, in units of one device. Without a workload
        it is the device's window.
        """
        return None if self.past is None else self.past.window

    @property
    def remembered(self) -> Blocks:
        """Blocks of the workload over all its devices, as far back as the history goes."""
        return Blocks() if self.past is None else self.past.blocks()

    def shape(self, measure: Measure = Measure.BUSY) -> Shape | None:
        """Periodicity of the load over the whole history, or `None` if unknown."""
        return None if self.past is None else self.past.shape(measure)

    def trend(self, measure: Measure = Measure.BUSY) -> Trend | None:
        """Trend of the load over the whole history, or `None` if unknown."""
        return None if self.past is None else self.past.trend(measure)

    def idle_gaps(self, busy_ratio: float) -> tuple[IdleGap, ...]:
        """Times below a busy ratio over the whole history, oldest first."""
        return () if self.past is None else self.past.idle_gaps(busy_ratio)

    def effective_samples(self, measure: Measure = Measure.BUSY) -> float:
        """Number of independent five-minute means in the window; 0 if none are known."""
        return 0.0 if self.past is None else self.past.effective_samples(self._blocks, measure)

    def exceedance(self, measure: Measure, capacity: float) -> Exceedance | None:
        """Worst device's share of blocks with a peak above a capacity.

        `None` if the measure is unknown for any device.
        """
        past = self.past
        if past is None:
            return None
        by_window = [past.exceedance(window.blocks, measure, capacity) for window in self.windows]
        exceedances = [exceedance for exceedance in by_window if exceedance is not None]
        if not exceedances or len(exceedances) < len(by_window):
            return None
        return max(
            exceedances, key=lambda exceedance: (exceedance.share, -exceedance.effective_blocks)
        )

    def group_exceedance(self, measure: Measure, capacity: float) -> Exceedance | None:
        """Share of blocks with a total above a capacity, in units of one device or bytes."""
        past = self.past
        return None if past is None else past.exceedance(self._blocks, measure, capacity)

    @property
    def _blocks(self) -> Blocks:
        window = self.workload_window
        return Blocks() if window is None else window.blocks


INCIDENT: Final = "incident"
"""Entry of the evidence with the part of the node that a finding is about."""


class Finding(Struct, frozen=True):
    """Verdict of a rule; kind `optimized` means nothing to improve."""

    id: str
    rule: str
    kind: FindingKind = field(name="finding")
    reasons: tuple[Reason, ...]
    devices: tuple[str, ...]
    culprits: tuple[str, ...]
    """Devices that cause the problem, if known."""
    workload: str | None
    action: Action
    summary: str
    options: tuple[Option, ...]
    confidence: float
    confidence_factors: Mapping[str, float]
    risk: Risk
    savings: Savings
    evidence: Mapping[str, object] = {}
    abstained: str | None = None
    """Why the rule could not decide, or `None` if it did."""
    severity: Severity = Severity.LOW
    instructions: tuple[Instruction, ...] = ()
    """Commands or manifests to apply, in order; may be empty."""
    exclusive_group: str | None = None
    """Only one finding of a group can be acted on."""
    shared_by: Mapping[str, tuple[SharedPart, ...]] = {}
    """Larger parts of the node that may be the cause, by culprit; a GPU's instances share it."""
    key: str = ""
    """Of what it is about: a workload, device, pool or node; empty if it was restored."""

    @property
    def rank(self) -> Rank:
        """Sort key of its recommendation."""
        return worth_rank(self.severity, self.savings.dollars_per_hour, self.confidence)

    @property
    def incident(self) -> Mapping[str, Any]:
        """Facts of the shared part of the node that it is about; empty for other findings."""
        facts = self.evidence.get(INCIDENT)
        return facts if isinstance(facts, Mapping) else {}

    @property
    def is_actionable(self) -> bool:
        """Whether it asks for action."""
        return self.abstained is None and self.kind not in (
            FindingKind.OPTIMIZED,
            FindingKind.UNKNOWN,
        )
