"""The bill of a candidate as JSON has it."""

import math
from typing import Any, Final

from rightsizer.sizing.bill import Amount, Bill, Offer, Ownership
from rightsizer.sizing.estimate import Interval

__all__ = ["bill_form", "interval_form"]

_PARTS: Final = (
    ("per_million", "per_million_tokens"),
    ("per_image", "per_image"),
    ("per_run", "per_training"),
)
"""What is done in an hour, with what keys of it end in."""


def bill_form(bill: Bill) -> dict[str, Any]:
    """Offers, ownership, energy and carbon; what nobody can tell is null."""
    carbon = bill.carbon_kilograms
    return {
        "offers": [_offer_form(each) for each in bill.offers],
        "on_premises": None if bill.ownership is None else _ownership_form(bill.ownership),
        "energy": {
            **interval_form("kilowatts", bill.kilowatt_hours.per_hour),
            **_work_form("kilowatt_hours", bill.kilowatt_hours),
        },
        "carbon": None
        if carbon is None
        else {
            "grams_per_kwh": bill.carbon_grams_per_kilowatt_hour,
            **interval_form("kilograms_per_hour", carbon.per_hour),
            **_work_form("kilograms", carbon),
        },
    }


def interval_form(name: str, interval: Interval | None) -> dict[str, float | None]:
    """A figure and the ends of where it lies; an end that is nowhere is null."""
    if interval is None:
        return {name: None, f"{name}_low": None, f"{name}_high": None}
    return {
        name: interval.value,
        f"{name}_low": _finite(interval.low),
        f"{name}_high": _finite(interval.high),
    }


def _offer_form(offer: Offer) -> dict[str, Any]:
    terms = offer.terms
    return {
        "billing": str(terms.billing),
        **interval_form("cost_per_hour", offer.dollars.per_hour),
        **_work_form("cost", offer.dollars),
        "source": terms.source or None,
        "date": terms.date or None,
        "assumed": terms.is_assumed,
    }


def _ownership_form(ownership: Ownership) -> dict[str, Any]:
    return {
        **interval_form("capital_dollars", ownership.capital_dollars),
        **interval_form("running_dollars_per_hour", ownership.running_dollars_per_hour),
        **interval_form("break_even_hours", ownership.break_even_hours),
        **interval_form("break_even_months", ownership.break_even_months),
        "utilization_ratio": ownership.utilization_ratio,
    }


def _work_form(name: str, amount: Amount) -> dict[str, float | None]:
    return {
        key: value
        for part, ending in _PARTS
        for key, value in interval_form(f"{name}_{ending}", getattr(amount, part)).items()
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
