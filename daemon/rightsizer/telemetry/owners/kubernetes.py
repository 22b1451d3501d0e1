"""Workloads of a Kubernetes node: pods by control group, their names and devices by the kubelet."""

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from rightsizer.domain.pod_owner import owner_of_pod
from rightsizer.domain.snapshot import CollectorOutcome
from rightsizer.domain.workload import Workload, WorkloadKind
from rightsizer.telemetry.owners.asked import Asked
from rightsizer.telemetry.owners.control_group import PodGroup, pod_in
from rightsizer.telemetry.owners.device_key import MinorOf, dra_device_key, kubelet_device_key
from rightsizer.telemetry.owners.minors import Minors
from rightsizer.telemetry.owners.owner import Allocations
from rightsizer.telemetry.owners.pod_names import PodName, PodNames
from rightsizer.telemetry.owners.pod_resources import ContainerDevices, list_pods
from rightsizer.telemetry.owners.process_files import ProcessFiles
from rightsizer.telemetry.owners.settings import OwnerSettings

__all__ = ["KubernetesOwners", "allocations_of", "workload_of_pod"]

_PODS_MAXIMUM: Final = 1000
_SHORT_LENGTH: Final = 12
"""Of a container's identifier, as `crictl ps` shows them."""


class KubernetesOwners:
    """A process's pod is its control group's; whatever only the name tells needs the name.

    A pod whose name nobody tells goes by its uid, until the devices that it runs on say which
    of the kubelet's pods it must be.
    """

    def __init__(
        self, procfs: Path, settings: OwnerSettings, now: Callable[[], float] = time.monotonic
    ) -> None:
        """Asks and reads nothing yet."""
        self._files = ProcessFiles(procfs)
        self._minors = Minors(procfs)
        self._settings = settings
        self._socket = Path(settings.kubelet_socket)
        self._names = (
            PodNames(Path(settings.pod_log_folder), settings.floor_seconds, now)
            if settings.pod_log_folder
            else None
        )
        self._kubelet = (
            Asked("kubelet", self._ask, settings, is_there=self._socket.exists, now=now)
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
        self._kubelet.hurry()

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
