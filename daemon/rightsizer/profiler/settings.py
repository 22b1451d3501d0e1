"""Settings of profiles: reading, thresholds of rules, capture, validity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import Struct

from rightsizer.model.values import CONSTANT, Spec, settings_class
from rightsizer.profiler.capture.settings import CaptureKind, CaptureSettings, DropFolderSettings
from rightsizer.profiles.limits import FileLimits, ReadLimits, TimeSettings

if TYPE_CHECKING:
    from rightsizer.profiler.rules.rule import ProfileRule


class ProfileSteadySettings(Struct, frozen=True):
    """Requirements for judging a profile's idle time.

    Attributes:
        kernels_minimum: Minimum kernels of a device for a phase to be steady.
            Source: one pass of a small network launches some hundred
        steps_minimum: Minimum marked steps with kernels for a phase to be steady, however few they
            are.
            Source: what one step does may be its start-up; a second one tells
        launch_maximum_seconds: Mean launch time above which kernels are still being loaded, as at
            start-up.
            Source: HolisticTraceAnalysis: a launch takes 5 to 20 µs; loading a module, milliseconds
        matched_minimum_ratio: Share of kernels whose launch must be known to explain idle time.
            Source: the greater part
        unseen_ratio: Factor on the confidence in conclusions about a GPU not in the profile.
            Source: their order is the same, their lengths are not; its queue may hide a part
        own_launch_minimum_ratio: Launches per kernel below which CUDA graphs are in use, and
            launches not the cause.
            Source: the greater part: a graph's many kernels come by one launch
        outlier_minimum_ratio: Share of all waiting for the host from which a single wait is
            reported and excluded.
            Source: the greater part: what happened once is no rate
        recorded_maximum_ratio: Share of its time in which graphs are recorded, above which the rest
            is not judged.
            Source: the greater part
        dispatch_minimum_ratio: Share of waits without another cause, in gaps as short as issuing a
            kernel takes, from which launches are what a device waits for.
            Source: the greater part
    """

    kernels_minimum: Annotated[int, Spec(within=(1, None)), CONSTANT] = 50
    steps_minimum: Annotated[int, Spec(within=(1, None)), CONSTANT] = 2
    launch_maximum_seconds: Annotated[float, CONSTANT] = 0.001
    matched_minimum_ratio: Annotated[float, CONSTANT] = 0.5
    unseen_ratio: Annotated[float, CONSTANT] = 0.7
    own_launch_minimum_ratio: Annotated[float, CONSTANT] = 0.5
    outlier_minimum_ratio: Annotated[float, CONSTANT] = 0.5
    recorded_maximum_ratio: Annotated[float, CONSTANT] = 0.5
    dispatch_minimum_ratio: Annotated[float, CONSTANT] = 0.5


class ProfileLaunchBoundSettings(Struct, frozen=True):
    """Thresholds for launch-bound devices.

    Attributes:
        on_ratio: Share of a device's span spent waiting for the host.
            Source: SageMaker: a GPU is held up by its host below 70% of use
        kernel_maximum_seconds: Mean time of a kernel up to which it is named as short.
            Source: HolisticTraceAnalysis: a launch takes 5 to 20 µs
        removed_low_ratio: Minimum share of the wait that CUDA graphs remove, where steps can be
            captured.
            Source: a cautious half: inputs still are copied, and graphs launched
        dispatch_on_ratio: Share of a host's steps in and between operators shorter than a launch,
            without a GPU in the profile.
            Source: the greater part
    """

    on_ratio: float = 0.3
    kernel_maximum_seconds: Annotated[float, CONSTANT] = 20e-6
    removed_low_ratio: Annotated[float, CONSTANT] = 0.5
    dispatch_on_ratio: Annotated[float, CONSTANT] = 0.5
    steady: Annotated[ProfileSteadySettings, CONSTANT] = ProfileSteadySettings()


class ProfileHostBoundSettings(Struct, frozen=True):
    """Thresholds for host-bound devices.

    Attributes:
        loader_on_ratio: Share of a device's span spent waiting for the data loader.
            Source: ResNet-50 on a V100: 0.35 with a loader in the training process, 0.01 with four
        on_ratio: Share of a device's span spent waiting for the host, whatever it does.
            Source: SageMaker: a GPU is held up by its host below 70% of use
        synchronization_on_ratio: Share of a device's span idle after the host synchronized with it.
            Source: a tenth of the time; a wait beside kernels that are launched ahead costs nothing
        synchronization_removed_low_ratio: Minimum share of that idle time removed by not
            synchronizing.
            Source: a cautious fifth: what the host does then is its own time still
        held_minimum_ratio: Share of the waits, or pauses, in one frame or range from which it is
            named.
            Source: a tenth: three names cover most of a step
        read_backs_per_step_minimum: Values read back per step from which they count, without a GPU
            in the profile.
            Source: PyTorch, performance tuning guide: none within a step
        removed_low_ratio: Minimum share of the wait for a loader that more workers remove.
            Source: ResNet-50 on a V100: 0.7 of it went with four workers
    """

    loader_on_ratio: Annotated[float, CONSTANT] = 0.2
    on_ratio: float = 0.3
    synchronization_on_ratio: Annotated[float, CONSTANT] = 0.1
    synchronization_removed_low_ratio: Annotated[float, CONSTANT] = 0.2
    held_minimum_ratio: Annotated[float, CONSTANT] = 0.1
    read_backs_per_step_minimum: Annotated[float, Spec(unit="", within=(0.5, None)), CONSTANT] = 1.0
    removed_low_ratio: Annotated[float, CONSTANT] = 0.5
    steady: Annotated[ProfileSteadySettings, CONSTANT] = ProfileSteadySettings()


class ProfilePcieBoundSettings(Struct, frozen=True):
    """Thresholds for devices that wait for copies.

    Attributes:
        on_ratio: Share of a device's span with a copy over PCIe and no kernel.
            Source: a tenth of the time; what is copied beside kernels costs nothing
        removed_low_ratio: Minimum share of it removed by pinned memory and overlapped copies.
            Source: pageable copies reach about half of the link or more (NVIDIA, CUDA best
            practices)
    """

    on_ratio: float = 0.1
    removed_low_ratio: Annotated[float, CONSTANT] = 0.3
    steady: Annotated[ProfileSteadySettings, CONSTANT] = ProfileSteadySettings()


class ProfileCommunicationBoundSettings(Struct, frozen=True):
    """Thresholds for devices that wait for collectives.

    Attributes:
        on_ratio: Share of a device's span with a collective and no other kernel.
            Source: a tenth of the time; what is sent beside kernels costs nothing
        removed_low_ratio: Minimum share of it removed by overlapping collectives with kernels.
            Source: a cautious fifth: the last buckets of a step have nothing to hide behind
    """

    on_ratio: float = 0.1
    removed_low_ratio: Annotated[float, CONSTANT] = 0.2
    steady: Annotated[ProfileSteadySettings, CONSTANT] = ProfileSteadySettings()


class ProfileStorageBoundSettings(Struct, frozen=True):
    """Thresholds for devices that wait for checkpoints.

    Attributes:
        on_ratio: Share of a device's span idle during a checkpoint.
            Source: training at scale aims at less than 5% for checkpoints
        removed_low_ratio: Minimum share of it removed by writing checkpoints asynchronously.
            Source: a cautious half: the copy off the GPU stays
    """

    on_ratio: float = 0.05
    removed_low_ratio: Annotated[float, CONSTANT] = 0.5
    steady: Annotated[ProfileSteadySettings, CONSTANT] = ProfileSteadySettings()


class ProfileTensorCoresUnusedSettings(Struct, frozen=True):
    """Thresholds for unused tensor cores.

    Attributes:
        on_ratio: Share of a device's span in matrix products without tensor cores.
            Source: less than a tenth of the time is not worth a change of precision
        speedup_low_ratio: Minimum speedup of such a kernel.
            Source: products of small matrices are limited by memory, not by arithmetic
        speedup_high_ratio: Maximum speedup of such a kernel.
            Source: A100 and V100 datasheets: 156 of 19.5 TFLOP/s (TF32), 125 of 15.7 (FP16)
    """

    on_ratio: float = 0.1
    speedup_low_ratio: Annotated[float, Spec(unit="", within=(1.0, 100.0)), CONSTANT] = 1.5
    speedup_high_ratio: Annotated[float, Spec(unit="", within=(1.0, 100.0)), CONSTANT] = 8.0
    steady: Annotated[ProfileSteadySettings, CONSTANT] = ProfileSteadySettings()


class ProfileKernelsUnfusedSettings(Struct, frozen=True):
    """Thresholds for memory-bound operators worth fusing.

    Attributes:
        on_ratio: Share of a device's span in elementwise operators and copies.
            Source: a fifth of the time; ResNet-50 in eager mode spends a tenth, a language model
            half
        removed_low_ratio: Minimum share of it removed by fusing neighbors.
            Source: two operators fused read and write memory once in place of twice, casts aside
        removed_high_ratio: Maximum share of it removed by fusing neighbors.
            Source: five in a row, as of rotary embeddings or SwiGLU, become one
    """

    on_ratio: float = 0.2
    removed_low_ratio: Annotated[float, CONSTANT] = 0.3
    removed_high_ratio: Annotated[float, CONSTANT] = 0.8
    steady: Annotated[ProfileSteadySettings, CONSTANT] = ProfileSteadySettings()


class ProfileAttentionUnfusedSettings(Struct, frozen=True):
    """Thresholds for attention worth fusing.

    Attributes:
        on_ratio: Share of a device's span in attention by several kernels.
            Source: less than a tenth of the time is not worth a change of the model
        removed_low_ratio: Minimum share removed of the time between its products.
            Source: a cautious half: the exponentials are computed still
        removed_high_ratio: Maximum share removed of all its time.
            Source: FlashAttention (Dao et al., 2022): up to 7.6 times as fast as PyTorch's on GPT-2
    """

    on_ratio: float = 0.1
    removed_low_ratio: Annotated[float, CONSTANT] = 0.5
    removed_high_ratio: Annotated[float, CONSTANT] = 0.87
    steady: Annotated[ProfileSteadySettings, CONSTANT] = ProfileSteadySettings()


class ProfileKernelInefficientSettings(Struct, frozen=True):
    """Thresholds for inefficient kernels, by hardware counters.

    Attributes:
        on_ratio: Share of kernel time in inefficient kernels.
            Source: less than a tenth of the time is not worth a change of a kernel
        bound_minimum_ratio: Throughput of arithmetic or memory from which it limits a kernel.
            Source: Nsight Compute, Speed Of Light: below 60% of either it is latency
        excess_sectors_minimum_ratio: Share of needlessly moved sectors from which access is
            uncoalesced.
            Source: a quarter: 8 of the 32 bytes of a sector
        occupancy_maximum_ratio: Theoretical occupancy up to which a kernel's resources limit it.
            Source: half the warps hide the latency of most kernels (NVIDIA, CUDA best practices)
        tail_minimum_ratio: Share of time in the last, partial wave of blocks from which it is
            reported.
            Source: Nsight Compute, Launch Statistics: one wave in so many; four full waves and a
            part
        stall_minimum_ratio: Share of a warp's cycles between instructions stalled for one reason
            from which it is named.
            Source: a third: three times an even share of ten reasons
        threads_maximum: Active threads per warp up to which branches are divergent.
            Source: three quarters of the 32 threads of a warp
    """

    on_ratio: float = 0.1
    bound_minimum_ratio: Annotated[float, CONSTANT] = 0.6
    excess_sectors_minimum_ratio: Annotated[float, CONSTANT] = 0.25
    occupancy_maximum_ratio: Annotated[float, CONSTANT] = 0.5
    tail_minimum_ratio: Annotated[float, CONSTANT] = 0.2
    stall_minimum_ratio: Annotated[float, CONSTANT] = 0.33
    threads_maximum: Annotated[float, Spec(unit="threads", within=(1.0, 32.0)), CONSTANT] = 24.0


class ProfileDependencyBoundSettings(Struct, frozen=True):
    """Thresholds for kernels that wait for other kernels of the device.

    Attributes:
        on_ratio: Share of a device's span idle although the next kernel is launched.
            Source: as much as a wait for the host must take
        matched_minimum_ratio: Share of kernels whose launch must be known; an unknown one may have
            been late.
            Source: nearly all
    """

    on_ratio: float = 0.3
    matched_minimum_ratio: Annotated[float, CONSTANT] = 0.95
    steady: Annotated[ProfileSteadySettings, CONSTANT] = ProfileSteadySettings()


class ProfileRankImbalanceSettings(Struct, frozen=True):
    """Thresholds for stragglers.

    Attributes:
        on_ratio: Mean delay of a rank behind the first, as a share of the step.
            Source: half of what ByteDance calls a straggling job
        same_rank_ratio: Share of steps that the same rank must exceed as the last one.
            Source: the greater part
        late_together_ratio: How late another rank must be, of the latest one, to be named with it.
            Source: assumed; the greater part
        end_tolerance_ratio: Difference of the ends of one collective on several ranks, but for
            their clocks, as a share of how long it lasts.
            Source: 6 us of .13 to 7.6 ms on four ranks (facebookresearch/param, dlrm_kineto)
    """

    on_ratio: float = 0.05
    same_rank_ratio: Annotated[float, CONSTANT] = 0.5
    late_together_ratio: Annotated[float, CONSTANT] = 0.5
    end_tolerance_ratio: Annotated[float, CONSTANT] = 0.1


THRESHOLDS: Final[tuple[tuple[str, type[Any]], ...]] = (
    ("profile_launch_bound", ProfileLaunchBoundSettings),
    ("profile_host_bound", ProfileHostBoundSettings),
    ("profile_pcie_bound", ProfilePcieBoundSettings),
    ("profile_communication_bound", ProfileCommunicationBoundSettings),
    ("profile_storage_bound", ProfileStorageBoundSettings),
    ("profile_tensor_cores_unused", ProfileTensorCoresUnusedSettings),
    ("profile_kernels_unfused", ProfileKernelsUnfusedSettings),
    ("profile_attention_unfused", ProfileAttentionUnfusedSettings),
    ("profile_kernel_inefficient", ProfileKernelInefficientSettings),
    ("profile_rank_imbalance", ProfileRankImbalanceSettings),
    ("profile_dependency_bound", ProfileDependencyBoundSettings),
)
"""Settings classes by rule."""


class ProfileComparisonSettings(Struct, frozen=True):
    """Thresholds for contradictions between a profile and telemetry.

    Attributes:
        difference_minimum_ratio: Difference between two shares of the same time from which they
            contradict.
            Source: as much as a wait for the host must take to be called a limit
        tensor_maximum_ratio: Share of kernel time up to which tensor cores count as unused.
            Source: the part of a collective's own arithmetic
        memory_tolerance_ratio: Tolerated excess of a profile's peak memory over that of telemetry.
            Source: memory is read once a second, and its shares are kept in steps of 1%
        tick_seconds: Work that may go unseen between readings of an intermittently active GPU.
            Source: two readings at the default interval
        idle_tolerance_seconds: Work that may go unseen on a GPU that telemetry always saw idle.
            Source: docs/definitions.md: idle is below 1%, and a driver's sample is of a second at
            most
        contradicted_ratio: Factor on a finding's confidence if telemetry contradicts it, or saw the
            GPU idle then.
            Source: a profile is the closer look, but may be of another time or GPU
    """

    difference_minimum_ratio: Annotated[float, Spec(within=(0.01, 1.0))] = 0.3
    tensor_maximum_ratio: float = 0.01
    memory_tolerance_ratio: float = 0.1
    tick_seconds: float = 2.0
    idle_tolerance_seconds: Annotated[float, Spec(within=(0.0, 60.0))] = 0.01
    contradicted_ratio: float = 0.75


_PARTS: Final = ((name, settings, settings()) for name, settings in THRESHOLDS)
ProfileRuleTree: Any = settings_class(
    "ProfileRuleTree", __name__, "Rules over profiles, by name.", _PARTS
)


class ProfileSettings(Struct, frozen=True):
    """Reading and judging of profiles, and validity of their findings.

    Attributes:
        valid_for: How long a profile's findings are valid for an unchanged workload.
            Source: two weeks between releases
        kept_maximum: Maximum profile verdicts kept; the oldest are dropped.
            Source: 8 KiB each: half a MiB of memory and of the history
    """

    limits: FileLimits = FileLimits()
    time: Annotated[TimeSettings, CONSTANT] = TimeSettings()
    rules: ProfileRuleTree = ProfileRuleTree()
    comparison: Annotated[ProfileComparisonSettings, CONSTANT] = ProfileComparisonSettings()
    valid_for: Annotated[float, Spec(unit="seconds", within=(3600.0, 366 * 86400.0))] = 14 * 86400.0
    kept_maximum: Annotated[int, Spec(within=(1, 10_000))] = 64
    drop_folder: Annotated[DropFolderSettings, Spec(is_live=False)] = DropFolderSettings()
    capture: Annotated[CaptureSettings, Spec(is_live=False)] = CaptureSettings()

    def __post_init__(self) -> None:
        if self.capture.kind is not CaptureKind.NONE and not self.drop_folder.path:
            raise ValueError(
                f"capture.kind: '{self.capture.kind}' needs a folder where profiles land; set "
                "drop_folder.path"
            )

    @property
    def read_limits(self) -> ReadLimits:
        """Limits for readers of files."""
        values = {field: getattr(self.limits, field) for field in self.limits.__struct_fields__}
        return ReadLimits(**values, time=self.time)

    @property
    def judges(self) -> tuple[ProfileRule[Any], ...]:
        """Rules over profiles with an operator's settings; imported on use."""
        from rightsizer.profiler.rules.registry import PROFILE_RULES  # noqa: PLC0415 - said above.

        return tuple(rule.with_settings(getattr(self.rules, rule.name)) for rule in PROFILE_RULES)
