"""What a candidate costs in every form that somebody names a price for, with its energy."""

from dataclasses import dataclass

from rightsizer.sizing.estimate import Interval
from rightsizer.sizing.hourly_cost import HourlyCost

__all__ = ["Amount", "Bill", "Offer", "Ownership"]


@dataclass(frozen=True, slots=True)
class Amount:
    """Dollars, kilowatt-hours or kilograms: of an hour, and of what is done in it."""

    per_hour: Interval
    per_million: Interval | None = None
    """Of a million tokens; images or samples of models that know no tokens."""
    per_image: Interval | None = None
    """Of models of images."""
    per_run: Interval | None = None
    """Of a training run whose length is given."""


@dataclass(frozen=True, slots=True)
class Offer:
    """One way to have the GPUs of a candidate."""

    terms: HourlyCost
    """Of one GPU, with source and date."""
    dollars: Amount
    """Of all of them."""


@dataclass(frozen=True, slots=True)
class Ownership:
    """What buying the GPUs of a candidate takes, and when it pays."""

    capital_dollars: Interval
    """Of all GPUs and the servers around them."""
    running_dollars_per_hour: Interval
    break_even_hours: Interval | None
    """Used hours after which owning has cost less than renting on demand; `None` where it never
    has, or nobody rents them out."""
    break_even_months: Interval | None
    """The same in months, used as much of the time as is usual."""
    utilization_ratio: float
    """The part of those months that they are used for."""


@dataclass(frozen=True, slots=True)
class Bill:
    """Everything that money and energy tell of a candidate."""

    offers: tuple[Offer, ...]
    """Clouds first; none where nobody names a price."""
    ownership: Ownership | None
    """`None` where nobody names a price to buy them for."""
    kilowatt_hours: Amount
    """At the meter of the building."""
    carbon_kilograms: Amount | None
    """`None` where nobody tells how much carbon goes with a kilowatt-hour."""
    carbon_grams_per_kilowatt_hour: float | None = None
