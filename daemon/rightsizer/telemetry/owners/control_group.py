"""What the path of a control group tells: pod, container, Slurm job, systemd unit."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

__all__ = [
    "ContainerGroup",
    "JobGroup",
    "PodGroup",
    "container_in",
    "job_in",
    "pod_in",
    "unit_in",
]

_HEX: Final = "[0-9a-f]"
_UUID: Final = f"{_HEX}{{8}}(?:[-_]{_HEX}{{4}}){{3}}[-_]{_HEX}{{12}}"
# A mirror of a static pod goes by the hash of its manifest in place of a uuid.
_POD: Final = re.compile(rf"(?:^|[/-])pod({_UUID}|{_HEX}{{32}})(?:\.slice)?(?=[/:]|$)")
_CONTAINER_ID: Final = re.compile(rf"(?<!{_HEX}){_HEX}{{64}}(?!{_HEX})")
_CONTAINER: Final = re.compile(
    rf"(?:^|/)(?:(?P<engine>[a-z][a-z-]*)-)?(?P<id>{_HEX}{{64}})(?:\.scope)?(?=/|$)"
)
_MONITOR: Final = "conmon"
_SLURM: Final = re.compile(
    r"/(?:slurm(?:_[^/]+)?/uid_\d+|(?:[^/]+_)?slurmstepd\.scope)"
    r"/job_(?P<job>\d{1,10})(?:/step_(?P<step>[^/]{1,64}))?(?=/|$)"
)
_UNIT: Final = re.compile(r"[^/]+\.(?:service|scope)")
# These hold whatever somebody logged in for, not one piece of work.
_LOGIN: Final = re.compile(r"(?:session-[^/]*\.scope|user@[^/]*\.service|init\.scope)")


@dataclass(frozen=True, slots=True)
class PodGroup:
    """A container of a pod."""

    uid: str
    container: str
    """The container's id, empty where the path ends before it."""


@dataclass(frozen=True, slots=True)
class ContainerGroup:
    """A container that is in no pod."""

    id: str
    engine: str
    """What the path says of who started it: `docker`, `libpod`; empty where it is silent."""


@dataclass(frozen=True, slots=True)
class JobGroup:
    """A step of a Slurm job."""

    job: str
    step: str
    """`0`, `batch`, `extern`; empty where the path ends before it."""


def pod_in(paths: Sequence[str]) -> PodGroup | None:
    """The innermost pod: a node of kind is itself a container, and may be in a pod."""
    for path in paths:
        found = list(_POD.finditer(path))
        if found:
            # What a container starts inside of itself is still that container's.
            inside = _CONTAINER_ID.search(path, found[-1].end())
            return PodGroup(found[-1][1].replace("_", "-"), inside[0] if inside else "")
    return None


def container_in(paths: Sequence[str]) -> ContainerGroup | None:
    """The outermost container, which the host's engine knows by name."""
    for path in paths:
        for found in _CONTAINER.finditer(path):
            engine = found["engine"] or _folder_before(path, found.start())
            if not engine.endswith(_MONITOR):
                return ContainerGroup(found["id"], engine)
    return None


def job_in(paths: Sequence[str]) -> JobGroup | None:
    """The Slurm job, with control groups of either version."""
    for path in paths:
        if found := _SLURM.search(path):
            return JobGroup(found["job"], found["step"] or "")
    return None


def unit_in(paths: Sequence[str]) -> str | None:
    """The innermost systemd unit that is not a mere login."""
    for path in paths:
        units: list[str] = _UNIT.findall(path)
        for unit in reversed(units):
            if not _LOGIN.fullmatch(unit):
                return unit
    return None


def _folder_before(path: str, end: int) -> str:
    return path[:end].rpartition("/")[2]
