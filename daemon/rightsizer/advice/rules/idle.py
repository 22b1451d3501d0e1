"""GPUs that do nothing: empty, or held by somebody who does not use them.

All GPUs of a workload must be idle before the workload is called idle; one idle GPU among
busy ones is a straggler's mark, not a GPU to reclaim (recommending 1.2, 1.3).
"""

from dataclasses import dataclass
from typing import Final

from rightsizer.advice.confidence import direct_factors
from rightsizer.advice.risk import risk_of
from rightsizer.advice.rules.rule import Conduct, Rule
from rightsizer.advice.verdict import Complaint, abstain, complain, find_nothing, names_of
from rightsizer.domain.finding import Action, Case, Finding, FindingKind, Reason
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
    notebook_seconds: float = _patience(3600.0, "a notebook", "recommending 6.2")
    batch_seconds: float = _patience(1800.0, "a batch job", "recommending 6.2")
    serving_seconds: float = _patience(7200.0, "a serving replica", "recommending 6.2")
    unknown_seconds: float = _patience(
        7200.0,
        "a GPU whose use nobody stated",
        "recommending 1.6: windows of 90-120 min are right in 0.80-0.85 of cases",
    )


def judge(case: Case, settings: IdleSettings) -> Finding:
    """Whether all GPUs of the workload did nothing, and whether somebody held them."""
    known = min((window.known_seconds for window in case.windows), default=0.0)
    if known < settings.minimum_known_seconds:
        why = f"only {format_duration(known)} of telemetry"
        return abstain(NAME, case, Reason.INSUFFICIENT_DATA, why)
    if case.workload and case.workload.workload_class is WorkloadClass.STANDBY:
        why = "a standby is meant to be idle"
        return find_nothing(NAME, case, f"Not judged: {why}.", {}, {})
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
            NAME, case, f"{names_of(case.devices)}: {active}.", _opposite(factors), evidence
        )
    return complain(NAME, case, _complaint(case, share, known, factors, evidence))


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
    known: float,
    factors: dict[str, float],
    evidence: dict[str, object],
) -> Complaint:
    is_held = any(
        window.states.get(State.IDLE_HELD, 0) > window.states.get(State.IDLE_EMPTY, 0)
        for window in case.windows
    )
    level = risk_of(1.0 - share, known)
    holder = f" by {case.workload.name}" if case.workload else ""
    what = f"held{holder} but idle" if is_held else "empty and idle"
    return Complaint(
        finding=FindingKind.IDLE,
        reasons=(Reason.IDLE_HELD if is_held else Reason.IDLE_EMPTY,),
        action=_action(case.workload),
        summary=(
            f"{names_of(case.devices)}: {what} {share:.0%} of the last {format_duration(known)}."
        ),
        factors=factors,
        risk=level.risk,
        evidence=evidence | {"resume_upper_bound_ratio": level.upper_bound_ratio},
    )


def _action(workload: Workload | None) -> Action:
    is_serving = workload is not None and workload.workload_class is WorkloadClass.SERVING
    return Action.SCALE_TO_ZERO if is_serving else Action.RELEASE


def _opposite(factors: dict[str, float]) -> dict[str, float]:
    return factors | {"certainty": 1.0 - factors["certainty"]}


RULE: Final = Rule(NAME, IdleSettings(), judge, conduct)
