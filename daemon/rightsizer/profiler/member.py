"""Devices of profiles with a timeline, and the names of devices and workloads."""

from collections.abc import Sequence

from msgspec import Struct

from rightsizer.model.profile import (
    DeviceProfile,
    HostStep,
    KernelUse,
    Profile,
    StepUse,
    TimeUse,
)
from rightsizer.model.values import NANOSECONDS_PER_SECOND, seconds
from rightsizer.profiler.settings import ProfileSteadySettings


class ProfiledMember(Struct, frozen=True):
    """A device of a file with its judged time; ratios are of its span."""

    profile: Profile
    device: DeviceProfile
    time: TimeUse

    @property
    def key(self) -> str:
        """Key in findings."""
        return key_of(self.profile, self.device)

    @property
    def host_wait_ratio(self) -> float:
        """Share of time waiting for the host with no copy running."""
        return self.share(self.time.idle_host_wait_seconds)

    def outlier_seconds(self, minimum_ratio: float) -> float:
        """Return the longest wait for the host if it makes up that part of all waits; else 0.

        A single wait is no rate: making each launch cheaper does not end it.
        """
        longest = self.device.longest_host_wait_seconds
        waits = self.time.host_wait_seconds
        return longest if waits and longest >= minimum_ratio * waits else 0.0

    def recurring_ratio(self, seconds: float, outlier_minimum_ratio: float) -> float:
        """Return host waits as a ratio of the span, both without the outlier."""
        outlier = self.outlier_seconds(outlier_minimum_ratio)
        rest = self.time.span_seconds - outlier
        return max(0.0, seconds - outlier) / rest if rest > 0 else 0.0

    @property
    def launch_wait_seconds(self) -> float:
        """Time waiting for the host, without its loader, copies, and calls that wait."""
        time = self.time
        taken = time.loader_wait_seconds + time.synchronization_wait_seconds
        return time.idle_host_wait_seconds - taken

    def waits_for_launches(self, on_ratio: float, steady: ProfileSteadySettings) -> bool:
        """Whether it waits for launches: mostly in gaps as short as it takes to issue a kernel.

        How long its kernels are does not matter, but that each has a launch of its own.
        """
        wait = self.recurring_ratio(self.launch_wait_seconds, steady.outlier_minimum_ratio)
        return self.is_dispatched(steady) and wait >= on_ratio

    def is_dispatched(self, steady: ProfileSteadySettings) -> bool:
        """Whether what it waits for without another cause are mostly launches of single kernels."""
        recurring = self.launch_wait_seconds - self.outlier_seconds(steady.outlier_minimum_ratio)
        return (
            self.has_own_launches(steady.own_launch_minimum_ratio)
            and self.time.dispatch_wait_seconds >= steady.dispatch_minimum_ratio * recurring
        )

    @property
    def step_seconds(self) -> float | None:
        """Mean step length including gaps; `None` without marked steps."""
        steps = self.device.steps
        return self._steps_seconds / len(steps) if steps else None

    @property
    def step_times(self) -> tuple[TimeUse, ...]:
        """Times of its steps, or its whole time if that matches the steps' span better.

        Marked ranges may omit waits between steps.
        """
        steps = tuple(step.time for step in self.device.steps if step.time.span_seconds > 0.0)
        between = self._steps_seconds - sum(step.span_seconds for step in steps)
        around = abs(self.time.span_seconds - self._steps_seconds)
        return steps if steps and between <= around else (self.time,)

    @property
    def _steps_seconds(self) -> float:
        """Time from the start of the first step to the end of the last."""
        steps = self.device.steps
        return (steps[-1].end - steps[0].start) / NANOSECONDS_PER_SECOND if steps else 0.0

    @property
    def loader_wait_ratio(self) -> float:
        """Share of time waiting for the host while it was in the loader."""
        return self.share(self.time.loader_wait_seconds)

    @property
    def kernels_at_work(self) -> tuple[KernelUse, ...]:
        """Kernels except communication, which mostly waits for others."""
        return tuple(kernel for kernel in self.device.kernels if not kernel.is_collective)

    @property
    def mean_kernel_seconds(self) -> float | None:
        """Mean time of a kernel, without communication; `None` if none ran."""
        count = sum(kernel_use.count for kernel_use in self.kernels_at_work)
        return (
            sum(kernel_use.seconds for kernel_use in self.kernels_at_work) / count
            if count
            else None
        )

    @property
    def working_steps(self) -> int:
        """Marked steps with kernels."""
        return sum(step.time.kernel_seconds > 0.0 for step in self.device.steps)

    @property
    def kernel_count(self) -> int:
        """Runs of all kernels."""
        return sum(kernel.count for kernel in self.device.kernels)

    def has_own_launches(self, minimum_ratio: float) -> bool:
        """Whether most of its kernels are launched individually, not by graphs."""
        launches = self.device.launches
        return launches is not None and launches.count >= minimum_ratio * launches.matched

    @property
    def launch_seconds(self) -> float:
        """Mean time of a launch; 0 if unknown."""
        launches = self.device.launches
        return launches.host_seconds / launches.count if launches and launches.count else 0.0

    @property
    def matched_ratio(self) -> float:
        """Share of kernels whose launch is in the profile; idle causes depend on it."""
        launches = self.device.launches
        count = self.kernel_count
        return 0.0 if launches is None or not count else min(1.0, launches.matched / count)

    def kernel_part(self, seconds: float) -> float:
        """Return seconds of kernels as a ratio of the time of all, which may overlap."""
        whole = sum(kernel.seconds for kernel in self.device.kernels)
        return seconds / whole if whole else 0.0

    def share(self, seconds: float) -> float:
        """Return seconds as a ratio of the span."""
        return seconds / self.time.span_seconds if self.time.span_seconds > 0 else 0.0


class RankSteps(Struct, frozen=True):
    """Steps of a rank: those of its device, or of its host where no device is recorded."""

    key: str
    profile: Profile
    steps: Sequence[StepUse | HostStep]

    @property
    def step_seconds(self) -> float:
        """Mean step length including gaps."""
        return seconds(self.steps[-1].end - self.steps[0].start) / len(self.steps)


def ranks_of(profiles: Sequence[Profile]) -> list[RankSteps]:
    """Return the ranks with steps: of all devices with a timeline, or else of all hosts."""
    ranks = [
        RankSteps(member.key, member.profile, member.device.steps)
        for member in members_of(profiles)
    ] or [
        RankSteps(host_key_of(profile, profiles), profile, profile.host_steps)
        for profile in profiles
    ]
    return [rank for rank in ranks if rank.steps]


def host_key_of(profile: Profile, profiles: Sequence[Profile]) -> str:
    """Return the name of a host among those of one program."""
    is_one = len(profiles) == 1 or profile.rank is None
    return profile.source if is_one else f"rank {profile.rank} of {source_of(profiles)}"


def members_of(profiles: Sequence[Profile]) -> tuple[ProfiledMember, ...]:
    """Return all devices with a timeline."""
    return tuple(
        ProfiledMember(profile, device, time)
        for profile in profiles
        for device in profile.devices
        if (time := device.judged_time) is not None
    )


def key_of(profile: Profile, device: DeviceProfile) -> str:
    """Return the uuid or the profile's own name of a device, with its rank if there are several."""
    name = device.device.uuid or f"GPU {device.device.key.rpartition(':')[2]}"
    return name if profile.rank is None else f"rank {profile.rank}, {name}"


def source_of(profiles: Sequence[Profile]) -> str:
    """Return the workload's name: its first file, and the number of others."""
    more = len(profiles) - 1
    return profiles[0].source + (f" and {more} more" if more else "")


def torn_text(profiles: Sequence[Profile]) -> str:
    """Name incomplete files: shares of their time could change with the missing part."""
    if not (torn := [profile.source for profile in profiles if not profile.is_whole]):
        return ""
    return (
        f"{', '.join(torn)} is not whole, and what is missing may be what filled the time; wait "
        "until the profiler has finished, copy it again, or record again"
    )


def no_timeline(profiles: Sequence[Profile]) -> str:
    """Explain why no device has a timeline."""
    devices = [device for profile in profiles for device in profile.devices]
    if any(device.kernels for device in devices):
        return "the profile has kernels but no timeline"
    if devices:
        return "no kernel ran while it was recorded"
    return "no kernel in it: recorded on the CPU alone, without the GPU's activities, or no trace"
