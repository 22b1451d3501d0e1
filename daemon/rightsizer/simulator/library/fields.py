"""Numbered fields of the simulated driver."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

from rightsizer.model.units import Nanoseconds, nanoseconds
from rightsizer.simulator.counters import GpuCounters
from rightsizer.simulator.faults import GpuHealth, NvlinkErrorCounts
from rightsizer.simulator.library.calls import NvmlCallError, NvmlCode, number, out
from rightsizer.simulator.library.clocks import violation_nanoseconds
from rightsizer.simulator.library.driver import SimulatedDriver, SimulatedHandle
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
    """A device at one time; nothing is worked out that nobody asks for."""

    __slots__ = ("_counters", "_driver", "_health", "_state", "device", "time")

    def __init__(self, driver: SimulatedDriver, device: SimulatedHandle) -> None:
        """A device as it is now."""
        self.device = device
        self.time: Nanoseconds = driver.now()
        self._driver = driver
        self._state: BoardState | None = None
        self._counters: GpuCounters | None = None
        self._health: GpuHealth | None = None

    @property
    def state(self) -> BoardState:
        """What is true of the device."""
        if self._state is None:
            self._state = self.device.state_at(self.time)
        return self._state

    @property
    def counters(self) -> GpuCounters:
        """What the GPU has used and moved."""
        if self._counters is None:
            self._counters = self._driver.node.counters(self.device.uuid, self.time)
        return self._counters

    @property
    def health(self) -> GpuHealth:
        """What has gone wrong with the GPU in its life."""
        if self._health is None:
            self._health = self.device.health
        return self._health

    @property
    def recent(self) -> GpuHealth:
        """What of it was counted since the driver was loaded."""
        return self.device.recent_health

    @property
    def instant_watts(self) -> float:
        """The draw of this moment."""
        return instant_watts(self.state, self.device.unit.around, self.time)

    def link_counters(self, link: int) -> GpuCounters:
        """What the GPU had moved while a link was last up."""
        since = self.health.links_down.get(link)
        if since is None:
            return self.counters
        return self._driver.node.counters(self.device.uuid, since)


ALL_LINKS = 0xFFFFFFFF
"""The scope that means the sum over all links."""


class FieldValueType(IntEnum):
    """NVML's types of values."""

    UNSIGNED_INT = 1
    UNSIGNED_LONG_LONG = 3
    SIGNED_INT = 5


@dataclass(frozen=True, slots=True)
class BoardField:
    """Of the GPU as a whole; the scope does not matter."""

    kind: FieldValueType
    read: Callable[[FieldContext], float]
    feature: BoardFeature = BoardFeature.MEMORY
    """Without it the field is not supported; every board has memory."""


@dataclass(frozen=True, slots=True)
class LinkField:
    """Of one NVLink, which the scope names."""

    kind: FieldValueType
    read: Callable[[FieldContext, int], float]
    feature: BoardFeature = BoardFeature.NVLINK
    total: Callable[[FieldContext], float] | None = None
    """Over all links; `None` where that means nothing."""
    link: int | None = None
    """The link, where the field itself names it and the scope does not matter."""
    needs_link_up: bool = True
    """Whether it is not supported on a board whose links lead nowhere."""


_C2C_MEGABYTES_PER_SECOND: Final = 450_000
_C2C_LINKS: Final = 5


def _one(_look: FieldContext) -> int:
    return 1


def _zero(_look: FieldContext) -> int:
    return 0


def _count(read: Callable[[FieldContext], float], feature: BoardFeature) -> BoardField:
    return BoardField(FieldValueType.UNSIGNED_LONG_LONG, read, feature)


def _number(
    read: Callable[[FieldContext], float], feature: BoardFeature = BoardFeature.MEMORY
) -> BoardField:
    return BoardField(FieldValueType.UNSIGNED_INT, read, feature)


def _limit(look: FieldContext) -> int:
    return milli(look.device.around.power_limit_watts)


def _default_limit(look: FieldContext) -> int:
    return milli(look.device.unit.slot.board.power_limit_watts)


def _policy(number: int) -> BoardField:
    return _count(
        lambda look: violation_nanoseconds(look.device, number), BoardFeature.CLOCK_EVENTS
    )


def _energy(look: FieldContext) -> int:
    return milli(look.counters.energy_joules)


_POLICIES: Final = {74: 0, 75: 1, 76: 2, 77: 3, 78: 4, 79: 5, 80: 10, 81: 11}
_ECC: Final[Mapping[int, BoardField]] = {
    1: _number(_one, BoardFeature.ECC),
    2: _number(_one, BoardFeature.ECC),
    **dict.fromkeys((3, 4, *range(7, 18)), _count(_zero, BoardFeature.VOLATILE_ECC)),
    **dict.fromkeys((5, 6, *range(18, 29)), _count(_zero, BoardFeature.ECC)),
    **dict.fromkeys(
        (3, 11), _count(lambda look: look.recent.corrected_errors, BoardFeature.VOLATILE_ECC)
    ),
    **dict.fromkeys(
        (4, 12), _count(lambda look: look.recent.uncorrected_errors, BoardFeature.VOLATILE_ECC)
    ),
    **dict.fromkeys((5, 22), _count(lambda look: look.health.corrected_errors, BoardFeature.ECC)),
    **dict.fromkeys((6, 23), _count(lambda look: look.health.uncorrected_errors, BoardFeature.ECC)),
    29: _count(lambda look: look.health.rows_correctable, BoardFeature.RETIRED_PAGES),
    30: _count(lambda look: look.health.rows_uncorrectable, BoardFeature.RETIRED_PAGES),
    **dict.fromkeys(
        (31, 92, 93),
        _count(lambda look: look.health.is_remapping_pending, BoardFeature.RETIRED_PAGES),
    ),
    142: _number(lambda look: look.health.rows_correctable, BoardFeature.ROW_REMAPPING),
    143: _number(lambda look: look.health.rows_uncorrectable, BoardFeature.ROW_REMAPPING),
    144: _number(lambda look: look.health.is_remapping_pending, BoardFeature.ROW_REMAPPING),
    145: _number(lambda look: look.health.has_remapping_failed, BoardFeature.ROW_REMAPPING),
    226: _number(lambda look: recovery_action(look.health) != 0, BoardFeature.ECC),
    227: _number(_zero, BoardFeature.ECC),
    230: _number(lambda look: recovery_action(look.health)),
}
_PCIE: Final[Mapping[int, BoardField]] = {
    94: _number(lambda look: look.health.pcie_replays, BoardFeature.PCIE),
    95: _number(_zero, BoardFeature.PCIE),
    **dict.fromkeys((169, *range(174, 184)), _count(_zero, BoardFeature.PCIE_COUNTERS)),
    173: _count(lambda look: look.health.pcie_replays, BoardFeature.PCIE_COUNTERS),
    197: _count(lambda look: look.counters.pcie_transmit_bytes, BoardFeature.PCIE_COUNTERS),
    198: _count(lambda look: look.counters.pcie_receive_bytes, BoardFeature.PCIE_COUNTERS),
}
BOARD_FIELDS: Final[Mapping[int, BoardField]] = {
    **_ECC,
    **_PCIE,
    **{field: _policy(policy) for field, policy in _POLICIES.items()},
    82: _number(
        lambda look: round(look.state.electrical.memory_temperature_celsius),
        BoardFeature.MEMORY_TEMPERATURE,
    ),
    83: _count(_energy, BoardFeature.ENERGY),
    91: _number(lambda look: look.device.support.nvlink_links, BoardFeature.NVLINK),
    170: _number(lambda _: _C2C_LINKS, BoardFeature.C2C),
    171: _number(_one, BoardFeature.C2C),
    172: _number(lambda _: _C2C_MEGABYTES_PER_SECOND, BoardFeature.C2C),
    184: _number(lambda look: look.device.support.has(BoardFeature.GPM), BoardFeature.MIG),
    185: _number(lambda look: milli(look.state.power_watts), BoardFeature.POWER_AVERAGE),
    186: _number(lambda look: milli(look.instant_watts), BoardFeature.POWER),
    187: _number(
        lambda look: milli(lowest_limit_watts(look.device.unit.slot.board)), BoardFeature.POWER
    ),
    188: _number(_default_limit, BoardFeature.POWER),
    189: _number(_default_limit, BoardFeature.POWER),
    190: _number(_limit, BoardFeature.POWER),
    191: _count(_energy, BoardFeature.ENERGY),
    192: _number(_limit, BoardFeature.POWER),
    193: BoardField(
        FieldValueType.SIGNED_INT,
        lambda _: HIGHEST_CELSIUS - SHUTDOWN_CELSIUS,
        BoardFeature.TEMPERATURE_MARGIN,
    ),
    194: BoardField(
        FieldValueType.SIGNED_INT,
        lambda _: HIGHEST_CELSIUS - SLOWDOWN_CELSIUS,
        BoardFeature.TEMPERATURE_MARGIN,
    ),
    196: BoardField(FieldValueType.SIGNED_INT, _zero, BoardFeature.TEMPERATURE_MARGIN),
    199: _number(_one, BoardFeature.MIG),
    269: _count(
        lambda look: nanoseconds(
            look.counters.thermal_violation_seconds - look.counters.hardware_thermal_seconds
        ),
        BoardFeature.CLOCK_EVENTS,
    ),
    270: _count(
        lambda look: nanoseconds(look.counters.hardware_thermal_seconds), BoardFeature.CLOCK_EVENTS
    ),
    271: _count(
        lambda look: nanoseconds(look.counters.power_brake_seconds), BoardFeature.CLOCK_EVENTS
    ),
}
"""By NVML's numbers, which never change (nvml.h, NVML_FI_*)."""


_KIB: Final = 1024.0
_RAW_RATIO: Final = 1.13
"""With headers and checks, of the data alone."""
_PACKET_BYTES: Final = 256.0
_GOOD_ERROR_RATE: Final = 15 << 8 | 1
"""1e-15, as NVML packs it."""

Read = Callable[[GpuCounters], float]


def _sent(counters: GpuCounters) -> float:
    return counters.nvlink_transmit_bytes


def _received(counters: GpuCounters) -> float:
    return counters.nvlink_receive_bytes


def _both(counters: GpuCounters) -> float:
    return _sent(counters) + _received(counters)


def _traffic(
    read: Read, factor: float, feature: BoardFeature = BoardFeature.NVLINK, link: int | None = None
) -> LinkField:
    """A counter of traffic; all links that are up carry the same."""
    return LinkField(
        FieldValueType.UNSIGNED_LONG_LONG,
        lambda look, at: factor * read(look.link_counters(at)) / look.device.support.nvlink_links,
        feature,
        lambda look: factor * read(look.counters),
        link,
    )


def _errors(
    read: Callable[[NvlinkErrorCounts], int],
    link: int | None = None,
    feature: BoardFeature = BoardFeature.NVLINK,
) -> LinkField:
    return LinkField(
        FieldValueType.UNSIGNED_LONG_LONG,
        lambda look, at: read(look.health.link_errors.get(at, NvlinkErrorCounts())),
        feature,
        lambda look: sum(read(errors) for errors in look.health.link_errors.values()),
        link,
    )


def _is_up(look: FieldContext, link: int) -> int:
    return int(look.device.support.nvlink_up and link not in look.health.links_down)


def _speed(look: FieldContext, link: int) -> int:
    return link_megabytes_per_second(look.device.unit.slot.board) * _is_up(look, link)


def _errors_of_all(read: Callable[[NvlinkErrorCounts], int]) -> BoardField:
    total = _errors(read).total
    return BoardField(
        FieldValueType.UNSIGNED_LONG_LONG, total or (lambda _: 0), BoardFeature.NVLINK
    )


def _by_link(fields: Sequence[int], make: Callable[[int], LinkField]) -> dict[int, LinkField]:
    return {field: make(link) for link, field in enumerate(fields)}


_OLD: Final = BoardFeature.NVLINK_OLD_COUNTERS
_NEW: Final = BoardFeature.NVLINK_NEW_COUNTERS
_SPEED: Final = LinkField(FieldValueType.UNSIGNED_INT, _speed)
_NO_ERRORS: Final = LinkField(FieldValueType.UNSIGNED_LONG_LONG, lambda _, __: 0, _NEW)
LINK_FIELDS: Final[Mapping[int, BoardField | LinkField]] = {
    **_by_link((*range(32, 38), *range(96, 102)), lambda at: _errors(lambda found: found.crc, at)),
    38: _errors_of_all(lambda found: found.crc),
    **_by_link((*range(39, 45), *range(102, 108)), lambda at: _errors(lambda _: 0, at)),
    45: _errors_of_all(lambda _: 0),
    **_by_link(
        (*range(46, 52), *range(108, 114)), lambda at: _errors(lambda found: found.replay, at)
    ),
    52: _errors_of_all(lambda found: found.replay),
    **_by_link(
        (*range(53, 59), *range(114, 120)), lambda at: _errors(lambda found: found.recovery, at)
    ),
    59: _errors_of_all(lambda found: found.recovery),
    **_by_link((*range(60, 66), *range(120, 126)), lambda at: _traffic(_both, 1 / _KIB, _OLD, at)),
    66: BoardField(
        FieldValueType.UNSIGNED_LONG_LONG, lambda look: _both(look.counters) / _KIB, _OLD
    ),
    **_by_link(
        (*range(84, 90), *range(132, 138)),
        lambda at: LinkField(FieldValueType.UNSIGNED_INT, _speed, link=at),
    ),
    90: LinkField(FieldValueType.UNSIGNED_INT, _speed, link=0),
    138: _traffic(_sent, 1 / _KIB),
    139: _traffic(_received, 1 / _KIB),
    140: _traffic(_sent, _RAW_RATIO / _KIB),
    141: _traffic(_received, _RAW_RATIO / _KIB),
    147: BoardField(
        FieldValueType.UNSIGNED_INT,
        lambda look: look.device.support.nvlink_links - len(look.health.links_down),
        BoardFeature.FABRIC,
    ),
    **_by_link(range(148, 160), lambda at: _errors(lambda _: 0, at)),
    160: _errors_of_all(lambda _: 0),
    161: _errors(lambda found: found.replay),
    162: _errors(lambda found: found.recovery),
    163: _errors(lambda found: found.crc),
    164: _SPEED,
    165: LinkField(FieldValueType.UNSIGNED_INT, _is_up, needs_link_up=False),
    166: LinkField(FieldValueType.UNSIGNED_INT, lambda look, _: look.device.support.nvlink_version),
    201: _traffic(_sent, 1 / _PACKET_BYTES, _NEW),
    202: _traffic(_sent, 1.0, _NEW),
    203: _traffic(_received, 1 / _PACKET_BYTES, _NEW),
    204: _traffic(_received, 1.0, _NEW),
    **dict.fromkeys((*range(206, 213), 214, *range(235, 251)), _NO_ERRORS),
    208: _errors(lambda found: found.crc, feature=_NEW),
    213: _errors(lambda found: found.recovery, feature=_NEW),
    215: _errors(lambda found: found.recovery, feature=_NEW),
    219: _NO_ERRORS,
    220: LinkField(FieldValueType.UNSIGNED_LONG_LONG, lambda _, __: _GOOD_ERROR_RATE, _NEW),
    221: _errors(lambda found: found.crc, feature=_NEW),
    222: LinkField(FieldValueType.UNSIGNED_LONG_LONG, lambda _, __: _GOOD_ERROR_RATE, _NEW),
}
"""By NVML's numbers, which never change (nvml.h, NVML_FI_*)."""


_LATENCY_MICROSECONDS: Final = 40
_FIELDS: Final[Mapping[int, BoardField | LinkField]] = {**BOARD_FIELDS, **LINK_FIELDS}
_MEMBERS: Final = {
    FieldValueType.UNSIGNED_INT: "uiVal",
    FieldValueType.UNSIGNED_LONG_LONG: "ullVal",
    FieldValueType.SIGNED_INT: "siVal",
}


def _field_values(
    driver: SimulatedDriver, device: SimulatedHandle, count: Any, values: Any
) -> None:
    look, support = FieldContext(driver, device), device.support
    offered = support.features_with_mig if device.instances else support.features
    microseconds = look.time // 1000
    for answer in out(values)[: number(count)]:
        answer.timestamp = microseconds
        answer.latencyUsec = _LATENCY_MICROSECONDS
        found = _FIELDS.get(answer.fieldId)
        if found is None or found.feature not in offered:
            answer.nvmlReturn = NvmlCode.NOT_SUPPORTED
            continue
        try:
            value = _value(look, found, answer.scopeId)
        except NvmlCallError as refusal:
            answer.nvmlReturn = refusal.code
            continue
        answer.nvmlReturn = NvmlCode.SUCCESS
        answer.valueType = found.kind
        setattr(answer.value, _MEMBERS[found.kind], int(value))


def _value(look: FieldContext, found: BoardField | LinkField, scope: int) -> float:
    if isinstance(found, BoardField):
        return found.read(look)
    link = scope if found.link is None else found.link
    if link == ALL_LINKS and found.total is not None:
        return found.total(look)
    if link >= look.device.support.nvlink_links:
        raise NvmlCallError(
            NvmlCode.INVALID_ARGUMENT if found.link is None else NvmlCode.NOT_SUPPORTED
        )
    if found.needs_link_up and not look.device.support.nvlink_up:
        raise NvmlCallError(NvmlCode.NOT_SUPPORTED)
    return found.read(look, link)


FIELDS: Final[Mapping[str, Callable[..., None]]] = {"nvmlDeviceGetFieldValues": _field_values}
