"""Checks of the agent's peers: kubelet, container engine, exporter, engines, Grafana."""

from contextlib import closing
from pathlib import Path
from typing import Final

from rightsizer.agent.doctor.check import Check, CheckContext, Verdict, failed_check
from rightsizer.catalogue.catalogue import built_in
from rightsizer.io.clock import SystemClock
from rightsizer.io.grpc_client import GrpcCallError
from rightsizer.io.http_result import Failure, FailureKind
from rightsizer.notify.grafana.client import http_client
from rightsizer.owners.containers import EngineError, container_names
from rightsizer.owners.pod_resources import list_pods
from rightsizer.owners.workload_limits import WorkloadNameLimiter
from rightsizer.telemetry.dcgm.enrichment import DcgmSecondarySource
from rightsizer.telemetry.serving.source import ServingEngineCollector

_UNAUTHORIZED: Final = (401, 403)
_NOTHING_ASKED: Final = (
    ("from", "0"),
    ("to", "1"),
    ("tags", "rightsizer"),
    ("type", "annotation"),
    ("limit", "1"),
)
"""A search that matches nothing, but needs the permission to search."""
_TIMEOUTS: Final = 2.0
"""To connect, and to answer."""


def check_kubelet(context: CheckContext) -> Check:
    """Whether the kubelet reports which pod has which GPU."""
    name = "kubelet"
    settings = context.settings.sources.owners
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
        maximum_bytes = settings.answer_maximum_bytes
        timeout = settings.timeout_seconds
        pods = list_pods(path, timeout_seconds=timeout, maximum_bytes=maximum_bytes)
    except GrpcCallError as error:
        return failed_check(name, Verdict.LIMITED, "closed", str(error))
    return Check(name, Verdict.OK, f"containers with devices: {len(pods)}")


def check_container_engine(context: CheckContext) -> Check:
    """Whether Docker or Podman reports the names of containers."""
    name = "container engine"
    path = context.settings.sources.owners.container_socket
    if not path:
        return Check(name, Verdict.UNUSED, "sources.owners.container_socket is not set")
    settings = context.settings.sources.owners
    timeout = settings.timeout_seconds
    maximum_bytes = settings.answer_maximum_bytes
    try:
        names = container_names(Path(path), timeout_seconds=timeout, maximum_bytes=maximum_bytes)
    except EngineError as error:
        return failed_check(name, Verdict.LIMITED, "closed", str(error))
    return Check(name, Verdict.OK, f"named containers: {len(names)}")


def check_dcgm(context: CheckContext) -> Check:
    """Whether the configured dcgm-exporter answers, and for this node."""
    name = "dcgm-exporter"
    settings = context.settings.sources.dcgm
    if not settings.url:
        return Check(name, Verdict.UNUSED, "sources.dcgm.url is not set")
    limiter = WorkloadNameLimiter.of(context.settings.sources.owners)
    source = DcgmSecondarySource(
        settings, built_in(), SystemClock(), sysfs=context.sysfs, name_limiter=limiter
    )
    with closing(source) as exporter:
        exporter.enrich(context.snapshot)  # It learns the node's GPUs before it asks.
        exporter.view(_TIMEOUTS * settings.timeout_seconds)
        outcome = exporter.enrich(context.snapshot).collectors[exporter.name]
    if not outcome.success:
        return failed_check(name, Verdict.MISSING, "away", outcome.failure or "it does not answer")
    if outcome.refusal is not None:
        return failed_check(name, Verdict.LIMITED, "foreign", outcome.refusal.reason)
    return Check(name, Verdict.OK, f"{settings.address} answers")


def check_serving(context: CheckContext) -> Check:
    """Whether the configured serving engines answer, and their GPUs are known."""
    name = "serving engines"
    settings = context.settings.sources.serving
    if not settings.endpoints:
        return Check(name, Verdict.UNUSED, "sources.serving.endpoints is empty")
    with closing(ServingEngineCollector(settings)) as engines:
        engines.latest()  # Ask all, before waiting for each.
        engines.latest(_TIMEOUTS * settings.timeout_seconds)
        engines.read(context.snapshot.devices, context.snapshot.holdings)
        outcomes = engines.outcomes()
    if failing := [
        f"{of}: {outcome.failure}" for of, outcome in outcomes.items() if not outcome.success
    ]:
        verdict = Verdict.LIMITED if len(failing) < len(outcomes) else Verdict.MISSING
        return failed_check(name, verdict, "away", "; ".join(failing))
    return Check(name, Verdict.OK, f"engines that answer: {len(outcomes)}")


def check_grafana(context: CheckContext) -> Check:
    """Whether Grafana answers and accepts the token."""
    name = "Grafana"
    settings = context.settings.grafana
    if not settings.url:
        return Check(name, Verdict.UNUSED, "grafana.url is not set")
    with closing(http_client(settings, context.environ)) as client:
        answer = client.request("GET", "/api/annotations", query=_NOTHING_ASKED)
    if not isinstance(answer, Failure):
        return Check(name, Verdict.OK, f"{client.base_url} answers, and takes the token")
    if answer.status in _UNAUTHORIZED or answer.kind is FailureKind.CREDENTIAL:
        return failed_check(name, Verdict.LIMITED, "refused", answer.message)
    return failed_check(name, Verdict.MISSING, "away", answer.message)
