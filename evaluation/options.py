"""Options of an evaluation run."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct, field

FIRST_SCORED_SEED: Final = 1000
"""Thresholds are tuned on the seeds below, and scored on these."""
SCENARIOS: Final = Path(__file__).parent / "scenarios"


def _truth() -> Path | None:
    named = os.environ.get("RIGHTSIZER_TRUTH", "")
    return Path(named) if named else None


class Options(Struct, frozen=True):
    """Extent of the evaluation."""

    seeds: int = 2
    """Of each scenario."""
    first_seed: int = FIRST_SCORED_SEED
    tick_seconds: int = 89
    """Simulated time between two readings; a prime, so that readings do not fall into step with
    what the simulator does every so many seconds."""
    scenarios: Path = SCENARIOS
    """The folder of labeled scenarios."""
    truth: Path | None = field(default_factory=_truth)
    """The folder of recordings whose truth is known; `None` to leave them out."""

    @property
    def are_varied(self) -> bool:
        """Whether seeds change what kernels do; scenarios of others are taken as written."""
        return self.scenarios == SCENARIOS

    @property
    def all_seeds(self) -> Sequence[int]:
        """Seeds of every scenario."""
        return range(self.first_seed, self.first_seed + self.seeds)
