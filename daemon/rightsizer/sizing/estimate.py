"""What is predicted: amounts of memory, and figures with the interval that they lie in."""

from dataclasses import dataclass

__all__ = ["Interval", "MemoryEstimate"]


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure and where it lies with a probability of 90 %."""

    value: float
    low: float
    high: float

    @classmethod
    def around(cls, value: float, factor: float) -> "Interval":
        """A figure that may be wrong by a factor either way."""
        return cls(value, value / factor, value * factor)

    def scaled(self, by: float) -> "Interval":
        """The same of something that is larger by a factor."""
        return Interval(self.value * by, self.low * by, self.high * by)


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """What one GPU of a layout needs, in bytes."""

    weights_bytes: float = 0.0
    kv_cache_bytes: float = 0.0
    activations_bytes: float = 0.0
    gradients_bytes: float = 0.0
    optimizer_bytes: float = 0.0
    overhead_bytes: float = 0.0
    """Context, libraries, communication buffers, and what the allocator cannot use."""
    error_factor: float = 1.1
    """How far off the total may be either way, with a probability of 90 %."""

    @property
    def total(self) -> Interval:
        """All of it, and where it lies."""
        return Interval.around(self.total_bytes, self.error_factor)

    @property
    def total_bytes(self) -> float:
        """All of it."""
        return (
            self.weights_bytes
            + self.kv_cache_bytes
            + self.activations_bytes
            + self.gradients_bytes
            + self.optimizer_bytes
            + self.overhead_bytes
        )
