"""Which pod a uid or a container's id stands for, by the names of the kubelet's log files."""

import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["PodName", "PodNames"]

_CONTAINER_LOG: Final = re.compile(
    r"(?P<pod>[a-z0-9][a-z0-9.-]*)_(?P<namespace>[a-z0-9-]+)_(?P<container>[a-z0-9-]+)"
    r"-(?P<id>[0-9a-f]{64})\.log"
)
_POD_LOGS: Final = re.compile(
    r"(?P<namespace>[a-z0-9-]+)_(?P<pod>[a-z0-9][a-z0-9.-]*)_(?P<uid>[0-9a-f-]{32,36})"
)
_ENTRIES_MAXIMUM: Final = 10_000


@dataclass(frozen=True, slots=True)
class PodName:
    """What people call a pod, and its container where that is known."""

    namespace: str
    pod: str
    container: str = ""


class PodNames:
    """Lists `<folder>/containers` and `<folder>/pods` when it is asked for something new.

    The kubelet's interface does not tell uids, and the kernel tells nothing else; these names
    have both.
    """

    def __init__(
        self, folder: Path, floor_seconds: float, now: Callable[[], float] = time.monotonic
    ) -> None:
        """Lists the folders not more often than the floor."""
        self._folder = folder
        self._floor_seconds = floor_seconds
        self._now = now
        self._listed: float | None = None
        self._names: dict[str, PodName] = {}

    def of(self, uid: str, container: str) -> PodName | None:
        """The names of a container, or else of its pod."""
        if container not in self._names and self._is_due():
            self._list()
        return self._names.get(container) or self._names.get(uid)

    def _is_due(self) -> bool:
        return self._listed is None or self._now() - self._listed >= self._floor_seconds

    def _list(self) -> None:
        """Start afresh, so that what has ended is forgotten."""
        self._listed = self._now()
        names: dict[str, PodName] = {}
        for name in _entries(self._folder / "pods"):
            if found := _POD_LOGS.fullmatch(name):
                names[found["uid"]] = PodName(found["namespace"], found["pod"])
        for name in _entries(self._folder / "containers"):
            if found := _CONTAINER_LOG.fullmatch(name):
                names[found["id"]] = PodName(found["namespace"], found["pod"], found["container"])
        self._names = names


def _entries(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry, _ in zip(entries, range(_ENTRIES_MAXIMUM), strict=False)]
    except OSError:
        return []
