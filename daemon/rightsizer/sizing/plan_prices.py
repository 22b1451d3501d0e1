"""Prices as a plan sees them: its own before those of the catalogue, slices as parts of a board."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from rightsizer.catalogue.board import Board, MigProfile
from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.catalogue.price import OnDemand, Price
from rightsizer.catalogue.prices import Prices
from rightsizer.sizing.estimate import Interval
from rightsizer.sizing.hourly_cost import HourlyCost, Owned, hourly_costs, owned
from rightsizer.sizing.mig_board import slice_board, slice_price_ratio

__all__ = ["PlanPrices"]

_SOURCE: Final = "the plan's own prices"


@dataclass(frozen=True, slots=True)
class PlanPrices:
    """What boards and slices cost in one plan."""

    catalogue: Catalogue
    prices: Prices

    @classmethod
    def of(cls, catalogue: Catalogue, prices: Prices, stated: Mapping[str, float]) -> "PlanPrices":
        """Prices with those that a plan states, by key, in place of the clouds'.

        What a plan says takes the place of every cloud price of the board, so that dates do not
        mix; what it costs to buy stays.
        """
        own = {key: _stated(key, dollars, prices.of(key)) for key, dollars in stated.items()}
        return cls(catalogue, replace(prices, by_board={**prices.by_board, **own}))

    def board(self, key: str) -> Board:
        """A board or a slice of one, by the key of a candidate."""
        whole, profile = self._parts(key)
        return whole if profile is None else slice_board(whole, profile)

    def dollars_per_hour(self, board: Board) -> float | None:
        """Of one GPU, or of a slice as its part of one; `None` where nobody says."""
        own = self.prices.dollars_per_hour(board.key)
        if own is not None:
            return own
        whole, ratio = self._whole(board)
        dollars = self.prices.dollars_per_hour(whole.key)
        return None if dollars is None else dollars * ratio

    def offers(self, board: Board) -> tuple[HourlyCost, ...]:
        """Every way to have it."""
        whole, ratio = self._whole(board)
        if ratio == 1.0 or self.prices.of(board.key) is not None:
            return hourly_costs(board, self.prices)
        return tuple(
            replace(each, dollars_per_hour=each.dollars_per_hour.scaled(ratio))
            for each in hourly_costs(whole, self.prices)
        )

    def owned(self, board: Board) -> Owned | None:
        """What owning it takes, of a slice its part of the board."""
        whole, ratio = self._whole(board)
        found = owned(whole, self.prices)
        return None if found is None else _scaled(found, lambda figure: figure.scaled(ratio))

    def node_power_factor(self, board: Board) -> float | None:
        """The power of a whole node over that of its GPUs, where a node of the board is known."""
        price = self.prices.of(self._whole(board)[0].key)
        return None if price is None else price.node_power_factor

    def _whole(self, board: Board) -> tuple[Board, float]:
        """The board that a slice is a part of, and the part; a board itself is all of it."""
        whole, profile = self._parts(board.key)
        return whole, 1.0 if profile is None else slice_price_ratio(profile)

    def _parts(self, key: str) -> tuple[Board, MigProfile | None]:
        """The board of a key, and the slice of it that is named."""
        name, _, profile = key.partition(":")
        board = self.catalogue.boards[name]
        if not profile:
            return board, None
        return board, next(each for each in board.mig_profiles if each.name == profile)


def _stated(key: str, dollars: float, known: Price | None) -> Price:
    return Price(
        key=key,
        on_demand=OnDemand(dollars, dollars, dollars),
        sources=(_SOURCE,),
        purchases=() if known is None else known.purchases,
        node_power_factor=None if known is None else known.node_power_factor,
        is_stated=True,
    )


def _scaled(own: Owned, scale: Callable[[Interval], Interval]) -> Owned:
    return replace(
        own,
        capital_dollars=scale(own.capital_dollars),
        running_dollars_per_hour=scale(own.running_dollars_per_hour),
        dollars_per_used_hour=scale(own.dollars_per_used_hour),
    )
