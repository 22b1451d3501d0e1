"""Framework of the rules over profiles: settings, judgement, verdict, gain."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final, Generic, NamedTuple, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.advice.confidence import confidence_of, opposite_factors
from rightsizer.advice.risk import probability_above
from rightsizer.advice.verdict import finding_id, severity_of
from rightsizer.io.codec import convert
from rightsizer.io.terminal import counted
from rightsizer.io.yaml import load_beside
from rightsizer.model.profile import Profile, TimeUse
from rightsizer.model.values import (
    Action,
    Finding,
    FindingKind,
    Instruction,
    Option,
    Reason,
    Risk,
    Savings,
    percent_text,
)
from rightsizer.profiler.member import (
    ProfiledMember,
    key_of,
    members_of,
    no_timeline,
    source_of,
    torn_text,
)
from rightsizer.profiler.settings import ProfileSteadySettings

ProfileSettingsT = TypeVar("ProfileSettingsT")
_WORTH_NAMING: Final = 0.05
"""Share of time."""


class StepGain(NamedTuple):
    """Mean step length, and seconds of it saved, at least and at most."""

    step_seconds: float
    saved_seconds_per_step_low: float
    saved_seconds_per_step_high: float


class Gain(Struct, frozen=True):
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
        step = None
        length = member.step_seconds
        steps = member.device.steps
        if length is not None:
            removed_seconds = min(length, sum(map(exposed, member.step_times)) / len(steps))
            step = StepGain(
                length, removed_seconds * removed_low_ratio, removed_seconds * removed_high_ratio
            )
        return cls(ratio * removed_low_ratio, ratio * removed_high_ratio, step)

    @property
    def evidence(self) -> dict[str, object]:
        """Figures for the evidence."""
        evidence: dict[str, object] = {
            "saved_ratio_low": round(self.low_ratio, 4),
            "saved_ratio_high": round(self.high_ratio, 4),
        }
        step = {} if self.step is None else self.step._asdict()
        return evidence | {name: round(seconds, 9) for name, seconds in step.items()}


@cache
def _texts() -> Mapping[str, Instruction]:
    return convert(load_beside(__file__, "instructions.yaml"), dict[str, Instruction])


def instructions(*names: str) -> tuple[Instruction, ...]:
    """Return instructions by name from `instructions.yaml`."""
    return tuple(_texts()[name] for name in names)


class ProfileVerdict(Struct, frozen=True):
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


class ProfileRule(Struct, Generic[ProfileSettingsT], frozen=True):
    """A rule: name, settings, function."""

    name: str
    settings: ProfileSettingsT
    judge_with: Callable[[Sequence[Profile], ProfileSettingsT], ProfileVerdict]
    """Raises `NoVerdictError`."""

    def judge(self, profiles: Sequence[Profile]) -> Finding:
        """Judge the profiles of one workload: one file, or one per rank."""
        if torn := torn_text(profiles):
            return self._abstained(profiles, Reason.INSUFFICIENT_DATA, torn)
        try:
            verdict = self.judge_with(profiles, self.settings)
        except NoVerdictError as error:
            return self._abstained(profiles, error.reason, str(error))
        if not verdict.culprits:
            return replace(
                self._finding(profiles, self.name, Action.NONE, verdict.summary),
                kind=FindingKind.OPTIMIZED,
                **_confidence(opposite_factors(verdict.factors)),
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

    def _abstained(self, profiles: Sequence[Profile], reason: Reason, why: str) -> Finding:
        finding = self._finding(profiles, self.name, reason, f"No verdict: {why}.")
        return replace(finding, reasons=(reason,), abstained=why)

    def _finding(
        self, profiles: Sequence[Profile], named: str, action: str, summary: str
    ) -> Finding:
        return Finding(
            id=finding_id(source_of(profiles), named, action, ""),
            rule=self.name,
            kind=FindingKind.UNKNOWN,
            reasons=(),
            devices=tuple(
                key_of(profile, device) for profile in profiles for device in profile.devices
            ),
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
    return (
        worst,
        ratio(worst),
        tuple(member.key for member in members if ratio(member) >= threshold),
    )


def at_work(
    profiles: Sequence[Profile], settings: ProfileSteadySettings, *, needs_launches: bool = True
) -> tuple[ProfiledMember, ...]:
    """Return the devices that can be judged; raise `NoVerdictError` without any."""
    if not (members := members_of(profiles)):
        raise NoVerdictError(Reason.UNSUPPORTED_TELEMETRY, no_timeline(profiles))
    recorded = max(member.device.captured_ratio for member in members)
    if recorded > settings.recorded_maximum_ratio:
        why = (
            f"graphs are recorded in {percent_text(recorded)} of it, which runs none of their "
            "kernels; profile steps after their capture"
        )
        raise NoVerdictError(Reason.INSUFFICIENT_DATA, why)
    busy = [
        member
        for member in members
        if member.time.span_seconds > 0.0
        and (
            member.kernel_count >= settings.kernels_minimum
            or member.working_steps >= settings.steps_minimum
        )
    ]
    if not busy:
        kernel_count = max(member.kernel_count for member in members)
        why = (
            f"only {counted(kernel_count, 'kernel')}, too few for a steady phase; mark and "
            "profile several steps"
        )
        raise NoVerdictError(Reason.INSUFFICIENT_DATA, why)
    steady = [member for member in busy if member.launch_seconds <= settings.launch_maximum_seconds]
    if not steady:
        longest = max(member.launch_seconds for member in busy)
        why = (
            f"a start-up: a launch took {longest * 1e3:.1f} ms on average, which is the loading "
            "of kernels; profile a later step"
        )
        raise NoVerdictError(Reason.INSUFFICIENT_DATA, why)
    profiled_members = [
        member for member in steady if member.matched_ratio >= settings.matched_minimum_ratio
    ]
    if needs_launches and not profiled_members:
        why = "the launches of its kernels are not in the profile, so idle time has no cause"
        raise NoVerdictError(Reason.UNSUPPORTED_TELEMETRY, why)
    return tuple(profiled_members if needs_launches else steady)
