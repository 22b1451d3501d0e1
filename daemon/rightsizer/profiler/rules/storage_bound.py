"""GPUs that stand still while a checkpoint is written or read."""

from collections.abc import Sequence
from typing import Final

from rightsizer.model.finding import Action, Finding, Instruction, Reason, Risk
from rightsizer.model.profile import Profile, SpanKind
from rightsizer.profiler.rules.rule import (
    Gain,
    ProfileComplaint,
    ProfiledMember,
    ProfileRule,
    VerdictBasis,
    at_work,
    complain,
    factors_of,
    find_nothing,
)
from rightsizer.profiler.settings import ProfileStorageBoundSettings

NAME: Final = "profile_storage_bound"


def judge(profiles: Sequence[Profile], settings: ProfileStorageBoundSettings) -> Finding:
    """Whether a device is idle while the host is at a checkpoint."""
    members = at_work(NAME, profiles, settings.steady, needs_launches=False)
    if isinstance(members, Finding):
        return members
    held = [each for each in members if _blocked_ratio(each) >= settings.on_ratio]
    worst = max(held or members, key=_blocked_ratio)
    ratio = _blocked_ratio(worst)
    spans = {
        each.name: round(each.seconds, 6)
        for each in worst.profile.host_spans
        if each.kind is SpanKind.CHECKPOINT
    }
    named = f", in {next(iter(spans))}" if spans else ""
    seen = VerdictBasis(
        f"{worst.key} stands still for checkpoints up to {ratio:.1%} of the time{named}."
        if spans
        else "No checkpoint is in it.",
        factors_of(worst, ratio, settings.on_ratio),
        {"device": worst.key, "checkpoint_wait_ratio_at_most": round(ratio, 4), "spans": spans},
    )
    if not held:
        return find_nothing(NAME, profiles, seen)
    complaint = ProfileComplaint(
        seen=seen,
        reason=Reason.STORAGE_BOUND,
        action=Action.FIX_CHECKPOINTING,
        gain=Gain.of(worst, lambda time: time.checkpoint_wait_seconds, settings.removed_low_ratio),
        description="Write checkpoints beside the training.",
        culprits=tuple(each.key for each in held),
        instructions=(_ASYNCHRONOUS,),
        risk=Risk.LOW,
    )
    return complain(NAME, profiles, complaint)


def _blocked_ratio(member: ProfiledMember) -> float:
    return member.share(member.time.checkpoint_wait_seconds)


_ASYNCHRONOUS: Final = Instruction(
    "Copy the state to the host's memory, and write it while training goes on",
    "torch.distributed.checkpoint.async_save(state, checkpoint_id=...)\n"
    "orbax: AsyncCheckpointer; Lightning: AsyncCheckpointIO; less often, to a local disk first",
)
RULE: Final = ProfileRule(NAME, ProfileStorageBoundSettings(), judge)
