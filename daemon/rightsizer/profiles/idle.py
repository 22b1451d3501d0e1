"""Why a device did nothing, in the words of HolisticTraceAnalysis.

It looks at each stream, this at the device: a gap is where no stream has a kernel.
"""

from collections.abc import Iterable, Iterator
from enum import Enum, auto
from typing import TypeAlias

from rightsizer.domain.units import Nanoseconds

__all__ = ["Gap", "IdleCause", "Started", "gaps", "idle_cause"]

Started: TypeAlias = tuple[Nanoseconds, Nanoseconds, Nanoseconds | None]
"""A kernel's start, its end, and when the host began to launch it, where that is known."""


class IdleCause(Enum):
    """What the next kernel waited for."""

    HOST_WAIT = auto()
    KERNEL_WAIT = auto()
    OTHER = auto()


Gap: TypeAlias = tuple[Nanoseconds, Nanoseconds, IdleCause]


def idle_cause(
    begin: Nanoseconds,
    end: Nanoseconds,
    launched: Nanoseconds | None,
    adjacent: Nanoseconds,
) -> IdleCause:
    """Why nothing ran from `begin` to `end`, by the launch of what ran next."""
    if launched is not None and launched > begin:
        return IdleCause.HOST_WAIT
    return IdleCause.KERNEL_WAIT if end - begin <= adjacent else IdleCause.OTHER


def gaps(kernels: Iterable[Started], adjacent: Nanoseconds) -> Iterator[Gap]:
    """The times between kernels in which none ran.

    Args:
        kernels: By rising start.
        adjacent: Kernels no further apart than this follow each other directly.
    """
    rest = iter(kernels)
    first = next(rest, None)
    if first is None:
        return
    busy_until = first[1]
    waiting: tuple[Nanoseconds, Nanoseconds, Nanoseconds | None] | None = None
    for start, end, launched in rest:
        if waiting is not None:
            begin, until, earliest = waiting
            if start == until:
                # Of kernels that start together, the one launched first ended the wait.
                waiting = begin, until, _earlier(earliest, launched)
            else:
                yield begin, until, idle_cause(begin, until, earliest, adjacent)
                waiting = None
        if start > busy_until:
            waiting = busy_until, start, launched
        busy_until = max(busy_until, end)
    if waiting is not None:
        begin, until, earliest = waiting
        yield begin, until, idle_cause(begin, until, earliest, adjacent)


def _earlier(one: Nanoseconds | None, other: Nanoseconds | None) -> Nanoseconds | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)
