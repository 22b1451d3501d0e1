"""Framework of the rules over profiles: members, settings, judgement, verdict."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final, Generic, NamedTuple, TypeVar

from rightsizer.advice.risk import probability_above
from rightsizer.advice.verdict import confidence_of, finding_id, opposite, severity_of
from rightsizer.io.codec import convert
from rightsizer.io.yaml import load_beside
from rightsizer.model.finding import (
    Action,
    Finding,
    FindingKind,
    Instruction,
    Option,
    Reason,
    Risk,
    Savings,
)
from rightsizer.model.frozen import dataclass, replace
from rightsizer.model.profile import DeviceProfile, KernelUse, Profile, TimeUse
from rightsizer.model.units import NANOSECONDS_PER_SECOND, percent_text
from rightsizer.profiler.settings import ProfileSteadySettings

ProfileSettingsT = TypeVar("ProfileSettingsT")
_WORTH_NAMING: Final = 0.05
"""Share of time."""


@dataclass(frozen=True, slots=True)
class ProfiledMember:
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
        longest, waits = self.device.longest_host_wait_seconds, self.time.host_wait_seconds
        return longest if waits and longest >= minimum_ratio * waits else 0.0

    def recurring_ratio(self, seconds: float, outlier_minimum_ratio: float) -> float:
        """Return host waits as a ratio of the span, both without the outlier."""
        outlier = self.outlier_seconds(outlier_minimum_ratio)
        rest = self.time.span_seconds - outlier
        return max(0.0, seconds - outlier) / rest if rest > 0 else 0.0

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
        steps = tuple(each.time for each in self.device.steps if each.time.span_seconds > 0.0)
        between = self._steps_seconds - sum(each.span_seconds for each in steps)
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
        return tuple(each for each in self.device.kernels if not each.is_collective)

    @property
    def mean_kernel_seconds(self) -> float | None:
        """Mean time of a kernel, without communication; `None` if none ran."""
        count = sum(each.count for each in self.kernels_at_work)
        return sum(each.seconds for each in self.kernels_at_work) / count if count else None

    @property
    def kernel_count(self) -> int:
        """Runs of all kernels."""
        return sum(each.count for each in self.device.kernels)

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
        launches, count = self.device.launches, self.kernel_count
        return 0.0 if launches is None or not count else min(1.0, launches.matched / count)

    def share(self, seconds: float) -> float:
        """Return seconds as a ratio of the span."""
        return seconds / self.time.span_seconds if self.time.span_seconds > 0 else 0.0


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


class StepGain(NamedTuple):
    """Mean step length, and seconds of it saved, at least and at most."""

    step_seconds: float
    saved_seconds_per_step_low: float
    saved_seconds_per_step_high: float


@dataclass(frozen=True, slots=True)
class Gain:
    """Share of the time of the same work that would be saved."""

    low_ratio: float
    high_ratio: float
    step: StepGain | None
    """`None` if the profile marks no steps."""

    @classmethod
    def of(
        cls,
        member: ProfiledMember,
        exposed: Callable[[TimeUse], float],
        removed_low_ratio: float,
        removed_high_ratio: float = 1.0,
    ) -> "Gain":
        """Return the gain of one device from the seconds that a cause exposes: Amdahl's bound.

        Steps may include time before the first kernel, so span and steps use their own times. The
        ratios are the shares that the remedy removes, at least and at most.
        """
        ratio = min(1.0, member.share(exposed(member.time)))
        step, length, steps = None, member.step_seconds, member.device.steps
        if length is not None:
            most = min(length, sum(map(exposed, member.step_times)) / len(steps))
            step = StepGain(length, most * removed_low_ratio, most * removed_high_ratio)
        return cls(ratio * removed_low_ratio, ratio * removed_high_ratio, step)

    @property
    def evidence(self) -> dict[str, object]:
        """Figures for the evidence."""
        found: dict[str, object] = {
            "saved_ratio_low": round(self.low_ratio, 4),
            "saved_ratio_high": round(self.high_ratio, 4),
        }
        step = {} if self.step is None else self.step._asdict()
        return found | {name: round(seconds, 9) for name, seconds in step.items()}


@cache
def _texts() -> Mapping[str, Instruction]:
    return convert(load_beside(__file__, "instructions.yaml"), dict[str, Instruction])


def instructions(*names: str) -> tuple[Instruction, ...]:
    """Return instructions by name from `instructions.yaml`."""
    return tuple(_texts()[name] for name in names)


@dataclass(frozen=True, slots=True)
class ProfileVerdict:
    """Verdict of a rule on the profiles of one workload."""

    summary: str
    factors: Mapping[str, float]
    """Factors of the confidence in a complaint."""
    evidence: Mapping[str, object]
    culprits: tuple[str, ...]
    """Keys of the devices at fault; empty without a complaint."""
    reason: Reason
    """For a complaint, like all fields that follow."""
    action: Action
    gain: Gain
    description: str
    """What to do."""
    instructions: tuple[Instruction, ...]
    risk: Risk = Risk.LOW


class NoVerdictError(Exception):
    """A rule abstains; the text is the reason."""

    def __init__(self, reason: Reason, why: str) -> None:
        super().__init__(why)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class ProfileRule(Generic[ProfileSettingsT]):
    """A rule: name, settings, function."""

    name: str
    settings: ProfileSettingsT
    judge_with: Callable[[Sequence[Profile], ProfileSettingsT], ProfileVerdict]
    """Raises `NoVerdictError`."""

    def judge(self, profiles: Sequence[Profile]) -> Finding:
        """Judge the profiles of one workload: one file, or one per rank."""
        try:
            _refuse_torn(profiles)
            verdict = self.judge_with(profiles, self.settings)
        except NoVerdictError as error:
            abstained = self._finding(profiles, self.name, error.reason, f"No verdict: {error}.")
            return replace(abstained, reasons=(error.reason,), abstained=str(error))
        if not verdict.culprits:
            return replace(
                self._finding(profiles, self.name, Action.NONE, verdict.summary),
                kind=FindingKind.OPTIMIZED,
                **_confidence(opposite(verdict.factors)),
                risk=Risk.VERY_LOW,
                savings=Savings(reason="nothing to save"),
                evidence=verdict.evidence,
            )
        option = Option(
            verdict.description,
            verdict.risk,
            action=verdict.action,
            time_ratio_low=round(1.0 - verdict.gain.high_ratio, 4),
            time_ratio_high=round(1.0 - verdict.gain.low_ratio, 4),
        )
        return replace(
            self._finding(profiles, verdict.reason, verdict.action, verdict.summary),
            kind=FindingKind.INEFFICIENT,
            reasons=(verdict.reason,),
            culprits=verdict.culprits,
            action=verdict.action,
            options=(option,),
            **_confidence(verdict.factors),
            risk=verdict.risk,
            savings=Savings(reason="a profile measures time, not cost; see the options"),
            evidence={**verdict.evidence, **verdict.gain.evidence},
            severity=severity_of(verdict.gain.high_ratio * len(verdict.culprits)),
            instructions=verdict.instructions,
        )

    def with_settings(self, settings: ProfileSettingsT) -> "ProfileRule[ProfileSettingsT]":
        """Return the rule with other settings."""
        return replace(self, settings=settings)

    def _finding(
        self, profiles: Sequence[Profile], named: str, action: str, summary: str
    ) -> Finding:
        return Finding(
            id=finding_id(source_of(profiles), named, action, ""),
            rule=self.name,
            kind=FindingKind.UNKNOWN,
            reasons=(),
            devices=tuple(key_of(each, device) for each in profiles for device in each.devices),
            culprits=(),
            workload=source_of(profiles),
            action=Action.NONE,
            summary=summary,
            options=(),
            confidence=0.0,
            confidence_factors={},
            risk=Risk.UNKNOWN,
            savings=Savings(reason="no verdict"),
        )


def torn_text(profiles: Sequence[Profile]) -> str:
    """Name incomplete files: shares of their time could change with the missing part."""
    if not (torn := [each.source for each in profiles if not each.is_whole]):
        return ""
    return (
        f"{', '.join(torn)} is not whole, and what is missing may be what filled the time; wait "
        "until the profiler has finished, copy it again, or record again"
    )


def _refuse_torn(profiles: Sequence[Profile]) -> None:
    if torn := torn_text(profiles):
        raise NoVerdictError(Reason.INSUFFICIENT_DATA, torn)


def _confidence(factors: Mapping[str, float]) -> dict[str, Any]:
    rounded = {name: round(value, 3) for name, value in factors.items()}
    return {"confidence": confidence_of(factors), "confidence_factors": rounded}


def factors_of(member: ProfiledMember, share: float, threshold: float) -> dict[str, float]:
    """Return the certainty that a share passes a threshold, with steps as samples."""
    samples = float(max(1, len(member.device.steps)))
    return {"certainty": probability_above(min(1.0, share), samples, threshold)}


def outlier_text(member: ProfiledMember, minimum_ratio: float) -> str:
    """Describe a single wait that dominates all waiting; empty without one."""
    seconds = member.outlier_seconds(minimum_ratio)
    if not seconds or member.host_wait_ratio < _WORTH_NAMING:
        return ""
    part = seconds / member.time.host_wait_seconds
    return f"; {percent_text(part)} of the wait is one of {seconds * 1e3:,.1f} ms, which is no rate"


def over(
    members: Sequence[ProfiledMember], ratio: Callable[[ProfiledMember], float], threshold: float
) -> tuple[ProfiledMember, float, tuple[str, ...]]:
    """Return the member with the highest ratio, the ratio, and the keys at the threshold."""
    worst = max(members, key=ratio)
    return worst, ratio(worst), tuple(each.key for each in members if ratio(each) >= threshold)


def at_work(
    profiles: Sequence[Profile], settings: ProfileSteadySettings, *, needs_launches: bool = True
) -> tuple[ProfiledMember, ...]:
    """Return the devices that can be judged; raise `NoVerdictError` without any."""
    if not (members := members_of(profiles)):
        raise NoVerdictError(Reason.UNSUPPORTED_TELEMETRY, no_timeline(profiles))
    busy = [each for each in members if each.kernel_count >= settings.kernels_minimum]
    if not busy:
        most = max(each.kernel_count for each in members)
        why = f"only {most} kernels, too few for a steady phase"
        raise NoVerdictError(Reason.INSUFFICIENT_DATA, why)
    steady = [each for each in busy if each.launch_seconds <= settings.launch_maximum_seconds]
    if not steady:
        longest = max(each.launch_seconds for each in busy)
        why = (
            f"a start-up: a launch took {longest * 1e3:.1f} ms on average, which is the loading "
            "of kernels; profile a later step"
        )
        raise NoVerdictError(Reason.INSUFFICIENT_DATA, why)
    known = [each for each in steady if each.matched_ratio >= settings.matched_minimum_ratio]
    if needs_launches and not known:
        why = "the launches of its kernels are not in the profile, so idle time has no cause"
        raise NoVerdictError(Reason.UNSUPPORTED_TELEMETRY, why)
    return tuple(known if needs_launches else steady)


def no_timeline(profiles: Sequence[Profile]) -> str:
    """Explain why no device has a timeline."""
    devices = [device for each in profiles for device in each.devices]
    if any(device.kernels for device in devices):
        return "the profile has kernels but no timeline"
    if devices:
        return "no kernel ran while it was recorded"
    return "no kernel in it: recorded on the CPU alone, without the GPU's activities, or no trace"
