"""Who ended which ticket or lease, for whoever still asks about it."""

from dataclasses import dataclass

from rightsizer.domain.units import Nanoseconds
from rightsizer.placement.lease import Client

__all__ = ["Ending", "ending_by"]


@dataclass(frozen=True, slots=True)
class Ending:
    """An end that somebody else than the process that had asked has brought about."""

    id: str
    """Of the ticket or the lease."""
    uid: int
    """Whose it was."""
    at: Nanoseconds
    message: str
    """A clause for a person: what was ended by whom."""


def ending_by(
    by: Client | None, owner: Client, item_id: str, at: Nanoseconds, what: str
) -> Ending | None:
    """What is remembered of an end; `None` where the process that had asked knows of it itself.

    Args:
        by: Who has ended it; `None`: the agent, which saw that its process is gone.
        owner: The process that had asked.
        item_id: Of the ticket or the lease.
        at: When.
        what: Was done, as `ticket 1a was withdrawn`.
    """
    if by is None or (by.pid, by.started_ticks) == (owner.pid, owner.started_ticks):
        return None
    return Ending(item_id, owner.uid, at, f"{what} by {by.user}")
