"""Numbered fields of the simulated driver."""

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from functools import cached_property
from typing import Any, Final

from rightsizer.model.frozen import dataclass, replace
from rightsizer.model.units import Nanoseconds, nanoseconds
from rightsizer.simulator.counters import GpuCounters
from rightsizer.simulator.faults import GpuHealth, NvlinkErrorCounts
from rightsizer.simulator.library.calls import Functions, NvmlCallError, NvmlCode, number, out
from rightsizer.simulator.library.clocks import violation_nanoseconds
from rightsizer.simulator.library.driver import SimulatedHandle
from rightsizer.simulator.library.health import recovery_action
from rightsizer.simulator.library.power import milli
from rightsizer.simulator.physics import (
    HIGHEST_CELSIUS,
    SHUTDOWN_CELSIUS,
    SLOWDOWN_CELSIUS,
    BoardState,
    link_megabytes_per_second,
    lowest_limit_watts,
)
from rightsizer.simulator.support import BoardFeature
from rightsizer.simulator.transients import instant_watts


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
    SIGNED_INT = 5


_MEMBERS: Final = {
    FieldValueType.UNSIGNED_INT: "uiVal",
    FieldValueType.UNSIGNED_LONG_LONG: "ullVal",
    FieldValueType.SIGNED_INT: "siVal",
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
_C2C_MEGABYTES_PER_SECOND: Final = 450_000
_C2C_LINKS: Final = 5


def _count(read: Callable[[FieldContext], float], feature: BoardFeature) -> BoardField:
    return BoardField(read, feature, FieldValueType.UNSIGNED_LONG_LONG)


def _margin(celsius: int) -> BoardField:
    return BoardField(lambda _: celsius, BoardFeature.TEMPERATURE_MARGIN, FieldValueType.SIGNED_INT)


def _policy(number: int) -> BoardField:
    return _count(lambda at: violation_nanoseconds(at.device, number), BoardFeature.CLOCK_EVENTS)


def _same(fields: Iterable[int], field: BoardField | LinkField) -> _Fields:
    return dict.fromkeys(fields, field)


_ENERGY: Final = _count(lambda at: milli(at.counters.energy_joules), BoardFeature.ENERGY)
_LIMIT: Final = BoardField(lambda at: milli(at.device.around.power_limit_watts), BoardFeature.POWER)
_DEFAULT_LIMIT: Final = BoardField(lambda at: milli(at.board.power_limit_watts), BoardFeature.POWER)
_PENDING: Final = _count(lambda at: at.health.is_remapping_pending, BoardFeature.RETIRED_PAGES)
_POLICIES: Final = {74: 0, 75: 1, 76: 2, 77: 3, 78: 4, 79: 5, 80: 10, 81: 11}
_ECC, _VOLATILE, _ROWS = BoardFeature.ECC, BoardFeature.VOLATILE_ECC, BoardFeature.ROW_REMAPPING
_PCIE, _PCIE_COUNTERS = BoardFeature.PCIE, BoardFeature.PCIE_COUNTERS
_EVENTS, _PAGES = BoardFeature.CLOCK_EVENTS, BoardFeature.RETIRED_PAGES
BOARD_FIELDS: Final[_Fields] = {
    **_same((1, 2), BoardField(lambda _: 1, _ECC)),
    **_same((3, 4, *range(7, 18)), _count(lambda _: 0, _VOLATILE)),
    **_same((5, 6, *range(18, 29)), _count(lambda _: 0, _ECC)),
    **_same((3, 11), _count(lambda at: at.device.recent_health.corrected_errors, _VOLATILE)),
    **_same((4, 12), _count(lambda at: at.device.recent_health.uncorrected_errors, _VOLATILE)),
    **_same((5, 22), _count(lambda at: at.health.corrected_errors, _ECC)),
    **_same((6, 23), _count(lambda at: at.health.uncorrected_errors, _ECC)),
    29: _count(lambda at: at.health.rows_correctable, _PAGES),
    30: _count(lambda at: at.health.rows_uncorrectable, _PAGES),
    **_same((31, 92, 93), _PENDING),
    142: BoardField(lambda at: at.health.rows_correctable, _ROWS),
    143: BoardField(lambda at: at.health.rows_uncorrectable, _ROWS),
    144: BoardField(lambda at: at.health.is_remapping_pending, _ROWS),
    145: BoardField(lambda at: at.health.has_remapping_failed, _ROWS),
    226: BoardField(lambda at: recovery_action(at.health) != 0, _ECC),
    227: BoardField(lambda _: 0, _ECC),
    230: BoardField(lambda at: recovery_action(at.health)),
    94: BoardField(lambda at: at.health.pcie_replays, _PCIE),
    95: BoardField(lambda _: 0, _PCIE),
    **_same((169, *range(174, 184)), _count(lambda _: 0, _PCIE_COUNTERS)),
    173: _count(lambda at: at.health.pcie_replays, _PCIE_COUNTERS),
    197: _count(lambda at: at.counters.pcie_transmit_bytes, _PCIE_COUNTERS),
    198: _count(lambda at: at.counters.pcie_receive_bytes, _PCIE_COUNTERS),
    **{field: _policy(policy) for field, policy in _POLICIES.items()},
    82: BoardField(
        lambda at: round(at.state.electrical.memory_temperature_celsius),
        BoardFeature.MEMORY_TEMPERATURE,
    ),
    **_same((83, 191), _ENERGY),
    91: BoardField(lambda at: at.support.nvlink_links, BoardFeature.NVLINK),
    170: BoardField(lambda _: _C2C_LINKS, BoardFeature.C2C),
    171: BoardField(lambda _: 1, BoardFeature.C2C),
    172: BoardField(lambda _: _C2C_MEGABYTES_PER_SECOND, BoardFeature.C2C),
    184: BoardField(lambda at: at.support.has(BoardFeature.GPM), BoardFeature.MIG),
    185: BoardField(lambda at: milli(at.state.power_watts), BoardFeature.POWER_AVERAGE),
    186: BoardField(
        lambda at: milli(instant_watts(at.state, at.device.unit.around, at.time)),
        BoardFeature.POWER,
    ),
    187: BoardField(lambda at: milli(lowest_limit_watts(at.board)), BoardFeature.POWER),
    **_same((188, 189), _DEFAULT_LIMIT),
    **_same((190, 192), _LIMIT),
    193: _margin(HIGHEST_CELSIUS - SHUTDOWN_CELSIUS),
    194: _margin(HIGHEST_CELSIUS - SLOWDOWN_CELSIUS),
    196: _margin(0),
    199: BoardField(lambda _: 1, BoardFeature.MIG),
    269: _count(
        lambda at: nanoseconds(
            at.counters.thermal_violation_seconds - at.counters.hardware_thermal_seconds
        ),
        _EVENTS,
    ),
    270: _count(lambda at: nanoseconds(at.counters.hardware_thermal_seconds), _EVENTS),
    271: _count(lambda at: nanoseconds(at.counters.power_brake_seconds), _EVENTS),
}
"""By NVML's numbers, which never change (nvml.h, NVML_FI_*)."""


_KIB: Final = 1024.0
_RAW_RATIO: Final = 1.13
"""With headers and checks, of the data alone."""
_PACKET_BYTES: Final = 256.0
_GOOD_ERROR_RATE: Final = 15 << 8 | 1
"""1e-15, as NVML packs it."""
_OLD: Final = BoardFeature.NVLINK_OLD_COUNTERS
_NEW: Final = BoardFeature.NVLINK_NEW_COUNTERS


def _sent(counters: GpuCounters) -> float:
    return counters.nvlink_transmit_bytes


def _received(counters: GpuCounters) -> float:
    return counters.nvlink_receive_bytes


def _both(counters: GpuCounters) -> float:
    return _sent(counters) + _received(counters)


def _traffic(
    read: Callable[[GpuCounters], float],
    factor: float,
    feature: BoardFeature = BoardFeature.NVLINK,
    link: int | None = None,
) -> LinkField:
    """A counter of traffic; all links that are up carry the same."""
    return LinkField(
        lambda at, link: factor * read(at.link_counters(link)) / at.support.nvlink_links,
        feature,
        total=lambda at: factor * read(at.counters),
        link=link,
    )


def _errors(
    name: str, feature: BoardFeature = BoardFeature.NVLINK, link: int | None = None
) -> LinkField:
    """A counter of `NvlinkErrorCounts`, by its name there."""
    return LinkField(
        lambda at, link: getattr(at.health.link_errors.get(link, NvlinkErrorCounts()), name),
        feature,
        total=lambda at: sum(getattr(errors, name) for errors in at.health.link_errors.values()),
        link=link,
    )


def _errors_of_links(first: int, later: int, name: str) -> _Fields:
    """Six links from one field on, six from another on, and the sum after the first six."""
    fields = (*range(first, first + 6), *range(later, later + 6))
    total = _errors(name).total or (lambda _: 0)
    return {
        **{field: _errors(name, link=link) for link, field in enumerate(fields)},
        first + 6: _count(total, BoardFeature.NVLINK),
    }


def _speed(at: FieldContext, link: int) -> int:
    return link_megabytes_per_second(at.board) * at.is_up(link)


def _speed_of(link: int | None) -> LinkField:
    return LinkField(_speed, kind=FieldValueType.UNSIGNED_INT, link=link)


_NO_ERRORS: Final = LinkField(lambda _, __: 0, total=lambda _: 0)
_NO_NEW_ERRORS: Final = LinkField(lambda _, __: 0, _NEW)
LINK_FIELDS: Final[_Fields] = {
    **_errors_of_links(32, 96, "crc"),
    **{f: replace(_NO_ERRORS, link=at) for at, f in enumerate((*range(39, 45), *range(102, 108)))},
    45: _count(lambda _: 0, BoardFeature.NVLINK),
    **_errors_of_links(46, 108, "replay"),
    **_errors_of_links(53, 114, "recovery"),
    **{
        field: _traffic(_both, 1 / _KIB, _OLD, link)
        for link, field in enumerate((*range(60, 66), *range(120, 126)))
    },
    66: _count(lambda at: _both(at.counters) / _KIB, _OLD),
    **{field: _speed_of(link) for link, field in enumerate((*range(84, 90), *range(132, 138)))},
    90: _speed_of(0),
    138: _traffic(_sent, 1 / _KIB),
    139: _traffic(_received, 1 / _KIB),
    140: _traffic(_sent, _RAW_RATIO / _KIB),
    141: _traffic(_received, _RAW_RATIO / _KIB),
    147: BoardField(
        lambda at: at.support.nvlink_links - len(at.health.links_down), BoardFeature.FABRIC
    ),
    **{field: replace(_NO_ERRORS, link=link) for link, field in enumerate(range(148, 160))},
    160: _count(lambda _: 0, BoardFeature.NVLINK),
    161: _errors("replay"),
    162: _errors("recovery"),
    163: _errors("crc"),
    164: _speed_of(None),
    165: LinkField(
        lambda at, link: at.is_up(link), kind=FieldValueType.UNSIGNED_INT, needs_link_up=False
    ),
    166: LinkField(lambda at, _: at.support.nvlink_version, kind=FieldValueType.UNSIGNED_INT),
    201: _traffic(_sent, 1 / _PACKET_BYTES, _NEW),
    202: _traffic(_sent, 1.0, _NEW),
    203: _traffic(_received, 1 / _PACKET_BYTES, _NEW),
    204: _traffic(_received, 1.0, _NEW),
    **_same((*range(206, 213), 214, 219, *range(235, 251)), _NO_NEW_ERRORS),
    **_same((208, 221), _errors("crc", _NEW)),
    **_same((213, 215), _errors("recovery", _NEW)),
    **_same((220, 222), LinkField(lambda _, __: _GOOD_ERROR_RATE, _NEW)),
}
"""By NVML's numbers, which never change (nvml.h, NVML_FI_*)."""


_LATENCY_MICROSECONDS: Final = 40
_FIELDS: Final[_Fields] = {**BOARD_FIELDS, **LINK_FIELDS}


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
