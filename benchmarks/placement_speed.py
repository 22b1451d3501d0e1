"""Choosing GPUs of sixteen: every set with every criterion, in a process that has imported all."""

import time
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from benchmarks.options import Options
from measured import Figure
from placement_nodes import PlacementNode, cube_mesh, mig_node, two_trays
from rightsizer.broker.lease import GpuRequest

_RUNS: Final = 9
_MOST_MILLISECONDS: Final = 50.0


def measure(_: Options) -> Iterator[Figure]:
    """CPU time of the fastest of several runs: what else the machine does is not the search's."""
    nodes = {name: build() for name, build in _NODES.items()}
    for name, node in nodes.items():
        took = _milliseconds(node, GpuRequest(8))
        yield Figure(
            f"8 of 16 GPUs, {name}", took, "ms", _MOST_MILLISECONDS, "12,870 sets", is_row=True
        )
    slowest = max(
        _milliseconds(node, GpuRequest(gpus)) for node in nodes.values() for gpus in range(1, 17)
    )
    yield Figure("1 to 16 of 16 GPUs, the slowest of them", slowest, "ms", _MOST_MILLISECONDS)
    took = _milliseconds(cube_mesh(), GpuRequest(4))
    yield Figure("4 of 8 GPUs of a DGX-1", took, "ms", _MOST_MILLISECONDS, "70 sets")
    instances = mig_node([["1g.10gb"] * 7] * 8)
    took = _milliseconds(instances, GpuRequest(4, mig_profile="1g.10gb"))
    yield Figure("4 of 56 MIG instances", took, "ms", _MOST_MILLISECONDS)


def _alike() -> PlacementNode:
    return two_trays()


def _different() -> PlacementNode:
    """Headrooms that all differ, so that every set is one of its own."""
    node = two_trays()
    slots = (
        replace(slot, power_headroom_watts=300.0 + 25.0 * place)
        for place, slot in enumerate(node.slots)
    )
    return replace(node, slots=tuple(slots))


def _uneven() -> PlacementNode:
    """Numbers of NVLinks that all differ."""
    node = _different()
    links = (
        replace(link, nvlinks=1 + place * 7 % 18) for place, link in enumerate(node.topology.links)
    )
    return replace(node, topology=replace(node.topology, links=tuple(links)))


_NODES: Final[Mapping[str, Callable[[], PlacementNode]]] = MappingProxyType(
    {"all alike": _alike, "all different": _different, "links that differ": _uneven}
)


def _milliseconds(node: PlacementNode, request: GpuRequest) -> float:
    return 1e3 * min(_seconds(node, request) for _ in range(_RUNS))


def _seconds(node: PlacementNode, request: GpuRequest) -> float:
    started = time.process_time()
    node.choose(request)
    return time.process_time() - started
