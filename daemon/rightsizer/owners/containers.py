"""Docker, containerd and Podman: containers by control group, names from the engine API."""

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rightsizer.host.process_table import ProcessTable
from rightsizer.model.workload import Workload, WorkloadKind
from rightsizer.owners.background_fetcher import BackgroundFetcher
from rightsizer.owners.collector import NodeCollector
from rightsizer.owners.owner import HEX_DIGIT, Instructions, NumaHome, Owner, shell
from rightsizer.owners.settings import OwnerSettings

_OK: Final = 200
_ID: Final = re.compile(r"[0-9a-f]{64}")
_NAME_LENGTH: Final = 253
_COMPOSE: Final = (
    ("com.docker.compose.project", "com.docker.compose.service"),
    ("io.podman.compose.project", "io.podman.compose.service"),
)
_SWARM: Final = "com.docker.swarm.service.name"


class EngineError(Exception):
    """Container engine that returns no names, with a message for operators."""


def container_names(path: Path, *, timeout_seconds: float, maximum_bytes: int) -> Mapping[str, str]:
    """Names of the running containers by id; raises `EngineError`."""
    from http.client import HTTPException  # noqa: PLC0415 - most nodes have no such socket.

    from rightsizer.io.http_connection import UnixConnection  # noqa: PLC0415 - as above.

    connection = UnixConnection(path, timeout_seconds)
    try:
        connection.request("GET", "/containers/json")
        answer = connection.getresponse()
        body = answer.read(maximum_bytes + 1)
    except TimeoutError:
        raise EngineError(f"{path} did not answer within {timeout_seconds:g} s") from None
    except OSError as error:
        raise EngineError(f"{path} cannot be reached: {error.strerror or error}") from None
    except HTTPException as error:
        raise EngineError(f"{path} does not speak HTTP: {error!r}") from None
    finally:
        connection.close()
    if answer.status != _OK:
        raise EngineError(f"{path} answered HTTP status {answer.status}; is it Docker's socket?")
    if len(body) > maximum_bytes:
        raise EngineError(f"{path} answered with more than {maximum_bytes} bytes")
    try:
        containers = json.loads(body)
    except (ValueError, RecursionError):
        containers = None
    if not isinstance(containers, list):
        raise EngineError(f"{path} answered with something that is no list of containers")
    found = (each for each in containers if isinstance(each, dict))
    named = ((each.get("Id"), name_of(each)) for each in found)
    return {
        id_: name for id_, name in named if isinstance(id_, str) and _ID.fullmatch(id_) and name
    }


def name_of(container: Mapping[str, Any]) -> str:
    """Name that a container's successor will have too: its service, or else its own."""
    labels = container.get("Labels")
    labels = labels if isinstance(labels, dict) else {}
    for project, service in _COMPOSE:
        if _is_name(labels.get(project)) and _is_name(labels.get(service)):
            return f"{labels[project]}/{labels[service]}"
    if _is_name(labels.get(_SWARM)):
        return str(labels[_SWARM])
    names = container.get("Names")
    first = names[0] if isinstance(names, list) and names else ""
    name = first.removeprefix("/") if isinstance(first, str) else ""
    return name if _is_name(name) else ""


def _is_name(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _NAME_LENGTH and value.isprintable()


_CONTAINER: Final = re.compile(
    rf"(?:^|/)(?:(?P<engine>[a-z][a-z-]*)-)?(?P<id>{HEX_DIGIT}{{64}})(?:\.scope)?(?=/|$)"
)
_NO_CONTAINERS: Final = ("conmon", "libpod_parent", "libpod-payload")
"""Of Podman: monitors of containers, folder of its pods without systemd, and what a unit runs as
a container (Quadlet), whose name and commands are the unit's."""


def container_in(paths: Sequence[str]) -> str | None:
    """Id of the outermost container, whose name the host's engine knows."""
    for path in paths:
        for found in _CONTAINER.finditer(path):
            folder = path[: found.start()].rpartition("/")[2]
            if not (found["engine"] or folder).endswith(_NO_CONTAINERS):
                return found["id"]
    return None


_SHORT_LENGTH: Final = 12
"""Length shown by `docker ps`."""


class ContainerOwner(Owner):
    """Owner of containers, with commands of Docker."""

    kinds = (WorkloadKind.CONTAINER,)
    texts = "container"

    def bind(self, homes: Sequence[NumaHome]) -> Instructions:
        """Flags for the next start, for each GPU with known CPUs."""
        return tuple(
            instruction
            for home in homes
            if home.cpus
            for instruction in shell(
                f"Containers: bind the one that feeds {home.device.title}",
                f"docker run --cpuset-cpus={home.cpus} --cpuset-mems={home.numa_node} ...",
            )
        )


class ContainerCollector(NodeCollector):
    """Names containers by their engine's name, or else by their short id."""

    def __init__(
        self, procfs: Path, settings: OwnerSettings, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._processes = ProcessTable(procfs)
        self._settings = settings
        if settings.container_socket:
            self.fetcher = BackgroundFetcher("container_engine", self._ask, settings, now=now)

    def generation(self) -> int:
        """Incremented when names changed, which invalidates former answers."""
        if self.fetcher is None:
            return 0
        self.fetcher.latest()
        return self.fetcher.generation

    def workload_of(self, pid: int) -> Workload | None:
        """Container that a process runs in."""
        container = container_in(self._processes.groups(pid))
        if container is None:
            return None
        short = container[:_SHORT_LENGTH]
        names = self.fetcher.latest() if self.fetcher else None
        name = names.get(container, "") if names else ""
        if not name and self.fetcher:
            self.fetcher.refresh_soon()
        name = name or short
        return Workload(f"container:{name}", WorkloadKind.CONTAINER, name, container=short)

    def _ask(self) -> Mapping[str, str]:
        return container_names(
            Path(self._settings.container_socket),
            timeout_seconds=self._settings.timeout_seconds,
            maximum_bytes=self._settings.answer_maximum_bytes,
        )
