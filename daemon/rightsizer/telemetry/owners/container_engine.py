"""The names of containers, as Docker's interface tells them; Podman offers the same."""

import json
import re
import socket
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, Final

__all__ = ["EngineError", "container_names", "name_of"]

_OK: Final = 200
_ID: Final = re.compile(r"[0-9a-f]{64}")
_NAME_LENGTH: Final = 253
_COMPOSE: Final = (
    ("com.docker.compose.project", "com.docker.compose.service"),
    ("io.podman.compose.project", "io.podman.compose.service"),
)
_SWARM: Final = "com.docker.swarm.service.name"


class EngineError(Exception):
    """A container engine that gives no names, in words for an operator."""


def container_names(path: Path, *, timeout_seconds: float, maximum_bytes: int) -> Mapping[str, str]:
    """What the running containers are called, by identifier.

    Raises:
        EngineError: there is no answer that can be read.
    """
    connection = _UnixConnection(path, timeout_seconds)
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
    """What a container's successor will be called too: its service, or else its own name."""
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


class _UnixConnection(HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path, timeout_seconds: float) -> None:
        super().__init__("localhost", timeout=timeout_seconds)
        self._path = path
        self._timeout_seconds = timeout_seconds

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self._timeout_seconds)
        self.sock.connect(str(self._path))
