"""GPUs that wait for the host: for its loader where that is known, else for the program itself."""

from collections.abc import Sequence
from typing import Final

from rightsizer.model.finding import Action, Finding, Instruction, Reason, Risk
from rightsizer.model.profile import HostSpanUse, Profile, SpanKind
from rightsizer.profiler.rules.launch_bound import mean_kernel_seconds
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
from rightsizer.profiler.settings import ProfileHostBoundSettings

NAME: Final = "profile_host_bound"
_MOST_NAMED: Final = 3


def judge(profiles: Sequence[Profile], settings: ProfileHostBoundSettings) -> Finding:
    """Whether a device waits for its loader, or for a host that has other things to do."""
    members = at_work(NAME, profiles, settings.steady)
    if isinstance(members, Finding):
        return members
    loading = [each for each in members if each.loader_wait_ratio >= settings.loader_on_ratio]
    if loading:
        return _complain_of_loader(profiles, loading, settings)
    held = [each for each in members if _is_held(each, settings)]
    worst = max(held or members, key=lambda each: each.host_wait_ratio)
    seen = _seen(worst, settings)
    if not held:
        return find_nothing(NAME, profiles, seen)
    complaint = ProfileComplaint(
        seen=seen,
        reason=Reason.HOST_BOUND,
        action=Action.NONE,
        gain=Gain.of(worst, lambda time: time.host_wait_seconds, 0.0),
        description="Move work of the host off the path between kernels.",
        culprits=tuple(each.key for each in held),
        instructions=_look_closer(worst),
        risk=Risk.VERY_LOW,
    )
    return complain(NAME, profiles, complaint)


def _launches_text(member: ProfiledMember, settings: ProfileHostBoundSettings) -> str:
    is_long_wait = member.host_wait_ratio >= settings.on_ratio
    is_other = is_long_wait and not _is_held(member, settings)
    return (
        "; its kernels are so short that their launches are what it waits for" if is_other else ""
    )


def _is_held(member: ProfiledMember, settings: ProfileHostBoundSettings) -> bool:
    mean = mean_kernel_seconds(member)
    is_long = mean is None or mean > settings.kernel_maximum_seconds
    return is_long and member.host_wait_ratio >= settings.on_ratio


def _seen(member: ProfiledMember, settings: ProfileHostBoundSettings) -> VerdictBasis:
    spans = _longest(member, SpanKind.LOADER) or _longest(member, SpanKind.SYNCHRONIZATION)
    return VerdictBasis(
        f"{member.key} waits for the host {member.host_wait_ratio:.1%} of the time, at most "
        f"{member.loader_wait_ratio:.1%} of it for a loader{_launches_text(member, settings)}.",
        factors_of(member, member.host_wait_ratio, settings.on_ratio),
        _evidence(member, spans),
    )


def _complain_of_loader(
    profiles: Sequence[Profile],
    members: Sequence[ProfiledMember],
    settings: ProfileHostBoundSettings,
) -> Finding:
    worst = max(members, key=lambda each: each.loader_wait_ratio)
    spans = _longest(worst, SpanKind.LOADER)
    named = f" in {spans[0].name}" if spans else ""
    complaint = ProfileComplaint(
        seen=VerdictBasis(
            f"{worst.key} waits for its loader up to {worst.loader_wait_ratio:.1%} of the "
            f"time{_per_step(worst)}{named}.",
            factors_of(worst, worst.loader_wait_ratio, settings.loader_on_ratio),
            _evidence(worst, spans),
        ),
        reason=Reason.HOST_BOUND,
        action=Action.FIX_INPUT_PIPELINE,
        gain=Gain.of(worst, lambda time: time.loader_wait_seconds, settings.removed_low_ratio),
        description="Load ahead of the GPU, in processes of their own.",
        culprits=tuple(each.key for each in members),
        instructions=(_WORKERS,),
        risk=Risk.VERY_LOW,
    )
    return complain(NAME, profiles, complaint)


def _per_step(member: ProfiledMember) -> str:
    steps = member.device.steps
    if not steps:
        return ""
    mean = sum(each.loader_seconds for each in steps) / len(steps)
    return f", {mean * 1e3:,.1f} ms of a step"


def _evidence(member: ProfiledMember, spans: Sequence[HostSpanUse]) -> dict[str, object]:
    return {
        "device": member.key,
        "host_wait_ratio": round(member.host_wait_ratio, 4),
        "loader_wait_ratio_at_most": round(member.loader_wait_ratio, 4),
        "loader_seconds_per_step": [
            round(each.loader_seconds, 6) for each in member.device.steps[:_MOST_STEPS]
        ],
        "spans": {each.name: round(each.seconds, 6) for each in spans},
    }


def _longest(member: ProfiledMember, kind: SpanKind) -> tuple[HostSpanUse, ...]:
    found = [each for each in member.profile.host_spans if each.kind is kind]
    return tuple(sorted(found, key=lambda each: -each.seconds)[:_MOST_NAMED])


def _look_closer(member: ProfiledMember) -> tuple[Instruction, ...]:
    waits = _longest(member, SpanKind.SYNCHRONIZATION)
    named = "".join(f"\n{each.count} x {each.name}" for each in waits)
    return (
        Instruction(
            "See what the host does between kernels", "py-spy dump --native --pid PID", "sh"
        ),
        Instruction(
            "Do not wait for the GPU within a step",
            "fewer .item(), .cpu() and prints of a loss; copies with non_blocking=True from pinned "
            f"memory{named}",
        ),
    )


_MOST_STEPS: Final = 20
_WORKERS: Final = Instruction(
    "Load with more workers, ahead of the GPU",
    "DataLoader(..., num_workers=N, pin_memory=True, persistent_workers=True, prefetch_factor=4)\n"
    "with N the CPUs that the job has for each GPU, less one; tf.data: "
    ".map(..., num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)",
)
RULE: Final = ProfileRule(NAME, ProfileHostBoundSettings(), judge)
