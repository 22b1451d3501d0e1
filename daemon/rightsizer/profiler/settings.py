"""Settings of profiles: reading, thresholds of the rules, capture, how long a profile counts."""

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
    """What a profile must show before anything is said of its idle time."""

    kernels_minimum: int = setting(50, within=(1, None))
    launch_maximum_seconds: float = setting(0.001)
    matched_minimum_ratio: float = setting(0.5)


@dataclass(frozen=True, slots=True)
class ProfileLaunchBoundSettings:
    """When launches are the limit."""

    on_ratio: float = setting(0.3)
    kernel_maximum_seconds: float = setting(20e-6)
    removed_low_ratio: float = setting(0.5)
    own_launch_minimum_ratio: float = setting(0.5)
    outlier_minimum_ratio: float = setting(0.5)
    steady: ProfileSteadySettings = field(default_factory=ProfileSteadySettings)


@dataclass(frozen=True, slots=True)
class ProfileHostBoundSettings:
    """When the host is the limit."""

    loader_on_ratio: float = setting(0.2)
    on_ratio: float = setting(0.3)
    kernel_maximum_seconds: float = setting(20e-6)
    synchronization_on_ratio: float = setting(0.1)
    synchronization_removed_low_ratio: float = setting(0.2)
    removed_low_ratio: float = setting(0.5)
    outlier_minimum_ratio: float = setting(0.5)
    steady: ProfileSteadySettings = field(default_factory=ProfileSteadySettings)


@dataclass(frozen=True, slots=True)
class ProfilePcieBoundSettings:
    """When copies are the limit."""

    on_ratio: float = setting(0.1)
    removed_low_ratio: float = setting(0.3)
    steady: ProfileSteadySettings = field(default_factory=ProfileSteadySettings)


@dataclass(frozen=True, slots=True)
class ProfileCommunicationBoundSettings:
    """When collectives are the limit."""

    on_ratio: float = setting(0.1)
    removed_low_ratio: float = setting(0.2)
    steady: ProfileSteadySettings = field(default_factory=ProfileSteadySettings)


@dataclass(frozen=True, slots=True)
class ProfileStorageBoundSettings:
    """When checkpoints are the limit."""

    on_ratio: float = setting(0.05)
    removed_low_ratio: float = setting(0.5)
    steady: ProfileSteadySettings = field(default_factory=ProfileSteadySettings)


@dataclass(frozen=True, slots=True)
class ProfileTensorCoresUnusedSettings:
    """When it counts that tensor cores are left aside."""

    on_ratio: float = setting(0.1)
    speedup_low_ratio: float = setting(1.5, unit="", within=(1.0, 100.0))
    speedup_high_ratio: float = setting(8.0, unit="", within=(1.0, 100.0))
    steady: ProfileSteadySettings = field(default_factory=ProfileSteadySettings)


@dataclass(frozen=True, slots=True)
class ProfileKernelsUnfusedSettings:
    """When small operators that each go through memory are worth fusing."""

    on_ratio: float = setting(0.2)
    removed_low_ratio: float = setting(0.3)
    removed_high_ratio: float = setting(0.8)
    steady: ProfileSteadySettings = field(default_factory=ProfileSteadySettings)


@dataclass(frozen=True, slots=True)
class ProfileKernelInefficientSettings:
    """When a kernel falls short of its board, by hardware counters."""

    on_ratio: float = setting(0.1)
    bound_minimum_ratio: float = setting(0.6)
    excess_sectors_minimum_ratio: float = setting(0.25)
    occupancy_maximum_ratio: float = setting(0.5)
    tail_minimum_ratio: float = setting(0.2)
    threads_maximum: float = setting(24.0, unit="threads", within=(1.0, 32.0))


@dataclass(frozen=True, slots=True)
class ProfileRankImbalanceSettings:
    """When a rank is a straggler."""

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
)
"""Each rule's own by its name."""


@dataclass(frozen=True, slots=True)
class ProfileComparisonSettings:
    """From when on a profile and telemetry contradict each other."""

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
    """How what profilers wrote is read and judged, and how long that counts."""

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
        """What readers of files go by."""
        values = {each.name: getattr(self.limits, each.name) for each in fields(self.limits)}
        return ReadLimits(**values, time=self.time)

    @property
    def judges(self) -> tuple[ProfileRule[Any], ...]:
        """The rules over profiles with an operator's settings; they are loaded by this."""
        from rightsizer.profiler.rules import PROFILE_RULES  # noqa: PLC0415 - said above.

        return tuple(rule.with_settings(getattr(self.rules, rule.name)) for rule in PROFILE_RULES)
