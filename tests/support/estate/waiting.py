"""Submitted work that waits for GPUs of the fleet."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from estate.layout import LARGE, SMALL, WEST, Owner

__all__ = ["PENDING", "QUEUED", "Pending"]


class Pending(Struct, frozen=True):
    """Unscheduled pods of one owner."""

    name: str
    namespace: str
    pods: int
    gpus_each: int
    minutes: int
    """Waiting time."""
    owner: Owner = Owner.JOB
    pool: str = ""
    """Their node selector's pool; empty without one."""

    @property
    def key(self) -> str:
        """The workload's key."""
        return f"kubernetes:{self.namespace}/{self.name}"


_ALIKE: Final = (
    Pending("assemble", "assembly", 1, 4, 60 * 60, pool="burst"),
    Pending("summarize", "production", 1, 1, 20, Owner.DEPLOYMENT),
    Pending("try-out", "newcomers", 1, 1, 10),
    Pending("colossus", "moonshots", 1, 16, 5),
)

PENDING: Final[Mapping[str, tuple[Pending, ...]]] = {
    WEST.name: (Pending("summarize", "production", 1, 1, 20, Owner.DEPLOYMENT),),
    SMALL.name: (
        *_ALIKE,
        Pending("big-finetune", "research", 1, 2, 48 * 60),
        Pending("label-images", "vision", 1, 1, 30),
    ),
    LARGE.name: (
        *_ALIKE,
        Pending("big-finetune", "research", 1, 4, 48 * 60),
        Pending("label-images", "vision", 4, 1, 30),
    ),
}
"""By the fleet's name; `big-finetune` needs all free GPUs of its pool, on one node."""
QUEUED: Final[Mapping[str, Mapping[str, int]]] = {"train": {"ada": 1, "lin": 2}}
"""Waiting jobs by partition and user: Slurm's exporters have no more data on them."""
