"""A column: one thing that is known of a subject in each stretch of time, by a stable name."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from rightsizer.domain.block import Measure
from rightsizer.domain.state import Cause, Condition, Resource, State, Tier

__all__ = ["Column", "Kind"]


class Kind(StrEnum):
    """What the values of a column are, and so how those of several subjects add up."""

    STATE = "state"
    """Seconds of the stretch in a state; `unknown` is what the others leave of it."""
    CONDITION = "condition"
    """Seconds during which a condition held."""
    TIER = "tier"
    """Seconds that were read with a telemetry tier."""
    SATURATED = "saturated"
    """Seconds at a resource's limit."""
    PRESSED = "pressed"
    """Seconds at a resource's limit while the application was short of it."""
    WASTE = "waste"
    """Seconds' worth that a cause took."""
    WASTE_JOULES = "waste_joules"
    USED = "used"
    """Name `seconds` or `joules`."""
    ENERGY = "energy"
    """Name `joules`."""
    MEAN = "mean"
    """Of a measure over the known time, idle time included: a share of a device, or bytes."""
    PEAK = "peak"
    """The largest reading of a measure."""
    COUNT = "count"
    """Of a pool: name `devices`, `held`, `active`, in whole GPUs, as means over the stretch."""


@dataclass(frozen=True, slots=True, order=True)
class Column:
    """A kind and a name; as text `kind:name`, which is how it is kept."""

    kind: Kind
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"

    def __hash__(self) -> int:
        # A column is looked up for every device and day; few kinds share a name.
        return hash(self.name)

    @classmethod
    def parse(cls, text: str) -> Self:
        """The column of a text that `str` gave.

        Raises:
            ValueError: it is none.
        """
        kind, _, name = text.partition(":")
        return cls(Kind(kind), name)

    @classmethod
    def state(cls, state: State) -> Self:
        """Seconds in a state."""
        return cls(Kind.STATE, state.value)

    @classmethod
    def condition(cls, condition: Condition) -> Self:
        """Seconds during which a condition held."""
        return cls(Kind.CONDITION, condition.value)

    @classmethod
    def tier(cls, tier: Tier) -> Self:
        """Seconds read with a tier."""
        return cls(Kind.TIER, tier.value)

    @classmethod
    def saturated(cls, resource: Resource) -> Self:
        """Seconds at a limit."""
        return cls(Kind.SATURATED, resource.value)

    @classmethod
    def pressed(cls, resource: Resource) -> Self:
        """Seconds at a limit with the application short of it."""
        return cls(Kind.PRESSED, resource.value)

    @classmethod
    def waste(cls, cause: Cause) -> Self:
        """Seconds' worth that a cause took."""
        return cls(Kind.WASTE, cause.value)

    @classmethod
    def mean(cls, measure: Measure) -> Self:
        """Mean of a measure."""
        return cls(Kind.MEAN, measure.value)

    @classmethod
    def peak(cls, measure: Measure) -> Self:
        """Peak of a measure."""
        return cls(Kind.PEAK, measure.value)
