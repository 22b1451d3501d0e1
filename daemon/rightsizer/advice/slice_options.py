"""MIG slices of the board that a workload is too small for."""

from typing import Final

from rightsizer.advice.exceedance import risks_beyond
from rightsizer.advice.market import Market
from rightsizer.advice.measured_profile import measured_profile
from rightsizer.advice.projected_option import costing, projected
from rightsizer.advice.ranking import ranked
from rightsizer.advice.risk import worst
from rightsizer.advice.savings import shared
from rightsizer.catalogue.board import Board, MigProfile
from rightsizer.domain.finding import Action, Case, Option
from rightsizer.domain.state import Resource
from rightsizer.sizing.place import Place
from rightsizer.sizing.projection import project
from rightsizer.sizing.slices import Need, fitting_slices

__all__ = ["slice_options"]

_NOISE_RATIO: Final = 0.01
"""A bin of a histogram."""


def slice_options(case: Case, market: Market) -> tuple[Option, ...]:
    """The slices that hold the need of a workload's only device, the safest and smallest first."""
    if len(case.devices) != 1 or case.devices[0].mig is not None:
        return ()
    board = market.board(case.devices[0].board)
    if board is None:
        return ()
    slices = (each for each in fitting_slices(board, _need(case)) if each.maximum_count > 1)
    return ranked(_option(case, market, board, each) for each in slices)


def _need(case: Case) -> Need:
    (fit,) = case.provisioning
    needs = {resource: each.need or 0.0 for resource, each in fit.resources.items()}
    return Need(
        compute_ratio=needs.get(Resource.COMPUTE, 1.0),
        memory_ratio=needs.get(Resource.MEMORY, 1.0),
        memory_bandwidth_ratio=needs.get(Resource.MEMORY_BANDWIDTH, 0.0),
        uses_nvlink=needs.get(Resource.NVLINK, 0.0) > _NOISE_RATIO,
    )


def _option(case: Case, market: Market, board: Board, profile: MigProfile) -> Option:
    found = measured_profile(case, 0, market)
    cost = market.cost(board)
    part = 1.0 / profile.maximum_count
    dollars = None if cost is None else cost.dollars_per_hour.scaled(part)
    risks = risks_beyond(
        case,
        {
            Resource.COMPUTE: profile.compute_share,
            Resource.MEMORY: profile.memory_share,
            Resource.MEMORY_BANDWIDTH: profile.memory_share,
        },
    )
    option = Option(
        description=(
            f"MIG slice {profile.name}: {profile.compute_share:.0%} of the compute and "
            f"{profile.memory_share:.0%} of the memory"
        ),
        risk=worst(risks.values()),
        risks=risks,
        target=profile.name,
        action=Action.SHARE_MIG,
        savings=shared(case, market, 1.0 - part),
    )
    place = Place(board, profile)
    return costing(projected(option, None if found is None else project(found, place)), dollars)
