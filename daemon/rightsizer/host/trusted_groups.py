"""Trusted part of a process' control groups: what the node's root named, and who named the rest.

Whoever may write a group's folder chooses the names in it. So a name proves something only if all
folders above it are root's alone. Below a group that was handed to somebody else (delegated), in a
user's slice, and inside a container, names are claims.
"""

import grp
import os
import posixpath
import re
import stat
import time
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from itertools import takewhile
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct

from rightsizer.host.cgroups import namespace_root, seen_from
from rightsizer.host.files import read_names
from rightsizer.host.process_table import ProcessTable

WriterOf: TypeAlias = Callable[[str], str | None]
"""Who else than root may write a file or folder, such as `user 1000`; empty for root alone, `None`
if unknown."""

SYSTEMD_HIERARCHIES: Final = ("", "name=systemd")
"""Unified hierarchy of version 2, and systemd's own of version 1."""
_UNIFIED: Final = ""
_ROOT: Final = 0
_HELD_SECONDS: Final = 30.0
"""How long the owners of groups are cached; as long as the owner of a process is by default."""
_USER_SLICE: Final = re.compile(r"user-\d+\.slice")
_USER_MANAGER: Final = re.compile(r"user@\d+\.service")
_CONTAINER_ID: Final = r"[0-9a-f]{64}"
_CONTAINER: Final = re.compile(
    rf"(?:[a-z][a-z-]*[-:])?{_CONTAINER_ID}(?:\.scope)?|lxc\.payload\.[^/]+|payload"
    rf"|[^/]*:[a-z-]+:{_CONTAINER_ID}"
)
"""Group of a container of an engine, of LXC or of systemd-nspawn."""
_ID_LENGTH: Final = 64
_SHORT_LENGTH: Final = 12
_PODMAN_PODS: Final = "libpod_parent"
_ABOVE: Final = ".."


def other_writer(path: str) -> str | None:
    """Who else than root may write a file or folder; empty for root alone, `None` if unseen."""
    try:
        status = os.stat(path)  # noqa: PTH116 - for every group of every owner.
    except OSError:
        return None
    if status.st_uid != _ROOT:
        return f"user {status.st_uid}"
    if status.st_mode & stat.S_IWOTH:
        return "everyone"
    if status.st_mode & stat.S_IWGRP and status.st_gid != _ROOT:
        return f"group {_group_name(status.st_gid)}"
    return ""


def _group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def why_not_of_root(path: Path, writer_of: WriterOf = other_writer) -> str:
    """Why the content of a folder proves nothing; empty if root alone may write it."""
    writer = writer_of(str(path))
    if writer is None:
        return f"{path} cannot be seen, so that nothing says who writes it"
    return f"{writer} may write {path}, which names it; let root alone write there" * bool(writer)


class GroupPart(NamedTuple):
    """Part of a control group's path whose names one party chose."""

    path: str
    """Groups from the root of the node, of the container or of the user's groups; each after `/`"""
    unproven: str = ""
    """Why its names prove nothing; empty if the node's root chose them."""
    is_of_user: bool = False
    """Whether somebody without root's rights chose its names."""


class TrustedGroup(Struct, frozen=True):
    """Control group of a process in one hierarchy, in parts from the outside in."""

    hierarchy: str
    parts: tuple[GroupPart, ...]

    @property
    def path(self) -> str:
        """Whole path."""
        return "".join(part.path for part in self.parts)

    @property
    def containment(self) -> tuple[GroupPart, ...]:
        """The node's part, and those inside of containers of root."""
        return tuple(takewhile(lambda part: not part.is_of_user, self.parts))

    @property
    def is_of_systemd(self) -> bool:
        """Whether its hierarchy has systemd's units."""
        return self.hierarchy in SYSTEMD_HIERARCHIES


_HIDDEN: Final = (
    "nothing shows who owns its control group: let the agent see the host's /sys (path.sysfs), "
    "outside of a user namespace"
)


def parts_of(path: str, writer_of: WriterOf) -> tuple[GroupPart, ...]:
    """Split a path from the node's root; `writer_of` takes the path of a group.

    Seen from a control group namespace, a path may begin with `..`: its upper part is hidden.
    """
    names = [name for name in path.split("/") if name]
    doubt = _HIDDEN if _ABOVE in names or writer_of("/") is None else ""
    parts: list[GroupPart] = []
    begun = 0
    # The last name rests on those above it.
    for place, name in enumerate(names[:-1]):
        following = place + 1
        whole = _joined(names[:following])
        writer = "" if doubt else writer_of(whole)
        if writer is None:
            doubt = _HIDDEN
        is_container = _is_container(names, place)
        if not writer and not is_container and not _is_of_user(names, place):
            continue
        parts.append(GroupPart(_joined(names[begun:following]), doubt))
        begun = following
        if not is_container or writer:
            why = f"{writer or 'a user'} may name what is in control group {whole}"
            return (*parts, GroupPart(_joined(names[begun:]), why, is_of_user=True))
        doubt = f"root of container {_short(name)} may name what is in it"
    return (*parts, GroupPart(_joined(names[begun:]), doubt))


def _joined(names: Sequence[str]) -> str:
    return "/" + "/".join(names)


def _is_of_user(names: Sequence[str], place: int) -> bool:
    """Whether a group is a user's manager, or another unit in a user's slice."""
    is_in_slice = place > 0 and _USER_SLICE.fullmatch(names[place - 1]) is not None
    return is_in_slice or _USER_MANAGER.fullmatch(names[place]) is not None


def _is_container(names: Sequence[str], place: int) -> bool:
    folder = names[place - 1] if place else ""
    # Podman's pods without systemd are folders of containers.
    is_pod = folder == _PODMAN_PODS and len(names[place]) == _ID_LENGTH
    return not is_pod and (folder == "lxc" or _CONTAINER.fullmatch(names[place]) is not None)


def _short(name: str) -> str:
    match = re.search(_CONTAINER_ID, name)
    return match[0][:_SHORT_LENGTH] if match else name


class TrustedGroupReader:
    """Reads and splits control groups of processes; by default of this host."""

    def __init__(
        self,
        procfs: Path,
        sysfs: Path = Path("/sys"),
        writer_of: WriterOf = other_writer,
        now: Callable[[], float] = time.monotonic,
        processes: ProcessTable | None = None,
    ) -> None:
        self._processes = processes or ProcessTable(procfs)
        self._top = str(sysfs / "fs/cgroup")
        self.writer_of = writer_of
        self._now = now
        # Many processes share a group; but a group may be handed to somebody else later.
        self._split = lru_cache(maxsize=1024)(self._split_until)

    def of(self, pid: int) -> tuple[TrustedGroup, ...]:
        """Groups of a process, those of systemd's hierarchies first; empty if it has ended."""
        text = self._processes.control_groups(pid)
        return self._split(text, int(self._now() // _HELD_SECONDS))

    def _split_until(self, text: str, period: int) -> tuple[TrustedGroup, ...]:
        del period
        groups = (self._group(line) for line in text.splitlines())
        return tuple(sorted(groups, key=lambda group: not group.is_of_systemd))

    def _group(self, line: str) -> TrustedGroup:
        """Split a line such as `4:memory:/slurm/uid_0/job_1`."""
        hierarchy, _, path = line.partition(":")[2].partition(":")
        if hierarchy == _UNIFIED and self._namespace_root:
            path = f"/{seen_from(self._namespace_root, path)}"
        folder = self._folder(hierarchy)
        return TrustedGroup(
            hierarchy, parts_of(path, lambda group: self._writer(folder, group.strip("/")))
        )

    def _writer(self, folder: str, group: str) -> str | None:
        if group:
            return self.writer_of(f"{folder}/{group}")
        writer = self.writer_of(folder)
        # If the hierarchy itself is not root's, a user namespace hides who owns what.
        return None if writer else writer

    @cached_property
    def _unified(self) -> str:
        beside = f"{self._top}/unified"
        return beside if Path(beside).is_dir() else self._top

    @cached_property
    def _namespace_root(self) -> str:
        """Path of the agent's own group from the node's root; empty without a namespace."""
        return namespace_root(self._unified, "/sys/fs/cgroup")

    def _folder(self, hierarchy: str) -> str:
        """Mount point of a hierarchy."""
        if hierarchy == _UNIFIED:
            return self._unified
        name = hierarchy.removeprefix("name=")
        if Path(alone := posixpath.join(self._top, name)).is_dir():
            return alone
        joined = set(name.split(","))
        mounts = (mount for mount in read_names(self._top) if joined == set(mount.split(",")))
        return posixpath.join(self._top, next(mounts, name))
