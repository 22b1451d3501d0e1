"""An amount of GPU time with the energy and the money that go with it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from rightsizer.publish.report.facts import DeviceFacts, Rate

__all__ = ["JOULES_PER_KILOWATT_HOUR", "Amount", "energy_of", "priced", "summed"]

JOULES_PER_KILOWATT_HOUR: Final = 3.6e6


@dataclass(frozen=True, slots=True)
class Amount:
    """Hours of a whole GPU, and what they took; `None` where it is not known of all of them."""

    gpu_hours: float
    kilowatt_hours: float | None
    """At the GPUs; a building takes more."""
    dollars_low: float | None
    dollars_high: float | None


def priced(gpu_hours: float, joules: float | None, rate: Rate | None) -> Amount:
    """An amount of one device."""
    return Amount(
        gpu_hours=gpu_hours,
        kilowatt_hours=None if joules is None else joules / JOULES_PER_KILOWATT_HOUR,
        dollars_low=None if rate is None else gpu_hours * rate.dollars_per_hour_low,
        dollars_high=None if rate is None else gpu_hours * rate.dollars_per_hour_high,
    )


def summed(amounts: Iterable[Amount]) -> Amount:
    """All of them together. Prices rise and fall together: the low with the low."""
    parts = [each for each in amounts if each.gpu_hours or each.kilowatt_hours]
    return Amount(
        gpu_hours=sum(each.gpu_hours for each in parts),
        kilowatt_hours=_sum(each.kilowatt_hours for each in parts),
        dollars_low=_sum(each.dollars_low for each in parts),
        dollars_high=_sum(each.dollars_high for each in parts),
    )


def energy_of(facts: DeviceFacts, joules: float) -> float | None:
    """Joules of a device, `None` where its energy was not measured."""
    return joules if facts.window.energy_joules > 0.0 else None


def _sum(values: Iterable[float | None]) -> float | None:
    found = list(values)
    known = [value for value in found if value is not None]
    return sum(known) if len(known) == len(found) else None
