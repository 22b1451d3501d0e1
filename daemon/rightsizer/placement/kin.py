"""Who belongs to a lease, in a form that outlives the agent that saw it."""

from dataclasses import dataclass

__all__ = ["Kin"]


@dataclass(frozen=True, slots=True)
class Kin:
    """Processes of one lease and the sessions that they began; of the boot of the lease's times."""

    processes: tuple[tuple[int, int], ...] = ()
    """Pid and start in ticks since boot of each, the oldest first; together they name a process
    for good."""
    sessions: tuple[int, ...] = ()
    """Ascending."""
