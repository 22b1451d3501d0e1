"""NVLink: which links are up, at which version, what is at their other ends, how they err."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from rightsizer.telemetry.simulated.feature import Feature
from rightsizer.telemetry.simulated.library.calls import Code, Refusal, number, out, put
from rightsizer.telemetry.simulated.library.driver import Driver, Handle
from rightsizer.telemetry.simulated.nvlinks import has_switches, peer_of_link
from rightsizer.telemetry.simulated.outlook import LinkErrors

__all__ = ["NVLINK"]

_MOST_LINKS: Final = 36
_GPU, _SWITCH = 0, 2
_SWITCH_BUS_ID: Final = b"FFFFFFFF:FF:FF.0"
"""Behind an NVSwitch no peer is told."""
_PEER_TO_PEER: Final = 0
_CAPABILITIES: Final = {_PEER_TO_PEER: 1, 1: 0, 2: 1, 3: 0, 4: 0, 5: 1}
_ERROR_COUNTERS: Final[Mapping[int, Callable[[LinkErrors], int]]] = {
    0: lambda errors: errors.replay,
    1: lambda errors: errors.recovery,
    2: lambda errors: errors.crc,
    3: lambda _: 0,
    4: lambda _: 0,
}
_COUNTERS: Final = 2
_KIB: Final = 1024.0
_INFORMATION_VERSIONS: Final = {0x1000008: 1, 0x200064C: 2}


def _need_link(device: Handle, link: Any) -> int:
    device.need(Feature.NVLINK)
    if not 0 <= number(link) < _MOST_LINKS:
        raise Refusal(Code.INVALID_ARGUMENT)
    if number(link) >= device.support.nvlink_links:
        raise Refusal(Code.NOT_SUPPORTED)
    return number(link)


def _need_peer(driver: Driver, device: Handle, link: Any) -> Handle | None:
    """The GPU at the other end, `None` for a switch."""
    place = _need_link(device, link)
    if not device.support.nvlink_up or place in device.health.links_down:
        raise Refusal(Code.NOT_SUPPORTED)
    board, gpu = device.unit.slot.board, device.unit.device.index
    if has_switches(board):
        return None
    peer = peer_of_link(board, gpu, place, len(driver.gpus))
    if peer is None:
        raise Refusal(Code.NOT_SUPPORTED)
    return driver.gpus[peer]


def _state(driver: Driver, device: Handle, link: Any, active: Any) -> None:
    place = _need_link(device, link)
    try:
        _need_peer(driver, device, place)
        put(active, 1)
    except Refusal:
        put(active, 0)


def _version(driver: Driver, device: Handle, link: Any, version: Any) -> None:
    del driver
    _need_link(device, link)
    put(version, device.support.nvlink_version)


def _capability(driver: Driver, device: Handle, link: Any, wanted: Any, answer: Any) -> None:
    del driver
    _need_link(device, link)
    if number(wanted) not in _CAPABILITIES:
        raise Refusal(Code.INVALID_ARGUMENT)
    put(answer, _CAPABILITIES[number(wanted)])


def _remote_device(driver: Driver, device: Handle, link: Any, info: Any) -> None:
    peer, target = _need_peer(driver, device, link), out(info)
    if peer is None:
        target.busId = _SWITCH_BUS_ID
        target.domain, target.bus, target.device = 0xFFFFFFFF, 0xFF, 0xFF
        return
    target.busId = (peer.unit.device.pci_bus_id or "").upper().encode()
    target.domain, target.bus, target.device = peer.unit.domain, peer.unit.bus, 0


def _remote_kind(driver: Driver, device: Handle, link: Any, kind: Any) -> None:
    put(kind, _SWITCH if _need_peer(driver, device, link) is None else _GPU)


def _errors(driver: Driver, device: Handle, link: Any, counter: Any, count: Any) -> None:
    del driver
    place = _need_link(device, link)
    read = _ERROR_COUNTERS.get(number(counter))
    if read is None:
        raise Refusal(Code.INVALID_ARGUMENT)
    put(count, read(device.health.link_errors.get(place, LinkErrors())))


def _utilization(  # noqa: PLR0913, PLR0917 - the C function's arguments.
    driver: Driver, device: Handle, link: Any, counter: Any, received: Any, sent: Any
) -> None:
    del driver
    device.need(Feature.NVLINK_OLD_COUNTERS)
    _need_link(device, link)
    if not 0 <= number(counter) < _COUNTERS:
        raise Refusal(Code.INVALID_ARGUMENT)
    counters, links = device.counters, device.support.nvlink_links
    put(received, int(counters.nvlink_receive_bytes / links / _KIB))
    put(sent, int(counters.nvlink_transmit_bytes / links / _KIB))


def _information(driver: Driver, device: Handle, info: Any) -> None:
    del driver
    device.need(Feature.FABRIC)
    target = out(info)
    if target.version not in _INFORMATION_VERSIONS:
        raise Refusal(Code.ARGUMENT_VERSION_MISMATCH)
    target.isNvleEnabled = 0
    if hasattr(target, "firmwareInfo"):
        target.firmwareInfo.numValidEntries = 0


NVLINK: Final[Mapping[str, Callable[..., None]]] = {
    "nvmlDeviceGetNvLinkState": _state,
    "nvmlDeviceGetNvLinkVersion": _version,
    "nvmlDeviceGetNvLinkCapability": _capability,
    "nvmlDeviceGetNvLinkRemotePciInfo_v2": _remote_device,
    "nvmlDeviceGetNvLinkRemoteDeviceType": _remote_kind,
    "nvmlDeviceGetNvLinkErrorCounter": _errors,
    "nvmlDeviceGetNvLinkUtilizationCounter": _utilization,
    "nvmlDeviceGetNvLinkInfo": _information,
}
