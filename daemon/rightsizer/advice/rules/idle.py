"""GPUs that do nothing: empty, or held by somebody who does not use them.

All GPUs of a workload must be idle before the workload is called idle; one idle GPU among
busy ones is a straggler's mark, not a GPU to reclaim (docs/definitions.md, conduct).
"""

from dataclasses import dataclass
from typing import Final

from rightsizer.advice.confidence import direct_factors, opposite
from rightsizer.advice.market import Market
from rightsizer.advice.risk import risk_of
from rightsizer.advice.rules.rule import Conduct, Rule
from rightsizer.advice.savings import released
from rightsizer.advice.verdict import (
    Complaint,
    abstain_early,
    complain,
    find_nothing,
    known_seconds,
    names_of,
)
from rightsizer.domain.finding import (
    Action,
    Case,
    Finding,
    FindingKind,
    Option,
    Reason,
    Risk,
    Savings,
)
from rightsizer.domain.settings import setting
from rightsizer.domain.state import IDLE_STATES, State
from rightsizer.domain.units import format_duration
from rightsizer.domain.workload import Workload, WorkloadClass

__all__ = ["RULE", "IdleSettings"]

NAME: Final = "idle"


def _patience(default: float, who: str, source: str) -> float:
    result: float = setting(
        default,
        help=f"How long {who} may be idle before anybody says so.",
        unit="seconds",
        minimum=600,
        source=source,
    )
    return result


@dataclass(frozen=True, slots=True)
class IdleSettings:
    """From when on idleness is worth a word."""

    on_ratio: float = setting(
        0.9,
        help="Share of the span that must be idle.",
        unit="ratio",
        minimum=0.5,
        maximum=1,
        source="a few active seconds an hour do not make a GPU used",
    )
    minimum_known_seconds: float = setting(
        60.0,
        help="Known time under which the rule abstains.",
        unit="seconds",
        minimum=0,
        source="one learned idle draw",
    )
    notebook_seconds: float = _patience(3600.0, "a notebook", "docs/definitions.md, conduct")
    batch_seconds: float = _patience(1800.0, "a batch job", "docs/definitions.md, conduct")
    serving_seconds: float = _patience(7200.0, "a serving replica", "docs/definitions.md, conduct")
    unknown_seconds: float = _patience(
        7200.0,
        "a GPU whose use nobody stated",
        "docs/definitions.md, sources: windows of 90-120 min are right in 0.80-0.85 of cases",
    )


def judge(case: Case, settings: IdleSettings, market: Market) -> Finding:
    """Whether all GPUs of the workload did nothing, and whether somebody held them."""
    too_little = abstain_early(NAME, case, settings.minimum_known_seconds)
    if too_little is not None:
        return too_little
    if case.workload and case.workload.workload_class is WorkloadClass.STANDBY:
        return find_nothing(NAME, case, "A standby is meant to be idle.", {}, {})
    shares = {window.uuid: window.share(*IDLE_STATES) for window in case.windows}
    share = min(shares.values())
    evidence = {
        "idle_ratio": {uuid: round(each, 4) for uuid, each in shares.items()},
        "threshold_ratio": settings.on_ratio,
    }
    factors = direct_factors(case, share, settings.on_ratio)
    if share < settings.on_ratio:
        active = f"active {1 - share:.0%} of the time"
        return find_nothing(
            NAME, case, f"{names_of(case.devices)}: {active}.", opposite(factors), evidence
        )
    return complain(NAME, case, _complaint(case, share, factors, evidence, market))


def conduct(workload: Workload | None, settings: IdleSettings) -> Conduct:
    """The class decides how long idleness is tolerated."""
    patience = {
        WorkloadClass.NOTEBOOK: settings.notebook_seconds,
        WorkloadClass.BATCH: settings.batch_seconds,
        WorkloadClass.SERVING: settings.serving_seconds,
    }.get(workload.workload_class if workload else WorkloadClass.UNKNOWN, settings.unknown_seconds)
    return Conduct(
        long_seconds=patience,
        short_seconds=min(patience, 1800.0),
        minimum_known_seconds=patience * settings.on_ratio,
        close_after_seconds=600.0,
    )


def _complaint(
    case: Case,
    share: float,
    factors: dict[str, float],
    evidence: dict[str, object],
    market: Market,
) -> Complaint:
    is_held = any(
        window.states.get(State.IDLE_HELD, 0) > window.states.get(State.IDLE_EMPTY, 0)
        for window in case.windows
    )
    level = risk_of(1.0 - share, known_seconds(case))
    holder = f" by {case.workload.name}" if case.workload else ""
    what = f"held{holder} but idle" if is_held else "empty and idle"
    savings = released(case, market, share, 1.0)
    return Complaint(
        finding=FindingKind.IDLE,
        reasons=(Reason.IDLE_HELD if is_held else Reason.IDLE_EMPTY,),
        action=_action(case.workload),
        summary=(
            f"{names_of(case.devices)}: {what} {share:.0%} of the last "
            f"{format_duration(known_seconds(case))}."
        ),
        factors=factors,
        risk=level.risk,
        evidence=evidence | {"resume_upper_bound_ratio": level.upper_bound_ratio},
        options=(_option(case, level.risk, savings),),
        savings=savings,
        minimum_confidence_ratio=market.settings.minimum_confidence_ratio,
    )


def _option(case: Case, risk: Risk, savings: Savings) -> Option:
    """Idle time is saved for certain, the rest if nobody comes back."""
    action = _action(case.workload)
    what = "scale to zero while nobody asks" if action is Action.SCALE_TO_ZERO else "give back"
    return Option(
        description=f"{what}: {names_of(case.devices)}",
        risk=risk,
        action=action,
        savings=savings,
    )


def _action(workload: Workload | None) -> Action:
    is_serving = workload is not None and workload.workload_class is WorkloadClass.SERVING
    return Action.SCALE_TO_ZERO if is_serving else Action.RELEASE


RULE: Final = Rule(NAME, IdleSettings(), judge, conduct)
