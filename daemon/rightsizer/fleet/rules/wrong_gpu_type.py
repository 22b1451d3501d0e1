"""Rule: work on expensive boards that would fit cheaper ones empty in another pool.

Oversizing is judged as in the rule `overprovisioned`. Only boards are offered of which the fleet
has GPUs that were never needed, and none is promised twice.
"""

from typing import Annotated, Final, NamedTuple

from msgspec.structs import replace

from rightsizer.advice.board_options import smaller_boards
from rightsizer.advice.market import Market
from rightsizer.advice.rules.overprovisioned import RULE as OVERPROVISIONED
from rightsizer.advice.rules.rule import OpeningPolicy
from rightsizer.advice.verdict import CaseSubject
from rightsizer.fleet.model import MOVABLE_CLASSES, FleetView, FleetWorkload
from rightsizer.fleet.pools.hourly import GrowthSettings, SpareSettings, is_filling, spare_of
from rightsizer.fleet.pools.pool import PoolRuleSettings, PoolSubject, may_wait_for
from rightsizer.fleet.rules.rule import (
    WEEKLY,
    FleetRule,
)
from rightsizer.model.values import (
    CONSTANT,
    Action,
    Finding,
    Option,
    Reason,
    Risk,
    Savings,
    Spec,
    WorkloadClass,
)
from rightsizer.owners.registry import scheduler_of

NAME: Final = "wrong_gpu_type"
_MOST_BOARDS: Final = 20


class WrongGpuTypeSettings(PoolRuleSettings, frozen=True):
    """Thresholds for workloads on boards that are too expensive.

    Attributes:
        on_ratio: Share of the GPU free at the highest need plus margin.
            Source: as for a GPU that is too large
    """

    on_ratio: Annotated[float, Spec(within=(0.05, 1))] = 0.5
    spare: Annotated[SpareSettings, CONSTANT] = SpareSettings()
    growth: Annotated[GrowthSettings, CONSTANT] = GrowthSettings()
    conduct: OpeningPolicy = WEEKLY


class _SpareBoards(NamedTuple):
    pool: str
    board: str
    gpus: int
    cluster: str


class _Wanted(NamedTuple):
    view: FleetWorkload
    subject: CaseSubject
    sized: Finding
    options: tuple[Option, ...]


def judge(view: FleetView, settings: WrongGpuTypeSettings, market: Market) -> tuple[Finding, ...]:
    """Whether a workload would fit on a cheaper board that has free GPUs."""
    room = _spare(view, settings, market)
    wanted: list[_Wanted] = []
    verdicts: dict[str, Finding] = {}
    providers = {pool.name: pool.provider for pool in view.pools}
    for workload in sorted(view.workloads, key=lambda fleet_workload: fleet_workload.case.key):
        local = market.near(providers.get(workload.pool, ""))
        subject = CaseSubject(NAME, workload.case, local)
        # Other boards of which a pool has enough for all of the workload's GPUs.
        current_boards = {device.board for device in workload.case.devices}
        needed = workload.gpus
        near = {
            some.board for some in room if some.cluster == workload.cluster and some.gpus >= needed
        }
        boards = tuple(sorted(near - current_boards)) if needed > 0 else ()
        sized = _sized(subject, boards, settings)
        options: tuple[Option, ...] = ()
        if sized.is_actionable:
            # Cheaper boards that fit its need, best first.
            of_fleet = replace(market.settings, boards=boards, most_options=_MOST_BOARDS)
            smaller = smaller_boards(workload.case, replace(local, settings=of_fleet))
            options = tuple(one for one in smaller if one.risk is not Risk.HIGH)
        if options:
            wanted.append(_Wanted(workload, subject, sized, options))
        else:
            verdicts[workload.case.key] = _well(subject, sized)

    def saved(one: _Wanted) -> float:
        return (one.options[0].savings or Savings()).dollars_per_hour_low or 0.0

    left = {spare_boards: spare_boards.gpus for spare_boards in room}
    for one in sorted(wanted, key=lambda one: (-saved(one), one.view.case.key)):
        verdicts[one.view.case.key] = _given(one, left)
    return tuple(verdicts[workload.case.key] for workload in view.workloads)


def _well(subject: CaseSubject, sized: Finding) -> Finding:
    if sized.abstained is not None:
        return subject.abstain(sized.abstained, sized.reasons[0])
    if sized.is_actionable:
        summary = "It is too large a board, and no cheaper one that would do stands empty."
        return subject.find_nothing(summary, {}, sized.evidence)
    return subject.find_nothing(sized.summary, sized.confidence_factors, sized.evidence)


def _given(wanted: _Wanted, left: dict[_SpareBoards, int]) -> Finding:
    """Return the best board with enough GPUs left, and subtract them."""
    needed = wanted.view.gpus
    for option in wanted.options:
        for room, gpus in left.items():
            is_near = room.cluster == wanted.view.cluster
            if is_near and room.board == option.target and gpus >= needed:
                left[room] = gpus - needed
                return _problem(wanted, option, room)
    summary = "A cheaper board would do; those that stand empty are better used by others."
    return wanted.subject.find_nothing(summary, {}, wanted.sized.evidence)


def _spare(
    view: FleetView, settings: WrongGpuTypeSettings, market: Market
) -> tuple[_SpareBoards, ...]:
    spare_boards = []
    for pool in sorted(view.pools, key=lambda pool: pool.name):
        if pool.board is None or may_wait_for(view, pool) > 0:
            continue
        too_little = PoolSubject.of(NAME, view, pool, market).too_little(settings)
        spare = spare_of(pool, settings.spare).gpus
        if too_little is None and spare and not is_filling(pool, settings.growth):
            spare_boards.append(_SpareBoards(pool.name, pool.board, spare, pool.cluster))
    return tuple(spare_boards)


def _sized(
    subject: CaseSubject, boards: tuple[str, ...], settings: WrongGpuTypeSettings
) -> Finding:
    workload_class = subject.case.workload_class
    if workload_class is WorkloadClass.UNKNOWN:
        return subject.abstain("its class is unknown; state it in a policy")
    if workload_class not in MOVABLE_CLASSES:
        return subject.find_nothing(
            f"A {workload_class} workload would only run longer on a cheaper board."
        )
    if not boards:
        return subject.find_nothing("No GPU of another board stands empty.")
    rule = OVERPROVISIONED.in_market(subject.market)
    overprovisioned_settings = replace(rule.settings, on_ratio=settings.on_ratio)
    return rule.with_settings(overprovisioned_settings).judge(subject.case)


def _problem(wanted: _Wanted, option: Option, room: _SpareBoards) -> Finding:
    view = wanted.view
    case = wanted.subject.case
    sized = wanted.sized
    name = case.workload.name if case.workload else case.key
    needed = view.gpus
    cheaper = wanted.subject.market.board(room.board)
    product = (cheaper.usual_name if cheaper else room.board).replace(" ", "-")
    owner = scheduler_of(case.workload.kind if case.workload else None)
    return wanted.subject.find_problem(
        reasons=(Reason.GPU_OVERPROVISIONED,),
        action=Action.CHANGE_GPU_TYPE,
        summary=(
            f"{name} fits {needed} x {option.target} of {room.pool}, which were free, instead "
            f"of {needed} x {case.devices[0].board or ''} of {view.pool}."
        ),
        factors=sized.confidence_factors,
        risk=option.risk,
        evidence={**sized.evidence}
        | {"pool": room.pool, "spare_gpus": room.gpus, "gpus_needed": needed},
        options=(option,),
        target=option.target,
        savings=option.savings or Savings(reason="no price is known"),
        instructions=owner.request_pool(room.pool, product),
        affected_gpus=float(needed),
    )


RULE: Final = FleetRule(NAME, WrongGpuTypeSettings(), judge)
