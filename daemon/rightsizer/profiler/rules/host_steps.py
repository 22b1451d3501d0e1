"""Verdicts on host steps without a device: bounds, as a GPU's queue may hide a part."""

from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import Final, NamedTuple

from rightsizer.advice.risk import probability_above
from rightsizer.model.profile import HostSpanUse, HostStep, Profile, ProfileFormat, SpanKind
from rightsizer.model.values import Action, Reason, Risk, seconds
from rightsizer.profiler.member import host_key_of
from rightsizer.profiler.rules import collective_remedies, rule
from rightsizer.profiler.rules.rule import Gain, ProfileVerdict, StepGain
from rightsizer.profiler.settings import (
    ProfileCommunicationBoundSettings,
    ProfileHostBoundSettings,
    ProfileLaunchBoundSettings,
)

LOAD_AHEAD: Final = "Load ahead of the GPU, in processes of their own."
LOAD_FASTER: Final = "Load faster: its workers do not keep up."
_HAS_WORKERS: Final = "MultiProcessing"
"""Part of the name of PyTorch's loader with workers."""
OVERLAP: Final = "Run collectives beside kernels, and send less."
"""What to do, with a GPU in the profile or without."""
_MOST_NAMED: Final = 3
_MOST_STEPS: Final = 20
_UNSEEN: Final = "no GPU is in it, whose queue may hide a part"
_SENT_MINIMUM: Final = 0.5
"""Share of a host's collectives that is sent, from which it is named.

Source: the greater part; the rest waits for the latest rank.
"""
_OVERLAPPED: Final = 0.5
"""Share of time: overlapping two alternating activities at best halves their time."""


class _Share(NamedTuple):
    """Time of the host's steps spent on something."""

    ratio: float
    seconds_per_step: float
    step_seconds: float
    steps: Sequence[HostStep]

    def certainty(self, threshold: float) -> dict[str, float]:
        """Return the confidence factor that it exceeds a threshold."""
        return {"certainty": probability_above(self.ratio, float(len(self.steps)), threshold)}

    def gain(self, removed_low_ratio: float = 0.0) -> Gain:
        """Return the gain, at most all of it."""
        low = removed_low_ratio
        mean = self.seconds_per_step
        return Gain(low * self.ratio, self.ratio, StepGain(self.step_seconds, low * mean, mean))


def of_loader(
    profiles: Sequence[Profile], settings: ProfileHostBoundSettings
) -> ProfileVerdict | None:
    """Judge by the steps' waits for input; `None` without steps."""
    if not (shares := _means(profiles, lambda step: step.loader_seconds)):
        return None
    profile, share = max(shares, key=lambda pair: pair[1].ratio)
    is_page = profile.format is ProfileFormat.TENSORFLOW_PAGE
    name = host_key_of(profile, profiles)
    waits = share.seconds_per_step * 1e3
    unseen = "" if is_page else f" of the host; {_UNSEEN}"
    spans = [span for span in profile.host_spans if span.kind is SpanKind.LOADER]
    description, instruction = loader_remedy(spans)
    return ProfileVerdict(
        f"{name} waits for input {share.ratio:.1%} of the time, {waits:,.1f} ms of a step{unseen}.",
        share.certainty(settings.loader_on_ratio),
        {
            "loader_wait_ratio_at_most": round(share.ratio, 4),
            "loader_seconds_per_step": [
                round(step.loader_seconds, 6) for step in share.steps[:_MOST_STEPS]
            ],
        },
        _over(shares, profiles, settings.loader_on_ratio),
        reason=Reason.HOST_BOUND,
        action=Action.FIX_INPUT_PIPELINE,
        gain=share.gain(settings.removed_low_ratio if is_page else 0.0),
        description=description,
        instructions=rule.instructions(instruction),
        risk=Risk.VERY_LOW,
    )


def loader_remedy(spans: Sequence[HostSpanUse]) -> tuple[str, str]:
    """Return what to do, and the name of its instruction, for spans of a loader, longest first."""
    if spans and _HAS_WORKERS in spans[0].name:
        return LOAD_FASTER, "faster_loader"
    return LOAD_AHEAD, "more_workers"


def of_collectives(
    profiles: Sequence[Profile], settings: ProfileCommunicationBoundSettings
) -> ProfileVerdict | None:
    """Judge by collectives of the host, such as gloo's; `None` without steps."""
    if not (shares := _means(profiles, lambda step: step.collective_seconds)):
        return None
    # A collective lasts until the last rank has joined, which waits least.
    profile, share = min(shares, key=lambda pair: pair[1].ratio)
    culprits = tuple(
        host_key_of(p, profiles)
        for p, host_share in shares
        if share.ratio >= max(settings.on_ratio, _SENT_MINIMUM * host_share.ratio)
    )
    return ProfileVerdict(
        f"{host_key_of(profile, profiles)} runs collectives {share.ratio:.1%} of the time, "
        f"{share.seconds_per_step * 1e3:,.1f} ms of a step of the host; no GPU is in it, whose "
        "kernels may hide a part.",
        share.certainty(settings.on_ratio),
        {"collective_ratio_at_most": round(share.ratio, 4)},
        culprits,
        reason=Reason.COMMUNICATION_BOUND,
        action=Action.OVERLAP_COMMUNICATION,
        gain=share.gain(),
        description=OVERLAP,
        instructions=rule.instructions(*collective_remedies.of_host(profiles)),
    )


def of_pauses(
    profiles: Sequence[Profile], settings: ProfileHostBoundSettings
) -> ProfileVerdict | None:
    """Judge by time without operators, in at least half of the steps; `None` if unknown."""
    if not (shares := _usual(profiles, lambda step: step.pause_seconds)):
        return None
    profile, share = max(shares, key=lambda pair: pair[1].ratio)
    spans = _pauses_text(profile, settings.held_minimum_ratio, len(share.steps))
    named = f" ({spans})" if spans else "; record with stacks to see in which line"
    count = _reads(share)
    reads = f"; it also reads values back {_times(count)} a step" if count else ""
    return ProfileVerdict(
        f"{host_key_of(profile, profiles)} runs no operator {share.ratio:.1%} of the time, "
        f"{share.seconds_per_step * 1e3:,.1f} ms of a step of the host{named}{reads}; {_UNSEEN}.",
        share.certainty(settings.on_ratio) | {"unseen": settings.steady.unseen_ratio},
        {"pause_ratio_at_most": round(share.ratio, 4), "read_backs_per_step": count},
        _over(shares, profiles, settings.on_ratio),
        reason=Reason.HOST_BOUND,
        action=Action.NONE,
        gain=share.gain(),
        description="Move work of the host off the path between operators.",
        instructions=rule.instructions("prepare_ahead", "watch_host"),
        risk=Risk.VERY_LOW,
    )


def of_read_backs(
    profiles: Sequence[Profile], settings: ProfileHostBoundSettings
) -> ProfileVerdict | None:
    """Judge by values that most steps read back; `None` if unknown."""
    if not (shares := _usual(profiles, lambda step: float(step.read_backs > 0))):
        return None
    profile, share = max(shares, key=lambda pair: _reads(pair[1]))
    count = _reads(share)
    asked = sum(step.read_backs > 0 for step in share.steps)
    least = settings.read_backs_per_step_minimum
    spans = _reads_text(profile)
    asking = share._replace(ratio=asked / len(share.steps))
    return ProfileVerdict(
        f"{host_key_of(profile, profiles)} reads values back {_times(count)} a step ({spans}): on "
        "a GPU each waits for all that was launched, and meanwhile nothing is launched ahead; no "
        "GPU is in it, so what that costs is not known.",
        asking.certainty(0.5) | {"unseen": settings.steady.unseen_ratio},
        {"read_backs_per_step": count, "steps_with_read_backs_ratio": round(asking.ratio, 4)},
        tuple(host_key_of(p, profiles) for p, host_share in shares if _reads(host_share) >= least),
        reason=Reason.HOST_BOUND,
        action=Action.NONE,
        gain=Gain(0.0, _OVERLAPPED, None),
        description="Do not read values back within a step.",
        instructions=rule.instructions("wait_less"),
    )


def of_dispatch(
    profiles: Sequence[Profile], settings: ProfileLaunchBoundSettings
) -> ProfileVerdict | None:
    """Judge by short operators and the gaps between them; `None` if unknown."""
    if not (shares := _usual(profiles, lambda step: step.dispatch_seconds)):
        return None
    least = settings.steady.kernels_minimum
    threshold = settings.dispatch_on_ratio
    profile, share = max(shares, key=lambda pair: pair[1].ratio)
    count = median(step.operators or 0 for step in share.steps)
    return ProfileVerdict(
        f"{host_key_of(profile, profiles)} spends {share.ratio:.1%} of a step of the host on "
        f"{count:,g} operators that are shorter than a launch, and between them: a GPU would wait "
        f"for launches; {_UNSEEN}.",
        share.certainty(threshold) | {"unseen": settings.steady.unseen_ratio},
        {"dispatch_ratio_at_most": round(share.ratio, 4), "operators_per_step": count},
        tuple(
            host_key_of(p, profiles)
            for p, usual in shares
            if usual.ratio >= threshold and median(s.operators or 0 for s in usual.steps) >= least
        ),
        reason=Reason.LAUNCH_BOUND,
        action=Action.ENABLE_CUDA_GRAPHS,
        gain=share.gain(),
        description="Fuse the short operators, or launch whole steps as CUDA graphs.",
        instructions=rule.instructions("fuse", "capture_graphs"),
    )


def _over(
    shares: Iterable[tuple[Profile, _Share]], profiles: Sequence[Profile], threshold: float
) -> tuple[str, ...]:
    """Return the names of the hosts whose share is at the threshold."""
    return tuple(
        host_key_of(profile, profiles) for profile, share in shares if share.ratio >= threshold
    )


def _means(
    profiles: Iterable[Profile], taken_seconds: Callable[[HostStep], float]
) -> list[tuple[Profile, _Share]]:
    """Return the share over all steps of each profile that has any."""
    shares = []
    for profile in profiles:
        steps = profile.host_steps
        if length := sum(map(_length, steps)):
            taken = sum(map(taken_seconds, steps))
            count = len(steps)
            share = _Share(min(1.0, taken / length), taken / count, length / count, steps)
            shares.append((profile, share))
    return shares


def _usual(
    profiles: Iterable[Profile], taken_seconds: Callable[[HostStep], float]
) -> list[tuple[Profile, _Share]]:
    """Return the median share of each profile's steps, which ignores rare events."""
    usual_shares = []
    for profile in profiles:
        host_steps = [step for step in profile.host_steps if step.operators is not None]
        if steps := [step for step in host_steps if _length(step) > 0]:
            ratio = median(taken_seconds(step) / _length(step) for step in steps)
            length = median(map(_length, steps))
            share = _Share(min(1.0, ratio), median(map(taken_seconds, steps)), length, steps)
            usual_shares.append((profile, share))
    return usual_shares


def _length(step: HostStep) -> float:
    return seconds(step.end - step.start)


def _reads(host_share: _Share) -> float:
    return median(step.read_backs for step in host_share.steps)


def _times(count: float) -> str:
    return "once" if count == 1 else f"{count:g} times"


def _reads_text(profile: Profile) -> str:
    """Return what read back values most often."""
    host_span_uses = [span for span in profile.host_spans if span.kind is SpanKind.SYNCHRONIZATION]
    host_span_uses.sort(key=lambda host_span_use: -host_span_use.count)
    return ", ".join(
        f"{host_span_use.count:,} x {host_span_use.name}"
        for host_span_use in host_span_uses[:_MOST_NAMED]
    )


def _pauses_text(profile: Profile, minimum_ratio: float, steps: int) -> str:
    """Return the frames with most of the pauses, each with its time per step."""
    host_span_uses = [span for span in profile.host_spans if span.kind is SpanKind.PAUSE][
        :_MOST_NAMED
    ]
    whole = sum(host_span_use.seconds for host_span_use in host_span_uses)
    shown = [
        host_span_use
        for host_span_use in host_span_uses
        if host_span_use.seconds >= minimum_ratio * whole
    ]
    return ", ".join(
        f"{host_span_use.seconds / steps * 1e3:,.1f} ms in {host_span_use.name}"
        for host_span_use in shown
    )
