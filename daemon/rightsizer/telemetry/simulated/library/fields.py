"""NVML's numbered fields: many readings in one call, each with a code of its own."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from rightsizer.telemetry.simulated.library.calls import Code, number, out
from rightsizer.telemetry.simulated.library.driver import Driver, Handle
from rightsizer.telemetry.simulated.library.power import lowest_limit_watts, milli

__all__ = ["FIELDS"]

_KIB: Final = 1024.0
_LATENCY_MICROSECONDS: Final = 40
_ALL_LINKS: Final = 0xFFFFFFFF
_MBPS_OF_LINK: Final = {1: 20_000, 2: 25_781, 3: 25_781, 4: 26_562, 5: 53_125}
_SLOWDOWN_MARGIN: Final = -2
_SHUTDOWN_MARGIN: Final = -5


@dataclass(frozen=True, slots=True)
class _Field:
    """How a field is read."""

    kind: int
    """NVML's value type."""
    read: Callable[[Handle], float]
    offered: Callable[[Handle], object] = lambda _handle: True
    of_link: bool = False
    """Whether its scope names an NVLink."""


def _ecc(handle: Handle) -> bool:
    return handle.support.ecc and not handle.instances


def _links(handle: Handle) -> bool:
    return handle.support.nvlink_up


def _zero(_handle: Handle) -> int:
    return 0


def _speed(handle: Handle) -> int:
    return _MBPS_OF_LINK[handle.support.nvlink_version]


def _limit(handle: Handle) -> int:
    return milli(handle.unit.around.power_limit_watts)


def _default_limit(handle: Handle) -> int:
    return milli(handle.unit.slot.board.power_limit_watts)


_UNSIGNED_INT, _UNSIGNED_LONG_LONG, _SIGNED_INT = 1, 3, 5
_VOLATILE_ECC: Final = (3, 4, *range(7, 18))
_AGGREGATE_ECC: Final = (5, 6, *range(18, 29))
_LINK_SPEEDS: Final = (*range(84, 90), *range(132, 138))
_FIELDS: Final[Mapping[int, _Field]] = {
    1: _Field(_UNSIGNED_INT, lambda _: 1, lambda handle: handle.support.ecc),
    2: _Field(_UNSIGNED_INT, lambda _: 1, lambda handle: handle.support.ecc),
    **dict.fromkeys(_VOLATILE_ECC, _Field(_UNSIGNED_LONG_LONG, _zero, _ecc)),
    **dict.fromkeys(
        _AGGREGATE_ECC,
        _Field(_UNSIGNED_LONG_LONG, _zero, lambda handle: handle.support.ecc),
    ),
    **dict.fromkeys(
        (29, 30, 31, 92, 93),
        _Field(_UNSIGNED_LONG_LONG, _zero, lambda handle: handle.support.retired_pages),
    ),
    82: _Field(
        _UNSIGNED_INT,
        lambda handle: round(handle.state.electrical.memory_temperature_celsius),
        lambda handle: handle.support.memory_temperature,
    ),
    83: _Field(_UNSIGNED_LONG_LONG, lambda handle: milli(handle.counters.energy_joules)),
    **dict.fromkeys(_LINK_SPEEDS, _Field(_UNSIGNED_INT, _speed, _links)),
    90: _Field(_UNSIGNED_INT, _speed, _links),
    91: _Field(
        _UNSIGNED_INT,
        lambda handle: handle.support.nvlink_links,
        lambda handle: handle.support.nvlink_links,
    ),
    94: _Field(_UNSIGNED_INT, _zero),
    95: _Field(_UNSIGNED_INT, _zero),
    **dict.fromkeys(
        (138, 140),
        _Field(
            _UNSIGNED_LONG_LONG,
            lambda handle: handle.counters.nvlink_transmit_bytes / _KIB,
            _links,
            of_link=True,
        ),
    ),
    **dict.fromkeys(
        (139, 141),
        _Field(
            _UNSIGNED_LONG_LONG,
            lambda handle: handle.counters.nvlink_receive_bytes / _KIB,
            _links,
            of_link=True,
        ),
    ),
    **dict.fromkeys(
        (142, 143, 144, 145),
        _Field(
            _UNSIGNED_INT,
            _zero,
            lambda handle: handle.support.row_remapping and not handle.instances,
        ),
    ),
    164: _Field(_UNSIGNED_INT, _speed, _links),
    165: _Field(_UNSIGNED_INT, lambda _: 1, _links),
    166: _Field(_UNSIGNED_INT, lambda handle: handle.support.nvlink_version, _links),
    185: _Field(
        _UNSIGNED_INT,
        lambda handle: milli(handle.state.power_watts),
        lambda handle: handle.support.averages_power,
    ),
    186: _Field(_UNSIGNED_INT, lambda handle: milli(handle.state.power_watts)),
    187: _Field(_UNSIGNED_INT, lambda handle: milli(lowest_limit_watts(handle))),
    188: _Field(_UNSIGNED_INT, _default_limit),
    189: _Field(_UNSIGNED_INT, _default_limit),
    190: _Field(_UNSIGNED_INT, _limit),
    191: _Field(_UNSIGNED_LONG_LONG, lambda handle: milli(handle.counters.energy_joules)),
    192: _Field(_UNSIGNED_INT, _limit),
    193: _Field(_SIGNED_INT, lambda _: _SHUTDOWN_MARGIN, lambda handle: handle.support.profiling),
    194: _Field(_SIGNED_INT, lambda _: _SLOWDOWN_MARGIN, lambda handle: handle.support.profiling),
    196: _Field(_SIGNED_INT, lambda _: 0, lambda handle: handle.support.profiling),
    197: _Field(
        _UNSIGNED_LONG_LONG,
        lambda handle: handle.counters.pcie_transmit_bytes,
        lambda handle: handle.support.profiling,
    ),
    198: _Field(
        _UNSIGNED_LONG_LONG,
        lambda handle: handle.counters.pcie_receive_bytes,
        lambda handle: handle.support.profiling,
    ),
}
_MEMBERS: Final = {_UNSIGNED_INT: "uiVal", _UNSIGNED_LONG_LONG: "ullVal", _SIGNED_INT: "siVal"}


def _field_values(driver: Driver, device: Handle, count: Any, values: Any) -> None:
    for answer in out(values)[: number(count)]:
        answer.timestamp = driver.microseconds()
        answer.latencyUsec = _LATENCY_MICROSECONDS
        found = _FIELDS.get(answer.fieldId)
        if found is None or not found.offered(device):
            answer.nvmlReturn = Code.NOT_SUPPORTED
            continue
        answer.nvmlReturn = Code.SUCCESS
        answer.valueType = found.kind
        value = found.read(device)
        if found.of_link and answer.scopeId != _ALL_LINKS:
            # All links of a GPU that talks through switches carry the same.
            value /= device.support.nvlink_links
        setattr(answer.value, _MEMBERS[found.kind], int(value))


FIELDS: Final[Mapping[str, Callable[..., None]]] = {"nvmlDeviceGetFieldValues": _field_values}
