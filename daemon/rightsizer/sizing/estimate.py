"""What is predicted: amounts of memory, and figures with the interval that they lie in."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EstimateInterval:
    """A figure and where it lies with a probability of 90 %."""

    value: float
    low: float
    high: float

    @classmethod
    def around(cls, value: float, factor: float) -> "EstimateInterval":
        """A figure that may be wrong by a factor either way."""
        return cls(value, value / factor, value * factor)

    def scaled(self, by: float) -> "EstimateInterval":
        """The same of something that is larger by a factor."""
        return EstimateInterval(self.value * by, self.low * by, self.high * by)


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
    def total(self) -> EstimateInterval:
        """All of it, and where it lies."""
        return EstimateInterval.around(self.total_bytes, self.error_factor)

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
