"""NVLink: which links are up, at which version, and what is at their other ends."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from rightsizer.telemetry.simulated.library.calls import Code, Refusal, number, out, put
from rightsizer.telemetry.simulated.library.driver import Driver, Handle

__all__ = ["NVLINK"]

_MOST_LINKS: Final = 36
_SWITCH: Final = 2
_SWITCH_BUS_ID: Final = b"FFFFFFFF:FF:FF.0"
"""Behind an NVSwitch no peer is told."""
_PEER_TO_PEER: Final = 0
_CAPABILITIES: Final = {_PEER_TO_PEER: 1, 1: 0, 2: 1, 3: 0, 4: 0, 5: 1}
_ERROR_COUNTERS: Final = 5


def _need_link(device: Handle, link: Any) -> None:
    device.need(device.support.nvlink_links)
    if not 0 <= number(link) < _MOST_LINKS:
        raise Refusal(Code.INVALID_ARGUMENT)
    device.need(number(link) < device.support.nvlink_links)


def _state(driver: Driver, device: Handle, link: Any, active: Any) -> None:
    del driver
    _need_link(device, link)
    put(active, int(device.support.nvlink_up))


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
    del driver
    _need_link(device, link)
    device.need(device.support.nvlink_up)
    target = out(info)
    target.busId = _SWITCH_BUS_ID
    target.domain, target.bus, target.device = 0xFFFFFFFF, 0xFF, 0xFF


def _remote_kind(driver: Driver, device: Handle, link: Any, kind: Any) -> None:
    del driver
    _need_link(device, link)
    device.need(device.support.nvlink_up)
    put(kind, _SWITCH)


def _errors(driver: Driver, device: Handle, link: Any, counter: Any, count: Any) -> None:
    del driver
    _need_link(device, link)
    if not 0 <= number(counter) < _ERROR_COUNTERS:
        raise Refusal(Code.INVALID_ARGUMENT)
    put(count, 0)


NVLINK: Final[Mapping[str, Callable[..., None]]] = {
    "nvmlDeviceGetNvLinkState": _state,
    "nvmlDeviceGetNvLinkVersion": _version,
    "nvmlDeviceGetNvLinkCapability": _capability,
    "nvmlDeviceGetNvLinkRemotePciInfo_v2": _remote_device,
    "nvmlDeviceGetNvLinkRemoteDeviceType": _remote_kind,
    "nvmlDeviceGetNvLinkErrorCounter": _errors,
}
