"""Docker, containerd and Podman: containers by control group, names from the engine API."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from rightsizer.host.trusted_groups import TrustedGroup, why_not_of_root
from rightsizer.io.document import DocumentLimits, DocumentReading, check_json
from rightsizer.model.values import DocumentError, Workload, WorkloadKind
from rightsizer.owners.background_fetcher import BackgroundFetcher
from rightsizer.owners.collector import NodeCollector, OwnerHost
from rightsizer.owners.owner import HEX_DIGIT, Owner

_OK: Final = 200
_ID: Final = re.compile(r"[0-9a-f]{64}")
_NAME_LENGTH: Final = 253
_VALUES_MAXIMUM: Final = 500_000
"""Source: assumed: a thousand containers, with hundreds of labels, mounts and ports each."""
_COMPOSE: Final = (
    ("com.docker.compose.project", "com.docker.compose.service"),
    ("io.podman.compose.project", "io.podman.compose.service"),
)
_SWARM: Final = "com.docker.swarm.service.name"


_LABELED: Final = "labels of its container name it, which whoever starts a container chooses"


class ContainerName(NamedTuple):
    """Name of a container, and why it proves nothing; empty if the engine gave it to this one."""

    text: str
    unproven: str = ""


class EngineError(Exception):
    """Container engine that returns no names, with a message for operators."""


def container_names(
    path: Path, *, timeout_seconds: float, maximum_bytes: int
) -> Mapping[str, ContainerName]:
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
    try:
        limits = DocumentLimits(maximum_bytes, _VALUES_MAXIMUM, "values")
        check_json(body, DocumentReading(f"the answer of {path}", limits))
    except DocumentError as error:
        raise EngineError(str(error)) from None
    try:
        containers = json.loads(body)
    except (ValueError, RecursionError):
        containers = None
    if not isinstance(containers, list):
        raise EngineError(f"{path} answered with something that is no list of containers")
    entries = (container for container in containers if isinstance(container, dict))
    named = ((entry.get("Id"), name_of(entry)) for entry in entries)
    return {
        id_: name
        for id_, name in named
        if isinstance(id_, str) and _ID.fullmatch(id_) and name.text
    }


def name_of(container: Mapping[str, Any]) -> ContainerName:
    """Name that a container's successor will have too: its service, or else its own."""
    labels = container.get("Labels")
    labels = labels if isinstance(labels, dict) else {}
    for project, service in _COMPOSE:
        if _is_name(labels.get(project)) and _is_name(labels.get(service)):
            return ContainerName(f"{labels[project]}/{labels[service]}", _LABELED)
    if _is_name(labels.get(_SWARM)):
        return ContainerName(str(labels[_SWARM]), _LABELED)
    names = container.get("Names")
    first = names[0] if isinstance(names, list) and names else ""
    name = first.removeprefix("/") if isinstance(first, str) else ""
    return ContainerName(name if _is_name(name) else "")


def _is_name(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _NAME_LENGTH and value.isprintable()


_CONTAINER: Final = re.compile(
    rf"(?:^|/)(?:(?P<engine>[a-z][a-z-]*)-)?(?P<id>{HEX_DIGIT}{{64}})(?:\.scope)?(?=/|$)"
)
_NO_CONTAINERS: Final = ("conmon", "libpod_parent", "libpod-payload")
"""Of Podman: monitors of containers, folder of its pods without systemd, and what a unit runs as
a container (Quadlet), whose name and commands are the unit's."""


class FoundContainer(NamedTuple):
    """Container of a process."""

    id: str
    unproven: str = ""
    user: str = ""
    """Group of the user whose engine it is of, such as `user@1000.service`; empty for root's."""


def container_in(groups: Sequence[TrustedGroup]) -> FoundContainer | None:
    """Outermost container, whose name the engine of the host or of a user knows."""
    for group in groups:
        above = ""
        for part in group.parts:
            if (id_ := _container_id(part.path)) is not None:
                return FoundContainer(id_, part.unproven, above if part.is_of_user else "")
            above = part.path.rpartition("/")[2]
    return None


def _container_id(path: str) -> str | None:
    for match in _CONTAINER.finditer(path):
        folder = path[: match.start()].rpartition("/")[2]
        if not (match["engine"] or folder).endswith(_NO_CONTAINERS):
            return match["id"]
    return None


_SHORT_LENGTH: Final = 12
"""Length shown by `docker ps`."""


class ContainerOwner(Owner):
    """Owner of containers, with commands of Docker."""

    kinds = (WorkloadKind.CONTAINER,)
    texts = "container"


class ContainerCollector(NodeCollector):
    """Names containers by their engine's name, or else by their short id.

    Of users' own engines, the names begin with the user's: a user chooses the ids too.
    """

    def __init__(self, host: OwnerHost) -> None:
        super().__init__(host)
        if host.settings.container_socket:
            self.fetcher = BackgroundFetcher(
                "container_engine", self._ask, host.settings, now=host.now
            )

    def generation(self) -> int:
        """Incremented when names changed, which invalidates former answers."""
        if self.fetcher is None:
            return 0
        self.fetcher.latest()
        return self.fetcher.generation

    def workload_of(self, pid: int) -> Workload | None:
        """Container that a process runs in."""
        container = container_in(self.host.groups.of(pid))
        if container is None:
            return None
        short = container.id[:_SHORT_LENGTH]
        if container.user:
            name = ContainerName(f"{container.user}/{short}")
        else:
            name = self._engine_name(container.id) or ContainerName(short)
        return Workload(
            f"container:{name.text}",
            WorkloadKind.CONTAINER,
            name.text,
            # A user may have chosen the id of a container of root.
            container="" if container.user else short,
            unproven=container.unproven or name.unproven,
        )

    def _engine_name(self, id_: str) -> ContainerName | None:
        if self.fetcher is None:
            return None
        names = self.fetcher.latest()
        name = names.get(id_) if names else None
        if name is None:
            self.fetcher.refresh_soon()
        return name

    def _ask(self) -> Mapping[str, ContainerName]:
        socket = Path(self.host.settings.container_socket)
        names = container_names(
            socket,
            timeout_seconds=self.host.settings.timeout_seconds,
            maximum_bytes=self.host.settings.answer_maximum_bytes,
        )
        why = why_not_of_root(socket.parent, self.host.groups.writer_of)
        return {id_: ContainerName(name.text, name.unproven or why) for id_, name in names.items()}
