"""Seconds of one pass through a model, by what they go to."""

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Bound", "PassCost"]


class Bound(StrEnum):
    """What most of the time goes to."""

    COMPUTE = "compute"
    BANDWIDTH = "bandwidth"
    COMMUNICATION = "communication"
    LATENCY = "latency"


@dataclass(frozen=True, slots=True)
class PassCost:
    """Parts that add up: of what overlaps, each has what is due to it."""

    compute: float = 0.0
    bandwidth: float = 0.0
    communication: float = 0.0
    latency: float = 0.0

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.compute + self.bandwidth + self.communication + self.latency

    @property
    def bound(self) -> Bound:
        """The largest part."""
        return max(Bound, key=lambda part: float(getattr(self, part.value)))

    def plus(self, other: "PassCost", times: float = 1.0) -> "PassCost":
        """Both, the other several times."""
        return PassCost(
            self.compute + times * other.compute,
            self.bandwidth + times * other.bandwidth,
            self.communication + times * other.communication,
            self.latency + times * other.latency,
        )
