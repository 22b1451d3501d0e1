"""Frame of the rules over profiles: member devices, settings, judgement, verdict."""

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from rightsizer.advice.confidence import probability_above
from rightsizer.advice.verdict import confidence_of, finding_id, severity_of
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
from rightsizer.profiler.settings import ProfileSteadySettings

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


ProfileSettingsT = TypeVar("ProfileSettingsT")


@dataclass(frozen=True, slots=True)
class ProfileRule(Generic[ProfileSettingsT]):
    """A rule by its parts."""

    name: str
    settings: ProfileSettingsT
    judge_with: Callable[[Sequence[Profile], ProfileSettingsT], Finding]

    def judge(self, profiles: Sequence[Profile]) -> Finding:
        """The verdict on the profiles of one workload: one file, or one for each rank."""
        return self.judge_with(profiles, self.settings)

    def with_settings(self, settings: ProfileSettingsT) -> "ProfileRule[ProfileSettingsT]":
        """The same rule with an operator's settings."""
        return replace(self, settings=settings)


@dataclass(frozen=True, slots=True)
class StepGain:
    """Seconds of a step on average that would no longer be spent."""

    step_seconds: float
    """How long a step is."""
    low_seconds: float
    high_seconds: float


@dataclass(frozen=True, slots=True)
class Gain:
    """A share of the time of the same work that would no longer be spent."""

    low_ratio: float
    high_ratio: float
    step: StepGain | None
    """`None` where the profile marks no step."""

    @classmethod
    def of(
        cls,
        member: ProfiledMember,
        exposed: Callable[[TimeUse], float],
        removed_low_ratio: float,
        removed_high_ratio: float = 1.0,
    ) -> "Gain":
        """Of one device.

        Args:
            member: The device.
            exposed: Seconds that the cause exposes, of the device's span or of a step: Amdahl's
                bound. A step may hold what is before the first kernel, so that each is told by
                its own time.
            removed_low_ratio: How much of it goes at least, where the remedy works.
            removed_high_ratio: And at most.
        """
        ratio = min(1.0, member.share(exposed(member.time)))
        step, length = None, member.step_seconds
        of_a_step = member.of_a_step(exposed)
        if length is not None and of_a_step is not None:
            most = min(length, of_a_step)
            step = StepGain(length, most * removed_low_ratio, most * removed_high_ratio)
        return cls(ratio * removed_low_ratio, ratio * removed_high_ratio, step)

    def option(self, description: str, action: Action, risk: Risk) -> Option:
        """As a way to act."""
        return Option(
            description=description,
            risk=risk,
            action=action,
            time_ratio_low=round(1.0 - self.high_ratio, 4),
            time_ratio_high=round(1.0 - self.low_ratio, 4),
        )

    @property
    def evidence(self) -> dict[str, object]:
        """Its figures."""
        found: dict[str, object] = {
            "saved_ratio_low": round(self.low_ratio, 4),
            "saved_ratio_high": round(self.high_ratio, 4),
        }
        if self.step is not None:
            found |= {
                "step_seconds": round(self.step.step_seconds, 9),
                "saved_seconds_per_step_low": round(self.step.low_seconds, 9),
                "saved_seconds_per_step_high": round(self.step.high_seconds, 9),
            }
        return found


@dataclass(frozen=True, slots=True)
class VerdictBasis:
    """What a verdict rests on, complaint or none."""

    summary: str
    factors: Mapping[str, float]
    evidence: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ProfileComplaint:
    """What a rule found."""

    seen: VerdictBasis
    reason: Reason
    action: Action
    gain: Gain
    description: str
    """Of what to do, in words."""
    culprits: tuple[str, ...]
    instructions: tuple[Instruction, ...]
    risk: Risk = Risk.LOW


def complain(rule: str, profiles: Sequence[Profile], complaint: ProfileComplaint) -> Finding:
    """A finding that asks for something."""
    gain, seen = complaint.gain, complaint.seen
    return replace(
        find_nothing(rule, profiles, seen),
        id=finding_id(source_of(profiles), complaint.reason, complaint.action, ""),
        kind=FindingKind.INEFFICIENT,
        reasons=(complaint.reason,),
        culprits=complaint.culprits,
        action=complaint.action,
        options=(gain.option(complaint.description, complaint.action, complaint.risk),),
        confidence=confidence_of(seen.factors),
        confidence_factors=_rounded(seen.factors),
        risk=complaint.risk,
        savings=Savings(reason="a profile tells time, not what it costs; see the options"),
        evidence={**seen.evidence, **gain.evidence},
        severity=severity_of(gain.high_ratio * len(complaint.culprits)),
        instructions=complaint.instructions,
    )


def find_nothing(rule: str, profiles: Sequence[Profile], seen: VerdictBasis) -> Finding:
    """A finding that the rule has nothing to complain of."""
    factors = {**seen.factors, "certainty": 1.0 - seen.factors.get("certainty", 1.0)}
    return Finding(
        id=finding_id(source_of(profiles), rule, Action.NONE, ""),
        rule=rule,
        kind=FindingKind.OPTIMIZED,
        reasons=(),
        devices=tuple(key_of(each, device) for each in profiles for device in each.devices),
        culprits=(),
        workload=source_of(profiles),
        action=Action.NONE,
        summary=seen.summary,
        options=(),
        confidence=confidence_of(factors),
        confidence_factors=_rounded(factors),
        risk=Risk.VERY_LOW,
        savings=Savings(reason="nothing to save"),
        evidence=seen.evidence,
    )


def abstain(rule: str, profiles: Sequence[Profile], reason: Reason, why: str) -> Finding:
    """A finding that the rule cannot say, and why."""
    return replace(
        find_nothing(rule, profiles, VerdictBasis(f"No verdict: {why}.", {}, {})),
        id=finding_id(source_of(profiles), rule, reason, ""),
        kind=FindingKind.UNKNOWN,
        reasons=(reason,),
        confidence=0.0,
        confidence_factors={},
        risk=Risk.UNKNOWN,
        savings=Savings(reason="no verdict"),
        abstained=why,
    )


def factors_of(member: ProfiledMember, share: float, threshold: float) -> dict[str, float]:
    """How sure it is that a share of time passes a threshold, by as many steps as were seen."""
    samples = float(max(1, len(member.device.steps)))
    return {"certainty": probability_above(min(1.0, share), samples, threshold)}


def _rounded(factors: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, 3) for name, value in factors.items()}


def at_work(
    rule: str,
    profiles: Sequence[Profile],
    settings: ProfileSteadySettings,
    *,
    needs_launches: bool = True,
) -> Finding | tuple[ProfiledMember, ...]:
    """The devices that can be judged, or why there are none."""
    members = members_of(profiles)
    if not members:
        return abstain(rule, profiles, Reason.UNSUPPORTED_TELEMETRY, no_time_line(profiles))
    busy = [each for each in members if _kernels(each) >= settings.kernels_minimum]
    if not busy:
        most = max(map(_kernels, members))
        why = f"only {most} kernels, too few for a steady phase"
        return abstain(rule, profiles, Reason.INSUFFICIENT_DATA, why)
    steady = [each for each in busy if _launch_seconds(each) <= settings.launch_maximum_seconds]
    if not steady:
        longest = max(map(_launch_seconds, busy))
        why = (
            f"a start-up: a launch took {longest * 1e3:.1f} ms on average, which is the loading "
            "of kernels; profile a later step"
        )
        return abstain(rule, profiles, Reason.INSUFFICIENT_DATA, why)
    known = [each for each in steady if each.matched_ratio >= settings.matched_minimum_ratio]
    if needs_launches and not known:
        why = "the launches of its kernels are not in the profile, so idle time has no cause"
        return abstain(rule, profiles, Reason.UNSUPPORTED_TELEMETRY, why)
    return tuple(known if needs_launches else steady)


def no_time_line(profiles: Sequence[Profile]) -> str:
    """Why none of the devices has one."""
    devices = [device for each in profiles for device in each.devices]
    if any(device.kernels for device in devices):
        return "the profile has kernels but no time line"
    if devices:
        return "no kernel ran while it was recorded"
    return "no GPU and no kernel in it: recorded on the CPU alone, or a benchmark's log"


def _kernels(member: ProfiledMember) -> int:
    return sum(each.count for each in member.device.kernels)


def _launch_seconds(member: ProfiledMember) -> float:
    launches = member.device.launches
    return launches.host_seconds / launches.count if launches and launches.count else 0.0
