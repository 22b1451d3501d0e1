"""GPUs that run collectives with no other kernel beside them."""

from collections.abc import Sequence
from typing import Final

from rightsizer.model.finding import Action, Reason
from rightsizer.model.profile import Profile
from rightsizer.model.units import percent_text
from rightsizer.profiler.rules import rule
from rightsizer.profiler.rules.rule import Gain, ProfiledMember, ProfileVerdict
from rightsizer.profiler.settings import ProfileCommunicationBoundSettings

_MOST_NAMED: Final = 5


def judge(
    profiles: Sequence[Profile], settings: ProfileCommunicationBoundSettings
) -> ProfileVerdict:
    """Whether a device sends and receives while it computes nothing."""
    members = rule.at_work(profiles, settings.steady, needs_launches=False)
    worst, ratio, culprits = rule.over(
        members, lambda each: each.share(each.time.exposed_collective_seconds), settings.on_ratio
    )
    collectives = [each for each in worst.device.kernels if each.is_collective]
    named = sorted(collectives, key=lambda each: -each.seconds)[:_MOST_NAMED]
    return ProfileVerdict(
        _summary(worst, ratio),
        rule.factors_of(worst, ratio, settings.on_ratio),
        {
            "device": worst.key,
            "exposed_collective_ratio": round(ratio, 4),
            "collective_ratio": round(worst.share(worst.time.collective_seconds), 4),
            "overlap_ratio": None if (part := _overlap(worst)) is None else round(part, 4),
            "collectives": {each.name: round(each.seconds, 6) for each in named},
        },
        culprits,
        reason=Reason.COMMUNICATION_BOUND,
        action=Action.OVERLAP_COMMUNICATION,
        gain=Gain.of(
            worst, lambda time: time.exposed_collective_seconds, settings.removed_low_ratio
        ),
        description="Run collectives beside kernels, and send less.",
        instructions=rule.instructions("overlap_collectives", "find_late_rank"),
    )


def _overlap(member: ProfiledMember) -> float | None:
    """The part of the collectives' time with another kernel beside; `None` without any."""
    time = member.time
    if not time.collective_seconds:
        return None
    return 1.0 - time.exposed_collective_seconds / time.collective_seconds


def _summary(worst: ProfiledMember, ratio: float) -> str:
    if (overlap := _overlap(worst)) is None:
        return "No collective is in it."
    return (
        f"{worst.key} runs collectives with no other kernel beside them {ratio:.1%} of the time; "
        f"{percent_text(overlap)} of their time is hidden."
    )


RULE: Final = rule.ProfileRule(
    "profile_communication_bound", ProfileCommunicationBoundSettings(), judge
)
