"""Ranks that others wait for, because they join the collectives of a step last.

A collective ends on all ranks at once, whatever their clocks say, and lasts from when a rank joins
it: of the n-th collective of a group, the rank on which it is shortest has joined last, and what it
lasts there is sending. What does not end at once is not the same collective, as where the ranks of
a group are not told.
"""

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Final

from msgspec import Struct

from rightsizer.model.profile import Profile, StepUse
from rightsizer.model.values import Action, Reason, seconds
from rightsizer.profiler.matched_collectives import (
    MatchedCollective,
    matched_collectives,
    steps_of,
)
from rightsizer.profiler.member import ProfiledMember, members_of, no_timeline
from rightsizer.profiler.rules import rule
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
    if not (every := members_of(profiles)):
        raise rule.NoVerdictError(Reason.UNSUPPORTED_TELEMETRY, no_timeline(profiles))
    members = [member for member in every if member.device.steps]
    if len(members) < _A_PAIR:
        why = "one device with steps has no other to wait for; give the files of several ranks"
        raise rule.NoVerdictError(Reason.INSUFFICIENT_DATA, why)
    if not (lags := lags_of(members, settings)):
        why = "no step in which several ranks have the same collectives"
        raise rule.NoVerdictError(Reason.INSUFFICIENT_DATA, why)
    latest = [lag.latest for lag in lags]
    last = max(dict.fromkeys(latest), key=latest.count)
    times = latest.count(last)
    waits = [lag.behind_seconds[lag.latest] for lag in lags]
    ratio = mean(lag.ratio for lag in lags)
    late = {
        key: mean(lag.behind_seconds.get(key, 0.0) for lag in lags)
        for key in dict.fromkeys(key for lag in lags for key in lag.behind_seconds)
    }
    with_it = (
        key
        for key in late
        if key != last and late[key] >= settings.late_together_ratio * late[last] > 0.0
    )
    # Where all are late in turn, none is late.
    culprits = (last, *with_it)[: max(1, len(late) - 1)]
    is_held = ratio >= settings.on_ratio and times / len(lags) > settings.same_rank_ratio
    length = next(member for member in members if member.key == last).step_seconds
    step = (
        None if length is None else StepGain(length, min(length, *waits), min(length, mean(waits)))
    )
    join = "joins" if len(culprits) == 1 else "join"
    others = f" and {len(culprits) - _MOST_NAMED} more" if len(culprits) > _MOST_NAMED else ""
    sent = mean(lag.sent_seconds for lag in lags)
    return ProfileVerdict(
        f"{' and '.join(culprits[:_MOST_NAMED])}{others} {join} the collectives of a step last, in "
        f"{times} of {len(lags)} steps; others wait {mean(waits) * 1e3:,.2f} ms for them, "
        f"{ratio:.1%} of a step, and at most {sent * 1e3:,.2f} ms is sent.",
        rule.factors_of(members[0], ratio, settings.on_ratio),
        {
            "latest": last,
            "steps": len(lags),
            "steps_latest": times,
            "behind_seconds": round(mean(waits), 9),
            "behind_ratio": round(ratio, 4),
            "sent_seconds": round(sent, 9),
        },
        culprits if is_held else (),
        reason=Reason.RANK_IMBALANCE,
        action=Action.INVESTIGATE_STRAGGLER,
        # From the smallest lag to the mean.
        gain=Gain(min(lag.ratio for lag in lags), ratio, step),
        description="Even out the load, or fix the slow rank.",
        instructions=rule.instructions("compare_ranks"),
    )


def lags_of(
    members: Sequence[ProfiledMember], settings: ProfileRankImbalanceSettings
) -> list[RankLags]:
    """Return the lags of ranks in steps, matched by name, that have the same collectives."""
    by_name: dict[str, list[MatchedCollective]] = {}
    for collective in matched_collectives(members, settings.end_tolerance_ratio):
        by_name.setdefault(collective.step, []).append(collective)
    steps = steps_of(members)
    return [_lag(steps[name], collectives) for name, collectives in by_name.items()]


def _lag(steps: Mapping[str, StepUse], collectives: Sequence[MatchedCollective]) -> RankLags:
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
RULE: Final = rule.ProfileRule("profile_rank_imbalance", ProfileRankImbalanceSettings(), judge)
