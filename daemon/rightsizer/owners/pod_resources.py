"""Client of the kubelet's pod-resources API, which lists the devices of containers."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

from rightsizer.io.document import DocumentLimits, DocumentReading
from rightsizer.io.grpc_client import UNIMPLEMENTED, GrpcCallError, unary_call
from rightsizer.io.protobuf import ProtobufError, ProtobufFields, last_text
from rightsizer.model.values import DocumentError

POD_RESOURCES_VERSIONS: Final = ("v1", "v1beta1", "v1alpha1")
"""Newest first; a kubelet before 1.20 supports only the last."""

_LIMITS: Final = DocumentLimits(16 * 2**20, 500_000, "fields", seconds_maximum=10.0)
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9.-]{0,252}")

_POD_RESOURCES: Final = 1
_POD_NAME = 1
_POD_NAMESPACE = 2
_POD_CONTAINERS = 3
_CONTAINER_NAME = 1
_CONTAINER_DEVICES = 2
_CONTAINER_CLAIMS = 5
_DEVICE_IDS: Final = 2
_CLAIM_RESOURCES: Final = 4
_CLAIM_DRIVER = 2
_CLAIM_DEVICE = 4


class ContainerDevices(Struct, frozen=True):
    """Container of a pod and its devices, in the device plugin's spelling."""

    namespace: str
    pod: str
    container: str
    devices: tuple[str, ...] = ()
    claimed: tuple[tuple[str, str], ...] = ()
    """Driver and device of its resource claims."""


def list_pods(
    path: Path, *, timeout_seconds: float, maximum_bytes: int
) -> tuple[ContainerDevices, ...]:
    """Query the kubelet in the newest supported version; raises `GrpcCallError`."""
    for version in POD_RESOURCES_VERSIONS:
        try:
            answer = unary_call(
                path,
                f"/{version}.PodResourcesLister/List",
                timeout_seconds=timeout_seconds,
                maximum_bytes=maximum_bytes,
            )
        except GrpcCallError as error:
            if error.status == UNIMPLEMENTED:
                continue
            raise
        return parse_pods(answer)
    raise GrpcCallError(
        f"{path} knows no version of the pod-resources interface; is it the kubelet's?"
    )


def parse_pods(answer: bytes) -> tuple[ContainerDevices, ...]:
    """Parse an answer of `List`; omits containers without devices.

    Raises:
        GrpcCallError: invalid message.
    """
    try:
        fields = ProtobufFields(DocumentReading("it", _LIMITS))
        containers = tuple(_containers(fields, memoryview(answer)))
    except (ProtobufError, DocumentError) as error:
        raise GrpcCallError(f"the kubelet's answer cannot be read: {error}") from None
    return tuple(container for container in containers if container.devices or container.claimed)


def _containers(fields: ProtobufFields, answer: memoryview) -> Iterator[ContainerDevices]:
    for number, data in fields.messages(answer):
        if number != _POD_RESOURCES:
            continue
        pod = fields.read(data)
        namespace = last_text(pod[_POD_NAMESPACE])
        name = last_text(pod[_POD_NAME])
        # Validated because they end up as labels and keys.
        if not (_NAME.fullmatch(namespace) and _NAME.fullmatch(name)):
            continue
        for container in map(fields.read, pod[_POD_CONTAINERS]):
            yield ContainerDevices(
                namespace=namespace,
                pod=name,
                container=last_text(container[_CONTAINER_NAME]),
                devices=tuple(
                    str(device_id, "utf-8", "replace")
                    for devices in container[_CONTAINER_DEVICES]
                    for device_id in fields.read(devices)[_DEVICE_IDS]
                ),
                claimed=tuple(
                    (last_text(resource[_CLAIM_DRIVER]), last_text(resource[_CLAIM_DEVICE]))
                    for claim in container[_CONTAINER_CLAIMS]
                    for resource in map(fields.read, fields.read(claim)[_CLAIM_RESOURCES])
                ),
            )
