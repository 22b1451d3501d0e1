"""What others still know of a piece of advice after its ledger was lost."""

from dataclasses import dataclass

from rightsizer.model.advice import OPEN_STATES, AdviceState
from rightsizer.model.finding import Finding
from rightsizer.model.units import Nanoseconds


@dataclass(frozen=True, slots=True)
class Scraped:
    """Open advice, as metrics had it when they were scraped last. Times are wall time."""

    id: str
    opened: Nanoseconds
    state: AdviceState
    seen: Nanoseconds
    """When it was seen so; what was decided later is not in it."""


@dataclass(frozen=True, slots=True)
class Region:
    """The region of an annotation that marks advice, from its opening on. Times are wall time."""

    finding: Finding
    """As far as the annotation tells."""
    opened: Nanoseconds
    end: Nanoseconds
    """When it was closed; while it is open this says nothing."""
    state: AdviceState
    decided: Nanoseconds | None = None
    """When it was put into that state; `None` where the annotation does not tell."""
    expires: Nanoseconds | None = None
    actor: str | None = None
    why: str = ""

    @property
    def id(self) -> str:
        """The advice's."""
        return self.finding.id

    @property
    def is_open(self) -> bool:
        """Whether the advice still asked for something."""
        return self.state in OPEN_STATES
