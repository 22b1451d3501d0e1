"""Options of a benchmark run."""

from msgspec import Struct


class Options(Struct, frozen=True):
    """Extent of the measurements."""

    seconds: float
    """How long the agent is watched, after as much as a quarter of it to warm up."""
    replay_megabytes: float
    """Size of the log that is replayed."""
