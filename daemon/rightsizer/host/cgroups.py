"""Control groups of versions 1 and 2: hierarchies, namespaces, and the groups of a process."""

import os
import posixpath
from collections.abc import Iterable, Mapping
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Final

from rightsizer.host.files import read_names
from rightsizer.model.frozen import dataclass


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
class ControlGroupMembership:
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


def namespace_root(top: str, own: str) -> str:
    """The folder below `top` that is the root of our own namespace of control groups.

    A pod that is given the host's `/sys` has its own root at `/sys/fs/cgroup` still: one and the
    same folder, by another path.

    Returns:
        Its path from `top`, without a slash at its ends; empty where the two are one, or have
        nothing to do with each other.
    """
    try:
        whole, root = Path(top).stat(), Path(own).stat()
    except OSError:
        return ""
    if whole.st_dev != root.st_dev or whole.st_ino == root.st_ino:
        return ""
    waiting = [top]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if not entry.is_dir(follow_symlinks=False):
                        continue
                    if entry.inode() == root.st_ino:
                        return posixpath.relpath(entry.path, top)
                    waiting.append(entry.path)
        except OSError:
            continue  # It has ended meanwhile.
    return ""


def seen_from(root: str, path: str) -> str:
    """A path of `/proc/PID/cgroup`, given from a namespace's root, as it is from the host's."""
    return posixpath.normpath(f"/{root}/{path}").strip("/")


_UNIFIED: Final = ""
"""The name of version 2 among the controllers."""


class ControlGroupHierarchies:
    """The control group hierarchies below one folder, `/sys/fs/cgroup` on a live host."""

    def __init__(self, top: str, own: str = "/sys/fs/cgroup") -> None:
        self._top, self._own = top, own
        # Many processes share a group, and a group's processes all say the same.
        self.membership = lru_cache(maxsize=1024)(self._membership)

    def _membership(self, text: str) -> ControlGroupMembership:
        """The groups of a process that has this text in its `cgroup`."""
        paths = self._paths(text)
        unified = self._unified(paths)

        def group(controller: str) -> ControlGroup | None:
            if controller not in paths:
                return unified
            path = paths[controller]
            return (
                ControlGroup(self._mount(controller, paths), path, is_unified=False)
                if path
                else None
            )

        return ControlGroupMembership(
            # Version 2 counts CPU time even where version 1 has the controller.
            cpu_time=group("cpuacct") or unified,
            cpu_quota=group("cpu"),
            cpu_set=group("cpuset"),
            io=group("blkio"),
            memory=group("memory"),
            pressure=unified,
        )

    def _unified(self, paths: Mapping[str, str]) -> ControlGroup | None:
        """The group of version 2, unless one of version 1 is finer."""
        path = paths.get(_UNIFIED, "")
        inside = f"{path}/"
        if not all(inside.startswith(f"{other}/") for other in paths.values() if other):
            return None
        beside = f"{self._top}/unified"
        top = beside if Path(beside).is_dir() else self._top
        return ControlGroup(top, path, is_unified=True) if path else None

    def _mount(self, controller: str, paths: Mapping[str, str]) -> str:
        alone = f"{self._top}/{controller}"
        if Path(alone).is_dir():
            return alone
        # Controllers that are mounted together without a link for each: `cpu,cpuacct`.
        for name in read_names(self._top):
            joined = set(name.split(","))
            if controller in joined and joined <= paths.keys():
                return f"{self._top}/{name}"
        return alone

    def _paths(self, text: str) -> dict[str, str]:
        """Path by controller; empty for the root and for what cannot be seen from here."""
        paths: dict[str, str] = {}
        for line in text.splitlines():
            _, _, rest = line.partition(":")
            controllers, _, path = rest.partition(":")
            if controllers == _UNIFIED and self._root:
                path = seen_from(self._root, path)
            path = path.strip("/")
            if ".." in path.split("/"):
                path = ""
            for controller in controllers.split(","):
                paths[controller] = path
        return paths

    @cached_property
    def _root(self) -> str:
        """Where the paths of version 2 begin that we see; a pod's begin at its container."""
        return namespace_root(self._top, self._own)
