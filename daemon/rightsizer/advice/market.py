"""Market: available boards and their prices."""

from typing import Annotated

from msgspec import Struct, field
from msgspec.structs import replace

from rightsizer.catalogue.board import Board
from rightsizer.catalogue.catalogue import Catalogue, built_in
from rightsizer.catalogue.prices import Prices, built_in_instances
from rightsizer.model.values import CONSTANT, Spec
from rightsizer.sizing.cost import Billing, HourlyCost, hourly_costs
from rightsizer.sizing.place import GpuPlace
from rightsizer.sizing.settings import MemorySettings


class MarketSettings(Struct, frozen=True):
    """Boards that may be recommended, and their price terms.

    Attributes:
        boards: Boards, by key, that workloads may move to; empty for every data-center board.
        billing: Price terms used for costs and savings.
        minimum_confidence_ratio: Minimum confidence of a finding for savings to be given.
            Source: docs/definitions.md, conduct
        most_options: Maximum alternative boards listed.
        tolerated_slowdown_ratio: Maximum run time on a recommended smaller board, relative to the
            present one.
            Source: half a response time more is what a service may notice; a starting point
    """

    boards: tuple[str, ...] = ()
    billing: Billing = Billing.ON_DEMAND
    minimum_confidence_ratio: Annotated[float, CONSTANT] = 0.5
    most_options: Annotated[int, Spec(within=(1, 20)), CONSTANT] = 3
    tolerated_slowdown_ratio: Annotated[float, Spec(within=(1.0, 100.0)), CONSTANT] = 1.5


class Market(Struct, frozen=True):
    """Boards, prices, and the operator's constraints."""

    catalogue: Catalogue = field(default_factory=built_in)
    prices: Prices | None = None
    """`None` without prices; no savings in money are stated then."""
    settings: MarketSettings = MarketSettings()
    memory_settings: MemorySettings = MemorySettings()
    """Reserved memory of boards, as in plans."""

    offered: frozenset[str] | None = None
    """Keys of the boards that can be had; `None` for all."""

    def near(self, provider: str) -> "Market":
        """Same market at the prices of one cloud, with what it rents out beside what is offered."""
        if not provider:
            return self
        prices = None if self.prices is None else self.prices.near(provider)
        offered = self.offered
        if offered is not None:
            offered |= {
                instance.board for instance in built_in_instances() if instance.provider == provider
            }
        return replace(self, prices=prices, offered=offered)

    def board(self, key: str | None) -> Board | None:
        """Board by key, or `None` if unknown."""
        return self.catalogue.boards.get(key or "")

    def place(self, board: Board) -> GpuPlace:
        """Whole board as a place to run."""
        return GpuPlace(board, memory_settings=self.memory_settings)

    def cost(self, board: Board | None) -> HourlyCost | None:
        """Hourly cost of a board, or `None` if unknown."""
        if board is None or self.prices is None:
            return None
        offers = hourly_costs(board, self.prices)
        return next((offer for offer in offers if offer.billing is self.settings.billing), None)

    def cost_near(self, provider: str, key: str | None) -> HourlyCost | None:
        """Hourly cost of a board, by key, in one cloud, or `None` if unknown."""
        return self.near(provider).cost(self.board(key))

    def others(self, board: Board) -> tuple[Board, ...]:
        """Alternatives to a board from the same vendor.

        Includes GeForce boards, whose license excludes data centers, only if named in the settings.
        Boards that are named there can be had.
        """
        named = self.settings.boards
        offered = None if named else self.offered
        return tuple(
            other
            for other in self.catalogue.boards.values()
            if other.key != board.key
            and other.vendor == board.vendor
            and (offered is None or other.key in offered)
            and (
                other.key in named if named else not any("GeForce" in name for name in other.names)
            )
        )
