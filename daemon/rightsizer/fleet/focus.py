"""The bill in FOCUS, the FinOps Open Cost and Usage Specification 1.2, by state of the hours.

Source: https://focus.finops.org/focus-specification/v1-2/
"""

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

FOCUS_COLUMNS: Final = (
    "BillingAccountId",
    "BillingAccountName",
    "BillingCurrency",
    "BillingPeriodStart",
    "BillingPeriodEnd",
    "ChargePeriodStart",
    "ChargePeriodEnd",
    "ChargeCategory",
    "ChargeClass",
    "ChargeFrequency",
    "ChargeDescription",
    "ServiceCategory",
    "ServiceName",
    "ResourceId",
    "ResourceName",
    "ResourceType",
    "SubAccountId",
    "SubAccountName",
    "ProviderName",
    "PublisherName",
    "InvoiceIssuerName",
    "SkuId",
    "PricingQuantity",
    "PricingUnit",
    "ConsumedQuantity",
    "ConsumedUnit",
    "BilledCost",
    "EffectiveCost",
    "ListCost",
    "ContractedCost",
    "Tags",
    "x_State",
    "x_PriceSource",
)
_STATES: Final = ("used", "headroom", "idle", "stalled", "lost", "free", "unknown")
"""Parts of the hours; all but the last add up to those held."""
_OURS: Final = "Rightsizer"
_UNIT: Final = "GPU-Hours"
_LONGER_THAN_A_MONTH: Final = 32


def focus_rows(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a charge for each part of an answer's hours and each of their states.

    Costs are those of the hours by the price of the board, of which nothing is billed, so that a
    cloud's own bill counts once. Without a price, and of hours whose state is unknown, they are
    empty, which the specification has no word for.
    """
    end = document["time"]
    first = datetime.fromtimestamp(end, UTC).replace(day=1, hour=0, minute=0, second=0)
    following = (first + timedelta(days=_LONGER_THAN_A_MONTH)).replace(day=1)
    period = {
        "BillingPeriodStart": _time(first.timestamp()),
        "BillingPeriodEnd": _time(following.timestamp()),
        "ChargePeriodStart": _time(end - document["lookback_seconds"]),
        "ChargePeriodEnd": _time(end),
    }
    for part in document["usage"]["parts"]:
        for state in _STATES:
            hours = part[f"{state}_gpu_hours"]
            if hours > 0:
                yield _charge(part, state, hours, period)


def _charge(
    part: Mapping[str, Any], state: str, hours: float, period: Mapping[str, str]
) -> dict[str, Any]:
    board = part["board"] or "unknown board"
    cost = _cost(part, state, hours)
    place = "/".join(filter(None, (part["cluster"], part["pool"])))
    return {
        "BillingAccountId": part["cluster"] or _OURS,
        "BillingAccountName": part["cluster"] or _OURS,
        "BillingCurrency": "USD",
        **period,
        "ChargeCategory": "Usage",
        "ChargeClass": "",
        "ChargeFrequency": "Usage-Based",
        "ChargeDescription": f"{state} hours of {board}, {part['kind']}",
        "ServiceCategory": "Compute",
        "ServiceName": "GPU",
        "ResourceId": place,
        "ResourceName": place,
        "ResourceType": board,
        "SubAccountId": part["team"],
        "SubAccountName": part["team"],
        "ProviderName": part["provider"] or _OURS,
        "PublisherName": part["provider"] or _OURS,
        "InvoiceIssuerName": part["provider"] or _OURS,
        "SkuId": board,
        "PricingQuantity": hours,
        "PricingUnit": _UNIT,
        "ConsumedQuantity": hours,
        "ConsumedUnit": _UNIT,
        "BilledCost": 0.0,
        "EffectiveCost": cost,
        "ListCost": cost,
        "ContractedCost": cost,
        "Tags": json.dumps(_tags(part, state)),
        "x_State": state,
        "x_PriceSource": part["price_source"],
    }


def _cost(part: Mapping[str, Any], state: str, hours: float) -> float | None:
    if part["dollars"] is None or state == "unknown":
        return None
    return float(part["dollars"]["value"] * hours / part["held_gpu_hours"])


def _tags(part: Mapping[str, Any], state: str) -> dict[str, str]:
    keys = ("cluster", "team", "pool", "kind")
    return {**{key: part[key] for key in keys if part[key]}, "state": state}


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
