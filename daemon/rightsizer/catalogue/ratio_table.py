"""What measured throughput tells beyond datasheets: exponents of figures, and boards' own ways."""

from collections.abc import Mapping
from functools import cache

from rightsizer.catalogue.catalogue import packaged
from rightsizer.model.frozen import dataclass, field


@dataclass(frozen=True, slots=True)
class RatioFit:
    """How throughput of one activity goes with the figures of a board."""

    exponents: Mapping[str, float]
    family_exponents: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """What a family's differ from those of all."""
    boards: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """By board: logarithms of what it does beyond its figures, in families measured on it."""
    architectures: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """The same that all boards of an architecture have in common."""
    errors: Mapping[str, float] = field(default_factory=dict)
    """Logarithms of the factor that 90% of ratios are within, by how much is known of them."""

    def exponent(self, figure: str, family: str) -> float:
        """Of one figure."""
        own = self.family_exponents.get(family, {}).get(figure, 0.0)
        return self.exponents.get(figure, 0.0) + own

    def beyond(self, board: str, family: str) -> float:
        """What a board does beyond its figures, as a logarithm; 0 where not measured."""
        return self.boards.get(board, {}).get(family, 0.0)

    def beyond_architecture(self, architecture: str, family: str) -> float:
        """The same that all boards of an architecture have in common."""
        return self.architectures.get(architecture, {}).get(family, 0.0)

    def has_measured(self, board: str, family: str | None = None) -> bool:
        """Whether the board is among those measured, in a family where one is named."""
        known = self.boards.get(board)
        return known is not None and (family is None or family in known)


@dataclass(frozen=True, slots=True)
class RatioTable:
    """The fits of all activities, and where they come from."""

    fits: Mapping[str, RatioFit]
    source: str


@cache
def built_in_ratios() -> RatioTable:
    """The table that comes with the program."""
    data = packaged("ratios.yaml").data
    fits = {name: RatioFit(**entry) for name, entry in data["activities"].items()}
    return RatioTable(fits, data["source"])
