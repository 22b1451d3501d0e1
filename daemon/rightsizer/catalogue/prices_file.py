"""Prices from the packaged file, and an operator's file laid over it."""

from collections.abc import Collection, Mapping
from functools import cache
from importlib import resources
from typing import Any, Final

from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.catalogue.overlay import merged
from rightsizer.catalogue.price_form import (
    CLOUD_KEYS,
    CLOUD_PRICES,
    read_assumption,
    read_on_premises,
    read_price,
)
from rightsizer.catalogue.prices import Prices
from rightsizer.catalogue.row import Faults, Row
from rightsizer.io.yaml import Document, load_yaml

_FILE: Final = "prices.yaml"
_KEYS: Final = ("boards", "sources", "dates", "reserved", "on_premises")


@cache
def built_in_prices() -> Prices:
    """The prices that come with the program."""
    document = _packaged()
    faults = Faults(document)
    prices = _prices(document.data, faults, frozenset())
    faults.refuse()
    return prices


def extended_prices(own: Document, catalogue: Catalogue) -> Prices:
    """The packaged prices with the operator's changes and additions.

    An entry's cloud prices take the place of all those of its board, so that dates do not mix.

    Args:
        own: The operator's file.
        catalogue: Boards that there can be prices of, by key or by name.

    Raises:
        ConfigurationError: with everything that is wrong with the file, a line each.
    """
    faults = Faults(own)
    top = Row({} if own.data is None else own.data, (), faults)
    top.refuse_unknown(_KEYS)
    packaged = dict(_packaged().data)
    entries = _entries(top.row("boards"), catalogue, own.name)
    packaged["boards"] = {
        key: _without(entry, entries.get(key, {})) for key, entry in packaged["boards"].items()
    }
    tables = {name: top.row(name).values for name in _KEYS if name != "boards"}
    data = merged(packaged, {**tables, "boards": entries})
    stated = {key for key, entry in entries.items() if _has_cloud_price(entry)}
    prices = _prices(data, faults, stated)
    faults.refuse()
    return prices


def _packaged() -> Document:
    file = resources.files("rightsizer.catalogue") / _FILE
    return load_yaml(file.read_text(encoding="utf-8"), _FILE)


def _prices(data: Mapping[str, Any], faults: Faults, stated: Collection[str]) -> Prices:
    top = Row(data, (), faults)
    names = {**top.row("sources").values, **top.row("dates").values}
    rows, reserved = top.row("boards"), top.row("reserved")
    reserved.refuse_unknown(("discounts", "source"))
    discounts = reserved.row("discounts")
    return Prices(
        by_board={
            key: read_price(key, rows.row(key), names, is_stated=key in stated)
            for key in rows.values
        },
        on_premises=read_on_premises(top.row("on_premises")),
        reserved_discounts={
            years: read_assumption(discounts, years, 0.0, 1.0) for years in discounts.values
        },
        reserved_source=reserved.text("source") or "",
    )


def _entries(rows: Row, catalogue: Catalogue, file: str) -> dict[str, dict[str, Any]]:
    """The operator's entries by the keys of their boards."""
    entries: dict[str, dict[str, Any]] = {}
    for name in rows.values:
        board = catalogue.boards.get(str(name)) or catalogue.find(str(name))
        if board is None:
            near = " or ".join(catalogue.nearest(str(name)))
            hint = f"did you mean {near}?" if near else "add it to a catalogue file first"
            rows.fault(str(name), f"is no board of the catalogue; {hint}")
            continue
        entry = dict(rows.row(name).values)
        if _has_cloud_price(entry):
            entry.setdefault("sources", [file])
        entries[board.key] = entry
    return entries


def _without(packaged: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """A packaged entry without what the operator's takes the place of."""
    replaced = CLOUD_KEYS if _has_cloud_price(own) else ()
    return {key: value for key, value in packaged.items() if key not in replaced}


def _has_cloud_price(entry: Mapping[str, Any]) -> bool:
    return any(entry.get(key) is not None for key in CLOUD_PRICES)
