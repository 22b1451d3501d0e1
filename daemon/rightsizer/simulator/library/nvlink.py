"""NVLink: state, version, peers and errors of links; fabric and chip-to-chip link."""

import uuid
from typing import Any, Final

from rightsizer.simulator.faults import NvlinkErrorCounts
from rightsizer.simulator.library.calls import (
    Functions,
    NvmlCallError,
    NvmlCode,
    one_of,
    out,
    put,
    refuse_if,
    versioned,
)
from rightsizer.simulator.library.driver import SimulatedHandle, structure
from rightsizer.simulator.physics import has_switches, peer_of_link
from rightsizer.simulator.support import BoardFeature

_MOST_LINKS: Final = 36
_GPU, _SWITCH = 0, 2
_SWITCH_BUS_ID: Final = b"FFFFFFFF:FF:FF.0"
"""Behind an NVSwitch the peer is unknown."""
_PEER_TO_PEER: Final = 0
_CAPABILITIES: Final = {_PEER_TO_PEER: 1, 1: 0, 2: 1, 3: 0, 4: 0, 5: 1}
_ERROR_COUNTERS: Final = 5
"""Of replays, recoveries and CRC errors by flit; of those by data and of ECC there are none."""
_COUNTERS: Final = 2
_KIB: Final = 1024.0
_INFORMATION_VERSIONS: Final = (0x1000008, 0x200064C)


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


def _capability(device: SimulatedHandle, link: Any, wanted: Any, answer: Any) -> None:
    _need_link(device, link)
    put(answer, _CAPABILITIES[one_of(wanted, _CAPABILITIES)])


def _remote_device(device: SimulatedHandle, link: Any, info: Any) -> None:
    peer, target = _need_peer(device, link), out(info)
    if peer is None:
        target.busId = _SWITCH_BUS_ID
        target.domain, target.bus, target.device = 0xFFFFFFFF, 0xFF, 0xFF
        return
    target.busId = (peer.unit.device.pci_bus_id or "").upper().encode()
    target.domain, target.bus, target.device = peer.unit.domain, peer.unit.bus, 0


def _errors(device: SimulatedHandle, link: Any, counter: Any, count: Any) -> None:
    place = _need_link(device, link)
    wanted = one_of(counter, range(_ERROR_COUNTERS))
    errors = device.health.link_errors.get(place, NvlinkErrorCounts())
    put(count, (errors.replay, errors.recovery, errors.crc, 0, 0)[wanted])


def _utilization(
    device: SimulatedHandle, link: Any, counter: Any, received: Any, sent: Any
) -> None:
    device.need(BoardFeature.NVLINK_OLD_COUNTERS)
    _need_link(device, link)
    one_of(counter, range(_COUNTERS))
    counters, links = device.counters, device.support.nvlink_links
    put(received, int(counters.nvlink_receive_bytes / links / _KIB))
    put(sent, int(counters.nvlink_transmit_bytes / links / _KIB))


def _information(device: SimulatedHandle, info: Any) -> None:
    device.need(BoardFeature.FABRIC)
    target = versioned(info, *_INFORMATION_VERSIONS)
    target.isNvleEnabled = 0
    if hasattr(target, "firmwareInfo"):
        target.firmwareInfo.numValidEntries = 0


NVLINK: Final[Functions] = {
    "nvmlDeviceGetNvLinkState": _state,
    "nvmlDeviceGetNvLinkVersion": _version,
    "nvmlDeviceGetNvLinkCapability": _capability,
    "nvmlDeviceGetNvLinkRemotePciInfo_v2": _remote_device,
    "nvmlDeviceGetNvLinkRemoteDeviceType": lambda device, link, kind: put(
        kind, _SWITCH if _need_peer(device, link) is None else _GPU
    ),
    "nvmlDeviceGetNvLinkErrorCounter": _errors,
    "nvmlDeviceGetNvLinkUtilizationCounter": _utilization,
    "nvmlDeviceGetNvLinkInfo": _information,
}


FABRIC_COMPLETED: Final = 3
_VERSION_2, _VERSION_3 = 0x02000024, 0x3000028
_HEALTHY: Final = 0x1AA
"""Neither degraded nor recovering nor unhealthy nor timing out, and configured as it should be."""
_DEGRADED: Final = 0x1A9
_HEALTHY_SUMMARY, _DEGRADED_SUMMARY = 1, 3
_RACK: Final = uuid.UUID("5ca1ab1e-0000-4000-8000-000000000000")


def _fill_fabric(device: SimulatedHandle, target: Any) -> bool:
    """Whether the links are whole, with all that the versions share written."""
    # Nodes of a rack form one cluster; the GPUs of an HGX board are one by themselves.
    cluster = _RACK.bytes if device.support.has(BoardFeature.NUMA_NODE) else bytes(16)
    target.clusterUuid = type(target.clusterUuid)(*cluster)
    target.status, target.cliqueId, target.state = NvmlCode.SUCCESS, 0, FABRIC_COMPLETED
    return not device.health.links_down


def _fabric_information(device: SimulatedHandle, info: Any) -> None:
    device.need(BoardFeature.FABRIC)
    _fill_fabric(device, out(info))


def _versioned(device: SimulatedHandle, info: Any) -> None:
    device.need(BoardFeature.FABRIC)
    target = versioned(info, _VERSION_2, _VERSION_3)
    whole = _fill_fabric(device, target)
    target.healthMask = _HEALTHY if whole else _DEGRADED
    if target.version == _VERSION_3:
        target.healthSummary = _HEALTHY_SUMMARY if whole else _DEGRADED_SUMMARY


FABRIC: Final[Functions] = {
    "nvmlDeviceGetGpuFabricInfo": _fabric_information,
    "nvmlDeviceGetGpuFabricInfoV": _versioned,
    "nvmlDeviceGetC2cModeInfoV": structure(lambda _: {"isC2cEnabled": 1}, BoardFeature.C2C),
}
