"""Numbered fields of the simulated driver."""

from collections.abc import Callable, Mapping
from enum import IntEnum
from functools import cached_property
from operator import attrgetter
from typing import Any, Final

from rightsizer.model.frozen import dataclass, replace
from rightsizer.model.units import Nanoseconds
from rightsizer.simulator.counters import GpuCounters
from rightsizer.simulator.faults import GpuHealth, NvlinkErrorCounts
from rightsizer.simulator.library.board import milli, violation_nanoseconds
from rightsizer.simulator.library.calls import Functions, NvmlCallError, NvmlCode, number, out
from rightsizer.simulator.library.driver import SimulatedHandle
from rightsizer.simulator.library.health import recovery_action
from rightsizer.simulator.physics import BoardState, link_megabytes_per_second
from rightsizer.simulator.support import BoardFeature


class FieldContext:
    """A device at one time; everything is computed when it is first read."""

    def __init__(self, device: SimulatedHandle) -> None:
        self.device, self.support = device, device.support
        self.board = device.unit.slot.board
        self.time: Nanoseconds = device.driver.now()

    @cached_property
    def state(self) -> BoardState:
        """The readings of the device."""
        return self.device.state_at(self.time)

    @cached_property
    def counters(self) -> GpuCounters:
        """What the GPU has used and moved."""
        return self.device.driver.node.counters(self.device.uuid, self.time)

    @cached_property
    def health(self) -> GpuHealth:
        """The errors of the GPU in its life."""
        return self.device.health

    def link_counters(self, link: int) -> GpuCounters:
        """What the GPU had moved while a link was last up."""
        since = self.health.links_down.get(link)
        if since is None:
            return self.counters
        return self.device.driver.node.counters(self.device.uuid, since)

    def is_up(self, link: int) -> int:
        """Whether a link is up."""
        return int(self.support.nvlink_up and link not in self.health.links_down)


ALL_LINKS = 0xFFFFFFFF
"""The scope that means the sum over all links."""


class FieldValueType(IntEnum):
    """NVML's types of values."""

    UNSIGNED_INT = 1
    UNSIGNED_LONG_LONG = 3


_MEMBERS: Final = {
    FieldValueType.UNSIGNED_INT: "uiVal",
    FieldValueType.UNSIGNED_LONG_LONG: "ullVal",
}


@dataclass(frozen=True, slots=True)
class BoardField:
    """Of the GPU as a whole; the scope does not matter."""

    read: Callable[[FieldContext], float]
    feature: BoardFeature = BoardFeature.MEMORY
    """Without it the field is not supported; every board has memory."""
    kind: FieldValueType = FieldValueType.UNSIGNED_INT


@dataclass(frozen=True, slots=True)
class LinkField:
    """Of one NVLink, which the scope names."""

    read: Callable[[FieldContext, int], float]
    feature: BoardFeature = BoardFeature.NVLINK
    kind: FieldValueType = FieldValueType.UNSIGNED_LONG_LONG
    total: Callable[[FieldContext], float] | None = None
    """Over all links; `None` where that means nothing."""
    link: int | None = None
    """The link, where the field itself names it and the scope does not matter."""
    needs_link_up: bool = True
    """Whether it is not supported on a board whose links lead nowhere."""


_Fields = Mapping[int, BoardField | LinkField]


def _count(read: Callable[[FieldContext], float], feature: BoardFeature) -> BoardField:
    return BoardField(read, feature, FieldValueType.UNSIGNED_LONG_LONG)


def _policy(number: int) -> BoardField:
    return _count(lambda at: violation_nanoseconds(at.device, number), BoardFeature.CLOCK_EVENTS)


_ECC, _VOLATILE, _ROWS = BoardFeature.ECC, BoardFeature.VOLATILE_ECC, BoardFeature.ROW_REMAPPING
_PCIE_COUNTERS, _PAGES = BoardFeature.PCIE_COUNTERS, BoardFeature.RETIRED_PAGES
_BOARD_FIELDS: Final[_Fields] = {
    1: BoardField(lambda _: 1, _ECC),
    3: _count(lambda at: at.device.recent_health.corrected_errors, _VOLATILE),
    4: _count(lambda at: at.device.recent_health.uncorrected_errors, _VOLATILE),
    5: _count(lambda at: at.health.corrected_errors, _ECC),
    6: _count(lambda at: at.health.uncorrected_errors, _ECC),
    29: _count(lambda at: at.health.rows_correctable, _PAGES),
    30: _count(lambda at: at.health.rows_uncorrectable, _PAGES),
    31: _count(lambda at: at.health.is_remapping_pending, _PAGES),
    74: _policy(0),
    75: _policy(1),
    82: BoardField(
        lambda at: round(at.state.electrical.memory_temperature_celsius),
        BoardFeature.MEMORY_TEMPERATURE,
    ),
    83: _count(lambda at: milli(at.counters.energy_joules), BoardFeature.ENERGY),
    91: BoardField(lambda at: at.support.nvlink_links, BoardFeature.NVLINK),
    94: BoardField(lambda at: at.health.pcie_replays, BoardFeature.PCIE),
    142: BoardField(lambda at: at.health.rows_correctable, _ROWS),
    143: BoardField(lambda at: at.health.rows_uncorrectable, _ROWS),
    144: BoardField(lambda at: at.health.is_remapping_pending, _ROWS),
    145: BoardField(lambda at: at.health.has_remapping_failed, _ROWS),
    197: _count(lambda at: at.counters.pcie_transmit_bytes, _PCIE_COUNTERS),
    198: _count(lambda at: at.counters.pcie_receive_bytes, _PCIE_COUNTERS),
    230: BoardField(lambda at: recovery_action(at.health)),
}
"""By NVML's numbers, which never change (nvml.h, NVML_FI_*), as far as anything asks for them."""


_KIB: Final = 1024.0
_NEW: Final = BoardFeature.NVLINK_NEW_COUNTERS
_sent: Final = attrgetter("nvlink_transmit_bytes")
_received: Final = attrgetter("nvlink_receive_bytes")


def _traffic(
    read: Callable[[GpuCounters], float], factor: float, feature: BoardFeature = BoardFeature.NVLINK
) -> LinkField:
    """A counter of traffic; all links that are up carry the same."""
    return LinkField(
        lambda at, link: factor * read(at.link_counters(link)) / at.support.nvlink_links,
        feature,
        total=lambda at: factor * read(at.counters),
    )


def _errors(name: str, feature: BoardFeature = BoardFeature.NVLINK) -> LinkField:
    """A counter of `NvlinkErrorCounts`, by its name there."""
    return LinkField(
        lambda at, link: getattr(at.health.link_errors.get(link, NvlinkErrorCounts()), name),
        feature,
        total=lambda at: sum(getattr(errors, name) for errors in at.health.link_errors.values()),
    )


def _by_link(first: int, later: int, field: LinkField) -> _Fields:
    """A field for each of twelve links: six from one number on, six from another on."""
    numbers = (*range(first, first + 6), *range(later, later + 6))
    return {number: replace(field, link=link) for link, number in enumerate(numbers)}


_SPEED: Final = LinkField(
    lambda at, link: link_megabytes_per_second(at.board) * at.is_up(link),
    kind=FieldValueType.UNSIGNED_INT,
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
    165: LinkField(
        lambda at, link: at.is_up(link), kind=FieldValueType.UNSIGNED_INT, needs_link_up=False
    ),
    202: _traffic(_sent, 1.0, _NEW),
    204: _traffic(_received, 1.0, _NEW),
    208: _errors("crc", _NEW),
    215: _errors("recovery", _NEW),
}


_LATENCY_MICROSECONDS: Final = 40
_FIELDS: Final[_Fields] = {**_BOARD_FIELDS, **_LINK_FIELDS}


def _field_values(device: SimulatedHandle, count: Any, values: Any) -> None:
    context, support = FieldContext(device), device.support
    offered = support.features_with_mig if device.instances else support.features
    for answer in out(values)[: number(count)]:
        answer.timestamp = context.time // 1000
        answer.latencyUsec = _LATENCY_MICROSECONDS
        field = _FIELDS.get(answer.fieldId)
        if field is None or field.feature not in offered:
            answer.nvmlReturn = NvmlCode.NOT_SUPPORTED
            continue
        try:
            value = _value(context, field, answer.scopeId)
        except NvmlCallError as refusal:
            answer.nvmlReturn = refusal.code
            continue
        answer.nvmlReturn = NvmlCode.SUCCESS
        answer.valueType = field.kind
        setattr(answer.value, _MEMBERS[field.kind], int(value))


def _value(context: FieldContext, field: BoardField | LinkField, scope: int) -> float:
    if isinstance(field, BoardField):
        return field.read(context)
    link = scope if field.link is None else field.link
    if link == ALL_LINKS and field.total is not None:
        return field.total(context)
    if link >= context.support.nvlink_links:
        raise NvmlCallError(
            NvmlCode.INVALID_ARGUMENT if field.link is None else NvmlCode.NOT_SUPPORTED
        )
    if field.needs_link_up and not context.support.nvlink_up:
        raise NvmlCallError(NvmlCode.NOT_SUPPORTED)
    return field.read(context, link)


FIELDS: Final[Functions] = {"nvmlDeviceGetFieldValues": _field_values}
