"""Numbered fields of the simulated driver."""

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.simulator.counters import GpuCounters
from rightsizer.simulator.faults import NvlinkErrorCounts
from rightsizer.simulator.library.calls import (
    Functions,
    NvmlCallError,
    NvmlCode,
    number,
    out,
    refuse_if,
)
from rightsizer.simulator.library.driver import SimulatedHandle
from rightsizer.simulator.physics import link_megabytes_per_second
from rightsizer.simulator.signals import SIGNALS
from rightsizer.simulator.support import BoardFeature
from rightsizer.simulator.view import DeviceView

ALL_LINKS: Final = 0xFFFFFFFF
"""Scope of the sum over all links."""
_INT = (1, "uiVal")
_LONG = (3, "ullVal")
"""NVML's value types with their members of the union."""


class BoardField(Struct, frozen=True):
    """Field of the whole GPU; its scope is ignored."""

    read: Callable[[DeviceView], float]
    feature: BoardFeature
    kind: tuple[int, str] = _INT


class LinkField(Struct, frozen=True):
    """Field of one NVLink, selected by the scope."""

    read: Callable[[SimulatedHandle, int], float]
    feature: BoardFeature = BoardFeature.NVLINK
    kind: tuple[int, str] = _LONG
    total: Callable[[SimulatedHandle], float] | None = None
    """Value over all links; `None` if not meaningful."""
    link: int | None = None
    """Link, if the field id itself names it and the scope is ignored."""
    needs_link_up: bool = True
    """Whether the field is unsupported on a board with unconnected links."""


_Fields = Mapping[int, BoardField | LinkField]


_BOARD_FIELDS: Final[_Fields] = {
    **{
        row.field: BoardField(row.read, row.feature, _LONG if row.is_long else _INT)
        for row in SIGNALS
        if row.field is not None
    },
    1: BoardField(lambda _: 1, BoardFeature.ECC),
    91: BoardField(lambda gpu: gpu.support.nvlink_links, BoardFeature.NVLINK),
    197: BoardField(
        lambda gpu: gpu.counters.pcie_transmit_bytes, BoardFeature.PCIE_COUNTERS, _LONG
    ),
    198: BoardField(lambda gpu: gpu.counters.pcie_receive_bytes, BoardFeature.PCIE_COUNTERS, _LONG),
}
"""By NVML's field ids, which never change (nvml.h, NVML_FI_*); only those that are used."""

_KIB: Final = 1024.0
_NEW: Final = BoardFeature.NVLINK_NEW_COUNTERS
_sent: Final = attrgetter("nvlink_transmit_bytes")
_received: Final = attrgetter("nvlink_receive_bytes")


def _traffic(
    read: Callable[[GpuCounters], float], factor: float, feature: BoardFeature = BoardFeature.NVLINK
) -> LinkField:
    """Create a traffic counter, split evenly among the links."""
    return LinkField(
        lambda gpu, link: factor * read(_link_counters(gpu, link)) / gpu.support.nvlink_links,
        feature,
        total=lambda gpu: factor * read(gpu.counters),
    )


def _link_counters(gpu: SimulatedHandle, link: int) -> GpuCounters:
    """Return the GPU's counters at the time that a link was last up."""
    since = gpu.health.links_down.get(link)
    return gpu.counters if since is None else gpu.driver.node.counters(gpu.uuid, since)


def _is_up(gpu: SimulatedHandle, link: int) -> bool:
    return gpu.support.nvlink_up and link not in gpu.health.links_down


def _errors(name: str, feature: BoardFeature = BoardFeature.NVLINK) -> LinkField:
    """Create a counter from a field of `NvlinkErrorCounts`."""
    return LinkField(
        lambda gpu, link: getattr(gpu.health.link_errors.get(link, NvlinkErrorCounts()), name),
        feature,
        total=lambda gpu: sum(getattr(errors, name) for errors in gpu.health.link_errors.values()),
    )


def _by_link(first: int, later: int, field: LinkField) -> _Fields:
    """Return a field for each of twelve links, with ids in two ranges of six."""
    numbers = (*range(first, first + 6), *range(later, later + 6))
    return {number: replace(field, link=link) for link, number in enumerate(numbers)}


_SPEED: Final = LinkField(
    lambda gpu, link: link_megabytes_per_second(gpu.unit.slot.board) * _is_up(gpu, link), kind=_INT
)
_LINK_FIELDS: Final[_Fields] = {
    **_by_link(32, 96, _errors("crc")),
    **_by_link(39, 102, LinkField(lambda _, __: 0)),
    **_by_link(46, 108, _errors("replay")),
    **_by_link(53, 114, _errors("recovery")),
    **_by_link(84, 132, _SPEED),
    138: _traffic(_sent, 1 / _KIB),
    139: _traffic(_received, 1 / _KIB),
    161: _errors("replay"),
    162: _errors("recovery"),
    163: _errors("crc"),
    164: _SPEED,
    165: LinkField(_is_up, kind=_INT, needs_link_up=False),
    202: _traffic(_sent, 1.0, _NEW),
    204: _traffic(_received, 1.0, _NEW),
    208: _errors("crc", _NEW),
    215: _errors("recovery", _NEW),
}

_LATENCY_MICROSECONDS: Final = 40
_FIELDS: Final[_Fields] = {**_BOARD_FIELDS, **_LINK_FIELDS}


def _field_values(device: SimulatedHandle, count: Any, values: Any) -> None:
    offered = device.offered
    now = device.driver.microseconds()
    for answer in out(values)[: number(count)]:
        answer.timestamp = now
        answer.latencyUsec = _LATENCY_MICROSECONDS
        field = _FIELDS.get(answer.fieldId)
        if field is None or field.feature not in offered:
            answer.nvmlReturn = NvmlCode.NOT_SUPPORTED
            continue
        try:
            value = _value(device, field, answer.scopeId)
        except NvmlCallError as refusal:
            answer.nvmlReturn = refusal.code
            continue
        answer.nvmlReturn = NvmlCode.SUCCESS
        answer.valueType, member = field.kind
        setattr(answer.value, member, int(value))


def _value(device: SimulatedHandle, field: BoardField | LinkField, scope: int) -> float:
    if isinstance(field, BoardField):
        return field.read(device)
    link = scope if field.link is None else field.link
    if link == ALL_LINKS and field.total is not None:
        return field.total(device)
    code = NvmlCode.INVALID_ARGUMENT if field.link is None else NvmlCode.NOT_SUPPORTED
    refuse_if(link >= device.support.nvlink_links, code)
    refuse_if(field.needs_link_up and not device.support.nvlink_up, NvmlCode.NOT_SUPPORTED)
    return field.read(device, link)


FIELDS: Final[Functions] = {"nvmlDeviceGetFieldValues": _field_values}
