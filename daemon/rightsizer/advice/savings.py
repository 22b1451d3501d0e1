"""Savings of recommendations: GPUs, energy and money of releasing, replacing or sharing devices."""

from typing import Final

from msgspec.structs import replace

from rightsizer.advice.market import Market
from rightsizer.model.values import (
    HOURS_PER_MONTH,
    JOULES_PER_KILOWATT_HOUR,
    Case,
    Savings,
    seconds,
)
from rightsizer.sizing.estimate import EstimateInterval

UNPRICED: Final = "no price and no projected size is known for this action"
UNPRICED_SAVINGS: Final = Savings(reason=UNPRICED)
TOO_SMALL: Final = Savings(reason="it needs a larger GPU")
LOW_CONFIDENCE: Final = Savings(reason="confidence too low for savings")


def release_savings(case: Case, market: Market, low: float, high: float) -> Savings:
    """Savings of releasing a share of the devices: `low` for certain, `high` at most."""
    count = case.gpus
    gpus = EstimateInterval(count * high, count * low, count * high)
    return _savings(gpus, _kilowatt_hours(case, high), _dollars(case, market, low, high))


def replacement_savings(
    case: Case, market: Market, then: EstimateInterval | None, date: str
) -> Savings:
    """Savings of replacing the GPUs by as many others, at dollars per hour and a price date."""
    gpus = EstimateInterval(0.0, 0.0, 0.0)
    if (now := _dollars(case, market, 1.0, 1.0)) is None or then is None:
        return _savings(gpus, None, None)
    # Prices of one cloud rise and fall together, so compare low with low and high with high.
    ends = sorted((now[0].low - then.low, now[0].high - then.high))
    dates = "; ".join(dict.fromkeys(filter(None, (now[2], date))))
    typical = min(max(now[0].value - then.value, ends[0]), ends[1])
    saved = EstimateInterval(typical, ends[0], ends[1])
    return _savings(gpus, None, (saved, now[1], dates))


def sharing_savings(case: Case, market: Market, part: float) -> Savings:
    """Savings of sharing the devices: nothing until other workloads use the rest."""
    savings = release_savings(case, market, 0.0, part)
    return replace(savings, kilowatt_hours_per_month_low=None, kilowatt_hours_per_month_high=None)


def _dollars(
    case: Case, market: Market, low: float, high: float
) -> tuple[EstimateInterval, str, str] | None:
    device_costs = [(device, market.cost(market.board(device.board))) for device in case.devices]
    costs = [(device.capacity_ratio, cost) for device, cost in device_costs if cost is not None]
    if len(costs) < len(device_costs):
        return None
    total = EstimateInterval(
        sum(cost.dollars_per_hour.value * part * (low + high) / 2 for part, cost in costs),
        sum(cost.dollars_per_hour.low * part * low for part, cost in costs),
        sum(cost.dollars_per_hour.high * part * high for part, cost in costs),
    )
    sources = dict.fromkeys(cost.source for _, cost in costs)
    return total, "; ".join(sources), "; ".join(dict.fromkeys(cost.date for _, cost in costs))


def _kilowatt_hours(case: Case, high: float) -> EstimateInterval | None:
    """Energy saved: at most what the devices drew over the window, nothing if they stay powered.

    `None` if no energy was measured.
    """
    watts = 0.0
    for window in case.windows:
        if window.energy_joules <= 0.0 or window.known <= 0:
            return None
        watts += window.energy_joules / seconds(window.known)
    month = watts * HOURS_PER_MONTH * 3600.0 / JOULES_PER_KILOWATT_HOUR
    return EstimateInterval(month * high, 0.0, month * high)


def _savings(
    gpus: EstimateInterval,
    energy: EstimateInterval | None,
    money: tuple[EstimateInterval, str, str] | None,
) -> Savings:
    dollars, source, date = money or (None, "", "")
    return Savings(
        gpus_low=round(gpus.low, 4),
        gpus_high=round(gpus.high, 4),
        dollars_per_hour_low=None if dollars is None else dollars.low,
        dollars_per_hour_high=None if dollars is None else dollars.high,
        dollars_per_hour_typical=None if dollars is None else dollars.value,
        reason="" if money else "no price is stated",
        gpu_hours_per_month_low=round(gpus.low * HOURS_PER_MONTH, 1),
        gpu_hours_per_month_high=round(gpus.high * HOURS_PER_MONTH, 1),
        kilowatt_hours_per_month_low=None if energy is None else energy.low,
        kilowatt_hours_per_month_high=None if energy is None else energy.high,
        price_source=source,
        price_date=date,
    )
