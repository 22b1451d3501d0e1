"""Savings of an option: GPUs, GPU-hours, energy, money, each as an interval."""

from dataclasses import replace
from typing import Final

from rightsizer.advice.market import Market
from rightsizer.model.finding import Case, Savings
from rightsizer.model.units import seconds
from rightsizer.sizing.estimate import EstimateInterval

_HOURS_PER_MONTH: Final = 730.0
LOW_CONFIDENCE: Final = Savings(reason="the confidence is too low to speak of savings")
_JOULES_PER_KILOWATT_HOUR: Final = 3.6e6


def released(case: Case, market: Market, low: float, high: float) -> Savings:
    """What letting go of the devices saves.

    Args:
        case: Whose devices they are.
        market: What they cost.
        low: The part of all of them that is free for certain, 0 to 1.
        high: The part that may be.
    """
    count = sum(device.capacity_ratio for device in case.devices)
    gpus = EstimateInterval(count * high, count * low, count * high)
    return _savings(gpus, _kilowatt_hours(case, high), _dollars(case, market, low, high))


def replaced(case: Case, market: Market, then: EstimateInterval | None, date: str) -> Savings:
    """What as many other GPUs in the place of the devices save.

    Args:
        case: Whose devices they are.
        market: What they cost.
        then: Dollars an hour of what comes in their place; `None` where a price is missing.
        date: Of that price.
    """
    gpus = EstimateInterval(0.0, 0.0, 0.0)
    now = _dollars(case, market, 1.0, 1.0)
    if now is None or then is None:
        return _savings(gpus, None, None)
    # Prices of one cloud rise and fall together: the cheap with the cheap, the dear with the dear.
    ends = sorted((now[0].low - then.low, now[0].high - then.high))
    dates = "; ".join(dict.fromkeys(filter(None, (now[2], date))))
    saved = EstimateInterval(now[0].value - then.value, ends[0], ends[1])
    return _savings(gpus, None, (saved, now[1], dates))


def shared(case: Case, market: Market, part: float) -> Savings:
    """What giving a part of the only device to others saves: nothing until somebody takes it."""
    found = released(case, market, 0.0, part)
    return replace(found, kilowatt_hours_per_month_low=None, kilowatt_hours_per_month_high=None)


def _dollars(
    case: Case, market: Market, low: float, high: float
) -> tuple[EstimateInterval, str, str] | None:
    total, sources, dates = EstimateInterval(0.0, 0.0, 0.0), [], []
    for device in case.devices:
        cost = market.cost(market.board(device.board))
        if cost is None:
            return None
        part, hour = device.capacity_ratio, cost.dollars_per_hour
        total = EstimateInterval(
            total.value + hour.value * part * high,
            total.low + hour.low * part * low,
            total.high + hour.high * part * high,
        )
        sources.append(cost.source)
        dates.append(cost.date)
    return total, "; ".join(dict.fromkeys(sources)), "; ".join(dict.fromkeys(dates))


def _kilowatt_hours(case: Case, high: float) -> EstimateInterval | None:
    """At most what the devices drew over the window, and nothing where they stay powered.

    `None` where no energy was measured.
    """
    watts = 0.0
    for window in case.windows:
        if window.energy_joules <= 0.0 or window.known <= 0:
            return None
        watts += window.energy_joules / seconds(window.known)
    month = watts * _HOURS_PER_MONTH * 3600.0 / _JOULES_PER_KILOWATT_HOUR
    return EstimateInterval(month * high, 0.0, month * high)


def _savings(
    gpus: EstimateInterval,
    energy: EstimateInterval | None,
    money: tuple[EstimateInterval, str, str] | None,
) -> Savings:
    dollars = None if money is None else money[0]
    return Savings(
        gpus_low=round(gpus.low, 4),
        gpus_high=round(gpus.high, 4),
        dollars_per_hour_low=None if dollars is None else dollars.low,
        dollars_per_hour_high=None if dollars is None else dollars.high,
        reason="" if money is not None else "nobody states a price",
        gpu_hours_per_month_low=round(gpus.low * _HOURS_PER_MONTH, 1),
        gpu_hours_per_month_high=round(gpus.high * _HOURS_PER_MONTH, 1),
        kilowatt_hours_per_month_low=None if energy is None else energy.low,
        kilowatt_hours_per_month_high=None if energy is None else energy.high,
        price_source="" if money is None else money[1],
        price_date="" if money is None else money[2],
    )
