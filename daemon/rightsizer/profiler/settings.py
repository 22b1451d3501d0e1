"""Settings of profiles: reading, thresholds of rules, capture, validity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rightsizer.model.frozen import dataclass, field, fields
from rightsizer.model.settings import group, setting, settings_class
from rightsizer.profiler.capture.settings import CaptureKind, CaptureSettings, DropFolderSettings
from rightsizer.telemetry.profiles.limits import FileLimits, ReadLimits, TimeSettings

if TYPE_CHECKING:
    from rightsizer.profiler.rules.rule import ProfileRule


@dataclass(frozen=True, slots=True)
class ProfileSteadySettings:
    """What a profile must show before anything is said of its idle time.

    Attributes:
        kernels_minimum: Kernels of a device below which a phase is not steady.
            Source: one pass of a small network launches some hundred
        launch_maximum_seconds: Mean time of a launch, beyond which kernels are still being loaded:
            start-up.
            Source: HolisticTraceAnalysis: a launch takes 5 to 20 µs; loading a module, milliseconds
        matched_minimum_ratio: Kernels whose launch must be known, to tell why a device was idle.
            Source: the greater part
        unseen_ratio: Part that is left of the confidence in what operators of a host tell of a GPU
            that is not in the profile.
            Source: their order is the same, their lengths are not; its queue may hide a part
    """

    kernels_minimum: int = setting(50, within=(1, None))
    launch_maximum_seconds: float = setting(0.001)
    matched_minimum_ratio: float = setting(0.5)
    unseen_ratio: float = setting(0.7)


@dataclass(frozen=True, slots=True)
class ProfileLaunchBoundSettings:
    """When launches are the limit.

    Attributes:
        on_ratio: Share of a device's span in which it waits for the host, from which it counts.
            Source: SageMaker: a GPU is held up by its host below 70% of use
        kernel_maximum_seconds: Mean time of a kernel up to which its launch is what counts.
            Source: HolisticTraceAnalysis: a launch takes 5 to 20 µs
        removed_low_ratio: Part of the wait that CUDA graphs remove at least, where steps can be
            captured.
            Source: a cautious half: inputs still are copied, and graphs launched
        own_launch_minimum_ratio: Launches a kernel below which kernels come by graphs already.
            Source: the greater part: a graph's many kernels come by one launch
        dispatch_on_ratio: Share of a host's steps in operators that are shorter than a launch, and
            between them, from which it counts where no GPU is in the profile.
            Source: the greater part
        outlier_minimum_ratio: Part of all waiting for the host from which one wait is named and
            left aside.
            Source: the greater part: what happened once is no rate
    """

    on_ratio: float = setting(0.3)
    kernel_maximum_seconds: float = setting(20e-6)
    removed_low_ratio: float = setting(0.5)
    own_launch_minimum_ratio: float = setting(0.5)
    dispatch_on_ratio: float = setting(0.5)
    outlier_minimum_ratio: float = setting(0.5)
    steady: ProfileSteadySettings = field(default_factory=ProfileSteadySettings)


@dataclass(frozen=True, slots=True)
class ProfileHostBoundSettings:
    """When the host is the limit.

    Attributes:
        loader_on_ratio: Share of a device's span that it may wait for the loader, from which it
            counts.
            Source: ResNet-50 on a V100: 0.35 with a loader in the training process, 0.01 with four
        on_ratio: Share of a device's span that it waits for the host, whatever that does.
            Source: SageMaker: a GPU is held up by its host below 70% of use
        kernel_maximum_seconds: Mean time of a kernel up to which launches are what it waits for,
            not the host.
            Source: HolisticTraceAnalysis: a launch takes 5 to 20 µs
        own_launch_minimum_ratio: Launches a kernel below which kernels come by graphs, and launches
            are not what it waits for.
            Source: the greater part: a graph's many kernels come by one launch
        synchronization_on_ratio: Share of a device's span idle after the host waited for it, from
            which it counts.
            Source: a tenth of the time; a wait beside kernels that are launched ahead costs nothing
        synchronization_removed_low_ratio: Part of that idle time which goes at least, once the host
            does not wait.
            Source: a cautious fifth: what the host does then is its own time still
        held_minimum_ratio: Part of the waits for the host, or of its pauses, in one frame or range
            from which that is named.
            Source: a tenth: three names cover most of a step
        read_backs_per_step_minimum: Values that a step asks for, from which it counts where no GPU
            is in the profile.
            Source: PyTorch, performance tuning guide: none within a step
        removed_low_ratio: Part of the wait for a loader that more workers remove at least.
            Source: ResNet-50 on a V100: 0.7 of it went with four workers
        outlier_minimum_ratio: Part of all waiting for the host from which one wait is named and
            left aside.
            Source: the greater part: what happened once is no rate
    """

    loader_on_ratio: float = setting(0.2)
    on_ratio: float = setting(0.3)
    kernel_maximum_seconds: float = setting(20e-6)
    own_launch_minimum_ratio: float = setting(0.5)
    synchronization_on_ratio: float = setting(0.1)
    synchronization_removed_low_ratio: float = setting(0.2)
    held_minimum_ratio: float = setting(0.1)
    read_backs_per_step_minimum: float = setting(1.0, unit="", within=(0.5, None))
    removed_low_ratio: float = setting(0.5)
    outlier_minimum_ratio: float = setting(0.5)
    steady: ProfileSteadySettings = field(default_factory=ProfileSteadySettings)


@dataclass(frozen=True, slots=True)
class ProfilePcieBoundSettings:
    """When copies are the limit.

    Attributes:
        on_ratio: Share of a device's span with a copy over PCIe and no kernel that counts.
            Source: a tenth of the time; what is copied beside kernels costs nothing
        removed_low_ratio: Part of it that goes at least, once memory is pinned and copies overlap.
            Source: pageable copies reach about half of the link or more (NVIDIA, CUDA best
            practices)
    """

    on_ratio: float = setting(0.1)
    removed_low_ratio: float = setting(0.3)
    steady: ProfileSteadySettings = field(default_factory=ProfileSteadySettings)


@dataclass(frozen=True, slots=True)
class ProfileCommunicationBoundSettings:
    """When collectives are the limit.

    Attributes:
        on_ratio: Share of a device's span with a collective and no other kernel that counts.
            Source: a tenth of the time; what is sent beside kernels costs nothing
        removed_low_ratio: Part of it that goes at least, once collectives run beside kernels.
            Source: a cautious fifth: the last buckets of a step have nothing to hide behind
    """

    on_ratio: float = setting(0.1)
    removed_low_ratio: float = setting(0.2)
    steady: ProfileSteadySettings = field(default_factory=ProfileSteadySettings)


@dataclass(frozen=True, slots=True)
class ProfileStorageBoundSettings:
    """When checkpoints are the limit.

    Attributes:
        on_ratio: Share of a device's span that may be spent idle beside a checkpoint that counts.
            Source: training at scale aims at less than 5% for checkpoints
        removed_low_ratio: Part of it that goes at least, once checkpoints are written beside the
            training.
            Source: a cautious half: the copy off the GPU stays
    """

    on_ratio: float = setting(0.05)
    removed_low_ratio: float = setting(0.5)
    steady: ProfileSteadySettings = field(default_factory=ProfileSteadySettings)


@dataclass(frozen=True, slots=True)
class ProfileTensorCoresUnusedSettings:
    """When it counts that tensor cores are left aside.

    Attributes:
        on_ratio: Share of a device's span in products of matrices without tensor cores that counts.
            Source: less than a tenth of the time is not worth a change of precision
        speedup_low_ratio: How many times as fast such a kernel gets at least.
            Source: products of small matrices are limited by memory, not by arithmetic
        speedup_high_ratio: How many times as fast such a kernel gets at most.
            Source: A100 and V100 datasheets: 156 of 19.5 TFLOP/s (TF32), 125 of 15.7 (FP16)
    """

    on_ratio: float = setting(0.1)
    speedup_low_ratio: float = setting(1.5, unit="", within=(1.0, 100.0))
    speedup_high_ratio: float = setting(8.0, unit="", within=(1.0, 100.0))
    steady: ProfileSteadySettings = field(default_factory=ProfileSteadySettings)


@dataclass(frozen=True, slots=True)
class ProfileKernelsUnfusedSettings:
    """When small operators that each go through memory are worth fusing.

    Attributes:
        on_ratio: Share of a device's span in elementwise operators and copies that counts.
            Source: a fifth of the time; ResNet-50 in eager mode spends a tenth, a language model
            half
        removed_low_ratio: Part of it that goes at least, once neighbors are fused.
            Source: two operators fused read and write memory once in place of twice, casts aside
        removed_high_ratio: Part of it that goes at most, once neighbors are fused.
            Source: five in a row, as of rotary embeddings or SwiGLU, become one
    """

    on_ratio: float = setting(0.2)
    removed_low_ratio: float = setting(0.3)
    removed_high_ratio: float = setting(0.8)
    steady: ProfileSteadySettings = field(default_factory=ProfileSteadySettings)


@dataclass(frozen=True, slots=True)
class ProfileKernelInefficientSettings:
    """When a kernel falls short of its board, by hardware counters.

    Attributes:
        on_ratio: Share of the kernels' time in kernels that fall short which counts.
            Source: less than a tenth of the time is not worth a change of a kernel
        bound_minimum_ratio: Throughput of arithmetic or memory from which a kernel is limited by
            it.
            Source: Nsight Compute, Speed Of Light: below 60% of either it is latency
        excess_sectors_minimum_ratio: Sectors moved to no use, of all, from which access is called
            uncoalesced.
            Source: a quarter: 8 of the 32 bytes of a sector
        occupancy_maximum_ratio: Occupancy that a kernel's resources leave room for, up to which
            they limit it.
            Source: half the warps hide the latency of most kernels (NVIDIA, CUDA best practices)
        tail_minimum_ratio: Part of the time that the last, partial wave of blocks may take which
            counts.
            Source: Nsight Compute, Launch Statistics: one wave in so many; four full waves and a
            part
        stall_minimum_ratio: Cycles between two instructions of a warp for one reason, of all, from
            which it is named.
            Source: a third: three times an even share of ten reasons
        threads_maximum: Threads of a warp at work up to which its branches are called divergent.
            Source: three quarters of the 32 threads of a warp
    """

    on_ratio: float = setting(0.1)
    bound_minimum_ratio: float = setting(0.6)
    excess_sectors_minimum_ratio: float = setting(0.25)
    occupancy_maximum_ratio: float = setting(0.5)
    tail_minimum_ratio: float = setting(0.2)
    stall_minimum_ratio: float = setting(0.33)
    threads_maximum: float = setting(24.0, unit="threads", within=(1.0, 32.0))


@dataclass(frozen=True, slots=True)
class ProfileDependencyBoundSettings:
    """When kernels that wait for others on the device are the limit.

    Attributes:
        on_ratio: Share of a device's span idle with the next kernel launched already that counts.
            Source: as much as a wait for the host must take
        matched_minimum_ratio: Kernels whose launch must be known: one of an unknown launch may have
            been late.
            Source: nearly all
    """

    on_ratio: float = setting(0.3)
    matched_minimum_ratio: float = setting(0.95)
    steady: ProfileSteadySettings = field(default_factory=ProfileSteadySettings)


@dataclass(frozen=True, slots=True)
class ProfileRankImbalanceSettings:
    """When a rank is a straggler.

    Attributes:
        on_ratio: Mean part of a step by which a rank is behind the first one that counts.
            Source: half of what ByteDance calls a straggling job
        same_rank_ratio: Steps in which the same rank must be the latest; else it is the load that
            varies.
            Source: the greater part
    """

    on_ratio: float = setting(0.05)
    same_rank_ratio: float = setting(0.5)


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
    ("profile_dependency_bound", ProfileDependencyBoundSettings),
)
"""Settings classes by rule."""


@dataclass(frozen=True, slots=True)
class ProfileComparisonSettings:
    """From when on a profile and telemetry contradict each other.

    Attributes:
        difference_minimum_ratio: By how much two shares of the same time must differ to contradict
            each other.
            Source: as much as a wait for the host must take to be called a limit
        tensor_maximum_ratio: Share of the time of kernels up to which tensor cores count as unused.
            Source: the part of a collective's own arithmetic
        memory_tolerance_ratio: By how much a profile's peak of memory may be above what telemetry
            saw.
            Source: memory is read once a second, and its shares are kept in steps of 1%
        tick_seconds: Work that may fall between two readings of a GPU that was active now and then.
            Source: two readings at the default interval
        idle_tolerance_seconds: Work that may stay unseen on a GPU that telemetry saw idle all the
            time.
            Source: docs/definitions.md: idle is below 1%, and a driver's sample is of a second at
            most
        contradicted_ratio: Part that is left of a finding's confidence where telemetry measured the
            same thing and contradicts it, or saw no activity on the GPU then.
            Source: a profile is the closer look, but may be of another time or GPU
    """

    difference_minimum_ratio: float = setting(0.3, within=(0.01, 1.0))
    tensor_maximum_ratio: float = setting(0.01)
    memory_tolerance_ratio: float = setting(0.1)
    tick_seconds: float = setting(2.0)
    idle_tolerance_seconds: float = setting(0.01, within=(0.0, 60.0))
    contradicted_ratio: float = setting(0.75)


_PARTS: Final = ((name, settings, group(settings)) for name, settings in THRESHOLDS)
ProfileRuleTree: Any = settings_class(
    "ProfileRuleTree", __name__, "The rules over profiles by name.", _PARTS
)


@dataclass(frozen=True, slots=True)
class ProfileSettings:
    """How what profilers wrote is read and judged, and how long that counts.

    Attributes:
        valid_for: How long a profile's findings hold for an unchanged workload.
            Source: two weeks between releases
        kept_maximum: Verdicts of profiles kept; the oldest are dropped.
            Source: 8 KiB each: half a MiB of memory and of the history
    """

    limits: FileLimits = field(default_factory=FileLimits)
    time: TimeSettings = field(default_factory=TimeSettings)
    rules: ProfileRuleTree = field(default_factory=ProfileRuleTree)
    comparison: ProfileComparisonSettings = field(default_factory=ProfileComparisonSettings)
    valid_for: float = setting(14 * 86400.0, unit="seconds", within=(3600.0, 366 * 86400.0))
    kept_maximum: int = setting(64, within=(1, 10_000))
    drop_folder: DropFolderSettings = field(
        default_factory=DropFolderSettings, metadata={"is_live": False}
    )
    capture: CaptureSettings = field(default_factory=CaptureSettings, metadata={"is_live": False})

    def __post_init__(self) -> None:
        if self.capture.kind is not CaptureKind.NONE and not self.drop_folder.path:
            raise ValueError(
                f"capture.kind: '{self.capture.kind}' needs a folder where profiles land; set "
                "drop_folder.path"
            )

    @property
    def read_limits(self) -> ReadLimits:
        """Limits for readers of files."""
        values = {each.name: getattr(self.limits, each.name) for each in fields(self.limits)}
        return ReadLimits(**values, time=self.time)

    @property
    def judges(self) -> tuple[ProfileRule[Any], ...]:
        """Rules over profiles with an operator's settings; imported on use."""
        from rightsizer.profiler.rules import PROFILE_RULES  # noqa: PLC0415 - said above.

        return tuple(rule.with_settings(getattr(self.rules, rule.name)) for rule in PROFILE_RULES)
