"""Which other GPUs of a node would be better joined: free ones first, then by a swap."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rightsizer.domain.device import Device
from rightsizer.domain.node import Node
from rightsizer.domain.topology import Topology
from rightsizer.placement.sets import MOST_CANDIDATES, SetScore, best_set, score_of

__all__ = ["BetterGpus", "better_gpus"]


@dataclass(frozen=True, slots=True)
class BetterGpus:
    """A better set of as many GPUs."""

    devices: tuple[Device, ...]
    score: SetScore
    swaps: Mapping[str, str]
    """Workloads that must make room, by name, with the uuid of the GPU that they get instead."""


def better_gpus(
    devices: Sequence[Device], node: Node, topology: Topology, gain_ratio: float
) -> BetterGpus | None:
    """The best set of GPUs that is worth moving to; `None` where there is none.

    Args:
        devices: Those held now.
        node: The machine, with who holds what.
        topology: How its GPUs are joined.
        gain_ratio: How much the sum over the pairs must grow where the weakest stays as weak.
    """
    now = score_of([device.uuid for device in devices], topology)
    same = [each for each in node.devices if _is_alike(each, devices[0])]
    free = [each for each in same if _is_free(each, node)]
    movable = [each for each in same if _sole_holder(each, node) is not None]
    found = _best(devices, free, topology, now, gain_ratio)
    if found is not None:
        return BetterGpus(*found, swaps={})
    found = _best(devices, [*free, *movable], topology, now, gain_ratio)
    return None if found is None else BetterGpus(*found, swaps=_swaps(devices, found[0], node))


def _best(
    devices: Sequence[Device],
    others: Iterable[Device],
    topology: Topology,
    now: SetScore,
    gain_ratio: float,
) -> tuple[tuple[Device, ...], SetScore] | None:
    held = {device.uuid for device in devices}
    known = {each.uuid: each for each in (*devices, *others)}
    candidates = sorted(known, key=lambda uuid: (known[uuid].index, uuid))
    if len(candidates) > MOST_CANDIDATES:
        return None
    found = best_set(candidates, len(devices), topology, held)
    if found is None or set(found.uuids) == held or not _is_worth_it(found.score, now, gain_ratio):
        return None
    return tuple(known[uuid] for uuid in found.uuids), found.score


def _is_worth_it(then: SetScore, now: SetScore, gain_ratio: float) -> bool:
    if then.weakest > now.weakest:
        return True
    return then.weakest == now.weakest and then.total >= now.total * (1.0 + gain_ratio)


def _is_alike(device: Device, model: Device) -> bool:
    return (
        device.mig is None
        and device.is_given_out
        and (device.board, device.name) == (model.board, model.name)
    )


def _is_free(device: Device, node: Node) -> bool:
    """Nobody holds it, and no process that nobody knows of is on it."""
    reading = node.readings.get(device.uuid)
    return not node.holdings.get(device.uuid) and reading is not None and reading.processes == ()


def _sole_holder(device: Device, node: Node) -> str | None:
    """The name of the only holder, where it holds no other GPU."""
    holders = node.holdings.get(device.uuid, ())
    if len(holders) != 1:
        return None
    workload = holders[0].workload
    held = sum(
        any(each.workload.key == workload.key for each in others)
        for others in node.holdings.values()
    )
    return workload.name if held == 1 else None


def _swaps(devices: Sequence[Device], then: Sequence[Device], node: Node) -> Mapping[str, str]:
    wanted = {device.uuid for device in then}
    held = {device.uuid for device in devices}
    given = sorted((each for each in devices if each.uuid not in wanted), key=_by_index)
    taken = sorted((each for each in then if each.uuid not in held), key=_by_index)
    pairs = zip(taken, given, strict=True)
    names = ((_sole_holder(one, node), other.uuid) for one, other in pairs)
    return {name: uuid for name, uuid in names if name is not None}


def _by_index(device: Device) -> tuple[int, str]:
    return device.index, device.uuid
