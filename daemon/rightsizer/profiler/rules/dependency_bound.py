"""GPUs that stand idle although their next kernel was launched: it waits for something else."""

from collections.abc import Sequence
from typing import Final

from rightsizer.model.profile import Profile, TimeUse
from rightsizer.model.values import Action, Reason
from rightsizer.profiler.rules import rule
from rightsizer.profiler.rules.rule import Gain, ProfileVerdict
from rightsizer.profiler.settings import ProfileDependencyBoundSettings


def judge(profiles: Sequence[Profile], settings: ProfileDependencyBoundSettings) -> ProfileVerdict:
    """Whether a device is idle while launched kernels wait for others."""
    profiled_members = rule.at_work(profiles, settings.steady)
    members = [
        member
        for member in profiled_members
        if member.matched_ratio >= settings.matched_minimum_ratio
    ]
    if not members:
        why = "the launches of some kernels are not in the profile, which may be late themselves"
        raise rule.NoVerdictError(Reason.UNSUPPORTED_TELEMETRY, why)
    worst, ratio, culprits = rule.over(
        members, lambda member: member.share(_waits(member.time)), settings.on_ratio
    )
    return ProfileVerdict(
        f"{worst.key} is idle {ratio:.1%} of the time with its next kernel launched already, and "
        "no copy running: that waits for another stream, an event or another device.",
        rule.factors_of(worst, ratio, settings.on_ratio),
        {"device": worst.key, "dependency_wait_ratio": round(ratio, 4)},
        culprits,
        reason=Reason.DEPENDENCY_BOUND,
        action=Action.NONE,
        gain=Gain.of(worst, _waits, 0.0),
        description="Remove waits between streams and for other devices.",
        instructions=rule.instructions("wait_for_fewer"),
    )


def _waits(time: TimeUse) -> float:
    """Idle for no cause of the host, copies and fills apart."""
    return max(0.0, time.other_idle_seconds - time.exposed_copy_seconds - time.exposed_fill_seconds)


RULE: Final = rule.ProfileRule("profile_dependency_bound", ProfileDependencyBoundSettings(), judge)
