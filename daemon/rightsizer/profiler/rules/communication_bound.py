"""GPUs that run collectives without another kernel beside them."""

from collections.abc import Sequence
from typing import Final

from rightsizer.catalogue.catalogue import built_in
from rightsizer.model.profile import Profile
from rightsizer.model.values import Action, Reason, percent_text
from rightsizer.profiler.figures import collective_text, size_text
from rightsizer.profiler.member import ProfiledMember, members_of
from rightsizer.profiler.rules import collective_remedies, host_steps, rule
from rightsizer.profiler.rules.rule import Gain, ProfileVerdict
from rightsizer.profiler.settings import ProfileCommunicationBoundSettings

_MOST_NAMED: Final = 5
_WORTH_NAMING: Final = 0.05
"""Share of time."""


def judge(
    profiles: Sequence[Profile], settings: ProfileCommunicationBoundSettings
) -> ProfileVerdict:
    """Whether a device communicates without computing at the same time."""
    if not members_of(profiles):
        profile_verdict = host_steps.of_collectives(profiles, settings)
        if profile_verdict is not None and profile_verdict.culprits:
            return profile_verdict
    members = rule.at_work(profiles, settings.steady, needs_launches=False)
    worst, ratio, culprits = rule.over(members, _exposed_ratio, settings.on_ratio)
    # A collective lasts until the last rank has joined: the rank that spends least in them waits
    # least for others, which no overlap would end.
    joined = [member for member in members if member.time.collective_seconds]
    least = min(joined, key=_exposed_ratio, default=worst)
    collectives = [kernel for kernel in worst.device.kernels if kernel.is_collective]
    named = sorted(collectives, key=lambda collective: -collective.seconds)[:_MOST_NAMED]
    bandwidth = _bandwidth(worst)
    return ProfileVerdict(
        _summary(worst, least) + bandwidth,
        rule.factors_of(worst, ratio, settings.on_ratio),
        {
            "device": worst.key,
            "exposed_collective_ratio": round(ratio, 4),
            "least_exposed_collective_ratio": round(_exposed_ratio(least), 4),
            "collective_ratio": round(worst.share(worst.time.collective_seconds), 4),
            "overlap_ratio": None if (part := _overlap(worst)) is None else round(part, 4),
            "collectives": {kernel_use.name: round(kernel_use.seconds, 6) for kernel_use in named},
            "best_bus_bytes_per_second": {
                collective_text(collective): round(collective.best_bus_bytes_per_second)
                for collective in worst.device.collectives[:_MOST_NAMED]
            },
        },
        culprits,
        reason=Reason.COMMUNICATION_BOUND,
        action=Action.OVERLAP_COMMUNICATION,
        gain=Gain.of(
            least, lambda time: time.exposed_collective_seconds, settings.removed_low_ratio
        ),
        description=host_steps.OVERLAP,
        instructions=rule.instructions(
            *collective_remedies.of_device(worst.profile, worst.device, profiles)
        ),
    )


def _bandwidth(member: ProfiledMember) -> str:
    """Return the bandwidth of the messages with most of the time; empty if unknown."""
    if not member.device.collectives:
        return ""
    collective_use = member.device.collectives[0]
    best = collective_use.best_bus_bytes_per_second
    name = member.device.device.name
    board = built_in().find(name) if name else None
    link = board.link_bytes_per_second if board else 0.0
    of = f" of the {size_text(link)}/s that the board's own links have" if link else ""
    return f" {collective_text(collective_use)} reaches {size_text(best)}/s on the bus at best{of}."


def _overlap(member: ProfiledMember) -> float | None:
    """Return the share of collectives' time hidden by kernels; `None` without collectives."""
    time = member.time
    if not time.collective_seconds:
        return None
    return 1.0 - time.exposed_collective_seconds / time.collective_seconds


def _exposed_ratio(member: ProfiledMember) -> float:
    return member.share(member.time.exposed_collective_seconds)


def _summary(worst: ProfiledMember, least: ProfiledMember) -> str:
    if (overlap := _overlap(worst)) is None:
        return "No collective is in it."
    ratio = _exposed_ratio(worst)
    low = _exposed_ratio(least)
    others = f", {least.key} {low:.1%}: the difference waits for late ranks"
    return (
        f"{worst.key} runs collectives with no other kernel beside them {ratio:.1%} of the time"
        f"{others if ratio - low >= _WORTH_NAMING else ''}; "
        f"{percent_text(overlap)} of their time is hidden."
    )


RULE: Final = rule.ProfileRule(
    "profile_communication_bound", ProfileCommunicationBoundSettings(), judge
)
