"""The fields of a GPU as a whole."""

from collections.abc import Callable, Mapping
from typing import Final

from rightsizer.domain.units import nanoseconds
from rightsizer.telemetry.simulated.feature import Feature
from rightsizer.telemetry.simulated.library.clocks import violation_nanoseconds
from rightsizer.telemetry.simulated.library.field import BoardField, Kind
from rightsizer.telemetry.simulated.library.health import recovery_action
from rightsizer.telemetry.simulated.library.look import Look
from rightsizer.telemetry.simulated.library.power import milli
from rightsizer.telemetry.simulated.physics import (
    HIGHEST_CELSIUS,
    SHUTDOWN_CELSIUS,
    SLOWDOWN_CELSIUS,
    lowest_limit_watts,
)

__all__ = ["BOARD_FIELDS"]

_C2C_MEGABYTES_PER_SECOND: Final = 450_000
_C2C_LINKS: Final = 5


def _one(_look: Look) -> int:
    return 1


def _zero(_look: Look) -> int:
    return 0


def _count(read: Callable[[Look], float], feature: Feature) -> BoardField:
    return BoardField(Kind.UNSIGNED_LONG_LONG, read, feature)


def _number(read: Callable[[Look], float], feature: Feature = Feature.MEMORY) -> BoardField:
    return BoardField(Kind.UNSIGNED_INT, read, feature)


def _limit(look: Look) -> int:
    return milli(look.device.around.power_limit_watts)


def _default_limit(look: Look) -> int:
    return milli(look.device.unit.slot.board.power_limit_watts)


def _policy(number: int) -> BoardField:
    return _count(lambda look: violation_nanoseconds(look.device, number), Feature.CLOCK_EVENTS)


def _energy(look: Look) -> int:
    return milli(look.counters.energy_joules)


_POLICIES: Final = {74: 0, 75: 1, 76: 2, 77: 3, 78: 4, 79: 5, 80: 10, 81: 11}
_ECC: Final[Mapping[int, BoardField]] = {
    1: _number(_one, Feature.ECC),
    2: _number(_one, Feature.ECC),
    **dict.fromkeys((3, 4, *range(7, 18)), _count(_zero, Feature.VOLATILE_ECC)),
    **dict.fromkeys((5, 6, *range(18, 29)), _count(_zero, Feature.ECC)),
    **dict.fromkeys(
        (3, 11), _count(lambda look: look.recent.corrected_errors, Feature.VOLATILE_ECC)
    ),
    **dict.fromkeys(
        (4, 12), _count(lambda look: look.recent.uncorrected_errors, Feature.VOLATILE_ECC)
    ),
    **dict.fromkeys((5, 22), _count(lambda look: look.health.corrected_errors, Feature.ECC)),
    **dict.fromkeys((6, 23), _count(lambda look: look.health.uncorrected_errors, Feature.ECC)),
    29: _count(lambda look: look.health.rows_correctable, Feature.RETIRED_PAGES),
    30: _count(lambda look: look.health.rows_uncorrectable, Feature.RETIRED_PAGES),
    **dict.fromkeys(
        (31, 92, 93),
        _count(lambda look: look.health.is_remapping_pending, Feature.RETIRED_PAGES),
    ),
    142: _number(lambda look: look.health.rows_correctable, Feature.ROW_REMAPPING),
    143: _number(lambda look: look.health.rows_uncorrectable, Feature.ROW_REMAPPING),
    144: _number(lambda look: look.health.is_remapping_pending, Feature.ROW_REMAPPING),
    145: _number(lambda look: look.health.has_remapping_failed, Feature.ROW_REMAPPING),
    226: _number(lambda look: recovery_action(look.health) != 0, Feature.ECC),
    227: _number(_zero, Feature.ECC),
    230: _number(lambda look: recovery_action(look.health)),
}
_PCIE: Final[Mapping[int, BoardField]] = {
    94: _number(lambda look: look.health.pcie_replays, Feature.PCIE),
    95: _number(_zero, Feature.PCIE),
    **dict.fromkeys((169, *range(174, 184)), _count(_zero, Feature.PCIE_COUNTERS)),
    173: _count(lambda look: look.health.pcie_replays, Feature.PCIE_COUNTERS),
    197: _count(lambda look: look.counters.pcie_transmit_bytes, Feature.PCIE_COUNTERS),
    198: _count(lambda look: look.counters.pcie_receive_bytes, Feature.PCIE_COUNTERS),
}
BOARD_FIELDS: Final[Mapping[int, BoardField]] = {
    **_ECC,
    **_PCIE,
    **{field: _policy(policy) for field, policy in _POLICIES.items()},
    82: _number(
        lambda look: round(look.state.electrical.memory_temperature_celsius),
        Feature.MEMORY_TEMPERATURE,
    ),
    83: _count(_energy, Feature.ENERGY),
    91: _number(lambda look: look.device.support.nvlink_links, Feature.NVLINK),
    170: _number(lambda _: _C2C_LINKS, Feature.C2C),
    171: _number(_one, Feature.C2C),
    172: _number(lambda _: _C2C_MEGABYTES_PER_SECOND, Feature.C2C),
    184: _number(lambda look: look.device.support.has(Feature.GPM), Feature.MIG),
    185: _number(lambda look: milli(look.state.power_watts), Feature.POWER_AVERAGE),
    186: _number(lambda look: milli(look.instant_watts), Feature.POWER),
    187: _number(
        lambda look: milli(lowest_limit_watts(look.device.unit.slot.board)), Feature.POWER
    ),
    188: _number(_default_limit, Feature.POWER),
    189: _number(_default_limit, Feature.POWER),
    190: _number(_limit, Feature.POWER),
    191: _count(_energy, Feature.ENERGY),
    192: _number(_limit, Feature.POWER),
    193: BoardField(
        Kind.SIGNED_INT, lambda _: HIGHEST_CELSIUS - SHUTDOWN_CELSIUS, Feature.TEMPERATURE_MARGIN
    ),
    194: BoardField(
        Kind.SIGNED_INT, lambda _: HIGHEST_CELSIUS - SLOWDOWN_CELSIUS, Feature.TEMPERATURE_MARGIN
    ),
    196: BoardField(Kind.SIGNED_INT, _zero, Feature.TEMPERATURE_MARGIN),
    199: _number(_one, Feature.MIG),
    269: _count(
        lambda look: nanoseconds(
            look.counters.thermal_violation_seconds - look.counters.hardware_thermal_seconds
        ),
        Feature.CLOCK_EVENTS,
    ),
    270: _count(
        lambda look: nanoseconds(look.counters.hardware_thermal_seconds), Feature.CLOCK_EVENTS
    ),
    271: _count(lambda look: nanoseconds(look.counters.power_brake_seconds), Feature.CLOCK_EVENTS),
}
"""By NVML's numbers, which never change (nvml.h, NVML_FI_*)."""
