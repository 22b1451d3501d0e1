"""Elementwise operators and copies that each use memory where one kernel could do."""

import re
from collections.abc import Sequence
from typing import Final

from rightsizer.model.profile import KernelFamily, KernelUse, Profile
from rightsizer.model.values import Action, Reason
from rightsizer.profiler.member import ProfiledMember
from rightsizer.profiler.rules import rule
from rightsizer.profiler.rules.rule import Gain, ProfileVerdict
from rightsizer.profiler.settings import ProfileKernelsUnfusedSettings

_MOST_NAMED: Final = 5
_MOST: Final = 0.5
"""Of the time of these kernels."""
_CONCATENATION: Final = re.compile(r"CatArray|concat", re.IGNORECASE)
_DESCRIPTIONS: Final = {
    "fuse": "Fuse neighboring operators.",
    "keep_in_place": "Write into memory that is kept.",
}
"""By the remedy for most of the time."""
_SMALL: Final = frozenset({KernelFamily.ELEMENTWISE, KernelFamily.COPY})


def judge(profiles: Sequence[Profile], settings: ProfileKernelsUnfusedSettings) -> ProfileVerdict:
    """Whether a device mostly reads and writes what the previous operator wrote."""
    members = rule.at_work(profiles, settings.steady, needs_launches=False)
    worst, ratio, culprits = rule.over(
        members,
        lambda member: member.share(member.time.kernel_seconds * _part(member)),
        settings.on_ratio,
    )
    kernels = _small(worst)
    runs = sum(kernel.count for kernel in kernels)
    part = _part(worst)
    joined = sum(kernel.seconds for kernel in kernels if _CONCATENATION.search(kernel.name))
    is_joining = joined > _MOST * sum(kernel.seconds for kernel in kernels)
    remedy = "keep_in_place" if is_joining else "fuse"
    return ProfileVerdict(
        f"{worst.key} runs {runs:,} elementwise operators and copies {ratio:.1%} of the time; each "
        "reads and writes memory for little arithmetic.",
        rule.factors_of(worst, ratio, settings.on_ratio),
        {
            "device": worst.key,
            "unfused_ratio": round(ratio, 4),
            "runs": runs,
            "kernels": {kernel.name: round(kernel.seconds, 6) for kernel in kernels[:_MOST_NAMED]},
        },
        culprits,
        reason=Reason.MEMORY_BANDWIDTH_BOUND,
        action=Action.FUSE_KERNELS,
        gain=Gain.of(
            worst,
            # Kernels are summed over the whole span; a step gets its share.
            lambda time: time.kernel_seconds * part,
            settings.removed_low_ratio,
            settings.removed_high_ratio,
        ),
        description=_DESCRIPTIONS[remedy],
        instructions=rule.instructions(remedy),
    )


def _small(member: ProfiledMember) -> list[KernelUse]:
    return [kernel_use for kernel_use in member.kernels_at_work if kernel_use.family in _SMALL]


def _part(member: ProfiledMember) -> float:
    return member.kernel_part(sum(kernel_use.seconds for kernel_use in _small(member)))


RULE: Final = rule.ProfileRule("profile_kernels_unfused", ProfileKernelsUnfusedSettings(), judge)
