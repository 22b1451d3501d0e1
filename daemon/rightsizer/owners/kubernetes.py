"""Kubernetes: pods by control group, names by log folders, devices by the pod-resources API."""

import os
import re
import shlex
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from rightsizer.host.device_files import gpu_addresses
from rightsizer.host.trusted_groups import (
    TrustedGroup,
    WriterOf,
    other_writer,
    why_not_of_root,
)
from rightsizer.model.values import Workload, WorkloadKind, workload_of_pod
from rightsizer.owners.background_fetcher import BackgroundFetcher
from rightsizer.owners.collector import OwnerHost, SchedulerCollector
from rightsizer.owners.device_keys import MinorOf, dra_device_key, kubelet_device_key
from rightsizer.owners.owner import HEX_DIGIT, Instructions, Owner, Scheduler, manifest
from rightsizer.owners.pod_controllers import controller_of, release, scaled_object_of
from rightsizer.owners.pod_resources import ContainerDevices, list_pods
from rightsizer.owners.workload_limits import Allocations, LimitedAllocations, limited_allocations

_CONTAINER_LOG: Final = re.compile(
    r"(?P<pod>[a-z0-9][a-z0-9.-]*)_(?P<namespace>[a-z0-9-]+)_(?P<container>[a-z0-9-]+)"
    r"-(?P<id>[0-9a-f]{64})\.log"
)
_POD_LOGS: Final = re.compile(
    r"(?P<namespace>[a-z0-9-]+)_(?P<pod>[a-z0-9][a-z0-9.-]*)_(?P<uid>[0-9a-f-]{32,36})"
)
_ENTRIES_MAXIMUM: Final = 10_000


class PodNames:
    """Lists `<folder>/containers` and `<folder>/pods` when asked for an unknown id.

    The kubelet's API does not report uids, and the kernel reports nothing else; these file names
    contain both.
    """

    def __init__(
        self,
        folder: Path,
        floor_seconds: float,
        now: Callable[[], float] = time.monotonic,
        writer_of: WriterOf = other_writer,
    ) -> None:
        self._folder = folder
        self._floor_seconds = floor_seconds
        self._now = now
        self._writer_of = writer_of
        self._listed: float | None = None
        self._names: dict[str, Workload] = {}

    def of(self, uid: str, container: str) -> Workload | None:
        """Workload of a container, or else of its pod."""
        is_due = self._listed is None or self._now() - self._listed >= self._floor_seconds
        if container not in self._names and is_due:
            self._list()
        return self._names.get(container) or self._names.get(uid)

    def _list(self) -> None:
        self._listed = self._now()
        names: dict[str, Workload] = {}
        pods = self._folder / "pods"
        why = why_not_of_root(pods, self._writer_of)
        for name in _entries(pods):
            if match := _POD_LOGS.fullmatch(name):
                names[match["uid"]] = workload_of_pod(
                    match["namespace"], match["pod"], unproven=why
                )
        containers = self._folder / "containers"
        why = why_not_of_root(containers, self._writer_of)
        for name in _entries(containers):
            if match := _CONTAINER_LOG.fullmatch(name):
                names[match["id"]] = workload_of_pod(
                    match["namespace"], match["pod"], match["container"], why
                )
        self._names = names


def _entries(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry, _ in zip(entries, range(_ENTRIES_MAXIMUM), strict=False)]
    except OSError:
        return []


_UUID: Final = f"{HEX_DIGIT}{{8}}(?:[-_]{HEX_DIGIT}{{4}}){{3}}[-_]{HEX_DIGIT}{{12}}"
# The mirror of a static pod has the hash of its manifest instead of a uuid.
_POD: Final = re.compile(rf"(?:^|[/-])pod({_UUID}|{HEX_DIGIT}{{32}})(?:\.slice)?(?=[/:]|$)")
_CONTAINER_ID: Final = re.compile(rf"(?<!{HEX_DIGIT}){HEX_DIGIT}{{64}}(?!{HEX_DIGIT})")


_TREE: Final = re.compile(r"(?:/\.\.)+/|[^/]*(?:/[^/]+)*?/(?:[^/]+-)?kubepods[./-]")
"""Of the kubelet, below its `--cgroup-root` if it has one; or a part seen from a namespace."""


def pod_in(groups: Sequence[TrustedGroup]) -> tuple[str, str, str] | None:
    """Uid, container id (or empty) and doubts of the innermost pod.

    A kind node may run in a pod.
    """
    for group in groups:
        for part in reversed(group.containment):
            tree = _TREE.match(part.path)
            # The slash, point or dash before a pod's name is the last character of the tree's.
            match = _POD.search(part.path, tree.end() - 1) if tree else None
            if match is not None:
                inside = _CONTAINER_ID.search(part.path, match.end())
                uid = match[1].replace("_", "-")
                return uid, inside[0] if inside else "", part.unproven
    return None


_QUEUE_SPEC: Final = """\
minReplicaCount: 1
triggers:
  - type: prometheus
    metadata:
      serverAddress: http://prometheus:9090
      query: sum(vllm:num_requests_waiting{where})
      threshold: "4"
      ignoreNullValues: "false"
"""
"""KEDA's own default minimum is 0, which it applies as soon as no request waits."""


class _ReplicaOwner(Owner):
    """Owner of services with replicas."""

    def scale_by_queue(self, workload: Workload) -> Instructions:
        """ScaledObject of KEDA."""
        where = f'{{namespace="{workload.namespace}"}}' if workload.namespace else ""
        spec = _QUEUE_SPEC.format(where=where).splitlines()
        notes = ("Put the address of your Prometheus into serverAddress.",)
        target = self.scale_target(workload)
        text = _scaled_object(workload, spec, notes, target)
        return manifest("Scale by the requests that wait", text) if target else ()

    def scale_target(self, workload: Workload) -> tuple[str, ...]:
        """Lines that refer to what has replicas; empty if nothing is known to have any."""
        return "kind: Deployment", f"name: {workload.name}"


class KubernetesOwner(_ReplicaOwner, Scheduler):
    """Owner of pods, with commands of kubectl and fragments of manifests and cluster settings."""

    kinds = (WorkloadKind.KUBERNETES,)
    texts = "kubernetes"
    has_pods = True

    def workload_by_key(self, key: str, kind: str, name: str) -> Workload:
        """Parse namespace and name of a workload."""
        namespace, slash, rest = name.partition("/")
        if not slash:
            return Workload(key, kind, name)
        return Workload(key, kind, rest, namespace=namespace)

    def may_match(self, running: Workload, given: Workload) -> bool:
        """The kernel identifies a pod by uid, the kubelet by name."""
        return bool(given.pod) and not running.pod

    def release(self, workload: Workload) -> Instructions:
        """Change the object that would make the pods again."""
        return release(workload)

    def request_gpus(self, workload: Workload, count: int) -> Instructions:
        """Run fewer replicas of a service; else request fewer GPUs."""
        kind = controller_of(workload).kind
        return self._instructions("request_gpus", workload.workload_class, count=count, kind=kind)

    def add_replicas(self, workload: Workload, count: str) -> Instructions:
        """Scale the object that has replicas, if one makes the pods."""
        scaled = scaled_object_of(workload)
        if scaled is None:
            return ()
        controller, kind = scaled
        name = shlex.quote(f"{kind.resource}/{controller.name}")
        return self._instructions("add_replicas", workload=workload, count=count, object=name)

    def scale_by_hour(
        self, workload: Workload, spec: Sequence[str], notes: Sequence[str]
    ) -> Instructions:
        """ScaledObject of KEDA."""
        target = self.scale_target(workload)
        text = _scaled_object(workload, spec, notes, target)
        return manifest("Scale by the hour with KEDA", text) if target else ()

    def scale_target(self, workload: Workload) -> tuple[str, ...]:
        """Lines that refer to the object that makes the pods, if it has replicas."""
        if (scaled := scaled_object_of(workload)) is None:
            return ()
        controller, kind = scaled
        lines = f"kind: {controller.kind}", f"name: {controller.name}"
        is_usual = kind.api_version == "apps/v1"
        return lines if is_usual else (f"apiVersion: {kind.api_version}", *lines)


class SimulatedOwner(_ReplicaOwner):
    """Owner of simulated workloads, whose services have replicas like pods."""

    kinds = (WorkloadKind.SIMULATED,)


def _scaled_object(
    workload: Workload, spec: Sequence[str], notes: Sequence[str], target: Sequence[str]
) -> str:
    """KEDA manifest that scales an object."""
    lines = [f"# {note}" for note in notes]
    lines += ["apiVersion: keda.sh/v1alpha1", "kind: ScaledObject", "metadata:"]
    lines.append(f"  name: {workload.name}")
    if workload.namespace:
        lines.append(f"  namespace: {workload.namespace}")
    lines += ["spec:", "  scaleTargetRef:"]
    lines += [f"    {line}" for line in target]
    lines += [f"  {line}" for line in spec]
    return "\n".join(lines) + "\n"


_PODS_MAXIMUM: Final = 1000
_SHORT_LENGTH: Final = 12
"""Length of a container id as shown by `crictl ps`."""


class KubernetesCollector(SchedulerCollector):
    """Finds a process's pod by its control group, and owner and class by the pod's name.

    A pod without a known name is identified by uid, until its devices determine which of the
    kubelet's pods it must be.
    """

    def __init__(self, host: OwnerHost) -> None:
        super().__init__(host)
        settings = host.settings
        self._socket = Path(settings.kubelet_socket)
        logs = settings.pod_log_folder
        self._names = (
            PodNames(Path(logs), settings.floor_seconds, host.now, host.groups.writer_of)
            if logs
            else None
        )
        if settings.kubelet_socket:
            self.fetcher = BackgroundFetcher(
                "kubelet", self._ask, settings, is_there=self._socket.exists, now=host.now
            )
        self._seen: set[str] = set()

    def workload_of(self, pid: int) -> Workload | None:
        """Pod that a process runs in."""
        pod = pod_in(self.host.groups.of(pid))
        if pod is None:
            return None
        uid, container, unproven = pod
        if self.fetcher is not None and uid not in self._seen:
            # A new pod was probably just allocated its devices.
            if len(self._seen) >= _PODS_MAXIMUM:
                self._seen.clear()  # Each costs one extra query.
            self._seen.add(uid)
            self.fetcher.refresh_soon()
        named = self._names.of(uid, container) if self._names else None
        if named is not None:
            return replace(named, unproven=unproven or named.unproven)
        kind = WorkloadKind.KUBERNETES
        short = container[:_SHORT_LENGTH]
        return Workload(f"kubernetes:{uid}", kind, uid, container=short, unproven=unproven)

    def _ask(self) -> LimitedAllocations:
        containers = list_pods(
            self._socket,
            timeout_seconds=self.host.settings.timeout_seconds,
            maximum_bytes=self.host.settings.answer_maximum_bytes,
        )
        why = why_not_of_root(self._socket.parent, self.host.groups.writer_of)
        allocations = allocations_of(containers, gpu_addresses(self.host.procfs).get, why)
        return limited_allocations(allocations, self.host.settings.workloads_maximum)


def allocations_of(
    containers: Iterable[ContainerDevices], minor_of: MinorOf, unproven: str = ""
) -> Allocations:
    """Workloads by allocated device; several for a device shared by time-slicing."""
    workloads_by_key: dict[str, dict[Workload, None]] = {}
    for container in containers:
        workload = workload_of_pod(
            container.namespace, container.pod, container.container, unproven
        )
        keys = [kubelet_device_key(spelling, minor_of) for spelling in container.devices]
        keys += [dra_device_key(*claimed, minor_of) for claimed in container.claimed]
        for key in keys:
            if key is not None:
                workloads_by_key.setdefault(key, {})[workload] = None
    return {key: tuple(workloads) for key, workloads in workloads_by_key.items()}
