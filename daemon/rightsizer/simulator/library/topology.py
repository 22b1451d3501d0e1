"""CPU affinity of a GPU, and paths between GPUs."""

from typing import Any, Final

from rightsizer.simulator.library.calls import (
    Functions,
    NvmlCode,
    number,
    out,
    point,
    put,
    refuse_if,
)
from rightsizer.simulator.library.driver import SimulatedDriver, SimulatedHandle
from rightsizer.simulator.physics import has_switches, peer_of_link
from rightsizer.simulator.support import BoardFeature

_BITS_OF_WORD: Final = 64
_INTERNAL, _NODE, _SYSTEM = 0, 40, 50
_NVLINK_INDEX: Final = 2
_OK, _CHIPSET_NOT_SUPPORTED, _NOT_SUPPORTED = 0, 1, 5
_NODES_OF_GPU: Final = 8
"""The firmware keeps a node for each MIG instance beside that of the GPU."""


def _nodes(driver: SimulatedDriver) -> int:
    return 1 + max(gpu.unit.device.numa_node or 0 for gpu in driver.gpus)


def _write_bits(words: Any, size: int, first: int, last: int) -> None:
    for word in range(size):
        low = max(first - word * _BITS_OF_WORD, 0)
        high = min(last - word * _BITS_OF_WORD, _BITS_OF_WORD)
        words[word] = ((1 << high) - 1) & ~((1 << low) - 1) if high > low else 0


def _processors(device: SimulatedHandle, size: Any, words: Any, scope: Any = 0) -> None:
    del scope
    cores = int(device.driver.node.scenario.cores) // _nodes(device.driver)
    room = number(size) * _BITS_OF_WORD
    refuse_if(room < int(device.driver.node.scenario.cores), NvmlCode.INSUFFICIENT_SIZE)
    node = device.unit.device.numa_node or 0
    _write_bits(out(words), number(size), node * cores, (node + 1) * cores)


def _memory_nodes(device: SimulatedHandle, size: Any, words: Any, scope: Any) -> None:
    del scope
    node = device.unit.device.numa_node or 0
    _write_bits(out(words), number(size), node, node + 1)


def _own_numa_node(device: SimulatedHandle, node: Any) -> None:
    """Answers only where a GPU's memory is a NUMA node of the host."""
    device.need(BoardFeature.NUMA_NODE)
    put(node, _nodes(device.driver) + device.unit.device.index * _NODES_OF_GPU)


def _level(one: SimulatedHandle, other: SimulatedHandle) -> int:
    if one is other:
        return _INTERNAL
    same = one.unit.device.numa_node == other.unit.device.numa_node
    return _NODE if same else _SYSTEM


def _give(gpus: list[SimulatedHandle], count: Any, devices: Any) -> None:
    room = out(count).value
    put(count, len(gpus))
    if devices is not None:
        for place, gpu in enumerate(gpus[:room]):
            point(devices[place], gpu.address)


def _nearest(device: SimulatedHandle, level: Any, count: Any, devices: Any) -> None:
    near = [
        gpu
        for gpu in device.driver.present()
        if gpu is not device and _level(device, gpu) == number(level)
    ]
    _give(near, count, devices)


def _are_linked(one: SimulatedHandle, other: SimulatedHandle) -> bool:
    """Whether NVLinks lead from one to the other, through switches or directly."""
    if not (one.support.nvlink_up and other.support.nvlink_up):
        return False
    board, gpu = one.unit.slot.board, one.unit.device.index
    if has_switches(board):
        return True
    peers = {
        peer_of_link(board, gpu, link, len(one.driver.gpus))
        for link in range(one.support.nvlink_links)
        if link not in one.health.links_down
    }
    return other.unit.device.index in peers


def _peer_status(device: SimulatedHandle, other: Any, index: Any, status: Any) -> None:
    peer = device.driver.at(other)
    if device.instances or peer.instances:
        put(status, _NOT_SUPPORTED)
    elif number(index) == _NVLINK_INDEX:
        put(status, _OK if _are_linked(device, peer) else _NOT_SUPPORTED)
    elif not device.support.has(BoardFeature.SERIAL) and peer is not device:
        put(status, _CHIPSET_NOT_SUPPORTED)
    else:
        put(status, _OK)


def _gpus_near(driver: SimulatedDriver, processor: Any, count: Any, devices: Any) -> None:
    each = int(driver.node.scenario.cores) // _nodes(driver)
    node = min(number(processor) // max(1, each), _nodes(driver) - 1)
    near = [gpu for gpu in driver.present() if (gpu.unit.device.numa_node or 0) == node]
    _give(near, count, devices)


TOPOLOGY_SYSTEM: Final[Functions] = {"nvmlSystemGetTopologyGpuSet": _gpus_near}
TOPOLOGY: Final[Functions] = {
    "nvmlDeviceGetCpuAffinity": _processors,
    "nvmlDeviceGetCpuAffinityWithinScope": _processors,
    "nvmlDeviceGetMemoryAffinity": _memory_nodes,
    "nvmlDeviceGetNumaNodeId": _own_numa_node,
    "nvmlDeviceGetTopologyCommonAncestor": lambda device, other, level: put(
        level, _level(device, device.driver.at(other))
    ),
    "nvmlDeviceGetTopologyNearestGpus": _nearest,
    "nvmlDeviceGetP2PStatus": _peer_status,
}
