"""Price files: the packaged one, and the operator's merged over it."""

from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.catalogue.catalogue import Catalogue, load_document, merged, packaged
from rightsizer.catalogue.prices import (
    POWER_FACTORS,
    DateText,
    OnDemand,
    OnPremises,
    PerHour,
    Price,
    Prices,
    Purchase,
    ReservedTerms,
    Years,
)
from rightsizer.catalogue.settings import PriceSettings
from rightsizer.config.loader import read_document
from rightsizer.config.validator import rule_fault
from rightsizer.io.yaml import Document, below
from rightsizer.model.errors import ConfigurationError
from rightsizer.model.settings import Spec

CLOUD_PRICES: Final = ("on_demand", "spot", "reserved")
CLOUD_KEYS: Final = (*CLOUD_PRICES, "providers", "clouds", "dates", "sources")
"""Cloud prices, and the keys that describe them; they share dates, so are replaced together."""
_FILE: Final = "prices.yaml"
_NOTHING_PAID: Final = PriceSettings()
STATED: Final = "dollars_per_gpu_hour"
"""Key of prices paid per GPU, also used in plans and in the configuration."""


def _price_alone(value: object) -> object:
    """Price without a range, as a mapping."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return {"median": value} if is_number else value


def _offers(value: object) -> object:
    """Lowest and highest price of a cloud, as a mapping."""
    if not isinstance(value, list):
        return _price_alone(value)
    try:
        return {"median": sum(value) / len(value), "low": min(value), "high": max(value)}
    except (TypeError, ZeroDivisionError):
        raise ValueError("must be a price, or [lowest, highest]") from None


def _purchases(value: object) -> object:
    return value if isinstance(value, list) else [{"dollars": value}]


class PriceEntry(Struct, frozen=True):
    """Prices of a board in a file."""

    on_demand: Annotated[OnDemand | None, Spec(parse=_price_alone)] = None
    spot: PerHour | None = None
    reserved: Mapping[Years, PerHour] = {}
    providers: Mapping[str, Annotated[OnDemand, Spec(parse=_offers)]] = {}
    clouds: tuple[str, ...] = ()
    dates: tuple[DateText, ...] = ()
    sources: tuple[str, ...] = ()
    purchase: Annotated[tuple[Purchase, ...], Spec(parse=_purchases)] = ()
    node_power_factor: Annotated[float | None, Spec(within=POWER_FACTORS)] = None

    def price(self, key: str, names: Mapping[str, str], *, is_stated: bool) -> Price:
        """Price of a board by key.

        `names`: dates and sources by the short names used in entries; `is_stated`: whether the
        cloud prices are the operator's.
        """
        return Price(
            key=key,
            on_demand=self.on_demand,
            spot_dollars_per_hour=self.spot,
            reserved_dollars_per_hour=self.reserved,
            by_provider=self.providers,
            clouds=self.clouds,
            dates=tuple(names.get(date, date) for date in self.dates),
            sources=tuple(names.get(source, source) for source in self.sources),
            purchases=tuple(
                replace(purchase, source=names.get(purchase.source, purchase.source))
                for purchase in self.purchase
            ),
            node_power_factor=self.node_power_factor,
            is_stated=is_stated,
        )


class PricesDocument(Struct, frozen=True):
    """Contents of a file, merged over the packaged one."""

    on_premises: OnPremises
    dollars_per_gpu_hour: Mapping[str, PerHour] = {}
    boards: Mapping[str, PriceEntry] = {}
    sources: Mapping[str, str] = {}
    dates: Mapping[str, DateText] = {}
    reserved: ReservedTerms = ReservedTerms()

    def prices(self, stated: Collection[str] = ()) -> Prices:
        """Prices by board; those of the boards in `stated` are the operator's."""
        names = {**self.sources, **self.dates}
        by_board = {
            key: entry.price(key, names, is_stated=key in stated)
            for key, entry in self.boards.items()
        }
        return Prices(by_board, self.on_premises, self.reserved)


@cache
def built_in_prices() -> Prices:
    """Prices packaged with the program."""
    return read_document(PricesDocument, packaged(_FILE)).prices()


def read_prices(
    file: Path | None, catalogue: Catalogue, settings: PriceSettings = _NOTHING_PAID
) -> Prices:
    """Packaged prices, overridden by a file if given, then by the settings."""
    prices = built_in_prices()
    if file is not None:
        prices = extended_prices(load_document(file), catalogue)
    paid = settings.dollars_per_gpu_hour
    for name in paid:
        if not catalogue.family(name):
            raise ConfigurationError(f"prices.{STATED}.{name}: {_unknown(name, catalogue)}")
    return prices.with_stated(dollars_by_key(paid, catalogue), "the configuration")


def extended_prices(custom: Document, catalogue: Catalogue) -> Prices:
    """Merge the operator's prices over the packaged ones, for boards of a catalogue.

    Cloud prices in an entry replace all cloud prices of its board, so that dates do not mix.
    """
    faults = [
        rule_fault((STATED, str(name)), _unknown(str(name), catalogue))
        for name in below(custom.data, STATED)
        if not catalogue.family(str(name))
    ]
    entries: dict[str, Any] = {}
    for name, entry in below(custom.data, "boards").items():
        board = catalogue.boards.get(str(name)) or catalogue.find(str(name))
        if board is None:
            faults.append(rule_fault(("boards", str(name)), _unknown(str(name), catalogue)))
        else:
            entries[board.key] = _sourced(entry, custom.name)
    stated = {key for key, entry in entries.items() if _has_cloud_price(entry)}
    usual = dict(packaged(_FILE).data)
    usual["boards"] = {
        key: {name: value for name, value in entry.items() if name not in CLOUD_KEYS}
        if key in stated
        else entry
        for key, entry in usual["boards"].items()
    }
    data = custom.data
    if below(data, "boards"):
        data = {**data, "boards": entries}
    read = read_document(PricesDocument, replace(custom, data=merged(usual, data)), beside=faults)
    paid = dollars_by_key(read.dollars_per_gpu_hour, catalogue)
    return read.prices(stated).with_stated(paid, custom.name)


def dollars_by_key(stated: Mapping[str, float], catalogue: Catalogue) -> dict[str, float]:
    """Prices by board key; the name of a family stands for all its boards.

    A board's own price overrides that of its family.
    """
    families = {name: catalogue.family(name) for name in stated}
    widest_first = sorted(families.items(), key=lambda family: -len(family[1]))
    return {board.key: stated[name] for name, boards in widest_first for board in boards}


def _unknown(name: str, catalogue: Catalogue) -> str:
    near = " or ".join(catalogue.nearest(name))
    hint = f"did you mean {near}?" if near else "add it to a catalogue file first"
    return f"is no board of the catalogue; {hint}"


def _sourced(entry: Any, file: str) -> Any:
    """Entry whose prices are by default from the file."""
    return {"sources": [file], **entry} if _has_cloud_price(entry) else entry


def _has_cloud_price(entry: Any) -> bool:
    return any(below(entry).get(key) is not None for key in CLOUD_PRICES)
