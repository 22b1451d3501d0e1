"""What becomes of two measured workloads that share one GPU."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from rightsizer.domain.errors import RequirementError
from rightsizer.sizing.estimate import Interval
from rightsizer.sizing.profile import Profile
from rightsizer.sizing.time_shares import TimeShares, split_time

__all__ = ["SharedPlacement", "Sharing", "share"]

_ERROR_FACTOR: Final = 1.25
"""Of the slowdown: that of the time-share roofline within a memory class; contention in caches is
in no signal, and was not measured."""


class Sharing(StrEnum):
    """How a GPU is shared without cutting it."""

    MPS = "mps"
    """Kernels of both run side by side."""
    TIME_SLICE = "time_slice"
    """Kernels of one at a time."""


@dataclass(frozen=True, slots=True)
class SharedPlacement:
    """A workload beside another one."""

    time_ratio: Interval
    """The time of its work, of that which it takes alone."""
    fits: bool | None
    """Whether the memory holds both; `None` where that is not known of both."""


def share(profile: Profile, other: Profile, sharing: Sharing) -> SharedPlacement:
    """A workload beside another one that is as active as it was measured, at moments of its own.

    Raises:
        RequirementError: they were not measured on the same place; project one of them first.
    """
    if profile.place != other.place:
        raise RequirementError(
            f"{profile.place.name} and {other.place.name}: shares add up on one place only; "
            "project one profile to the place of the other first"
        )
    own, beside = split_time(profile), split_time(other)
    stretched = _side_by_side(own, beside) if sharing is Sharing.MPS else _in_turn(own, beside)
    return SharedPlacement(
        time_ratio=Interval(
            stretched,
            # Never faster than alone, and never slower than behind all of the other's work.
            max(1.0, stretched / _ERROR_FACTOR),
            max(stretched, min(stretched * _ERROR_FACTOR, 1.0 + own.busy)),
        ),
        fits=_fits(profile, other),
    )


def _side_by_side(own: TimeShares, beside: TimeShares) -> float:
    """Parts are stretched where both want more of a resource than there is."""
    if own.busy <= 0.0 or beside.busy <= 0.0:
        return own.total
    total = own.host + own.latency
    for resource in ("compute", "vector", "memory_bandwidth", "pcie", "nvlink"):
        mine: float = getattr(own, resource)
        wanted = mine / own.busy + getattr(beside, resource) / beside.busy
        total += mine * (1.0 + beside.busy * max(0.0, wanted - 1.0))
    return total


def _in_turn(own: TimeShares, beside: TimeShares) -> float:
    """Whoever is busy waits as often as the other one is."""
    return own.host + own.busy * (1.0 + beside.busy)


def _fits(profile: Profile, other: Profile) -> bool | None:
    if profile.memory_bytes is None or other.memory_bytes is None:
        return None
    return profile.memory_bytes + other.memory_bytes <= profile.place.usable_bytes
