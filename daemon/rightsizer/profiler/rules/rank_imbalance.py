"""Ranks that others wait for, because they start the last long collective of a step latest.

The measure is HolisticTraceAnalysis's: a collective lasts until the last rank has joined it.
"""

from collections.abc import Sequence
from statistics import mean
from typing import Final, NamedTuple

from rightsizer.model.finding import Action, Reason
from rightsizer.model.profile import Profile, StepUse
from rightsizer.model.units import seconds
from rightsizer.profiler.member import ProfiledMember, members_of, no_timeline
from rightsizer.profiler.rules import rule
from rightsizer.profiler.rules.rule import Gain, ProfileVerdict, StepGain
from rightsizer.profiler.settings import ProfileRankImbalanceSettings


class _Lag(NamedTuple):
    latest: str
    behind_seconds: float
    ratio: float


def judge(profiles: Sequence[Profile], settings: ProfileRankImbalanceSettings) -> ProfileVerdict:
    """Whether one rank delays the others, step after step."""
    if not (every := members_of(profiles)):
        raise rule.NoVerdictError(Reason.UNSUPPORTED_TELEMETRY, no_timeline(profiles))
    members = [each for each in every if each.device.steps]
    if len(members) < _A_PAIR:
        why = "one device with steps has no other to wait for; give the files of several ranks"
        raise rule.NoVerdictError(Reason.INSUFFICIENT_DATA, why)
    if not (lags := _lags(members)):
        why = "no step in which several ranks have a long collective"
        raise rule.NoVerdictError(Reason.INSUFFICIENT_DATA, why)
    latest = [each.latest for each in lags]
    culprit = max(dict.fromkeys(latest), key=latest.count)
    times = latest.count(culprit)
    behind = mean(each.behind_seconds for each in lags)
    ratio = mean(each.ratio for each in lags)
    is_held = ratio >= settings.on_ratio and times / len(lags) >= settings.same_rank_ratio
    straggler = next(each for each in members if each.key == culprit)
    length = straggler.step_seconds
    least = min(each.behind_seconds for each in lags)
    step = None if length is None else StepGain(length, min(length, least), min(length, behind))
    return ProfileVerdict(
        f"{culprit} is the latest in {times} of {len(lags)} steps; the latest is "
        f"{behind * 1e3:,.2f} ms behind the first, {ratio:.1%} of a step.",
        rule.factors_of(members[0], ratio, settings.on_ratio),
        {
            "latest": culprit,
            "steps": len(lags),
            "steps_latest": times,
            "behind_seconds": round(behind, 9),
            "behind_ratio": round(ratio, 4),
        },
        (culprit,) if is_held else (),
        reason=Reason.RANK_IMBALANCE,
        action=Action.INVESTIGATE_STRAGGLER,
        # From the smallest lag to the mean.
        gain=Gain(min(each.ratio for each in lags), ratio, step),
        description="Even out the load, or fix the slow rank.",
        instructions=rule.instructions("compare_ranks"),
    )


def _lags(members: Sequence[ProfiledMember]) -> list[_Lag]:
    """Return the lags in steps, matched by name, that several ranks have."""
    has_wall_time = all(each.profile.start is not None for each in members)
    by_step: dict[str, dict[str, tuple[float, StepUse]]] = {}
    for member in members:
        for step in member.device.steps:
            if step.last_long_collective is not None:
                # Hosts' clocks differ; without wall time, ranks share only the step's own start.
                zero = -(member.profile.start or 0) if has_wall_time else step.start
                late = seconds(step.last_long_collective - zero)
                by_step.setdefault(step.name, {})[member.key] = (late, step)
    lags: list[_Lag] = []
    for found in by_step.values():
        if len(found) >= _A_PAIR:
            times = {key: time for key, (time, _) in found.items()}
            latest = max(times, key=times.__getitem__)
            behind = times[latest] - min(times.values())
            length = seconds(max(step.end - step.start for _, step in found.values()))
            ratio = min(1.0, behind / length) if length > 0 else 0.0
            lags.append(_Lag(latest, behind, ratio))
    return lags


_A_PAIR: Final = 2
RULE: Final = rule.ProfileRule("profile_rank_imbalance", ProfileRankImbalanceSettings(), judge)
