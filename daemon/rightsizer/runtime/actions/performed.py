"""How doing something ended."""

from dataclasses import dataclass

from rightsizer.runtime.actions.book import ActionOutcome

__all__ = ["Performed"]


@dataclass(frozen=True, slots=True)
class Performed:
    """What a program or a receiver made of it."""

    outcome: ActionOutcome
    why: str = ""
    """What went wrong, in our words."""
    status: int | None = None
    said: str = ""
