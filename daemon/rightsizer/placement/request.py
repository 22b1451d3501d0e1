"""What somebody wants GPUs for, and how many."""

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Interconnect", "Request"]


class Interconnect(StrEnum):
    """How GPUs of one piece of work must be joined."""

    ANY = "any"
    NVLINK = "nvlink"
    """Each to each other one, directly or through a switch."""


@dataclass(frozen=True, slots=True)
class Request:
    """So many seats, each with so much memory."""

    gpus: int = 1
    memory_bytes: float | None = None
    """Needed on each seat; `None`: all of it, for the work alone."""
    may_share: bool = False
    """Whether other work may be on the same seats, where memory and measured needs of all fit."""
    interconnect: Interconnect = Interconnect.ANY
    mig_profile: str | None = None
    """A MIG instance of this profile (`1g.10gb`); `None`: whole GPUs, or where only instances are
    left and one seat is asked for, an instance that fits."""
