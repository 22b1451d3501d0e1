"""Settings of profiles: reading, thresholds of the rules, capture, how long a profile counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rightsizer.model.frozen import dataclass, field, fields, make_dataclass
from rightsizer.model.settings import setting
from rightsizer.profiler.capture.settings import CaptureKind, CaptureSettings, DropFolderSettings
from rightsizer.telemetry.profiles.limits import FileLimits, ReadLimits, TimeSettings

if TYPE_CHECKING:
    from rightsizer.profiler.rules.rule import ProfileRule


@dataclass(frozen=True, slots=True)
class ProfileSteadySettings:
    """What a profile must show before anything is said of its idle time."""

    kernels_minimum: int = setting(
        50,
        help="Kernels of a device, fewer of which say nothing of a steady phase.",
        within=(1, None),
        source="one pass of a small network launches some hundred",
    )
    launch_maximum_seconds: float = setting(
        0.001,
        help="Mean time of a launch, beyond which kernels are still being loaded: start-up.",
        source="HolisticTraceAnalysis: a launch takes 5 to 20 µs; loading a module, milliseconds",
    )
    matched_minimum_ratio: float = setting(
        0.5,
        help="Kernels whose launch must be known, to tell why a device was idle.",
        source="the greater part",
    )


@dataclass(frozen=True, slots=True)
class ProfileLaunchBoundSettings:
    """When launches are the limit."""

    on_ratio: float = setting(
        0.3,
        help="Share of a device's span in which it waits for the host, from which on it counts.",
        source="SageMaker: a GPU is held up by its host below 70 % of use",
    )
    kernel_maximum_seconds: float = setting(
        20e-6,
        help="Mean time of a kernel up to which its launch is what counts.",
        source="HolisticTraceAnalysis: a launch takes 5 to 20 µs",
    )
    removed_low_ratio: float = setting(
        0.5,
        help="Part of the wait that CUDA graphs remove at least, where steps can be captured.",
        source="a cautious half: inputs still are copied, and graphs launched",
    )
    own_launch_minimum_ratio: float = setting(
        0.5,
        help="Launches a kernel below which kernels come by graphs already.",
        source="the greater part: a graph's many kernels come by one launch",
    )
    outlier_minimum_ratio: float = setting(
        0.5,
        help="Part of all waiting for the host from which on one wait is named and left aside.",
        source="the greater part: what happened once is no rate",
    )
    steady: ProfileSteadySettings = field(default_factory=ProfileSteadySettings)


@dataclass(frozen=True, slots=True)
class ProfileHostBoundSettings:
    """When the host is the limit."""

    loader_on_ratio: float = setting(
        0.2,
        help="Share of a device's span that it may wait for the loader, from which on it counts.",
        source="ResNet-50 on a V100: 0.35 with a loader in the training process, 0.01 with four",
    )
    on_ratio: float = setting(
        0.3,
        help="Share of a device's span that it waits for the host, whatever that does.",
        source="SageMaker: a GPU is held up by its host below 70 % of use",
    )
    kernel_maximum_seconds: float = setting(
        20e-6,
        help="Mean time of a kernel up to which launches are what it waits for, not the host.",
        source="HolisticTraceAnalysis: a launch takes 5 to 20 µs",
    )
    synchronization_on_ratio: float = setting(
        0.1,
        help="Share of a device's span idle after the host waited for it, from which on it counts.",
        source="a tenth of the time; a wait beside kernels that are launched ahead costs nothing",
    )
    synchronization_removed_low_ratio: float = setting(
        0.2,
        help="Part of that idle time which goes at least, once the host does not wait.",
        source="a cautious fifth: what the host does then is its own time still",
    )
    removed_low_ratio: float = setting(
        0.5,
        help="Part of the wait for a loader that more workers remove at least.",
        source="ResNet-50 on a V100: 0.7 of it went with four workers",
    )
    outlier_minimum_ratio: float = setting(
        0.5,
        help="Part of all waiting for the host from which on one wait is named and left aside.",
        source="the greater part: what happened once is no rate",
    )
    steady: ProfileSteadySettings = field(default_factory=ProfileSteadySettings)


@dataclass(frozen=True, slots=True)
class ProfilePcieBoundSettings:
    """When copies are the limit."""

    on_ratio: float = setting(
        0.1,
        help="Share of a device's span with a copy over PCIe and no kernel that counts.",
        source="a tenth of the time; what is copied beside kernels costs nothing",
    )
    removed_low_ratio: float = setting(
        0.3,
        help="Part of it that goes at least, once memory is pinned and copies overlap.",
        source="pageable copies reach about half of the link or more (NVIDIA, CUDA best practices)",
    )
    steady: ProfileSteadySettings = field(default_factory=ProfileSteadySettings)


@dataclass(frozen=True, slots=True)
class ProfileCommunicationBoundSettings:
    """When collectives are the limit."""

    on_ratio: float = setting(
        0.1,
        help="Share of a device's span with a collective and no other kernel that counts.",
        source="a tenth of the time; what is sent beside kernels costs nothing",
    )
    removed_low_ratio: float = setting(
        0.2,
        help="Part of it that goes at least, once collectives run beside kernels.",
        source="a cautious fifth: the last buckets of a step have nothing to hide behind",
    )
    steady: ProfileSteadySettings = field(default_factory=ProfileSteadySettings)


@dataclass(frozen=True, slots=True)
class ProfileStorageBoundSettings:
    """When checkpoints are the limit."""

    on_ratio: float = setting(
        0.05,
        help="Share of a device's span that may be spent idle beside a checkpoint that counts.",
        source="training at scale aims at less than 5 % for checkpoints",
    )
    removed_low_ratio: float = setting(
        0.5,
        help="Part of it that goes at least, once checkpoints are written beside the training.",
        source="a cautious half: the copy off the GPU stays",
    )
    steady: ProfileSteadySettings = field(default_factory=ProfileSteadySettings)


@dataclass(frozen=True, slots=True)
class ProfileTensorCoresUnusedSettings:
    """When it counts that tensor cores are left aside."""

    on_ratio: float = setting(
        0.1,
        help="Share of a device's span in products of matrices without tensor cores that counts.",
        source="less than a tenth of the time is not worth a change of precision",
    )
    speedup_low_ratio: float = setting(
        1.5,
        help="How many times as fast such a kernel gets at least.",
        unit="",
        within=(1.0, 100.0),
        source="products of small matrices are limited by memory, not by arithmetic",
    )
    speedup_high_ratio: float = setting(
        8.0,
        help="How many times as fast such a kernel gets at most.",
        unit="",
        within=(1.0, 100.0),
        source="A100 and V100 datasheets: 156 of 19.5 TFLOP/s (TF32), 125 of 15.7 (FP16)",
    )
    steady: ProfileSteadySettings = field(default_factory=ProfileSteadySettings)


@dataclass(frozen=True, slots=True)
class ProfileKernelsUnfusedSettings:
    """When small operators that each go through memory are worth fusing."""

    on_ratio: float = setting(
        0.2,
        help="Share of a device's span in elementwise operators and copies that counts.",
        source="a fifth of the time; ResNet-50 in eager mode spends a tenth, a language model half",
    )
    removed_low_ratio: float = setting(
        0.3,
        help="Part of it that goes at least, once neighbors are fused.",
        source="two operators fused read and write memory once in place of twice, casts aside",
    )
    removed_high_ratio: float = setting(
        0.8,
        help="Part of it that goes at most, once neighbors are fused.",
        source="five in a row, as of rotary embeddings or SwiGLU, become one",
    )
    steady: ProfileSteadySettings = field(default_factory=ProfileSteadySettings)


@dataclass(frozen=True, slots=True)
class ProfileKernelInefficientSettings:
    """When a kernel falls short of its board, by hardware counters."""

    on_ratio: float = setting(
        0.1,
        help="Share of the kernels' time in kernels that fall short which counts.",
        source="less than a tenth of the time is not worth a change of a kernel",
    )
    bound_minimum_ratio: float = setting(
        0.6,
        help="Throughput of arithmetic or memory from which on a kernel is limited by it.",
        source="Nsight Compute, Speed Of Light: below 60 % of either it is latency",
    )
    excess_sectors_minimum_ratio: float = setting(
        0.25,
        help="Sectors moved to no use, of all, from which on access is called uncoalesced.",
        source="a quarter: 8 of the 32 bytes of a sector",
    )
    occupancy_maximum_ratio: float = setting(
        0.5,
        help="Occupancy that a kernel's resources leave room for, up to which they limit it.",
        source="half the warps hide the latency of most kernels (NVIDIA, CUDA best practices)",
    )
    tail_minimum_ratio: float = setting(
        0.2,
        help="Part of the time that the last, partial wave of blocks may take which counts.",
        source="Nsight Compute, Launch Statistics: one wave in so many; four full waves and a part",
    )
    threads_maximum: float = setting(
        24.0,
        help="Threads of a warp at work up to which its branches are called divergent.",
        unit="threads",
        within=(1.0, 32.0),
        source="three quarters of the 32 threads of a warp",
    )


@dataclass(frozen=True, slots=True)
class ProfileRankImbalanceSettings:
    """When a rank is a straggler."""

    on_ratio: float = setting(
        0.05,
        help="Mean part of a step by which a rank is behind the first one that counts.",
        source="half of what ByteDance calls a straggling job",
    )
    same_rank_ratio: float = setting(
        0.5,
        help="Steps in which the same rank must be the latest; else it is the load that varies.",
        source="the greater part",
    )


THRESHOLDS: Final[tuple[tuple[str, type[Any]], ...]] = (
    ("profile_launch_bound", ProfileLaunchBoundSettings),
    ("profile_host_bound", ProfileHostBoundSettings),
    ("profile_pcie_bound", ProfilePcieBoundSettings),
    ("profile_communication_bound", ProfileCommunicationBoundSettings),
    ("profile_storage_bound", ProfileStorageBoundSettings),
    ("profile_tensor_cores_unused", ProfileTensorCoresUnusedSettings),
    ("profile_kernels_unfused", ProfileKernelsUnfusedSettings),
    ("profile_kernel_inefficient", ProfileKernelInefficientSettings),
    ("profile_rank_imbalance", ProfileRankImbalanceSettings),
)
"""Each rule's own by its name."""


@dataclass(frozen=True, slots=True)
class ProfileComparisonSettings:
    """From when on a profile and telemetry contradict each other."""

    difference_minimum_ratio: float = setting(
        0.3,
        help="By how much two shares of the same time must differ to contradict each other.",
        within=(0.01, 1.0),
        source="as much as a wait for the host must take to be called a limit",
    )
    tensor_maximum_ratio: float = setting(
        0.01,
        help="Share of the time of kernels up to which tensor cores count as unused.",
        source="the part of a collective's own arithmetic",
    )
    memory_tolerance_ratio: float = setting(
        0.1,
        help="By how much a profile's peak of memory may be above what telemetry saw.",
        source="memory is read once a second, and its shares are kept in steps of 1 %",
    )
    tick_seconds: float = setting(
        2.0,
        help="Work that may fall between two readings of a GPU that was active now and then.",
        source="two readings at the default interval",
    )
    idle_tolerance_seconds: float = setting(
        0.01,
        help="Work that may stay unseen on a GPU that telemetry saw idle all the time.",
        within=(0.0, 60.0),
        source="docs/definitions.md: idle is below 1 %, and a driver's sample is of a second at "
        "most",
    )
    contradicted_ratio: float = setting(
        0.75,
        help="Part that is left of a finding's confidence where telemetry measured the same thing "
        "and contradicts it, or saw no activity on the GPU then.",
        source="a profile is the closer look, but may be of another time or GPU",
    )


ProfileRuleTree: Any = make_dataclass(
    "ProfileRuleTree",
    [(name, settings, field(default_factory=settings)) for name, settings in THRESHOLDS],
    frozen=True,
    slots=True,
    namespace={"__doc__": "The rules over profiles by name.", "__module__": __name__},
)
"""Each rule's own settings under its name, so that a rule is registered in one place."""


@dataclass(frozen=True, slots=True)
class ProfileSettings:
    """How what profilers wrote is read and judged, and how long that counts."""

    limits: FileLimits = field(default_factory=FileLimits)
    time: TimeSettings = field(default_factory=TimeSettings)
    rules: ProfileRuleTree = field(default_factory=ProfileRuleTree)
    comparison: ProfileComparisonSettings = field(default_factory=ProfileComparisonSettings)
    valid_for: float = setting(
        14 * 86400.0,
        help="How long what a profile shows is held against a workload that stays the same.",
        unit="seconds",
        within=(3600.0, 366 * 86400.0),
        source="two weeks of releases; older code is other code",
    )
    kept_maximum: int = setting(
        64,
        help="Profiles of which the verdict is kept; the oldest give way.",
        within=(1, 10_000),
        source="8 KiB each: half a MiB of memory and of the history",
    )
    drop_folder: DropFolderSettings = field(
        default_factory=DropFolderSettings, metadata={"is_live": False}
    )
    capture: CaptureSettings = field(default_factory=CaptureSettings, metadata={"is_live": False})

    def __post_init__(self) -> None:
        """Refuse captures that would land nowhere."""
        if self.capture.kind is not CaptureKind.NONE and not self.drop_folder.path:
            raise ValueError(
                f"capture.kind: '{self.capture.kind}' needs a folder where profiles land; set "
                "drop_folder.path"
            )

    @property
    def read_limits(self) -> ReadLimits:
        """What readers of files go by."""
        values = {each.name: getattr(self.limits, each.name) for each in fields(self.limits)}
        return ReadLimits(**values, time=self.time)

    @property
    def judges(self) -> tuple[ProfileRule[Any], ...]:
        """The rules over profiles with an operator's settings; they are loaded by this."""
        from rightsizer.profiler.rules import PROFILE_RULES  # noqa: PLC0415 - said above.

        return tuple(rule.with_settings(getattr(self.rules, rule.name)) for rule in PROFILE_RULES)
