"""GPUs that wait for the host: its data loader if known, else the program itself."""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from rightsizer.model.finding import Action, Reason, Risk
from rightsizer.model.profile import HostSpanUse, Profile, ProfileFormat, SpanKind
from rightsizer.profiler.member import ProfiledMember, members_of
from rightsizer.profiler.rules import host_steps, rule
from rightsizer.profiler.rules.rule import Gain, ProfileVerdict
from rightsizer.profiler.settings import ProfileHostBoundSettings

_MOST_NAMED: Final = 3
_MOST_STEPS: Final = 20


def judge(profiles: Sequence[Profile], settings: ProfileHostBoundSettings) -> ProfileVerdict:
    """Whether a device waits for its data loader, or for a host that is busy otherwise."""
    if not members_of(profiles):
        pages = [each for each in profiles if each.format is ProfileFormat.TENSORFLOW_PAGE]
        for judge_steps in (host_steps.of_loader, host_steps.of_pauses, host_steps.of_read_backs):
            found = judge_steps(pages or profiles, settings)
            if found is not None and (pages or found.culprits):
                return found
    members = rule.at_work(profiles, settings.steady)
    if any(each.loader_wait_ratio >= settings.loader_on_ratio for each in members):
        return _of_loader(members, settings)
    if any(_sync_ratio(each, settings) >= settings.synchronization_on_ratio for each in members):
        return _of_synchronization(members, settings)
    held = [each for each in members if _is_held(each, settings)]
    worst = max(held or members, key=lambda each: each.host_wait_ratio)
    is_other = _waits(worst, settings) >= settings.on_ratio and not _is_held(worst, settings)
    launches = "; its kernels are so short that their launches are what it waits for"
    waits = _longest(worst, SpanKind.SYNCHRONIZATION)
    named = "".join(f"\n{each.count} x {each.name}" for each in waits)
    watch, wait_less = rule.instructions("watch_host", "wait_less")
    return ProfileVerdict(
        f"{worst.key} waits for the host {worst.host_wait_ratio:.1%} of the time, at most "
        f"{worst.loader_wait_ratio:.1%} of it for a loader{launches if is_other else ''}"
        f"{_held_text(worst, settings)}"
        f"{rule.outlier_text(worst, settings.outlier_minimum_ratio)}.",
        rule.factors_of(worst, worst.host_wait_ratio, settings.on_ratio),
        _evidence(worst, _longest(worst, SpanKind.LOADER) or waits),
        tuple(each.key for each in held),
        reason=Reason.HOST_BOUND,
        action=Action.NONE,
        gain=Gain.of(worst, lambda time: time.idle_host_wait_seconds, 0.0),
        description="Move work of the host off the path between kernels.",
        instructions=(watch, replace(wait_less, text=f"{wait_less.text}{named}")),
        risk=Risk.VERY_LOW,
    )


def _is_held(member: ProfiledMember, settings: ProfileHostBoundSettings) -> bool:
    mean = member.mean_kernel_seconds
    is_long = mean is None or mean > settings.kernel_maximum_seconds
    are_graphs = not member.has_own_launches(settings.own_launch_minimum_ratio)
    return (is_long or are_graphs) and _waits(member, settings) >= settings.on_ratio


def _waits(member: ProfiledMember, settings: ProfileHostBoundSettings) -> float:
    """Return the share of recurring waits for the host."""
    wait = member.time.idle_host_wait_seconds
    return member.recurring_ratio(wait, settings.outlier_minimum_ratio)


def _of_loader(
    members: Sequence[ProfiledMember], settings: ProfileHostBoundSettings
) -> ProfileVerdict:
    worst, ratio, culprits = rule.over(
        members, lambda each: each.loader_wait_ratio, settings.loader_on_ratio
    )
    spans = _longest(worst, SpanKind.LOADER)
    step = ""
    if steps := worst.device.steps:
        mean = sum(each.loader_wait_seconds for each in worst.step_times) / len(steps)
        step = f", {mean * 1e3:,.1f} ms of a step"
    named = f" in {spans[0].name}" if spans else ""
    return ProfileVerdict(
        f"{worst.key} waits for its loader up to {ratio:.1%} of the time{step}{named}.",
        rule.factors_of(worst, ratio, settings.loader_on_ratio),
        _evidence(worst, spans),
        culprits,
        reason=Reason.HOST_BOUND,
        action=Action.FIX_INPUT_PIPELINE,
        gain=Gain.of(worst, lambda time: time.loader_wait_seconds, settings.removed_low_ratio),
        description=host_steps.LOAD_AHEAD,
        instructions=rule.instructions("more_workers"),
        risk=Risk.VERY_LOW,
    )


def _sync_ratio(member: ProfiledMember, settings: ProfileHostBoundSettings) -> float:
    wait = member.time.synchronization_wait_seconds
    return member.recurring_ratio(wait, settings.outlier_minimum_ratio)


def _of_synchronization(
    members: Sequence[ProfiledMember], settings: ProfileHostBoundSettings
) -> ProfileVerdict:
    threshold = settings.synchronization_on_ratio
    worst, ratio, culprits = rule.over(members, lambda each: _sync_ratio(each, settings), threshold)
    waits = _longest(worst, SpanKind.SYNCHRONIZATION)
    named = ", ".join(f"{each.count:,} x {each.name}" for each in waits)
    return ProfileVerdict(
        f"{worst.key} is idle {worst.share(worst.time.synchronization_wait_seconds):.1%} of the "
        f"time after the host waited for it ({named}) and had launched nothing ahead"
        f"{_held_text(worst, settings)}"
        f"{rule.outlier_text(worst, settings.outlier_minimum_ratio)}.",
        rule.factors_of(worst, ratio, threshold),
        _evidence(worst, waits),
        culprits,
        reason=Reason.HOST_BOUND,
        action=Action.NONE,
        gain=Gain.of(
            worst,
            lambda time: time.synchronization_wait_seconds,
            settings.synchronization_removed_low_ratio,
        ),
        description="Do not synchronize with the GPU within a step.",
        instructions=rule.instructions("wait_less", "watch_host"),
    )


def _held_text(member: ProfiledMember, settings: ProfileHostBoundSettings) -> str:
    """Return the host frames of its long waits; empty if unknown."""
    least = settings.held_minimum_ratio * member.time.host_wait_seconds
    pauses = _longest(member, SpanKind.PAUSE)
    names = [each.name for each in pauses if each.seconds >= least]
    return f"; in long waits the host is in {' and '.join(names)}" if names else ""


def _evidence(member: ProfiledMember, spans: Sequence[HostSpanUse]) -> dict[str, object]:
    return {
        "device": member.key,
        "host_wait_ratio": round(member.host_wait_ratio, 4),
        "loader_wait_ratio_at_most": round(member.loader_wait_ratio, 4),
        "synchronization_wait_ratio": round(
            member.share(member.time.synchronization_wait_seconds), 4
        ),
        "loader_seconds_per_step": [
            round(each.loader_seconds, 6) for each in member.device.steps[:_MOST_STEPS]
        ],
        "spans": {each.name: round(each.seconds, 6) for each in spans},
    }


def _longest(member: ProfiledMember, kind: SpanKind) -> list[HostSpanUse]:
    found = [each for each in member.profile.host_spans if each.kind is kind]
    return sorted(found, key=lambda each: -each.seconds)[:_MOST_NAMED]


RULE: Final = rule.ProfileRule("profile_host_bound", ProfileHostBoundSettings(), judge)
