"""NVLinks and fabric of a GPU, its CPU affinity, and paths between GPUs."""

import uuid
from typing import Any, Final

from rightsizer.simulator.library.calls import (
    Functions,
    NvmlCallError,
    NvmlCode,
    number,
    one_of,
    out,
    put,
    refuse_if,
    versioned,
)
from rightsizer.simulator.library.driver import SimulatedDriver, SimulatedHandle
from rightsizer.simulator.physics import has_switches, peer_of_link
from rightsizer.simulator.support import BoardFeature

_MOST_LINKS: Final = 36
_GPU, _SWITCH = 0, 2
_SWITCH_BUS_ID: Final = b"FFFFFFFF:FF:FF.0"
"""Behind an NVSwitch the peer is unknown."""


def _need_link(device: SimulatedHandle, link: Any) -> int:
    device.need(BoardFeature.NVLINK)
    place = one_of(link, range(_MOST_LINKS))
    refuse_if(place >= device.support.nvlink_links, NvmlCode.NOT_SUPPORTED)
    return place


def _need_peer(device: SimulatedHandle, link: Any) -> SimulatedHandle | None:
    """The GPU at the other end, `None` for a switch."""
    place = _need_link(device, link)
    is_down = not device.support.nvlink_up or place in device.health.links_down
    refuse_if(is_down, NvmlCode.NOT_SUPPORTED)
    board, gpu = device.unit.slot.board, device.unit.device.index
    if has_switches(board):
        return None
    peer = peer_of_link(board, gpu, place, len(device.driver.gpus))
    if peer is None:
        raise NvmlCallError(NvmlCode.NOT_SUPPORTED)
    return device.driver.gpus[peer]


def _state(device: SimulatedHandle, link: Any, active: Any) -> None:
    place = _need_link(device, link)
    try:
        _need_peer(device, place)
        put(active, 1)
    except NvmlCallError:
        put(active, 0)


def _version(device: SimulatedHandle, link: Any, version: Any) -> None:
    _need_link(device, link)
    put(version, device.support.nvlink_version)


def _remote_device(device: SimulatedHandle, link: Any, info: Any) -> None:
    peer, target = _need_peer(device, link), out(info)
    if peer is None:
        target.busId = _SWITCH_BUS_ID
        target.domain, target.bus, target.device = 0xFFFFFFFF, 0xFF, 0xFF
        return
    target.busId = (peer.unit.device.pci_bus_id or "").upper().encode()
    target.domain, target.bus, target.device = peer.unit.domain, peer.unit.bus, 0


NVLINK: Final[Functions] = {
    "nvmlDeviceGetNvLinkState": _state,
    "nvmlDeviceGetNvLinkVersion": _version,
    "nvmlDeviceGetNvLinkRemotePciInfo_v2": _remote_device,
    "nvmlDeviceGetNvLinkRemoteDeviceType": lambda device, link, kind: put(
        kind, _SWITCH if _need_peer(device, link) is None else _GPU
    ),
}


FABRIC_COMPLETED: Final = 3
_VERSION_2: Final = 0x02000024
_RACK: Final = uuid.UUID("5ca1ab1e-0000-4000-8000-000000000000")


def _fabric(device: SimulatedHandle, info: Any) -> None:
    device.need(BoardFeature.FABRIC)
    target = out(info)
    # Nodes of a rack form one cluster; the GPUs of an HGX board are one by themselves.
    cluster = _RACK.bytes if device.support.has(BoardFeature.NUMA_NODE) else bytes(16)
    target.clusterUuid = type(target.clusterUuid)(*cluster)
    target.status, target.cliqueId, target.state = NvmlCode.SUCCESS, 0, FABRIC_COMPLETED


def _fabric_2(device: SimulatedHandle, info: Any) -> None:
    device.need(BoardFeature.FABRIC)
    versioned(info, _VERSION_2)
    _fabric(device, info)


FABRIC: Final[Functions] = {
    "nvmlDeviceGetGpuFabricInfo": _fabric,
    "nvmlDeviceGetGpuFabricInfoV": _fabric_2,
}


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


def _processors(device: SimulatedHandle, size: Any, words: Any) -> None:
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


TOPOLOGY: Final[Functions] = {
    "nvmlDeviceGetCpuAffinity": _processors,
    "nvmlDeviceGetMemoryAffinity": _memory_nodes,
    "nvmlDeviceGetNumaNodeId": _own_numa_node,
    "nvmlDeviceGetTopologyCommonAncestor": lambda device, other, level: put(
        level, _level(device, device.driver.at(other))
    ),
    "nvmlDeviceGetP2PStatus": _peer_status,
}
