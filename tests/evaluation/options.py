"""What a run of the evaluation may be told."""

import os
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Options"]


def _truth() -> Path | None:
    named = os.environ.get("RIGHTSIZER_TRUTH", "")
    return Path(named) if named else None


@dataclass(frozen=True, slots=True)
class Options:
    """How much is evaluated."""

    seeds: int = 3
    """Of each scenario: its own, and others."""
    tick_seconds: int = 30
    """Simulated time between two readings."""
    truth: Path | None = field(default_factory=_truth)
    """The folder of recordings whose truth is known; `None` to leave them out."""
