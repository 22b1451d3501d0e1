"""What work costs: a million tokens, an image, a training run; and when owning pays."""

import math
from dataclasses import replace
from typing import Final

from rightsizer.sizing.estimate import Interval
from rightsizer.sizing.hourly_cost import HourlyCost, Owned

__all__ = [
    "break_even_hours",
    "break_even_months",
    "dollars_per_image",
    "dollars_per_million_tokens",
    "dollars_per_training",
    "per_hour",
]

_SECONDS_PER_HOUR: Final = 3600.0
_MILLION: Final = 1e6


def per_hour(cost: HourlyCost, gpus: int = 1, share_ratio: float = 1.0) -> Interval:
    """Dollars an hour of some GPUs, or of a slice that is a part of one."""
    return cost.dollars_per_hour.scaled(gpus * share_ratio)


def dollars_per_million_tokens(
    dollars_per_hour: Interval, tokens_per_second: Interval, utilization_ratio: float = 1.0
) -> Interval:
    """What a million tokens cost where the GPUs are used for a part of the hours paid for."""
    return _per_unit(dollars_per_hour, tokens_per_second.scaled(utilization_ratio)).scaled(_MILLION)


def dollars_per_image(
    dollars_per_hour: Interval, images_per_second: Interval, utilization_ratio: float = 1.0
) -> Interval:
    """What an image costs where the GPUs are used for a part of the hours paid for."""
    return _per_unit(dollars_per_hour, images_per_second.scaled(utilization_ratio))


def dollars_per_training(dollars_per_hour: Interval, hours: Interval) -> Interval:
    """What a run of some hours costs on GPUs that cost as much in each."""
    return _product(dollars_per_hour, hours)


def break_even_hours(cloud: HourlyCost, own: Owned) -> Interval | None:
    """After how many used hours an owned GPU has cost less than a rented one.

    `None` where it never has; the upper end is infinite where that cannot be ruled out.
    """
    rented, running = cloud.dollars_per_hour, own.running_dollars_per_hour
    usual = _hours(own.capital_dollars.value, rented.value - running.value)
    if math.isinf(usual):
        return None
    return Interval(
        usual,
        _hours(own.capital_dollars.low, rented.high - running.low),
        _hours(own.capital_dollars.high, rented.low - running.high),
    )


def break_even_months(
    cloud: HourlyCost, own: Owned, utilization_ratio: float, hours_per_month: float
) -> Interval | None:
    """The same in months, of which only a part is used, while an owned GPU runs through all.

    Args:
        cloud: What is paid for used hours alone.
        own: What is paid at once, and for every hour.
        utilization_ratio: The part of a month that the GPU is used for.
        hours_per_month: Its hours.
    """
    used = cloud.dollars_per_hour.scaled(utilization_ratio)
    hours = break_even_hours(replace(cloud, dollars_per_hour=used), own)
    return None if hours is None else hours.scaled(1.0 / hours_per_month)


def _hours(capital_dollars: float, saved_per_hour: float) -> float:
    return capital_dollars / saved_per_hour if saved_per_hour > 0.0 else math.inf


def _per_unit(dollars_per_hour: Interval, units_per_second: Interval) -> Interval:
    """The rate must be positive."""
    seconds = Interval(
        1.0 / units_per_second.value, 1.0 / units_per_second.high, 1.0 / units_per_second.low
    ).scaled(1.0 / _SECONDS_PER_HOUR)
    return _product(dollars_per_hour, seconds)


def _product(first: Interval, second: Interval) -> Interval:
    """Of two figures that err independently: their errors add in squares."""
    value = first.value * second.value
    if value <= 0.0 or min(first.low, second.low) <= 0.0:
        return Interval(value, first.low * second.low, first.high * second.high)
    below = math.hypot(math.log(first.value / first.low), math.log(second.value / second.low))
    above = math.hypot(math.log(first.high / first.value), math.log(second.high / second.value))
    return Interval(value, value * math.exp(-below), value * math.exp(above))
