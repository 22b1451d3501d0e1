"""Prices of boards, rented, reserved and owned, and the cloud instances that contain them."""

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from functools import cache
from math import isnan, nan
from typing import Annotated, Final, TypeAlias

from msgspec import Struct, field
from msgspec.structs import force_setattr, replace

from rightsizer.model.settings import Spec
from rightsizer.model.table import table_rows

_MARKETPLACE: Final = "marketplace"
_DATES: Final = {"v8": "2025-09 to 2026-08"}


class Instance(Struct, frozen=True):
    """Instance type of a cloud."""

    provider: str
    name: str
    board: str
    """Key of its GPUs in the board catalogue."""
    gpus: int
    dollars_per_hour: float | None
    """For the whole instance, without commitment; `None` if no source gives it."""
    date: str
    source: str


@cache
def built_in_instances() -> tuple[Instance, ...]:
    """Instance types packaged with the program."""
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


def date_text(value: object) -> object:
    """Text of a date, since YAML parses values that look like dates as dates."""
    return value.isoformat() if isinstance(value, dt.date) else value


def _listed(value: object) -> object:
    """Assumed value without a range, as a list."""
    return value if isinstance(value, list) else [value]


def _assumed(minimum: float, maximum: float) -> Spec:
    return Spec(unit="", within=(minimum, maximum), parse=_listed)


PerHour: TypeAlias = Annotated[float, Spec(within=(0.0, 10_000.0))]
Years: TypeAlias = Annotated[int, Spec(within=(1, None))]
DateText: TypeAlias = Annotated[str, Spec(parse=date_text)]
POWER_FACTORS: Final = (1.0, 10.0)
_MONTH: Final = re.compile(r"\d{4}(?:-\d\d)?")


class OnDemand(Struct, frozen=True):
    """Cloud list prices of one GPU, without commitment; the median alone has no range."""

    median_dollars_per_hour: PerHour = field(name="median")
    low_dollars_per_hour: PerHour = field(name="low", default=nan)
    high_dollars_per_hour: PerHour = field(name="high", default=nan)
    hyperscaler_dollars_per_hour: PerHour | None = field(name="hyperscaler", default=None)
    """Median over AWS, Azure, GCP and OCI only."""

    def __post_init__(self) -> None:
        for name in ("low_dollars_per_hour", "high_dollars_per_hour"):
            if isnan(getattr(self, name)):
                force_setattr(self, name, self.median_dollars_per_hour)
        rising = (
            self.low_dollars_per_hour,
            self.median_dollars_per_hour,
            self.high_dollars_per_hour,
        )
        if sorted(rising) != list(rising):
            raise ValueError(f"low, median and high must rise (got {', '.join(map(str, rising))})")


def _spread(offers: Sequence[OnDemand]) -> OnDemand | None:
    if not offers:
        return None
    middle = sum(offer.median_dollars_per_hour for offer in offers) / len(offers)
    low = min(offer.low_dollars_per_hour for offer in offers)
    return OnDemand(middle, low, max(offer.high_dollars_per_hour for offer in offers))


class Purchase(Struct, frozen=True):
    """Price of one board without its server."""

    dollars: Annotated[float, Spec(within=(0.0, 10_000_000.0))]
    date: DateText = ""
    source: str = ""


class Price(Struct, frozen=True):
    """Prices of one board; `None` or empty if unknown. Never a current quote."""

    key: str
    on_demand: OnDemand | None = None
    spot_dollars_per_hour: float | None = None
    reserved_dollars_per_hour: Mapping[int, float] = {}
    """By years of commitment, if stated."""
    by_provider: Mapping[str, OnDemand] = {}
    """List prices by cloud."""
    clouds: tuple[str, ...] = ()
    dates: tuple[str, ...] = ()
    """Dates of the cloud prices."""
    sources: tuple[str, ...] = ()
    """Sources of the cloud prices."""
    purchases: tuple[Purchase, ...] = ()
    node_power_factor: float | None = None
    """Power of a whole node divided by that of its GPUs."""
    is_stated: bool = False
    """Whether the cloud prices are the operator's own."""

    @property
    def dollars_per_hour(self) -> float | None:
        """Median cloud price of one GPU; that of spot capacity if there is no other."""
        offer = self.on_demand
        return self.spot_dollars_per_hour if offer is None else offer.median_dollars_per_hour

    @property
    def dated(self) -> str:
        """Dates of the cloud prices, as text."""
        return ", ".join(self.dates) or "undated"

    @property
    def period(self) -> str:
        """First and last month of those dates: `2025-03 to 2026-08`."""
        months = sorted(_MONTH.findall(self.dated))
        return " to ".join(dict.fromkeys((months[0], months[-1]))) if months else "undated"


class Assumption(Struct, frozen=True, array_like=True):
    """Usual value and its range; the value alone has none."""

    value: float
    low: float = nan
    high: float = nan

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            if isnan(getattr(self, name)):
                force_setattr(self, name, self.value)
        if not self.low <= self.value <= self.high:
            raise ValueError("must be [usual, lowest, highest]")


class Reserved(Struct, frozen=True):
    """Price under a commitment, and its range."""

    dollars_per_hour: float
    low_dollars_per_hour: float
    high_dollars_per_hour: float
    is_assumed: bool
    """Derived from the on-demand price by a usual discount, not an offered price."""


class OnPremises(Struct, frozen=True):
    """Assumptions about the cost of owned GPUs beyond the boards."""

    years: Annotated[Assumption, _assumed(0.1, 30.0)]
    """Depreciation period."""
    server_uplift_ratio: Annotated[Assumption, _assumed(0.0, 10.0)]
    """Rest of the server, as a fraction of the price of its GPUs."""
    node_power_factor: Annotated[Assumption, _assumed(*POWER_FACTORS)]
    """Power of a whole node divided by that of its GPUs."""
    pue_ratio: Annotated[Assumption, _assumed(1.0, 5.0)]
    """Power usage effectiveness: power of the building divided by that of the node."""
    operation_ratio_per_year: Annotated[Assumption, _assumed(0.0, 2.0)]
    """Staff, space and repairs, as a fraction of the price."""
    dollars_per_kilowatt_hour: Annotated[Assumption, _assumed(0.0, 10.0)]
    utilization_ratio: Annotated[Assumption, _assumed(0.001, 1.0)]
    """Fraction of hours in use."""
    source: str = ""


class ReservedTerms(Struct, frozen=True):
    """Usual discounts under a commitment."""

    discounts: Mapping[Years, Annotated[Assumption, _assumed(0.0, 1.0)]] = {}
    """Fraction of the on-demand price, by years of commitment."""
    source: str = ""


class Prices(Struct, frozen=True):
    """Prices of boards by catalogue key."""

    by_board: Mapping[str, Price]
    on_premises: OnPremises
    reserved_terms: ReservedTerms

    def of(self, key: str) -> Price | None:
        """Prices of a board, or `None` if unknown."""
        return self.by_board.get(key)

    def sole_cloud(self, key: str) -> str:
        """Marketplace, or only cloud without a known instance type, that a price is of."""
        price = self.of(key)
        clouds = () if price is None or price.is_stated else price.clouds
        proper = tuple(cloud for cloud in clouds if not cloud.endswith(_MARKETPLACE))
        is_rented = len(proper) > 1 or any(
            instance.board == key for instance in built_in_instances()
        )
        return "" if is_rented and proper else next(iter(proper or clouds), "")

    @property
    def providers(self) -> list[str]:
        """Clouds with known prices of their own."""
        return sorted({name for price in self.by_board.values() for name in price.by_provider})

    def with_stated(self, dollars_by_key: Mapping[str, float], source: str) -> "Prices":
        """Copy with the operator's prices instead of cloud prices.

        They replace all cloud prices of a board, so that dates do not mix; purchase prices remain.
        """
        prices = dict(self.by_board)
        for key, dollars in dollars_by_key.items():
            price = self.of(key) or Price(key)
            prices[key] = Price(
                key,
                on_demand=OnDemand(dollars),
                sources=(source,),
                purchases=price.purchases,
                node_power_factor=price.node_power_factor,
                is_stated=True,
            )
        return replace(self, by_board=prices) if dollars_by_key else self

    def of_providers(self, providers: Sequence[str]) -> "Prices":
        """Copy limited to some clouds; boards that none of them lists have no rental price."""
        prices_by_key = {}
        for key, price in self.by_board.items():
            offers = [offer for name, offer in price.by_provider.items() if name in providers]
            prices_by_key[key] = replace(
                price,
                on_demand=_spread(offers),
                spot_dollars_per_hour=None,
                reserved_dollars_per_hour={},
                clouds=tuple(providers),
            )
        return replace(self, by_board=prices_by_key)

    def at_spot(self) -> "Prices":
        """Copy with the prices of spot capacity alone; those that the operator stated remain."""
        prices = {
            key: price
            if price.is_stated
            else replace(price, on_demand=None, by_provider={}, reserved_dollars_per_hour={})
            for key, price in self.by_board.items()
        }
        return replace(self, by_board=prices)

    def near(self, provider: str) -> "Prices":
        """Copy with the list prices of one cloud for the boards that it lists.

        Prices that the operator stated remain.
        """
        prices = {
            key: replace(price, on_demand=price.by_provider[provider], clouds=(provider,))
            for key, price in self.by_board.items()
            if provider in price.by_provider and not price.is_stated
        }
        return replace(self, by_board={**self.by_board, **prices}) if prices else self

    def terms_of(self, key: str) -> OnPremises:
        """Ownership assumptions for a board, with its own node power factor if known."""
        price = self.of(key)
        terms = self.on_premises
        if price is None or price.node_power_factor is None:
            return terms
        return replace(terms, node_power_factor=Assumption(price.node_power_factor))

    def dollars_per_hour(self, key: str) -> float | None:
        """Cloud price of one GPU without commitment, or `None` if unknown."""
        price = self.of(key)
        return None if price is None else price.dollars_per_hour

    def reserved(self, key: str, years: int) -> Reserved | None:
        """Price of one GPU under a commitment: stated, else derived by a usual discount."""
        price = self.of(key)
        if price is None:
            return None
        stated = price.reserved_dollars_per_hour.get(years)
        if stated is not None:
            return Reserved(stated, stated, stated, is_assumed=False)
        discount = self.reserved_terms.discounts.get(years)
        if discount is None or price.on_demand is None:
            return None
        full = price.on_demand.median_dollars_per_hour
        discounts = (discount.value, discount.high, discount.low)
        usual, low, high = (full * (1.0 - ratio) for ratio in discounts)
        return Reserved(usual, low, high, is_assumed=True)
