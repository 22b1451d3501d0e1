"""Prices of boards, rented, reserved and owned; and the instances that clouds rent them in."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final

from rightsizer.model.frozen import dataclass, field, replace
from rightsizer.model.table import table_rows

_DATES: Final = {"v8": "2025-09 to 2026-08"}


@dataclass(frozen=True, slots=True)
class Instance:
    """One type of server that a cloud rents."""

    provider: str
    name: str
    board: str
    """Key of its GPUs in the catalogue of boards."""
    gpus: int
    dollars_per_hour: float | None
    """Of the whole instance, without commitment; `None` where no source tells it."""
    date: str
    source: str


@cache
def built_in_instances() -> tuple[Instance, ...]:
    """Those that come with the program."""
    rows = table_rows(__file__, "instance_sources.csv")
    sources = {"": "", **{row["name"]: row["source"] for row in rows}}
    return tuple(
        Instance(
            provider=row["provider"],
            name=row["instance"],
            board=row["board"],
            gpus=int(row["gpus"]),
            dollars_per_hour=float(row["dollars_per_hour"]) if row["dollars_per_hour"] else None,
            date=_DATES.get(row["date"], row["date"]),
            source=sources[row["source"]],
        )
        for row in table_rows(__file__, "instances.csv")
    )


_MONTH: Final = re.compile(r"\d{4}(?:-\d\d)?")


@dataclass(frozen=True, slots=True)
class OnDemand:
    """List prices of one GPU in clouds, without commitment."""

    low_dollars_per_hour: float
    median_dollars_per_hour: float
    high_dollars_per_hour: float
    hyperscaler_dollars_per_hour: float | None = None
    """The median over AWS, Azure, GCP and OCI alone."""


def _spread(offers: Sequence[OnDemand]) -> OnDemand | None:
    if not offers:
        return None
    middle = sum(each.median_dollars_per_hour for each in offers) / len(offers)
    low = min(each.low_dollars_per_hour for each in offers)
    return OnDemand(low, middle, max(each.high_dollars_per_hour for each in offers))


@dataclass(frozen=True, slots=True)
class Purchase:
    """The price of one board, its server not included."""

    dollars: float
    date: str
    source: str


@dataclass(frozen=True, slots=True)
class Price:
    """What one board costs; `None` or nothing where unknown. Never a quote of today."""

    key: str
    on_demand: OnDemand | None = None
    spot_dollars_per_hour: float | None = None
    reserved_dollars_per_hour: Mapping[int, float] = field(default_factory=dict)
    """By years of commitment, where stated."""
    by_provider: Mapping[str, OnDemand] = field(default_factory=dict)
    """List prices of single clouds."""
    clouds: tuple[str, ...] = ()
    dates: tuple[str, ...] = ()
    """Of the cloud prices."""
    sources: tuple[str, ...] = ()
    """Of the cloud prices."""
    purchases: tuple[Purchase, ...] = ()
    node_power_factor: float | None = None
    """The power of a whole node over that of its GPUs."""
    is_stated: bool = False
    """The cloud prices are the operator's own."""

    @property
    def dollars_per_hour(self) -> float | None:
        """What a GPU costs in the middle of the clouds."""
        return None if self.on_demand is None else self.on_demand.median_dollars_per_hour

    @property
    def dated(self) -> str:
        """When the cloud prices held."""
        return ", ".join(self.dates) or "undated"

    @property
    def period(self) -> str:
        """The months of the first and the last of those dates: `2025-03 to 2026-08`."""
        months = sorted(_MONTH.findall(self.dated))
        return " to ".join(dict.fromkeys((months[0], months[-1]))) if months else "undated"


@dataclass(frozen=True, slots=True)
class Assumption:
    """A usual value and the range it lies in."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Reserved:
    """The price of a commitment, and the range it lies in."""

    dollars_per_hour: float
    low_dollars_per_hour: float
    high_dollars_per_hour: float
    is_assumed: bool
    """A usual discount on the on-demand price, not a price that is offered."""


@dataclass(frozen=True, slots=True)
class OnPremises:
    """What owning GPUs takes beside the boards."""

    years: Assumption
    """Over which a purchase is written off."""
    server_uplift_ratio: Assumption
    """The rest of the server, of the price of its GPUs."""
    node_power_factor: Assumption
    """The power of a whole node over that of its GPUs."""
    pue_ratio: Assumption
    """Power usage effectiveness: that of the building over that of the node."""
    operation_ratio_per_year: Assumption
    """People, space, repairs, of the price."""
    dollars_per_kilowatt_hour: Assumption
    utilization_ratio: Assumption
    """The part of the hours that they are used for."""
    source: str


@dataclass(frozen=True, slots=True)
class Prices:
    """What boards cost, by their keys in the catalogue."""

    by_board: Mapping[str, Price]
    on_premises: OnPremises
    reserved_discounts: Mapping[int, Assumption]
    """Of the on-demand price, by years of commitment."""
    reserved_source: str = ""

    def of(self, key: str) -> Price | None:
        """What a board costs; `None` where unknown."""
        return self.by_board.get(key)

    @property
    def providers(self) -> list[str]:
        """Clouds whose own prices are known."""
        return sorted({name for price in self.by_board.values() for name in price.by_provider})

    def with_stated(self, dollars_by_key: Mapping[str, float], source: str) -> "Prices":
        """The same with prices that are paid in place of the clouds'.

        They take the place of every cloud price of the board, so that dates do not mix; what it
        costs to buy stays.
        """
        own = dict(self.by_board)
        for key, dollars in dollars_by_key.items():
            known = self.of(key) or Price(key)
            own[key] = Price(
                key,
                on_demand=OnDemand(dollars, dollars, dollars),
                sources=(source,),
                purchases=known.purchases,
                node_power_factor=known.node_power_factor,
                is_stated=True,
            )
        return replace(self, by_board=own) if dollars_by_key else self

    def of_providers(self, providers: Sequence[str]) -> "Prices":
        """Those of some clouds alone: boards that none lists have no price to rent them at."""
        own = {}
        for key, price in self.by_board.items():
            offers = [offer for name, offer in price.by_provider.items() if name in providers]
            own[key] = replace(
                price,
                on_demand=_spread(offers),
                spot_dollars_per_hour=None,
                reserved_dollars_per_hour={},
                clouds=tuple(providers),
            )
        return replace(self, by_board=own)

    def terms_of(self, key: str) -> OnPremises:
        """What owning a board takes beside it, by the power of its own nodes where known."""
        price, terms = self.of(key), self.on_premises
        if price is None or price.node_power_factor is None:
            return terms
        return replace(terms, node_power_factor=Assumption(*(price.node_power_factor,) * 3))

    def dollars_per_hour(self, key: str) -> float | None:
        """What one GPU costs in a cloud without commitment; `None` where unknown."""
        price = self.of(key)
        return None if price is None else price.dollars_per_hour

    def reserved(self, key: str, years: int) -> Reserved | None:
        """What one GPU costs under a commitment: as stated, else at a usual discount."""
        price = self.of(key)
        if price is None:
            return None
        stated = price.reserved_dollars_per_hour.get(years)
        if stated is not None:
            return Reserved(stated, stated, stated, is_assumed=False)
        discount, full = self.reserved_discounts.get(years), price.dollars_per_hour
        if discount is None or full is None:
            return None
        discounts = (discount.value, discount.high, discount.low)
        usual, low, high = (full * (1.0 - each) for each in discounts)
        return Reserved(usual, low, high, is_assumed=True)
