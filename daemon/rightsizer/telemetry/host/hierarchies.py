"""From `/proc/PID/cgroup` to folders: version 2, version 1, and both side by side."""

from collections.abc import Mapping
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Final

from rightsizer.telemetry.host.control_group import ControlGroup, Seat
from rightsizer.telemetry.host.namespace_root import namespace_root, seen_from
from rightsizer.telemetry.host.text import names_in

__all__ = ["Hierarchies"]

_UNIFIED: Final = ""
"""The name of version 2 among the controllers."""


class Hierarchies:
    """The control group hierarchies below one folder, `/sys/fs/cgroup` on a live host."""

    def __init__(self, top: str, own: str = "/sys/fs/cgroup") -> None:
        """Looks at the folder's layout with the first process.

        Args:
            top: The folder.
            own: Where our own namespace shows its root; the same unless we are in a container.
        """
        self._top, self._own = top, own
        # Many processes share a group, and a group's processes all say the same.
        self.seat = lru_cache(maxsize=1024)(self._seat)

    def _seat(self, text: str) -> Seat:
        """Where the process sits that has this text in its `cgroup`."""
        paths = self._paths(text)
        unified = self._unified(paths)

        def group(controller: str) -> ControlGroup | None:
            if controller not in paths:
                return unified
            return self._group(self._mount(controller, paths), paths[controller], is_unified=False)

        cpu_time = group("cpuacct")
        return Seat(
            # Version 2 counts CPU time even where version 1 has the controller.
            cpu_time=cpu_time or unified,
            cpu_quota=group("cpu"),
            cpu_set=group("cpuset"),
            io=group("blkio"),
            memory=group("memory"),
            pressure=unified,
        )

    def _unified(self, paths: Mapping[str, str]) -> ControlGroup | None:
        """The group of version 2, unless one of version 1 tells more finely who the process is."""
        path = paths.get(_UNIFIED, "")
        inside = f"{path}/"
        if not all(inside.startswith(f"{other}/") for other in paths.values() if other):
            return None
        beside = f"{self._top}/unified"
        return self._group(
            beside if Path(beside).is_dir() else self._top, path or None, is_unified=True
        )

    def _mount(self, controller: str, paths: Mapping[str, str]) -> str:
        alone = f"{self._top}/{controller}"
        if Path(alone).is_dir():
            return alone
        # Controllers that are mounted together without a link for each: `cpu,cpuacct`.
        joined = next(
            (
                name
                for name in names_in(self._top)
                if controller in name.split(",") and set(name.split(",")) <= paths.keys()
            ),
            controller,
        )
        return f"{self._top}/{joined}"

    @staticmethod
    def _group(top: str, path: str | None, *, is_unified: bool) -> ControlGroup | None:
        return ControlGroup(top, path, is_unified) if path else None

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
        """Where version 2's paths begin that are told to us; a pod's begin at its container."""
        return namespace_root(self._top, self._own)
