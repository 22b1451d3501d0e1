"""NVLinks and fabric of a GPU, its CPU affinity, and paths between GPUs."""

import uuid
from collections.abc import Mapping
from ctypes import c_uint8
from typing import Any, Final

from rightsizer.simulator.library.calls import (
    Functions,
    NvmlCallError,
    NvmlCode,
    needed,
    number,
    one_of,
    out,
    refuse_if,
)
from rightsizer.simulator.library.driver import SimulatedDriver, SimulatedHandle, structure, value
from rightsizer.simulator.physics import has_switches, peer_of_link
from rightsizer.simulator.signals import FABRIC_COMPLETED
from rightsizer.simulator.support import BoardFeature

_MOST_LINKS: Final = 36
_GPU = 0
_SWITCH = 2
_SWITCH_BUS_ID: Final = b"FFFFFFFF:FF:FF.0"
"""An NVSwitch hides the peer."""
_VERSION_2: Final = 0x02000024
_RACK: Final = uuid.UUID("5ca1ab1e-0000-4000-8000-000000000000")
_BITS_OF_WORD: Final = 64
_INTERNAL = 0
_NODE = 40
_SYSTEM = 50
_NVLINK_INDEX: Final = 2
_OK = 0
_CHIPSET_NOT_SUPPORTED = 1
_NOT_SUPPORTED = 5
_NODES_OF_GPU: Final = 8
"""The firmware reserves nodes for MIG instances after the GPU's own."""


def _need_link(device: SimulatedHandle, link: Any) -> int:
    device.need(BoardFeature.NVLINK)
    place = one_of(link, range(_MOST_LINKS))
    refuse_if(place >= device.support.nvlink_links, NvmlCode.NOT_SUPPORTED)
    return place


def _need_peer(device: SimulatedHandle, link: Any) -> SimulatedHandle | None:
    """Return the GPU at the other end, or `None` for a switch."""
    place = _need_link(device, link)
    is_down = not device.support.nvlink_up or place in device.health.links_down
    refuse_if(is_down, NvmlCode.NOT_SUPPORTED)
    board = device.unit.slot.board
    gpu = device.unit.device.index
    if has_switches(board):
        return None
    return device.driver.gpus[needed(peer_of_link(board, gpu, place, len(device.driver.gpus)))]


def _state(device: SimulatedHandle, link: Any) -> bool:
    place = _need_link(device, link)
    try:
        _need_peer(device, place)
    except NvmlCallError:
        return False
    return True


def _version(device: SimulatedHandle, link: Any) -> int:
    _need_link(device, link)
    return device.support.nvlink_version


def _remote_device(device: SimulatedHandle, link: Any) -> Mapping[str, Any]:
    peer = _need_peer(device, link)
    if peer is None:
        return {"busId": _SWITCH_BUS_ID, "domain": 0xFFFFFFFF, "bus": 0xFF, "device": 0xFF}
    bus_id = (peer.unit.device.pci_bus_id or "").upper().encode()
    return {"busId": bus_id, "domain": peer.unit.domain, "bus": peer.unit.bus, "device": 0}


def _fabric(device: SimulatedHandle) -> Mapping[str, Any]:
    # Nodes of a rack form one cluster; an HGX board has none beyond itself.
    cluster = _RACK.bytes if device.support.has(BoardFeature.NUMA_NODE) else bytes(16)
    uuid_of_cluster = (c_uint8 * 16)(*cluster)
    return {"clusterUuid": uuid_of_cluster, "status": 0, "cliqueId": 0, "state": FABRIC_COMPLETED}


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


def _level(one: SimulatedHandle, other: SimulatedHandle) -> int:
    if one is other:
        return _INTERNAL
    same = one.unit.device.numa_node == other.unit.device.numa_node
    return _NODE if same else _SYSTEM


def _are_linked(one: SimulatedHandle, other: SimulatedHandle) -> bool:
    """Whether NVLinks connect two GPUs, directly or through switches."""
    if not (one.support.nvlink_up and other.support.nvlink_up):
        return False
    board = one.unit.slot.board
    gpu = one.unit.device.index
    if has_switches(board):
        return True
    peers = {
        peer_of_link(board, gpu, link, len(one.driver.gpus))
        for link in range(one.support.nvlink_links)
        if link not in one.health.links_down
    }
    return other.unit.device.index in peers


def _peer_status(device: SimulatedHandle, other: Any, index: Any) -> int:
    peer = device.driver.at(other)
    if device.instances or peer.instances:
        return _NOT_SUPPORTED
    if number(index) == _NVLINK_INDEX:
        return _OK if _are_linked(device, peer) else _NOT_SUPPORTED
    is_consumers = not device.support.has(BoardFeature.SERIAL) and peer is not device
    return _CHIPSET_NOT_SUPPORTED if is_consumers else _OK


LINKS: Final[Functions] = {
    "nvmlDeviceGetNvLinkState": value(_state),
    "nvmlDeviceGetNvLinkVersion": value(_version),
    "nvmlDeviceGetNvLinkRemotePciInfo_v2": structure(_remote_device),
    "nvmlDeviceGetNvLinkRemoteDeviceType": value(
        lambda device, link: _SWITCH if _need_peer(device, link) is None else _GPU
    ),
    "nvmlDeviceGetGpuFabricInfo": structure(_fabric, BoardFeature.FABRIC),
    "nvmlDeviceGetGpuFabricInfoV": structure(_fabric, BoardFeature.FABRIC, _VERSION_2),
    "nvmlDeviceGetCpuAffinity": _processors,
    "nvmlDeviceGetMemoryAffinity": _memory_nodes,
    # Only if the GPU's memory is a NUMA node of the host.
    "nvmlDeviceGetNumaNodeId": value(
        lambda device: _nodes(device.driver) + device.unit.device.index * _NODES_OF_GPU,
        BoardFeature.NUMA_NODE,
    ),
    "nvmlDeviceGetTopologyCommonAncestor": value(
        lambda device, other: _level(device, device.driver.at(other))
    ),
    "nvmlDeviceGetP2PStatus": value(_peer_status),
}
