"""Rule: services with waiting users and saturated SMs.

A saturated batch job is well used, and so is a service until its users wait.
"""

from collections.abc import Mapping
from typing import Annotated, Final

from rightsizer.advice.board_options import faster_boards
from rightsizer.advice.board_status import readings_of
from rightsizer.advice.instructions import instruction
from rightsizer.advice.observation import WITH_POWER, observe, screen_observed
from rightsizer.advice.rules.rule import OpeningPolicy, Rule, RuleSettings
from rightsizer.advice.savings import TOO_SMALL
from rightsizer.advice.screen import Screen, SubjectTable, left
from rightsizer.advice.verdict import CaseSubject
from rightsizer.model.values import (
    CONSTANT,
    Action,
    Finding,
    Nanoseconds,
    Reason,
    Resource,
    Signal,
    Spec,
    Window,
    WorkloadClass,
    percent_text,
)
from rightsizer.owners.registry import owner_of

_UNKNOWN_WORK: Final = "without power or profiling, how much the SMs do is unknown"
_APPLICATION: Final = frozenset(
    {Signal.REQUESTS_WAITING, Signal.KV_CACHE_USED, Signal.REQUESTS_RUNNING}
)


class ComputeSaturatedSettings(RuleSettings, frozen=True):
    """Thresholds for services short of compute.

    Attributes:
        on_ratio: Share of the span with saturated SMs while users wait.
            Source: docs/definitions.md, provisioning
        saturated_ratio: Share of the span with saturated SMs from which waiting users matter.
            Source: docs/definitions.md, conduct: as for the other limits
    """

    on_ratio: Annotated[float, Spec(within=(0.001, 1))] = 0.05
    saturated_ratio: Annotated[float, CONSTANT] = 0.5
    conduct: OpeningPolicy = OpeningPolicy()


def judge(subject: CaseSubject, settings: ComputeSaturatedSettings) -> Finding:
    """Whether users of a service wait while the SMs of a GPU are saturated."""
    case = subject.case
    saturated = {window.uuid: _share(window, window.saturated) for window in case.windows}
    is_service = case.workload_class is WorkloadClass.SERVING
    seen = observe(
        subject,
        settings,
        lambda window: _share(window, window.pressed) if is_service else 0.0,
        "SMs at their limit while users wait",
        tiers=WITH_POWER,
        why_unsupported=_UNKNOWN_WORK,
        evidence_name="pressed_ratio",
    )
    share = max(saturated.values(), default=0.0)
    if isinstance(seen, Finding):
        if seen.abstained is not None or share < settings.saturated_ratio:
            return seen
        return _well_used(subject, seen, share)
    # More replicas only if the owner can scale; a session or service of a host cannot.
    scaling = owner_of(case.workload.kind).scale_by_queue(case.workload) if case.workload else ()
    return seen.find_problem(
        "",
        reasons=(Reason.COMPUTE_SATURATED,),
        action=Action.AUTOSCALE if scaling else Action.CHANGE_GPU_TYPE,
        evidence={"saturated_ratio": saturated},
        options=faster_boards(case, subject.market),
        savings=TOO_SMALL,
        instructions=scaling or (instruction("add_compute"),),
    )


def _share(window: Window, times: Mapping[Resource, Nanoseconds]) -> float:
    return round(times.get(Resource.COMPUTE, 0) / window.known, 4) if window.known else 0.0


def _well_used(subject: CaseSubject, finding: Finding, share: float) -> Finding:
    case = subject.case
    is_application_read = any(Resource.COMPUTE in window.pressed for window in case.windows) or any(
        signal in reading.values for reading in readings_of(case) for signal in _APPLICATION
    )
    if case.workload_class is WorkloadClass.SERVING and not is_application_read:
        return subject.abstain(
            f"its SMs are at their limit {percent_text(share)} of the time, and no serving engine "
            "tells whether users wait; name its endpoint in the configuration"
        )
    summary = f"{subject.name}: SMs at their limit {percent_text(share)} of the time: well used."
    evidence = dict(finding.evidence) | {"saturated_ratio": share}
    return subject.find_nothing(summary, finding.confidence_factors, evidence)


def screen(table: SubjectTable, settings: ComputeSaturatedSettings) -> Screen:
    """Settle of which subjects no users wait."""
    is_service = table.is_of(WorkloadClass.SERVING)
    saturated = table.saturated_share(Resource.COMPUTE)
    yield from screen_observed(
        table,
        settings,
        is_service * (table.pressed_share(Resource.COMPUTE) + _DIGITS),
        left(is_service & (saturated >= settings.saturated_ratio - _DIGITS)),
        tiers=WITH_POWER,
        why_unsupported=_UNKNOWN_WORK,
    )


_DIGITS: Final = 1e-4
"""Shares are rounded to four digits; one as near to a threshold is judged."""


RULE: Final = Rule("compute_saturated", ComputeSaturatedSettings(), judge, screen)
