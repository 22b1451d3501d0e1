"""Member devices of a workload as its profiles show them, each with a time line of its own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rightsizer.model.profile import DeviceProfile, KernelUse, Profile, TimeUse

_NANOSECONDS = 1e9


@dataclass(frozen=True, slots=True)
class ProfiledMember:
    """One device of one file, with the time that it took part."""

    profile: Profile
    device: DeviceProfile
    time: TimeUse

    @property
    def key(self) -> str:
        """What a finding calls it."""
        return key_of(self.profile, self.device)

    @property
    def host_wait_ratio(self) -> float:
        """Of its span."""
        return self.share(self.time.host_wait_seconds)

    @property
    def step_seconds(self) -> float | None:
        """The mean length of its steps; `None` where the profile marks none."""
        steps = self.device.steps
        if not steps:
            return None
        return sum(each.end - each.start for each in steps) / len(steps) / _NANOSECONDS

    @property
    def loader_wait_ratio(self) -> float:
        """Of its span: the device waited for the host while that was in its loader."""
        return self.share(self.time.loader_wait_seconds)

    @property
    def kernels_at_work(self) -> tuple[KernelUse, ...]:
        """Kernels that are no communication, which mostly waits for others."""
        return tuple(each for each in self.device.kernels if not each.is_collective)

    @property
    def matched_ratio(self) -> float:
        """Kernels whose launch is in the profile, of all: idle causes rest on them."""
        launches, count = self.device.launches, sum(each.count for each in self.device.kernels)
        return 0.0 if launches is None or not count else min(1.0, launches.matched / count)

    def of_a_step(self, measure: Callable[[TimeUse], float]) -> float | None:
        """Seconds of a step on average; `None` where the profile marks none."""
        steps = self.device.steps
        return sum(measure(each.time) for each in steps) / len(steps) if steps else None

    def share(self, seconds: float) -> float:
        """Of its span."""
        return seconds / self.time.span_seconds if self.time.span_seconds > 0 else 0.0


def members_of(profiles: Sequence[Profile]) -> tuple[ProfiledMember, ...]:
    """Every device with a time line."""
    return tuple(
        ProfiledMember(profile, device, device.time)
        for profile in profiles
        for device in profile.devices
        if device.time is not None
    )


def key_of(profile: Profile, device: DeviceProfile) -> str:
    """Its uuid, or what the profile tells it by, with its rank where there are several."""
    name = device.device.uuid or f"GPU {device.device.key.rpartition(':')[2]}"
    return name if profile.rank is None else f"rank {profile.rank}, {name}"


def source_of(profiles: Sequence[Profile]) -> str:
    """The name of the workload: its file's, and how many more there are."""
    more = len(profiles) - 1
    return profiles[0].source + (f" and {more} more" if more else "")
