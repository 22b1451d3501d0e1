"""Price files: the packaged one, and the operator's merged over it."""

import datetime as dt
from collections.abc import Callable, Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from rightsizer.catalogue.catalogue import Catalogue, merged, packaged, read_document
from rightsizer.catalogue.prices import Assumption, OnDemand, OnPremises, Price, Prices, Purchase
from rightsizer.catalogue.settings import PriceSettings
from rightsizer.config.row import Faults, Row
from rightsizer.io.yaml import Document
from rightsizer.model.errors import ConfigurationError

CLOUD_PRICES: Final = ("on_demand", "spot", "reserved")
CLOUD_KEYS: Final = (*CLOUD_PRICES, "providers", "clouds", "dates", "sources")
"""Cloud prices, and the keys that describe them; they share dates, so are replaced together."""
_KNOWN: Final = (*CLOUD_KEYS, "purchase", "node_power_factor")
_MOST_PER_HOUR: Final = 10_000.0
_MOST_TO_BUY: Final = 10_000_000.0
_SPREAD: Final = 3
_ON_PREMISES: Final[Mapping[str, tuple[float, float]]] = {
    "years": (0.1, 30.0),
    "server_uplift_ratio": (0.0, 10.0),
    "node_power_factor": (1.0, 10.0),
    "pue_ratio": (1.0, 5.0),
    "operation_ratio_per_year": (0.0, 2.0),
    "dollars_per_kilowatt_hour": (0.0, 10.0),
    "utilization_ratio": (0.001, 1.0),
}
_FILE: Final = "prices.yaml"
_NOTHING_PAID: Final = PriceSettings()
STATED: Final = "dollars_per_gpu_hour"
"""Key of prices paid per GPU, also used in plans and in the configuration."""
_KEYS: Final = (STATED, "boards", "sources", "dates", "reserved", "on_premises")


def _price(key: str, row: Row, names: Mapping[str, str], *, is_stated: bool) -> Price:
    """Read the prices of a board from its entry; faults go to the row.

    `names`: dates and sources by the short names used in entries; `is_stated`: whether the cloud
    prices are the operator's.
    """
    row.refuse_unknown(_KNOWN)
    return Price(
        key=key,
        on_demand=_on_demand(row),
        spot_dollars_per_hour=row.number("spot", 0.0, _MOST_PER_HOUR),
        reserved_dollars_per_hour=_reserved(row.row("reserved")),
        by_provider=_by_provider(row.row("providers")),
        clouds=row.texts("clouds"),
        dates=tuple(names.get(date, date) for date in map(_date, row.items("dates"))),
        sources=tuple(names.get(source, source) for source in row.texts("sources")),
        purchases=tuple(_purchases(row, names)),
        node_power_factor=row.number("node_power_factor", *_ON_PREMISES["node_power_factor"]),
        is_stated=is_stated,
    )


def _assumption(row: Row, key: Any, least: float, most: float) -> Assumption:
    """Read a number or a list of usual, lowest and highest value."""
    value = row.values.get(key)
    cells = value if isinstance(value, list) else [value] * _SPREAD
    numbers = [row.checked_number(str(key), cell, least, most) for cell in cells]
    if len(cells) != _SPREAD or value is None:
        row.fault(str(key), "must be a number or [usual, lowest, highest]")
    known = [number for number in numbers if number is not None]
    if len(known) != _SPREAD:
        return Assumption(least, least, least)
    usual, low, high = known
    if not low <= usual <= high:
        row.fault(str(key), f"must be [usual, lowest, highest] (got {value})")
    return Assumption(usual, low, high)


def _on_demand(row: Row) -> OnDemand | None:
    value = row.values.get("on_demand")
    if value is None:
        return None
    if not isinstance(value, Mapping):
        number = row.needed_number("on_demand", 0.0, _MOST_PER_HOUR)
        return OnDemand(number, number, number)
    spread = row.row("on_demand", ("low", "median", "high", "hyperscaler"))
    median = spread.needed_number("median", 0.0, _MOST_PER_HOUR)
    low, high, at_large = (
        spread.number(key, 0.0, _MOST_PER_HOUR) for key in ("low", "high", "hyperscaler")
    )
    low = median if low is None else low
    high = median if high is None else high
    if "median" in spread and not low <= median <= high:
        row.fault("on_demand", f"low, median and high must rise (got {low}, {median}, {high})")
    return OnDemand(low, median, high, at_large)


def _by_provider(row: Row) -> dict[str, OnDemand]:
    found = {}
    for name, value in row.values.items():
        cells = value if isinstance(value, list) else [value]
        numbers = [row.checked_number(str(name), cell, 0.0, _MOST_PER_HOUR) for cell in cells]
        known = sorted(number for number in numbers if number is not None)
        if known:
            found[str(name)] = OnDemand(known[0], sum(known) / len(known), known[-1])
    return found


def _reserved(row: Row) -> dict[int, float]:
    prices = {}
    for years, dollars in row.values.items():
        price = row.checked_number(str(years), dollars, 0.0, _MOST_PER_HOUR)
        if not isinstance(years, int) or years < 1:
            row.fault(str(years), "must be whole years of commitment, like {1: 2.10, 3: 1.50}")
        elif price is not None:
            prices[years] = price
    return prices


def _purchases(row: Row, names: Mapping[str, str]) -> list[Purchase]:
    value = row.values.get("purchase")
    if value is not None and not isinstance(value, list):
        return [Purchase(row.needed_number("purchase", 0.0, _MOST_TO_BUY), "", "")]
    purchases = []
    for item in row.rows("purchase"):
        item.refuse_unknown(("dollars", "date", "source"))
        source = item.text("source") or ""
        dollars = item.needed_number("dollars", 0.0, _MOST_TO_BUY)
        date = _date(item.values.get("date", ""))
        purchases.append(Purchase(dollars, date, names.get(source, source)))
    return purchases


def _date(value: Any) -> str:
    """Convert to text; YAML parses values that look like dates as dates."""
    return value.isoformat() if isinstance(value, dt.date) else str(value)


@cache
def built_in_prices() -> Prices:
    """Prices packaged with the program."""
    document = packaged(_FILE)
    faults = Faults(document)
    prices = _prices(document.data, faults, frozenset())
    faults.refuse()
    return prices


def read_prices(
    file: Path | None, catalogue: Catalogue, settings: PriceSettings = _NOTHING_PAID
) -> Prices:
    """Packaged prices, overridden by a file if given, then by the settings."""
    prices = built_in_prices() if file is None else extended_prices(read_document(file), catalogue)

    def refuse(name: str, why: str) -> None:
        raise ConfigurationError(f"prices.{STATED}.{name}: {why}")

    keys = dollars_by_key(settings.dollars_per_gpu_hour, catalogue, refuse)
    return prices.with_stated(keys, "the configuration")


def extended_prices(own: Document, catalogue: Catalogue) -> Prices:
    """Merge the operator's prices over the packaged ones, for boards of a catalogue.

    Cloud prices in an entry replace all cloud prices of its board, so that dates do not mix.
    """
    faults = Faults(own)
    top = Row({} if own.data is None else own.data, (), faults)
    top.refuse_unknown(_KEYS)
    usual = dict(packaged(_FILE).data)
    entries = _entries(top.row("boards"), catalogue, own.name)
    stated = {key for key, entry in entries.items() if _has_cloud_price(entry)}
    usual["boards"] = {
        key: {name: value for name, value in entry.items() if name not in CLOUD_KEYS}
        if key in stated
        else entry
        for key, entry in usual["boards"].items()
    }
    paid_row = top.row(STATED)
    amounts = {str(name): paid_row.number(name, 0.0, _MOST_PER_HOUR) for name in paid_row.values}
    tables = {name: top.row(name).values for name in _KEYS if name not in {STATED, "boards"}}
    data = merged(usual, {**tables, "boards": entries})
    prices = _prices(data, faults, stated)
    paid = {name: dollars for name, dollars in amounts.items() if dollars is not None}
    keys = dollars_by_key(paid, catalogue, paid_row.fault)
    faults.refuse()
    return prices.with_stated(keys, own.name)


def dollars_by_key(
    stated: Mapping[str, float], catalogue: Catalogue, refuse: Callable[[str, str], None]
) -> dict[str, float]:
    """Prices by board key; the name of a family stands for all its boards.

    A board's own price overrides that of its family. `refuse` is called for unknown names.
    """
    found: dict[str, float] = {}
    families = {name: catalogue.family(name) for name in stated}
    for name, boards in sorted(families.items(), key=lambda each: -len(each[1])):
        found |= {board.key: stated[name] for board in boards}
        if not boards:
            refuse(name, _unknown(name, catalogue))
    return found


def _unknown(name: str, catalogue: Catalogue) -> str:
    near = " or ".join(catalogue.nearest(name))
    hint = f"did you mean {near}?" if near else "add it to a catalogue file first"
    return f"is no board of the catalogue; {hint}"


def _prices(data: Mapping[str, Any], faults: Faults, stated: Collection[str]) -> Prices:
    top = Row(data, (), faults)
    names = {**top.row("sources").values, **top.row("dates").values}
    rows = top.row("boards")
    reserved = top.row("reserved", ("discounts", "source"))
    discounts = reserved.row("discounts")
    owned = top.row("on_premises", (*_ON_PREMISES, "source"))
    figures = {key: _assumption(owned, key, *bounds) for key, bounds in _ON_PREMISES.items()}
    return Prices(
        by_board={
            key: _price(key, rows.row(key), names, is_stated=key in stated) for key in rows.values
        },
        on_premises=OnPremises(**figures, source=owned.text("source") or ""),
        reserved_discounts={
            years: _assumption(discounts, years, 0.0, 1.0) for years in discounts.values
        },
        reserved_source=reserved.text("source") or "",
    )


def _entries(rows: Row, catalogue: Catalogue, file: str) -> dict[str, dict[str, Any]]:
    entries: dict[str, dict[str, Any]] = {}
    for name in rows.values:
        board = catalogue.boards.get(str(name)) or catalogue.find(str(name))
        if board is None:
            rows.fault(str(name), _unknown(str(name), catalogue))
            continue
        entry = dict(rows.row(name).values)
        if _has_cloud_price(entry):
            entry.setdefault("sources", [file])
        entries[board.key] = entry
    return entries


def _has_cloud_price(entry: Mapping[str, Any]) -> bool:
    return any(entry.get(key) is not None for key in CLOUD_PRICES)
