"""Conflicts between rules: of verdicts on one workload that contradict each other one stands."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from rightsizer.advice.judgement import Judgement
from rightsizer.advice.verdict import finding_id
from rightsizer.model.finding import Action, Finding, FindingKind, Reason

_SIZE_ACTIONS: Final = frozenset(
    {
        Action.RELEASE,
        Action.SCALE_TO_ZERO,
        Action.AUTOSCALE,
        Action.REDUCE_REPLICAS,
        Action.REDUCE_GPU_COUNT,
        Action.SHARE_MIG,
        Action.SHARE_MPS,
        Action.SHARE_TIMESLICE,
        Action.CHANGE_GPU_TYPE,
    }
)
"""Whoever does one of them has other GPUs afterwards, to which the others no longer apply."""
_COUNT_ACTIONS: Final = frozenset({Action.REDUCE_REPLICAS, Action.REDUCE_GPU_COUNT})
_STALLS: Final = frozenset({Reason.HIDDEN_STALL, Reason.RANK_IMBALANCE})


@dataclass(frozen=True, slots=True)
class _Precedence:
    """What is held back while something else is true of the same workload."""

    wins: Callable[[Finding], bool]
    yields: Callable[[Finding], bool]


_PRECEDENCES: Final = (
    # A rank that waits for the others looks idle, and is not.
    _Precedence(
        lambda finding: bool(_STALLS.intersection(finding.reasons)),
        lambda finding: finding.kind is FindingKind.IDLE,
    ),
    # What does nothing has neither a bottleneck nor a size.
    _Precedence(
        lambda finding: finding.kind is FindingKind.IDLE,
        lambda finding: finding.kind in (FindingKind.INEFFICIENT, FindingKind.OVERPROVISIONED),
    ),
    # docs/definitions.md, conduct: never 'over' while any dimension is 'under'.
    _Precedence(
        lambda finding: finding.kind is FindingKind.UNDERPROVISIONED,
        lambda finding: finding.kind is FindingKind.OVERPROVISIONED,
    ),
    # Short of compute and of nothing else: what is said of the SMs says it all.
    _Precedence(
        lambda finding: finding.reasons[0] is Reason.COMPUTE_SATURATED,
        lambda finding: finding.reasons == (Reason.GPU_UNDERPROVISIONED, Reason.COMPUTE_SATURATED),
    ),
    # A load that comes and goes by the hour gets autoscaling, not fewer GPUs.
    _Precedence(
        lambda finding: Reason.DIURNAL_AUTOSCALE in finding.reasons,
        lambda finding: (
            Reason.DIURNAL_AUTOSCALE not in finding.reasons
            and (
                Reason.GPU_COUNT_OVERPROVISIONED in finding.reasons
                or finding.action in _COUNT_ACTIONS
            )
        ),
    ),
)
"""In this order: what was held back holds nothing back."""


def without_conflicts(judgements: Sequence[Judgement]) -> tuple[Judgement, ...]:
    """The judgements, in their order, with those held back that others contradict.

    Each workload's are looked at by themselves, and their order does not matter.
    """
    by_key: dict[str, list[int]] = {}
    for place, judgement in enumerate(judgements):
        by_key.setdefault(judgement.key, []).append(place)
    result = [_grouped(judgement) for judgement in judgements]
    for places in by_key.values():
        for place, settled in zip(places, _settled([result[at] for at in places]), strict=True):
            result[place] = settled
    return tuple(result)


def _settled(judgements: list[Judgement]) -> list[Judgement]:
    held: set[int] = set()
    for precedence in _PRECEDENCES:
        winners = _names(
            judgement.finding
            for place, judgement in enumerate(judgements)
            if place not in held and _is_true(judgement) and precedence.wins(judgement.finding)
        )
        if not winners:
            continue
        for place, judgement in enumerate(judgements):
            if judgement.finding.is_complaint and precedence.yields(judgement.finding):
                if place not in held:
                    judgements[place] = judgement.suppressed_by_conflict(winners)
                held.add(place)
    return judgements


def _is_true(judgement: Judgement) -> bool:
    """Whether it is a complaint that was not over before the end of the span."""
    return judgement.finding.is_complaint and judgement.still_holds is not False


def _names(findings: Iterable[Finding]) -> str:
    return ", ".join(
        sorted({f"{finding.rule} ({', '.join(finding.reasons)})" for finding in findings})
    )


def _grouped(judgement: Judgement) -> Judgement:
    finding = judgement.finding
    is_size = finding.is_complaint and finding.action in _SIZE_ACTIONS
    if not is_size or finding.exclusive_group is not None:
        return judgement
    group = finding_id(judgement.key, "exclusive", "size", "")
    return replace(judgement, finding=replace(finding, exclusive_group=group))
