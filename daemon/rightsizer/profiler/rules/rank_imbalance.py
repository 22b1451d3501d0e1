"""Ranks that others wait for, because they join the collectives of a step last.

A collective ends on all ranks at once, whatever their clocks say, and lasts from when a rank joins
it: of the n-th collective of a group, the rank on which it is shortest has joined last, and what it
lasts there is sending. What does not end at once is not the same collective, as where the ranks of
a group are not told.
"""

from collections.abc import Mapping, Sequence
from statistics import mean, median
from typing import Final

from msgspec import Struct

from rightsizer.advice.risk import probability_above
from rightsizer.model.profile import HostStep, Profile, SpanKind, StepUse
from rightsizer.model.values import Action, Reason, seconds
from rightsizer.profiler.matched_collectives import (
    MatchedCollective,
    matched_collectives,
    steps_of,
)
from rightsizer.profiler.member import RankSteps, members_of, no_timeline, ranks_of
from rightsizer.profiler.rules import host_steps, rule
from rightsizer.profiler.rules.rule import Gain, ProfileVerdict, StepGain
from rightsizer.profiler.settings import ProfileRankImbalanceSettings


class RankLags(Struct, frozen=True):
    """How late ranks joined the collectives of a step, in sum behind the first of each."""

    behind_seconds: Mapping[str, float]
    """By rank."""
    sent_seconds: float
    """At most: from when the last of these ranks had joined; others may be later still."""
    step_seconds: float

    @property
    def latest(self) -> str:
        """The rank that others waited for longest."""
        return max(self.behind_seconds, key=self.behind_seconds.__getitem__)

    @property
    def ratio(self) -> float:
        """How late it was, as a share of the step."""
        behind = self.behind_seconds[self.latest]
        return min(1.0, behind / self.step_seconds) if self.step_seconds > 0 else 0.0


def judge(profiles: Sequence[Profile], settings: ProfileRankImbalanceSettings) -> ProfileVerdict:
    """Whether some ranks delay the others, step after step."""
    ranks = ranks_of(profiles)
    if not ranks and not members_of(profiles):
        raise rule.NoVerdictError(Reason.UNSUPPORTED_TELEMETRY, no_timeline(profiles))
    if len(ranks) < _A_PAIR:
        why = "fewer than two ranks with marked steps; give the files of several ranks"
        raise rule.NoVerdictError(Reason.INSUFFICIENT_DATA, why)
    if not (lags := lags_of(ranks, settings)):
        why = "no step in which several ranks have the same collectives"
        raise rule.NoVerdictError(Reason.INSUFFICIENT_DATA, why)
    held = [lag for lag in lags if lag.ratio >= settings.on_ratio] or lags
    latest = [lag.latest for lag in held]
    last = max(dict.fromkeys(latest), key=latest.count)
    times = latest.count(last)
    waits = [lag.behind_seconds[lag.latest] for lag in lags]
    ratio = mean(lag.ratio for lag in lags)
    late = {
        key: mean(lag.behind_seconds.get(key, 0.0) for lag in lags)
        for key in dict.fromkeys(key for lag in lags for key in lag.behind_seconds)
    }
    culprits = _late_with(last, late, settings.late_together_ratio)
    # Once of several times is no rate.
    is_repeated = times > 1 or len(lags) == 1
    is_same = is_repeated and times / len(held) > settings.same_rank_ratio
    rank = next(rank for rank in ranks if rank.key == last)
    length = rank.step_seconds
    step = StepGain(length, min(length, *waits), min(length, mean(waits)))
    cause = _cause_of(rank, [other for other in ranks if other.key not in culprits], late[last])
    join = "joins" if len(culprits) == 1 else "join"
    others = f" and {len(culprits) - _MOST_NAMED} more" if len(culprits) > _MOST_NAMED else ""
    sent = mean(lag.sent_seconds for lag in lags)
    return ProfileVerdict(
        f"{' and '.join(culprits[:_MOST_NAMED])}{others} {join} the collectives of a step last, in "
        f"{times} of {len(lags)} steps; others wait {mean(waits) * 1e3:,.2f} ms for them, "
        f"{ratio:.1%} of a step, and at most {sent * 1e3:,.2f} ms is sent{cause.text}.",
        {"certainty": probability_above(ratio, float(len(ranks[0].steps)), settings.on_ratio)},
        {
            "latest": last,
            "steps": len(lags),
            "steps_latest": times,
            "behind_seconds": round(mean(waits), 9),
            "behind_ratio": round(ratio, 4),
            "sent_seconds": round(sent, 9),
            "cause": cause.part or None,
            "cause_seconds": round(cause.excess_seconds, 9),
        },
        culprits if is_same and ratio >= settings.on_ratio else (),
        reason=Reason.RANK_IMBALANCE,
        action=Action.INVESTIGATE_STRAGGLER,
        # From the smallest lag to the mean.
        gain=Gain(min(lag.ratio for lag in lags), ratio, step),
        description=cause.description,
        instructions=rule.instructions(*cause.remedies),
    )


def _late_with(last: str, late: Mapping[str, float], ratio: float) -> tuple[str, ...]:
    """Return the latest rank and those that are late with it, by their seconds."""
    with_it = (key for key in late if key != last and late[key] >= ratio * late[last] > 0.0)
    # Where all are late in turn, none is late.
    return (last, *with_it)[: max(1, len(late) - 1)]


def lags_of(ranks: Sequence[RankSteps], settings: ProfileRankImbalanceSettings) -> list[RankLags]:
    """Return the lags of ranks in steps, matched by name, that have the same collectives."""
    by_name: dict[str, list[MatchedCollective]] = {}
    for collective in matched_collectives(ranks, settings.end_tolerance_ratio):
        by_name.setdefault(collective.step, []).append(collective)
    steps = steps_of(ranks)
    return [_lag(steps[name], collectives) for name, collectives in by_name.items()]


class _LateCause(Struct, frozen=True):
    """What the late rank spends more time on than the others."""

    part: str = ""
    """Empty where no part is as much more as it is late."""
    excess_seconds: float = 0.0
    """In a step."""
    text: str = ""
    description: str = "Even out the load, or fix the slow rank."
    remedies: tuple[str, ...] = ("compare_ranks",)


def _cause_of(late: RankSteps, others: Sequence[RankSteps], late_seconds: float) -> _LateCause:
    """Return the part of a step that is the greater part of a delay, if there is a delay."""
    spent = _mean_parts(late)
    usual = [_mean_parts(rank) for rank in others]
    excess = {part: spent[part] - median(of_rank[part] for of_rank in usual) for part in spent}
    part = max(excess, key=excess.__getitem__)
    if not 0.0 < _MOST * late_seconds <= excess[part]:
        return _LateCause()
    kind, does, description, remedies = _PARTS[part]
    spans = [span for span in late.profile.host_spans if span.kind is kind]
    if kind is SpanKind.LOADER:
        description, *remedies = host_steps.loader_remedy(spans)
    named = f" ({spans[0].name})" if spans else ""
    more = f"; the latest {does}{named} {excess[part] * 1e3:,.2f} ms longer than the others"
    return _LateCause(part, excess[part], more, description, tuple(remedies))


def _mean_parts(rank: RankSteps) -> dict[str, float]:
    parts = [*map(_parts, rank.steps)]
    return {part: mean(of_step[part] for of_step in parts) for part in parts[0]}


def _parts(step: StepUse | HostStep) -> dict[str, float]:
    """Return what a step spends its time on, but for what waits for other ranks."""
    if isinstance(step, HostStep):
        parts = {
            "loader": step.loader_seconds,
            "checkpoint": step.checkpoint_seconds,
            "pause": step.pause_seconds,
        }
        taken = step.collective_seconds + sum(parts.values())
        return {**parts, "work": seconds(step.end - step.start) - taken}
    time = step.time
    return {
        "loader": time.loader_wait_seconds,
        "checkpoint": time.checkpoint_wait_seconds,
        "host": time.idle_seconds - time.loader_wait_seconds - time.checkpoint_wait_seconds,
        "work": time.kernel_seconds - time.exposed_collective_seconds,
    }


def _lag(
    steps: Mapping[str, StepUse | HostStep], collectives: Sequence[MatchedCollective]
) -> RankLags:
    behind = dict.fromkeys(steps, 0)
    sent = 0
    for collective in collectives:
        lasted = {rank: end - start for rank, (start, end) in collective.intervals.items()}
        sent += min(lasted.values())
        for rank, length in lasted.items():
            behind[rank] += collective.longest - length
    whole = max(step.end - step.start for step in steps.values())
    # Collectives of several streams may wait beside each other.
    return RankLags(
        {rank: seconds(min(late, whole)) for rank, late in behind.items()},
        seconds(sent),
        seconds(whole),
    )


_A_PAIR: Final = 2
_MOST_NAMED: Final = 4
_MOST: Final = 0.5
"""Of the time by which a rank is late. Source: the greater part."""
_HOST: Final = "Move work of its host off the path."
_PARTS: Final[Mapping[str, tuple[SpanKind | None, str, str, Sequence[str]]]] = {
    "loader": (SpanKind.LOADER, "is in its loader", "", ()),
    "checkpoint": (
        SpanKind.CHECKPOINT,
        "is in checkpoints",
        "Write checkpoints beside the training.",
        ("save_asynchronously",),
    ),
    "pause": (SpanKind.PAUSE, "runs no operator", _HOST, ("prepare_ahead", "watch_host")),
    "host": (SpanKind.PAUSE, "waits for its host", _HOST, ("watch_host",)),
    "work": (None, "computes", _LateCause().description, _LateCause().remedies),
}
"""Kind of the spans that are named, what the rank does, and the remedy, by part of a step."""
RULE: Final = rule.ProfileRule("profile_rank_imbalance", ProfileRankImbalanceSettings(), judge)
