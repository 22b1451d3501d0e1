"""Ratio table: fits of measured throughput to board figures, with residuals per board."""

from collections.abc import Mapping
from functools import cache

from msgspec import Struct

from rightsizer.catalogue.catalogue import packaged


class RatioFit(Struct, frozen=True):
    """Dependence of one activity's throughput on the figures of a board."""

    exponents: Mapping[str, float]
    family_exponents: Mapping[str, Mapping[str, float]] = {}
    """Difference of a family's exponents from the general ones."""
    boards: Mapping[str, Mapping[str, float]] = {}
    """Per board: logarithm of throughput beyond that of its figures, by measured family."""
    architectures: Mapping[str, Mapping[str, float]] = {}
    """The same, shared by all boards of an architecture."""
    errors: Mapping[str, float] = {}
    """Logarithm of the factor that contains 90% of ratios, by how much is known about them."""

    def exponent(self, figure: str, family: str) -> float:
        """Exponent of a figure in a family."""
        family_exponent = self.family_exponents.get(family, {}).get(figure, 0.0)
        return self.exponents.get(figure, 0.0) + family_exponent

    def beyond(self, board: str, family: str) -> float:
        """Logarithm of a board's throughput beyond that of its figures; 0 if not measured."""
        return self.boards.get(board, {}).get(family, 0.0)

    def beyond_architecture(self, architecture: str, family: str) -> float:
        """The same, shared by all boards of an architecture."""
        return self.architectures.get(architecture, {}).get(family, 0.0)

    def has_measured(self, board: str, family: str | None = None) -> bool:
        """Whether the board was measured, in the family if given."""
        families = self.boards.get(board)
        return families is not None and (family is None or family in families)


class RatioTable(Struct, frozen=True):
    """Fits of all activities, and their source."""

    fits: Mapping[str, RatioFit]
    source: str


@cache
def built_in_ratios() -> RatioTable:
    """Table packaged with the program."""
    data = packaged("ratios.yaml").data
    fits = {name: RatioFit(**entry) for name, entry in data["activities"].items()}
    return RatioTable(fits, data["source"])
