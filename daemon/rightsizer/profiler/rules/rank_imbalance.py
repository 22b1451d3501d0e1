"""Ranks that others wait for, because they join the collectives of a step last.

A collective ends on all ranks at once, whatever their clocks say, and lasts from when a rank joins
it: of the n-th collective of a group, the rank on which it is shortest has joined last, and what it
lasts there is sending.
"""

from collections.abc import Mapping, Sequence
from statistics import mean

from msgspec import Struct

from rightsizer.model.finding import Action, Reason
from rightsizer.model.profile import Profile, StepUse
from rightsizer.model.units import seconds
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
    members = [each for each in every if each.device.steps]
    if len(members) < _A_PAIR:
        why = "one device with steps has no other to wait for; give the files of several ranks"
        raise rule.NoVerdictError(Reason.INSUFFICIENT_DATA, why)
    if not (lags := lags_of(members)):
        why = "no step in which several ranks have the same collectives"
        raise rule.NoVerdictError(Reason.INSUFFICIENT_DATA, why)
    latest = [each.latest for each in lags]
    last = max(dict.fromkeys(latest), key=latest.count)
    times = latest.count(last)
    waits = [each.behind_seconds[each.latest] for each in lags]
    ratio = mean(each.ratio for each in lags)
    late = {
        key: mean(each.behind_seconds.get(key, 0.0) for each in lags)
        for key in dict.fromkeys(key for each in lags for key in each.behind_seconds)
    }
    with_it = (
        key
        for key in late
        if key != last and late[key] >= settings.late_together_ratio * late[last]
    )
    # Where all are late in turn, none is late.
    culprits = (last, *with_it)[: max(1, len(late) - 1)]
    is_held = ratio >= settings.on_ratio and times / len(lags) > settings.same_rank_ratio
    length = next(each for each in members if each.key == last).step_seconds
    step = None if length is None else StepGain(length, min(length, *waits), mean(waits))
    join = "joins" if len(culprits) == 1 else "join"
    sent = mean(each.sent_seconds for each in lags)
    return ProfileVerdict(
        f"{' and '.join(culprits)} {join} the collectives of a step last, in {times} of "
        f"{len(lags)} steps; others wait {mean(waits) * 1e3:,.2f} ms for them, {ratio:.1%} of a "
        f"step, and at most {sent * 1e3:,.2f} ms is sent.",
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
        gain=Gain(min(each.ratio for each in lags), ratio, step),
        description="Even out the load, or fix the slow rank.",
        instructions=rule.instructions("compare_ranks"),
    )


def lags_of(members: Sequence[ProfiledMember]) -> list[RankLags]:
    """Return the lags in steps, matched by name, of ranks that have the same collectives."""
    by_step: dict[str, dict[str, StepUse]] = {}
    for member in members:
        for step in member.device.steps:
            by_step.setdefault(step.name, {})[member.key] = step
    return [lag for steps in by_step.values() if (lag := _lag(steps)) is not None]


def _lag(steps: Mapping[str, StepUse]) -> RankLags | None:
    """Return the lags of a step by rank; `None` without a collective that several ranks have."""
    behind = dict.fromkeys(steps, 0)
    sent = 0
    is_shared = False
    for key in dict.fromkeys(key for step in steps.values() for key in step.collectives):
        lasted = {
            rank: step.collectives[key] for rank, step in steps.items() if key in step.collectives
        }
        counts = {len(each) for each in lasted.values()}
        if len(lasted) < _A_PAIR or len(counts) > 1:
            continue  # Ranks that ran other collectives cannot be matched by number.
        is_shared = True
        for lengths in zip(*lasted.values(), strict=True):
            sent += min(lengths)
            for rank, length in zip(lasted, lengths, strict=True):
                behind[rank] += max(lengths) - length
    if not is_shared:
        return None
    longest = max(step.end - step.start for step in steps.values())
    return RankLags(
        {rank: seconds(late) for rank, late in behind.items()}, seconds(sent), seconds(longest)
    )


_A_PAIR = 2
RULE = rule.ProfileRule("profile_rank_imbalance", ProfileRankImbalanceSettings(), judge)
