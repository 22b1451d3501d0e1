"""Kubernetes: pods by control group, names by log folders, devices by the pod-resources API."""

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rightsizer.host.device_files import MinorNumbers
from rightsizer.host.process_files import ProcessFiles
from rightsizer.io.grpc_client import GrpcCallError, unary_call
from rightsizer.io.protobuf_reader import ProtobufError, ProtobufFields
from rightsizer.model.snapshot import CollectorOutcome
from rightsizer.model.workload import Workload, WorkloadKind, owner_of_pod
from rightsizer.owners.background_fetcher import BackgroundFetcher
from rightsizer.owners.device_keys import MinorOf, dra_device_key, kubelet_device_key
from rightsizer.owners.owner import HEX_DIGIT, Allocations
from rightsizer.owners.settings import OwnerSettings

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


POD_RESOURCES_VERSIONS: Final = ("v1", "v1beta1", "v1alpha1")
"""Newest first; a kubelet before 1.20 has the last alone."""

_FIELDS_MAXIMUM: Final = 500_000
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9.-]{0,252}")

_POD_RESOURCES: Final = 1
_POD_NAME, _POD_NAMESPACE, _POD_CONTAINERS = 1, 2, 3
_CONTAINER_NAME, _CONTAINER_DEVICES, _CONTAINER_CLAIMS = 1, 2, 5
_DEVICE_IDS: Final = 2
_CLAIM_RESOURCES: Final = 4
_CLAIM_DRIVER, _CLAIM_DEVICE = 2, 4


@dataclass(frozen=True, slots=True)
class ClaimedDevice:
    """A device that a resource claim allocates."""

    driver: str
    device: str


@dataclass(frozen=True, slots=True)
class ContainerDevices:
    """A container of a pod, with all that it was given, in its giver's spelling."""

    namespace: str
    pod: str
    container: str
    devices: tuple[str, ...] = ()
    claimed: tuple[ClaimedDevice, ...] = ()


def list_pods(
    path: Path, *, timeout_seconds: float, maximum_bytes: int
) -> tuple[ContainerDevices, ...]:
    """Ask the kubelet, in the newest version that it knows.

    Raises:
        GrpcCallError: it gives no answer that can be read.
    """
    for version in POD_RESOURCES_VERSIONS:
        try:
            answer = unary_call(
                path,
                f"/{version}.PodResourcesLister/List",
                timeout_seconds=timeout_seconds,
                maximum_bytes=maximum_bytes,
            )
        except GrpcCallError as error:
            if error.is_unimplemented:
                continue
            raise
        return parse_pods(answer)
    raise GrpcCallError(
        f"{path} knows no version of the pod-resources interface; is it the kubelet's?"
    )


def parse_pods(answer: bytes) -> tuple[ContainerDevices, ...]:
    """The containers of an answer to `List`; those that hold no device are left out.

    Raises:
        GrpcCallError: the answer is no such message.
    """
    try:
        containers = tuple(_containers(ProtobufFields(_FIELDS_MAXIMUM), memoryview(answer)))
    except ProtobufError as error:
        raise GrpcCallError(f"the kubelet's answer cannot be read: {error}") from None
    return tuple(found for found in containers if found.devices or found.claimed)


def _containers(fields: ProtobufFields, answer: memoryview) -> Iterator[ContainerDevices]:
    for pod in fields.messages(answer, _POD_RESOURCES):
        namespace, name = fields.text(pod, _POD_NAMESPACE), fields.text(pod, _POD_NAME)
        # Whatever these are, they end up as labels and keys.
        if not (_NAME.fullmatch(namespace) and _NAME.fullmatch(name)):
            continue
        for container in fields.messages(pod, _POD_CONTAINERS):
            yield ContainerDevices(
                namespace=namespace,
                pod=name,
                container=fields.text(container, _CONTAINER_NAME),
                devices=tuple(_device_ids(fields, container)),
                claimed=tuple(_claimed(fields, container)),
            )


def _device_ids(fields: ProtobufFields, container: memoryview) -> Iterator[str]:
    for devices in fields.messages(container, _CONTAINER_DEVICES):
        for device_id in fields.messages(devices, _DEVICE_IDS):
            yield str(device_id, "utf-8", "replace")


def _claimed(fields: ProtobufFields, container: memoryview) -> Iterator[ClaimedDevice]:
    for claim in fields.messages(container, _CONTAINER_CLAIMS):
        for resource in fields.messages(claim, _CLAIM_RESOURCES):
            driver, device = (
                fields.text(resource, _CLAIM_DRIVER),
                fields.text(resource, _CLAIM_DEVICE),
            )
            yield ClaimedDevice(driver, device)


_UUID: Final = f"{HEX_DIGIT}{{8}}(?:[-_]{HEX_DIGIT}{{4}}){{3}}[-_]{HEX_DIGIT}{{12}}"
# A mirror of a static pod goes by the hash of its manifest in place of a uuid.
_POD: Final = re.compile(rf"(?:^|[/-])pod({_UUID}|{HEX_DIGIT}{{32}})(?:\.slice)?(?=[/:]|$)")
_CONTAINER_ID: Final = re.compile(rf"(?<!{HEX_DIGIT}){HEX_DIGIT}{{64}}(?!{HEX_DIGIT})")


@dataclass(frozen=True, slots=True)
class PodGroup:
    """A container of a pod."""

    uid: str
    container: str
    """The container's id, empty where the path ends before it."""


def pod_in(paths: Sequence[str]) -> PodGroup | None:
    """The innermost pod: a node of kind is itself a container, and may be in a pod."""
    for path in paths:
        found = list(_POD.finditer(path))
        if found:
            # What a container starts inside of itself is still that container's.
            inside = _CONTAINER_ID.search(path, found[-1].end())
            return PodGroup(found[-1][1].replace("_", "-"), inside[0] if inside else "")
    return None


_PODS_MAXIMUM: Final = 1000
_SHORT_LENGTH: Final = 12
"""Of a container's identifier, as `crictl ps` shows them."""


class KubernetesCollector:
    """A process's pod is its control group's; whatever only the name tells needs the name.

    A pod whose name nobody tells goes by its uid, until the devices that it runs on say which
    of the kubelet's pods it must be.
    """

    def __init__(
        self, procfs: Path, settings: OwnerSettings, now: Callable[[], float] = time.monotonic
    ) -> None:
        """Asks and reads nothing yet."""
        self._files = ProcessFiles(procfs)
        self._minors = MinorNumbers(procfs)
        self._settings = settings
        self._socket = Path(settings.kubelet_socket)
        self._names = (
            PodNames(Path(settings.pod_log_folder), settings.floor_seconds, now)
            if settings.pod_log_folder
            else None
        )
        self._kubelet = (
            BackgroundFetcher("kubelet", self._ask, settings, is_there=self._socket.exists, now=now)
            if settings.kubelet_socket
            else None
        )
        self._seen: set[str] = set()

    def workload_of(self, pid: int) -> Workload | None:
        """The pod that a process runs in."""
        group = pod_in(self._files.groups(pid))
        if group is None:
            return None
        self._greet(group)
        name = self._names.of(group.uid, group.container) if self._names else None
        if name is not None:
            return workload_of_pod(name)
        return Workload(
            f"kubernetes:{group.uid}",
            WorkloadKind.KUBERNETES,
            group.uid,
            container=group.container[:_SHORT_LENGTH],
        )

    def allocations(self) -> Allocations:
        """The devices that the kubelet has given away."""
        found = self._kubelet.latest() if self._kubelet else None
        return found if found is not None else {}

    def outcomes(self) -> Mapping[str, CollectorOutcome]:
        """How the last call went; nothing where there is no kubelet."""
        return self._kubelet.outcomes() if self._kubelet else {}

    def close(self) -> None:
        """Let go of the thread that asks."""
        if self._kubelet:
            self._kubelet.close()

    def _greet(self, group: PodGroup) -> None:
        """A pod seen for the first time was probably given its devices just now."""
        if self._kubelet is None or group.uid in self._seen:
            return
        if len(self._seen) >= _PODS_MAXIMUM:
            self._seen.clear()  # Whoever is forgotten is greeted again, which costs one call.
        self._seen.add(group.uid)
        self._kubelet.refresh_soon()

    def _ask(self) -> Allocations:
        """On the kubelet's thread."""
        containers = list_pods(
            self._socket,
            timeout_seconds=self._settings.timeout_seconds,
            maximum_bytes=self._settings.answer_maximum_bytes,
        )
        return allocations_of(containers, self._minors.addresses().get)


def workload_of_pod(name: PodName) -> Workload:
    """A pod as a workload, by a key that its successor will have too."""
    owner = owner_of_pod(name.pod)
    return Workload(
        f"kubernetes:{name.namespace}/{owner.name}",
        WorkloadKind.KUBERNETES,
        owner.name,
        owner.workload_class,
        namespace=name.namespace,
        pod=name.pod,
        container=name.container,
    )


def allocations_of(containers: Iterable[ContainerDevices], minor_of: MinorOf) -> Allocations:
    """Who was given which device; several for a device that is shared by time-slicing."""
    found: dict[str, dict[Workload, None]] = {}
    for container in containers:
        workload = workload_of_pod(PodName(container.namespace, container.pod, container.container))
        keys = [kubelet_device_key(spelling, minor_of) for spelling in container.devices]
        keys += [dra_device_key(each.driver, each.device, minor_of) for each in container.claimed]
        for key in keys:
            if key is not None:
                found.setdefault(key, {})[workload] = None
    return {key: tuple(workloads) for key, workloads in found.items()}
