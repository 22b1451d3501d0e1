"""All prices, and what follows from them where nobody says."""

from collections.abc import Mapping
from dataclasses import dataclass

from rightsizer.catalogue.price import Assumption, OnPremises, Price, Reserved


@dataclass(frozen=True, slots=True)
class Prices:
    """What boards cost, by their keys in the catalogue."""

    by_board: Mapping[str, Price]
    on_premises: OnPremises
    reserved_discounts: Mapping[int, Assumption]
    """Of the on-demand price, by years of commitment."""
    reserved_source: str = ""

    def of(self, key: str) -> Price | None:
        """What a board costs; `None` where nobody says."""
        return self.by_board.get(key)

    def dollars_per_hour(self, key: str) -> float | None:
        """What one GPU costs in a cloud without commitment; `None` where nobody says."""
        price = self.of(key)
        return None if price is None else price.dollars_per_hour

    def reserved(self, key: str, years: int) -> Reserved | None:
        """What one GPU costs under a commitment: as somebody says, else at a usual discount."""
        price = self.of(key)
        if price is None:
            return None
        stated = price.reserved_dollars_per_hour.get(years)
        if stated is not None:
            return Reserved(stated, stated, stated, is_assumed=False)
        discount, full = self.reserved_discounts.get(years), price.dollars_per_hour
        if discount is None or full is None:
            return None
        return Reserved(
            full * (1.0 - discount.value),
            full * (1.0 - discount.high),
            full * (1.0 - discount.low),
            is_assumed=True,
        )
