"""What one board costs, for people: each price with its date."""

from collections.abc import Iterator
from typing import Final

from rightsizer.catalogue.price import OnDemand, Price, Reserved
from rightsizer.catalogue.prices import Prices
from rightsizer.cli.source_notes import SourceNotes

__all__ = ["cost_lines"]

_TERMS: Final = {1: "reserved for 1 year", 3: "reserved for 3 years"}


def cost_lines(key: str, prices: Prices, notes: SourceNotes) -> Iterator[tuple[str, str, str]]:
    """A label, a price, and its date with its source."""
    price = prices.of(key)
    if price is None:
        yield "unknown", "", ""
        return
    seen = f"{price.period} {notes.mark(_cloud_note(price))}".rstrip()
    if price.on_demand is not None:
        yield "on demand", _spread(price.on_demand), seen
        at_large = price.on_demand.hyperscaler_dollars_per_hour
        if at_large is not None:
            yield "on demand, hyperscalers", _hourly(at_large), seen
    if price.spot_dollars_per_hour is not None:
        yield "spot", _hourly(price.spot_dollars_per_hour), seen
    for years, label in _TERMS.items():
        offer = prices.reserved(key, years)
        if offer is not None:
            assumed = f"assumed {notes.mark(prices.reserved_source)}".rstrip()
            yield label, _offer(offer), assumed if offer.is_assumed else seen
    for purchase in price.purchases:
        date = purchase.date or "undated"
        yield (
            "to buy",
            f"${purchase.dollars:,.0f}",
            f"{date} {notes.mark(purchase.source)}".rstrip(),
        )


def _cloud_note(price: Price) -> str:
    parts = (price.dated, ", ".join(price.clouds), "; ".join(price.sources))
    return ": ".join(filter(None, parts)) if price.on_demand or price.sources else ""


def _spread(price: OnDemand) -> str:
    low, high = price.low_dollars_per_hour, price.high_dollars_per_hour
    text = _hourly(price.median_dollars_per_hour)
    return f"{text} (${low:.2f} to ${high:.2f})" if low < high else text


def _offer(offer: Reserved) -> str:
    low, high = offer.low_dollars_per_hour, offer.high_dollars_per_hour
    text = _hourly(offer.dollars_per_hour)
    return f"{text} (${low:.2f} to ${high:.2f})" if low < high else text


def _hourly(dollars: float) -> str:
    return f"${dollars:.2f} an hour"
