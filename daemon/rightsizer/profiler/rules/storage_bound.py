"""GPUs idle while a checkpoint is written or read."""

from collections.abc import Sequence
from typing import Final

from rightsizer.model.profile import Profile, SpanKind
from rightsizer.model.values import Action, Reason
from rightsizer.profiler.rules import rule
from rightsizer.profiler.rules.rule import Gain, ProfileVerdict
from rightsizer.profiler.settings import ProfileStorageBoundSettings


def judge(profiles: Sequence[Profile], settings: ProfileStorageBoundSettings) -> ProfileVerdict:
    """Whether a device is idle while the host writes or reads a checkpoint."""
    members = rule.at_work(profiles, settings.steady, needs_launches=False)
    worst, ratio, culprits = rule.over(
        members, lambda member: member.share(member.time.checkpoint_wait_seconds), settings.on_ratio
    )
    spans = {
        span.name: round(span.seconds, 6)
        for span in worst.profile.host_spans
        if span.kind is SpanKind.CHECKPOINT
    }
    named = f", in {next(iter(spans))}" if spans else ""
    return ProfileVerdict(
        f"{worst.key} stands still for checkpoints up to {ratio:.1%} of the time{named}."
        if spans
        else "No checkpoint is in it.",
        rule.factors_of(worst, ratio, settings.on_ratio),
        {"device": worst.key, "checkpoint_wait_ratio_at_most": round(ratio, 4), "spans": spans},
        culprits,
        reason=Reason.STORAGE_BOUND,
        action=Action.FIX_CHECKPOINTING,
        gain=Gain.of(worst, lambda time: time.checkpoint_wait_seconds, settings.removed_low_ratio),
        description="Write checkpoints beside the training.",
        instructions=rule.instructions("save_asynchronously"),
    )


RULE: Final = rule.ProfileRule("profile_storage_bound", ProfileStorageBoundSettings(), judge)
