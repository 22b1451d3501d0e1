"""One of NVML's numbered fields: how it is read, and where it is there."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from rightsizer.telemetry.simulated.feature import Feature
from rightsizer.telemetry.simulated.library.look import Look

__all__ = ["ALL_LINKS", "BoardField", "Kind", "LinkField"]

ALL_LINKS = 0xFFFFFFFF
"""The scope that means the sum over all links."""


class Kind(IntEnum):
    """NVML's types of values."""

    UNSIGNED_INT = 1
    UNSIGNED_LONG_LONG = 3
    SIGNED_INT = 5


@dataclass(frozen=True, slots=True)
class BoardField:
    """Of the GPU as a whole; the scope does not matter."""

    kind: Kind
    read: Callable[[Look], float]
    feature: Feature = Feature.MEMORY
    """Without it the field is not supported; every board has memory."""


@dataclass(frozen=True, slots=True)
class LinkField:
    """Of one NVLink, which the scope names."""

    kind: Kind
    read: Callable[[Look, int], float]
    feature: Feature = Feature.NVLINK
    total: Callable[[Look], float] | None = None
    """Over all links; `None` where that means nothing."""
    link: int | None = None
    """The link, where the field itself names it and the scope does not matter."""
    needs_link_up: bool = True
    """Whether it is not supported on a board whose links lead nowhere."""
