"""Services whose users wait while the SMs are at their limit.

A saturated batch job is well used; a saturated service is, too, until users wait for it.
"""

from typing import Final

from rightsizer.advice.board_options import faster_boards
from rightsizer.advice.board_status import readings_of
from rightsizer.advice.market import Market
from rightsizer.advice.observation import minimum_known, observe, on_ratio
from rightsizer.advice.rules.rule import OpeningPolicy, Rule
from rightsizer.advice.verdict import abstain, complain, find_nothing, names_of
from rightsizer.model.finding import (
    Action,
    Case,
    Finding,
    FindingKind,
    Instruction,
    Reason,
    Risk,
    Savings,
)
from rightsizer.model.frozen import dataclass, field
from rightsizer.model.settings import setting
from rightsizer.model.signal import Signal
from rightsizer.model.state import Resource, Tier
from rightsizer.model.window import Window
from rightsizer.model.workload import WorkloadClass
from rightsizer.owners.registry import owner_of

NAME: Final = "compute_saturated"
_COSTS_MORE: Final = Savings(reason="a GPU that is too small saves nothing")
_APPLICATION: Final = frozenset(
    {Signal.REQUESTS_WAITING, Signal.KV_CACHE_USED, Signal.REQUESTS_RUNNING}
)


@dataclass(frozen=True, slots=True)
class ComputeSaturatedSettings:
    """From when on a service is short of compute."""

    on_ratio: float = on_ratio(
        0.05,
        "Share of the span for which the SMs must be at their limit while users wait.",
        "docs/definitions.md, provisioning",
    )
    minimum_known_seconds: float = minimum_known()
    saturated_ratio: float = setting(
        0.5,
        help="Share of the span at the limit from which on it matters whether users wait.",
        source="docs/definitions.md, conduct: as for the other limits",
    )
    conduct: OpeningPolicy = field(default_factory=OpeningPolicy)


def judge(case: Case, settings: ComputeSaturatedSettings, market: Market) -> Finding:
    """Whether users of a service wait while the SMs of a GPU are at their limit."""
    saturated = {window.uuid: _share(window, saturated=True) for window in case.windows}
    is_service = case.workload_class is WorkloadClass.SERVING

    seen = observe(
        NAME,
        case,
        settings,
        {
            window.uuid: _share(window, saturated=False) if is_service else 0.0
            for window in case.windows
        },
        "SMs at their limit while users wait",
        tiers=frozenset({Tier.PROFILING, Tier.POWER}),
        why_unsupported="without power or profiling nobody knows how much the SMs do",
        evidence_name="pressed_ratio",
    )
    most = max(saturated.values(), default=0.0)
    if isinstance(seen, Finding):
        if seen.abstained is not None or most < settings.saturated_ratio:
            return seen
        return _well_used(case, seen, most)
    # A pod's owner can run more of it, a session or service of a host cannot.
    scaling = owner_of(case.workload.kind).scale_by_queue(case.workload) if case.workload else ()
    more = "another replica behind the same balancer, or one of the options below"
    return complain(
        NAME,
        case,
        kind=FindingKind.UNDERPROVISIONED,
        reasons=(Reason.COMPUTE_SATURATED,),
        action=Action.AUTOSCALE if scaling else Action.CHANGE_GPU_TYPE,
        summary=f"{seen.summary}.",
        factors=seen.factors,
        risk=Risk.VERY_LOW,
        evidence=seen.evidence | {"saturated_ratio": saturated},
        options=faster_boards(case, market),
        savings=_COSTS_MORE,
        minimum_confidence_ratio=market.settings.minimum_confidence_ratio,
        instructions=scaling or (Instruction("Give it more compute", more),),
        affected_gpus=seen.gpus,
    )


def _share(window: Window, *, saturated: bool) -> float:
    times = window.saturated if saturated else window.pressed
    return round(times.get(Resource.COMPUTE, 0) / window.known, 4) if window.known else 0.0


def _well_used(case: Case, found: Finding, most: float) -> Finding:
    """At the limit, and no user is known to wait."""
    if case.workload_class is WorkloadClass.SERVING and not _is_application_read(case):
        why = (
            f"its SMs are at their limit {most:.0%} of the time, and no serving engine tells "
            "whether users wait; name its endpoint in the configuration"
        )
        return abstain(NAME, case, Reason.UNSUPPORTED_TELEMETRY, why)
    summary = f"{names_of(case.devices)}: SMs at their limit {most:.0%} of the time: well used."
    evidence = dict(found.evidence) | {"saturated_ratio": most}
    return find_nothing(NAME, case, summary, found.confidence_factors, evidence)


def _is_application_read(case: Case) -> bool:
    if any(Resource.COMPUTE in window.pressed for window in case.windows):
        return True
    own = readings_of(case)
    return any(signal in each.values for each in own for signal in _APPLICATION)


RULE: Final = Rule(NAME, ComputeSaturatedSettings(), judge)
