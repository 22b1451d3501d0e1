"""Options to share a GPU: MIG slices, two workloads on one GPU, and the commands for each."""

from collections.abc import Iterable
from typing import Final

from rightsizer.advice.colocation import WorkloadPair
from rightsizer.advice.market import Market
from rightsizer.advice.projection import costing, measured_profile, projected, timed
from rightsizer.advice.risk import ranked, risks_beyond, worst
from rightsizer.advice.verdict import shared
from rightsizer.catalogue.board import Board, MigProfile
from rightsizer.model.device import Device
from rightsizer.model.finding import Action, Case, Instruction, Option
from rightsizer.model.state import Resource
from rightsizer.owners.owner import shell
from rightsizer.owners.registry import owner_of
from rightsizer.sizing.mig import SliceNeed, fitting_slices
from rightsizer.sizing.place import GpuPlace
from rightsizer.sizing.projection import Sharing, project, shared_placement

_NOISE_RATIO: Final = 0.01
"""A bin of a histogram."""


def slice_options(case: Case, market: Market) -> tuple[Option, ...]:
    """The slices that hold the need of a workload's only device, the safest and smallest first."""
    if len(case.devices) != 1 or case.devices[0].mig is not None:
        return ()
    board = market.board(case.devices[0].board)
    if board is None:
        return ()
    (fit,) = case.provisioning
    needs = {resource: each.need or 0.0 for resource, each in fit.resources.items()}
    need = SliceNeed(
        compute_ratio=needs.get(Resource.COMPUTE, 1.0),
        memory_ratio=needs.get(Resource.MEMORY, 1.0),
        memory_bandwidth_ratio=needs.get(Resource.MEMORY_BANDWIDTH, 0.0),
        uses_nvlink=needs.get(Resource.NVLINK, 0.0) > _NOISE_RATIO,
    )
    slices = (each for each in fitting_slices(board, need) if each.maximum_count > 1)
    return ranked(_option(case, market, board, each) for each in slices)


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
    place = GpuPlace(board, profile)
    return costing(projected(option, None if found is None else project(found, place)), dollars)


_HALF: Final = 0.5
"""Of the two GPUs one is free; each workload speaks for its half of it."""


def shared_gpu(case: Case, market: Market, pairings: Iterable[WorkloadPair]) -> tuple[Option, ...]:
    """The case's GPU shared with each of some workloads of the node: in turns where they alternate.

    With more than a partner the first is the one to begin with.
    """
    return tuple(_shared_option(case, market, pairing) for pairing in pairings)


def _shared_option(case: Case, market: Market, pairing: WorkloadPair) -> Option:
    workload = pairing.partner.workload
    name = workload.name if workload else pairing.partner.key
    partner = pairing.partner.devices[0].title
    how = "taking turns" if pairing.is_alternating else "side by side (MPS)"
    cost = market.cost(market.board(case.devices[0].board))
    dollars = None if cost is None else cost.dollars_per_hour.scaled(_HALF)
    option = Option(
        description=f"one GPU for both this and {name} (now on {partner}), {how}",
        risk=pairing.risk,
        target=pairing.partner.key,
        action=Action.SHARE_TIMESLICE if pairing.is_alternating else Action.SHARE_MPS,
        utilization=pairing.mean_ratios,
        fits=True,
        savings=shared(case, market, _HALF),
        risks=pairing.risks,
    )
    own = measured_profile(case, 0, market)
    beside = measured_profile(pairing.partner, 0, market)
    if own is not None and beside is not None and own.place == beside.place:
        way = Sharing.TIME_SLICE if pairing.is_alternating else Sharing.MPS
        option = timed(option, shared_placement(own, beside, way).time_ratio)
    return costing(option, dollars)


_GIBIBYTE: Final = 2.0**30


def sharing_commands(case: Case, option: Option) -> tuple[Instruction, ...]:
    """How to do what an option of sharing means, on the workload's only GPU."""
    workload, (device,) = case.workload, case.devices
    owner = owner_of(workload.kind if workload else None)
    if option.action is Action.SHARE_MIG:
        cut = (
            f"# The GPU must be empty; its workload moves into the slice.\n"
            f"nvidia-smi -i {device.uuid} -mig 1\n"
            f"nvidia-smi mig -i {device.uuid} -cgi {option.target} -C\n"
        )
        title = f"Cut a {option.target} slice off {device.title}"
        return (*shell(title, cut), *owner.request_slice(option.target))
    if option.action not in (Action.SHARE_MPS, Action.SHARE_TIMESLICE):
        return ()
    return owner.share_device(option.action) or _by_hand(device, option)


def _by_hand(device: Device, option: Option) -> tuple[Instruction, ...]:
    partner = option.target
    together = f"export CUDA_VISIBLE_DEVICES={device.uuid}  # in both, {partner} too\n"
    if option.action is Action.SHARE_TIMESLICE:
        return shell("Start both on the same GPU", together)
    limit = (device.memory_total_bytes or 0.0) / 2 / _GIBIBYTE
    text = (
        f"CUDA_VISIBLE_DEVICES={device.uuid} nvidia-cuda-mps-control -d\n"
        + together
        + (f"export CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0={limit:.0f}G\n" if limit else "")
    )
    return shell("Start both under one MPS daemon, half of the memory each", text)
