"""Ranks that the others wait for: who starts the last long collective of a step latest.

The measure of HolisticTraceAnalysis; a collective lasts until the last rank has joined it.
"""

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Final

from rightsizer.model.finding import Action, Finding, Instruction, Reason, Risk
from rightsizer.model.frozen import dataclass
from rightsizer.model.profile import Profile, StepUse
from rightsizer.profiler.rules.rule import (
    Gain,
    ProfileComplaint,
    ProfiledMember,
    ProfileRule,
    StepGain,
    VerdictBasis,
    abstain,
    complain,
    factors_of,
    find_nothing,
    members_of,
    no_time_line,
)
from rightsizer.profiler.settings import ProfileRankImbalanceSettings

NAME: Final = "profile_rank_imbalance"
_NANOSECONDS: Final = 1e9


@dataclass(frozen=True, slots=True)
class _Lag:
    """Of one step."""

    latest: str
    behind_seconds: float
    ratio: float


def judge(profiles: Sequence[Profile], settings: ProfileRankImbalanceSettings) -> Finding:
    """Whether one rank is waited for, step after step."""
    every = members_of(profiles)
    if not every:
        return abstain(NAME, profiles, Reason.UNSUPPORTED_TELEMETRY, no_time_line(profiles))
    members = [each for each in every if each.device.steps]
    if len(members) < _A_PAIR:
        why = "one device with steps has nobody to wait for; give the files of several ranks"
        return abstain(NAME, profiles, Reason.INSUFFICIENT_DATA, why)
    lags = _lags(members)
    if not lags:
        why = "no step in which several ranks have a long collective"
        return abstain(NAME, profiles, Reason.INSUFFICIENT_DATA, why)
    latest = [each.latest for each in lags]
    culprit = max(dict.fromkeys(latest), key=latest.count)
    ratio = mean(each.ratio for each in lags)
    seen = _seen(members[0], lags, culprit, settings)
    is_same = latest.count(culprit) / len(lags) >= settings.same_rank_ratio
    if ratio < settings.on_ratio or not is_same:
        return find_nothing(NAME, profiles, seen)
    straggler = next(each for each in members if each.key == culprit)
    complaint = ProfileComplaint(
        seen=seen,
        reason=Reason.RANK_IMBALANCE,
        action=Action.INVESTIGATE_STRAGGLER,
        gain=_gain(straggler, lags),
        description="Even out the load, or mend the slow rank.",
        culprits=(culprit,),
        instructions=(_COMPARE,),
        risk=Risk.LOW,
    )
    return complain(NAME, profiles, complaint)


def _gain(straggler: ProfiledMember, lags: Sequence[_Lag]) -> Gain:
    """From what it is behind at least to the mean of it."""
    ratios = [each.ratio for each in lags]
    behind = [each.behind_seconds for each in lags]
    length = straggler.step_seconds
    step = (
        None
        if length is None
        else StepGain(length, min(length, *behind), min(length, mean(behind)))
    )
    return Gain(min(ratios), mean(ratios), step)


def _lags(members: Sequence[ProfiledMember]) -> list[_Lag]:
    """Of each step that several ranks have, by its name."""
    has_wall_time = all(each.profile.start is not None for each in members)
    by_step: dict[str, dict[str, tuple[float, StepUse]]] = {}
    for member in members:
        for step in member.device.steps:
            if step.last_long_collective is not None:
                # Clocks of several hosts are not one; where wall time is not known, a step's
                # own start is what they share.
                zero = -(member.profile.start or 0) if has_wall_time else step.start
                late = (step.last_long_collective - zero) / _NANOSECONDS
                by_step.setdefault(step.name, {})[member.key] = (late, step)
    return [_lag(each) for each in by_step.values() if len(each) >= _A_PAIR]


def _lag(found: Mapping[str, tuple[float, StepUse]]) -> _Lag:
    latest = max(found, key=lambda key: found[key][0])
    behind = found[latest][0] - min(late for late, _ in found.values())
    length = max(step.end - step.start for _, step in found.values()) / _NANOSECONDS
    return _Lag(latest, behind, min(1.0, behind / length) if length > 0 else 0.0)


def _seen(
    member: ProfiledMember,
    lags: Sequence[_Lag],
    culprit: str,
    settings: ProfileRankImbalanceSettings,
) -> VerdictBasis:
    behind, ratio = mean(each.behind_seconds for each in lags), mean(each.ratio for each in lags)
    times = sum(each.latest == culprit for each in lags)
    return VerdictBasis(
        f"{culprit} is the latest in {times} of {len(lags)} steps; the latest is "
        f"{behind * 1e3:,.2f} ms behind the first, {ratio:.1%} of a step.",
        factors_of(member, ratio, settings.on_ratio),
        {
            "latest": culprit,
            "steps": len(lags),
            "steps_latest": times,
            "behind_seconds": round(behind, 9),
            "behind_ratio": round(ratio, 4),
        },
    )


_A_PAIR: Final = 2
_COMPARE: Final = Instruction(
    "Compare the slow rank with the others",
    "its kernels against theirs: the same kernels slower is the GPU (clocks, power, throttling: "
    "nvidia-smi -q -d PERFORMANCE), more of them is the load (lengths of sequences, shards)",
)
RULE: Final = ProfileRule(NAME, ProfileRankImbalanceSettings(), judge)
