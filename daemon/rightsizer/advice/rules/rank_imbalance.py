"""GPUs of one job that do unequal work: one that lags, one that is fed less, one that does it all.

A job is as fast as its slowest rank, so that what the others wait is lost on all of them.
"""

from typing import Final

from rightsizer.advice.attribution import lost_gpus
from rightsizer.advice.observation import minimum_known, observe, observed_seconds, on_ratio
from rightsizer.advice.rules.rule import OpeningPolicy, Rule
from rightsizer.advice.straggler import (
    Deviation,
    Straggler,
    follow_up,
    straggler_group,
    straggler_of,
)
from rightsizer.advice.verdict import CaseSubject, names_of, released
from rightsizer.model.finding import Action, Case, Finding, Reason
from rightsizer.model.frozen import dataclass, field, replace
from rightsizer.model.settings import setting
from rightsizer.model.state import Condition, Observation, State
from rightsizer.model.units import seconds
from rightsizer.model.window import Window


@dataclass(frozen=True, slots=True)
class RankImbalanceSettings:
    """From when on an imbalance is a finding, and who stands out.

    Attributes:
        stalled_ratio: Share of the span from which on a GPU counts as one that spins for the
            others.
            Source: two thirds of what is a hidden stall by itself
        spread_ratio: Difference of the shares at work, over the span, that names who differs.
            Source: the spread .25 of docs/definitions.md for a bit less than half of the span
    """

    on_ratio: float = on_ratio(
        0.3,
        "Share of the span for which the job must be out of balance.",
        "docs/definitions.md, conduct: as for a hidden stall, which is its usual face",
    )
    minimum_known_seconds: float = minimum_known()
    stalled_ratio: float = setting(0.2, within=(0.01, 1))
    spread_ratio: float = setting(0.1, within=(0.01, 1))
    conduct: OpeningPolicy = field(default_factory=OpeningPolicy)


def judge(subject: CaseSubject, settings: RankImbalanceSettings) -> Finding:
    """Whether the GPUs of the job do unequal work, and which of them differs."""
    case = subject.case
    if len(case.devices) == 1:
        if case.workload is None:
            return subject.abstain("who holds the GPU is not known, and so not with which others")
        return subject.find_nothing("One GPU cannot be out of balance.")
    seen = observe(
        subject,
        settings,
        _unbalanced_share,
        "out of balance",
        why_unsupported="the GPUs were not compared: that takes 10 min in which two of them are "
        "at one job",
        observation=Observation.RANKS,
    )
    if isinstance(seen, Finding):
        return seen
    stragglers = straggler_of(case, settings.stalled_ratio, settings.spread_ratio)
    lost = _lost(case, stragglers)
    found = seen.complain(
        f": {_who(stragglers)}",
        reasons=(Reason.RANK_IMBALANCE,),
        action=Action.INVESTIGATE_STRAGGLER,
        evidence={"oddity": str(stragglers.deviation), "at_work_ratio": dict(stragglers.levels)},
        culprits=tuple(device.uuid for device in stragglers.devices),
        savings=released(case, subject.market, 0.0, lost / case.gpus),
        instructions=follow_up(case, stragglers.devices),
        affected_gpus=lost,
    )
    return replace(found, exclusive_group=straggler_group(case))


def _unbalanced_share(window: Window) -> float:
    """Of the time in which the GPU was compared with others."""
    held = seconds(window.conditions.get(Condition.RANK_IMBALANCE, 0))
    compared = max(held, observed_seconds(window, Observation.RANKS))
    return held / compared if compared else 0.0


def _lost(case: Case, stragglers: Straggler) -> float:
    """GPUs' worth of time that is spun away, or that all would work as much as the first does."""
    most = max(stragglers.levels.values(), default=0.0)
    unequal = sum(
        (most - stragglers.levels[device.uuid]) * device.capacity_ratio
        for device in case.devices
        if device.uuid in stragglers.levels
    )
    return min(case.gpus, max(unequal, lost_gpus(case, State.HIDDEN_STALL)))


def _who(stragglers: Straggler) -> str:
    names = names_of(stragglers.devices) if stragglers.devices else ""
    is_one = len(stragglers.devices) == 1
    return {
        Deviation.AWAITED: f"the others spin while {names} {'works' if is_one else 'work'}",
        Deviation.ABSENT: (
            f"the others spin while {names} {'rests' if is_one else 'rest'}, so that "
            f"{'its process is' if is_one else 'their processes are'} busy elsewhere, or "
            f"{'hangs' if is_one else 'hang'}"
        ),
        Deviation.STARVED: f"{names} {'does' if is_one else 'do'} less than the others",
        Deviation.OVERLOADED: f"{names} {'does' if is_one else 'do'} most of the work",
        Deviation.UNCLEAR: "which one lags changes, as with inputs of unequal length",
    }[stragglers.deviation]


RULE: Final = Rule("rank_imbalance", RankImbalanceSettings(), judge)
