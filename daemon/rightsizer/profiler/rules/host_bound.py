"""GPUs that wait for the host: its data loader if known, else the program itself."""

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from rightsizer.model.profile import HostSpanUse, Profile, ProfileFormat, SpanKind, TimeUse
from rightsizer.model.values import Action, Reason, Risk
from rightsizer.profiler.member import ProfiledMember, members_of
from rightsizer.profiler.rules import host_steps, rule
from rightsizer.profiler.rules.rule import Gain, ProfileVerdict
from rightsizer.profiler.settings import ProfileHostBoundSettings
from rightsizer.profiles.names import is_allocation

_MOST_NAMED: Final = 3
_MOST_STEPS: Final = 20
_HOLDER_REMEDIES: Final = {
    "name_unused": re.compile(r"search_unused_parameters"),
    "prepare_ahead": re.compile(
        r"(?i:tokeni[sz]|collat|augment|preprocess)"
        r"|(?:^|: )_?(?:(?:apply_)?transforms?|log(?:_(?:metrics|step|stats|scalars?|images?))?)$"
    ),
}
"""Remedies by names of what the host does in long waits, where a model's pass has no such name.

What may be either, as `decode`, a `TransformerEncoder` or `log_softmax`, tells nothing.
"""
_DESCRIPTIONS: Final = {
    "wait_less": "Do not synchronize with the GPU within a step.",
    "keep_memory": "Keep the GPU's memory between steps.",
}
"""By the remedy for most of the time."""


def judge(profiles: Sequence[Profile], settings: ProfileHostBoundSettings) -> ProfileVerdict:
    """Whether a device waits for its data loader, or for a host that is busy otherwise."""
    if not members_of(profiles):
        pages = [profile for profile in profiles if profile.format is ProfileFormat.TENSORFLOW_PAGE]
        for judge_steps in (host_steps.of_loader, host_steps.of_pauses, host_steps.of_read_backs):
            profile_verdict = judge_steps(pages or profiles, settings)
            if profile_verdict is not None and (pages or profile_verdict.culprits):
                return profile_verdict
    members = rule.at_work(profiles, settings.steady)
    if any(member.loader_wait_ratio >= settings.loader_on_ratio for member in members):
        return _of_loader(members, settings)
    if any(
        _sync_ratio(member, settings) >= settings.synchronization_on_ratio for member in members
    ):
        return _of_synchronization(members, settings)
    held = [member for member in members if _is_held(member, settings)]
    worst = max(held or members, key=lambda member: member.host_wait_ratio)
    is_other = _waits(worst, settings) >= settings.on_ratio and not _is_held(worst, settings)
    launches = "; mostly in gaps as short as it takes to issue the next kernel"
    return ProfileVerdict(
        f"{worst.key} waits for the host {worst.host_wait_ratio:.1%} of the time, at most "
        f"{worst.loader_wait_ratio:.1%} of it for a loader{launches if is_other else ''}"
        f"{_held_text(worst, settings)}"
        f"{rule.outlier_text(worst, settings.steady.outlier_minimum_ratio)}.",
        rule.factors_of(worst, worst.host_wait_ratio, settings.on_ratio),
        _evidence(worst, _longest(worst, SpanKind.LOADER) or _calls(worst)),
        tuple(member.key for member in held),
        reason=Reason.HOST_BOUND,
        action=Action.NONE,
        gain=Gain.of(worst, lambda time: time.idle_host_wait_seconds, 0.0),
        description="Move work of the host off the path between kernels.",
        instructions=rule.instructions(
            *_held_remedies(worst, settings), "watch_host", *_call_remedies(worst, settings)
        ),
        risk=Risk.VERY_LOW,
    )


def _is_held(member: ProfiledMember, settings: ProfileHostBoundSettings) -> bool:
    is_dispatched = member.is_dispatched(settings.steady)
    return not is_dispatched and _waits(member, settings) >= settings.on_ratio


def _waits(member: ProfiledMember, settings: ProfileHostBoundSettings) -> float:
    """Return the share of recurring waits for the host."""
    wait = member.time.idle_host_wait_seconds
    return member.recurring_ratio(wait, settings.steady.outlier_minimum_ratio)


def _of_loader(
    members: Sequence[ProfiledMember], settings: ProfileHostBoundSettings
) -> ProfileVerdict:
    worst, ratio, culprits = rule.over(
        members, lambda member: member.loader_wait_ratio, settings.loader_on_ratio
    )
    spans = _longest(worst, SpanKind.LOADER)
    step = ""
    if steps := worst.device.steps:
        mean = sum(time.loader_wait_seconds for time in worst.step_times) / len(steps)
        step = f", {mean * 1e3:,.1f} ms of a step"
    named = f" in {spans[0].name}" if spans else ""
    description, instruction = host_steps.loader_remedy(spans)
    return ProfileVerdict(
        f"{worst.key} waits for its loader up to {ratio:.1%} of the time{step}{named}.",
        rule.factors_of(worst, ratio, settings.loader_on_ratio),
        _evidence(worst, spans),
        culprits,
        reason=Reason.HOST_BOUND,
        action=Action.FIX_INPUT_PIPELINE,
        gain=Gain.of(worst, lambda time: time.loader_wait_seconds, settings.removed_low_ratio),
        description=description,
        instructions=rule.instructions(instruction),
        risk=Risk.VERY_LOW,
    )


def _sync_ratio(member: ProfiledMember, settings: ProfileHostBoundSettings) -> float:
    wait = member.time.synchronization_wait_seconds
    return member.recurring_ratio(wait, settings.steady.outlier_minimum_ratio)


def _of_synchronization(
    members: Sequence[ProfiledMember], settings: ProfileHostBoundSettings
) -> ProfileVerdict:
    threshold = settings.synchronization_on_ratio
    worst, ratio, culprits = rule.over(
        members, lambda member: _sync_ratio(member, settings), threshold
    )
    calls = _calls(worst)
    named = ", ".join(f"{call.count:,} x {call.name}" for call in calls)
    remedies = _call_remedies(worst, settings) or ["wait_less"]
    return ProfileVerdict(
        f"{worst.key} is idle {worst.share(worst.time.synchronization_wait_seconds):.1%} of the "
        f"time as the host waits for it ({named}) and has launched nothing ahead"
        f"{_held_text(worst, settings)}"
        f"{rule.outlier_text(worst, settings.steady.outlier_minimum_ratio)}.",
        rule.factors_of(worst, ratio, threshold),
        _evidence(worst, calls),
        culprits,
        reason=Reason.HOST_BOUND,
        action=Action.NONE,
        gain=Gain.of(
            worst,
            _held_seconds if remedies[0] == "keep_memory" else _hidden_seconds,
            settings.synchronization_removed_low_ratio,
        ),
        description=_DESCRIPTIONS[remedies[0]],
        instructions=rule.instructions(*remedies, "watch_host"),
    )


def _held_seconds(time: TimeUse) -> float:
    return time.synchronization_wait_seconds


def _hidden_seconds(time: TimeUse) -> float:
    """Return what launching ahead can hide: no more than kernels run."""
    return min(time.synchronization_wait_seconds, time.kernel_seconds)


def _calls(member: ProfiledMember) -> tuple[HostSpanUse, ...]:
    """Return the calls that most of its waits are due to."""
    return member.device.host_calls[:_MOST_NAMED]


def _call_remedies(member: ProfiledMember, settings: ProfileHostBoundSettings) -> list[str]:
    """Return the remedies for calls that a notable part of its waits is due to, largest first."""
    times: defaultdict[str, float] = defaultdict(float)
    for call in member.device.host_calls:
        times["keep_memory" if is_allocation(call.name) else "wait_less"] += call.seconds
    least = settings.held_minimum_ratio * member.time.host_wait_seconds
    notable = (name for name, seconds in times.items() if seconds >= least)
    return sorted(notable, key=times.__getitem__, reverse=True)


def _held_text(member: ProfiledMember, settings: ProfileHostBoundSettings) -> str:
    """Return the host frames of its long waits; empty if unknown."""
    names = _holders(member, settings)
    return f"; in long waits the host is in {' and '.join(names)}" if names else ""


def _holders(member: ProfiledMember, settings: ProfileHostBoundSettings) -> list[str]:
    least = settings.held_minimum_ratio * member.time.host_wait_seconds
    return [pause.name for pause in _longest(member, SpanKind.PAUSE) if pause.seconds >= least]


def _held_remedies(member: ProfiledMember, settings: ProfileHostBoundSettings) -> list[str]:
    """Return the remedies for what the host does in long waits, as far as its name tells."""
    names = _holders(member, settings)
    return [
        remedy for remedy, pattern in _HOLDER_REMEDIES.items() if any(map(pattern.search, names))
    ]


def _evidence(member: ProfiledMember, spans: Sequence[HostSpanUse]) -> dict[str, object]:
    return {
        "device": member.key,
        "host_wait_ratio": round(member.host_wait_ratio, 4),
        "loader_wait_ratio_at_most": round(member.loader_wait_ratio, 4),
        "synchronization_wait_ratio": round(
            member.share(member.time.synchronization_wait_seconds), 4
        ),
        "loader_seconds_per_step": [
            round(step.loader_seconds, 6) for step in member.device.steps[:_MOST_STEPS]
        ],
        "spans": {span.name: round(span.seconds, 6) for span in spans},
    }


def _longest(member: ProfiledMember, kind: SpanKind) -> list[HostSpanUse]:
    host_span_uses = [span for span in member.profile.host_spans if span.kind is kind]
    return sorted(host_span_uses, key=lambda host_span_use: -host_span_use.seconds)[:_MOST_NAMED]


RULE: Final = rule.ProfileRule("profile_host_bound", ProfileHostBoundSettings(), judge)
