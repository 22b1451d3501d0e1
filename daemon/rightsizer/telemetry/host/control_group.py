"""Control groups: one folder of one hierarchy, and where a process sits in all of them."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

__all__ = ["ControlGroup", "Seat", "outermost"]


@dataclass(frozen=True, slots=True)
class ControlGroup:
    """A control group that is not the root."""

    top: str
    """Where its hierarchy is mounted."""
    path: str
    """Below the top, as in `system.slice/vllm.service`."""
    is_unified: bool
    """Whether it is of version 2."""

    @property
    def folder(self) -> str:
        """Where its files are."""
        return f"{self.top}/{self.path}"

    @property
    def parent(self) -> "ControlGroup | None":
        """The group around it, `None` below the root."""
        path = self.path.rpartition("/")[0]
        return ControlGroup(self.top, path, self.is_unified) if path else None

    @property
    def depth(self) -> int:
        """How many groups are around it."""
        return self.path.count("/")

    @property
    def lineage(self) -> "tuple[ControlGroup, ...]":
        """The group itself, then those around it, from the inside out."""
        return _lineage(self)


@lru_cache(maxsize=4096)
def _lineage(group: ControlGroup) -> tuple[ControlGroup, ...]:
    return (group, *(_lineage(group.parent) if group.parent else ()))


@dataclass(frozen=True, slots=True)
class Seat:
    """The groups that account for a process; `None` where only the node as a whole does."""

    cpu_time: ControlGroup | None = None
    cpu_quota: ControlGroup | None = None
    cpu_set: ControlGroup | None = None
    io: ControlGroup | None = None
    memory: ControlGroup | None = None
    pressure: ControlGroup | None = None


def outermost(groups: Iterable[ControlGroup | None]) -> frozenset[ControlGroup]:
    """Each group once, without those inside of others: they are counted there."""
    found = {group for group in groups if group is not None}
    chosen: list[ControlGroup] = []
    # In this order, all that is inside of a group comes right behind it.
    for group in sorted(found, key=lambda group: f"{group.folder}/"):
        if not chosen or not f"{group.folder}/".startswith(f"{chosen[-1].folder}/"):
            chosen.append(group)
    return frozenset(chosen)
