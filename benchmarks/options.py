"""Options of a benchmark run."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    """Extent of the measurements."""

    seconds: float
    """How long the agent is watched, after as much as a quarter of it to warm up."""
    replay_megabytes: float
    """Size of the log that is replayed."""
