"""Checks of the agent's peers: kubelet, container engine, dcgm-exporter, Grafana."""

from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final

from rightsizer.agent.doctor.check import Check, CheckContext, Verdict, connect_error, failed_check
from rightsizer.io.grpc_client import GrpcCallError
from rightsizer.io.http import HttpClient
from rightsizer.io.http_result import Failure, FailureKind
from rightsizer.notify.grafana.settings import read_token
from rightsizer.owners.pod_resources import list_pods

_UNAUTHORIZED: Final = (401, 403)
_NOTHING_ASKED: Final = (
    *(("from", "0"), ("to", "1"), ("tags", "rightsizer"), ("type", "annotation"), ("limit", "1")),
)
"""A search that matches nothing, but needs the permission to search."""


def check_kubelet(place: CheckContext) -> Check:
    """Whether the kubelet reports which pod has which GPU."""
    name, settings = "kubelet", place.settings.sources.owners
    path = Path(settings.kubelet_socket)
    if not settings.kubelet_socket or "kubernetes" not in settings.sources:
        return Check(name, Verdict.UNUSED, "switched off")
    try:
        path.stat()
    except PermissionError:
        return failed_check(name, Verdict.LIMITED, "closed", f"{path} is closed to this user")
    except OSError:
        return Check(name, Verdict.UNUSED, f"there is no {path}")
    try:
        most, timeout = settings.answer_maximum_bytes, settings.timeout_seconds
        pods = list_pods(path, timeout_seconds=timeout, maximum_bytes=most)
    except GrpcCallError as error:
        return failed_check(name, Verdict.LIMITED, "closed", str(error))
    return Check(name, Verdict.OK, f"containers with devices: {len(pods)}")


def check_container_engine(place: CheckContext) -> Check:
    """Whether Docker or Podman reports the names of containers."""
    name, path = "container engine", place.settings.sources.owners.container_socket
    if not path:
        return Check(name, Verdict.UNUSED, "sources.owners.container_socket is not set")
    if (error := connect_error(path)) is not None:
        return failed_check(name, Verdict.LIMITED, "closed", f"{path}: {error.strerror or error}")
    return Check(name, Verdict.OK, f"{path} answers")


def check_dcgm(place: CheckContext) -> Check:
    """Whether the configured dcgm-exporter answers."""
    name, settings = "dcgm-exporter", place.settings.sources.dcgm
    if not settings.url:
        return Check(name, Verdict.UNUSED, "sources.dcgm.url is not set")
    client = HttpClient(settings.address, settings.http, accept="text/plain", token=settings.token)
    with closing(client):
        answer = client.request("GET", "")
    if isinstance(answer, Failure):
        return failed_check(name, Verdict.MISSING, "away", answer.message)
    return Check(name, Verdict.OK, f"{settings.address} answers")


def check_grafana(place: CheckContext) -> Check:
    """Whether Grafana answers and accepts the token."""
    name, settings = "Grafana", place.settings.grafana
    if not settings.url:
        return Check(name, Verdict.UNUSED, "grafana.url is not set")
    token = partial(read_token, settings, place.environ)
    with closing(HttpClient(settings.url, settings.http, token=token)) as client:
        answer = client.request("GET", "/api/annotations", query=_NOTHING_ASKED)
    if not isinstance(answer, Failure):
        return Check(name, Verdict.OK, f"{client.base_url} answers, and takes the token")
    if answer.status in _UNAUTHORIZED or answer.kind is FailureKind.CREDENTIAL:
        return failed_check(name, Verdict.LIMITED, "refused", answer.message)
    return failed_check(name, Verdict.MISSING, "away", answer.message)
