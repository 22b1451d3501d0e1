"""Attention by several kernels: the scores go to memory and back around a softmax."""

from collections.abc import Sequence
from typing import Final

from rightsizer.model.profile import Profile
from rightsizer.model.values import Action, Reason
from rightsizer.profiler.member import ProfiledMember
from rightsizer.profiler.rules import rule
from rightsizer.profiler.rules.rule import Gain, ProfileVerdict
from rightsizer.profiler.settings import ProfileAttentionUnfusedSettings


def judge(profiles: Sequence[Profile], settings: ProfileAttentionUnfusedSettings) -> ProfileVerdict:
    """Whether a device computes attention as a softmax between two products of matrices."""
    members = rule.at_work(profiles, settings.steady, needs_launches=False)
    worst, ratio, culprits = rule.over(members, _ratio, settings.on_ratio)
    attention = worst.device.attention
    passes = attention.passes if attention else 0
    part = _part(worst)
    scores = attention.score_seconds / attention.seconds if attention else 0.0
    return ProfileVerdict(
        f"{worst.key} computes attention as a softmax between two products of matrices "
        f"{ratio:.1%} of the time, {passes:,} times; each writes the scores to memory and reads "
        "them back.",
        rule.factors_of(worst, ratio, settings.on_ratio),
        {
            "device": worst.key,
            "unfused_attention_ratio": round(ratio, 4),
            "passes": passes,
            "score_seconds": round(attention.score_seconds, 9) if attention else 0.0,
            "product_seconds": round(attention.product_seconds, 9) if attention else 0.0,
        },
        culprits,
        reason=Reason.MEMORY_BANDWIDTH_BOUND,
        action=Action.FUSE_KERNELS,
        gain=Gain.of(
            worst,
            # Kernels are summed over the whole span; a step gets its share.
            lambda time: time.kernel_seconds * part,
            settings.removed_low_ratio * scores,
            settings.removed_high_ratio,
        ),
        description="Use fused attention.",
        instructions=rule.instructions("fuse_attention"),
    )


def _ratio(member: ProfiledMember) -> float:
    return member.share(member.time.kernel_seconds * _part(member))


def _part(member: ProfiledMember) -> float:
    attention = member.device.attention
    return member.kernel_part(attention.seconds) if attention else 0.0


RULE: Final = rule.ProfileRule(
    "profile_attention_unfused", ProfileAttentionUnfusedSettings(), judge
)
