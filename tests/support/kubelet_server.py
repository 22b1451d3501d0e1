"""A kubelet's pod-resources service: real gRPC with messages of the public interface."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent import futures
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

TEXT: Final = descriptor_pb2.FieldDescriptorProto.TYPE_STRING
INTEGER: Final = descriptor_pb2.FieldDescriptorProto.TYPE_INT64
UNSIGNED: Final = descriptor_pb2.FieldDescriptorProto.TYPE_UINT64
MESSAGE: Final = descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE

MESSAGES: Final[Mapping[str, Sequence[tuple[str, int, object, bool]]]] = {
    "NUMANode": [("ID", 1, INTEGER, False)],
    "TopologyInfo": [("nodes", 1, "NUMANode", True)],
    "CDIDevice": [("name", 1, TEXT, False)],
    "ClaimResource": [
        ("cdi_devices", 1, "CDIDevice", True),
        ("driver_name", 2, TEXT, False),
        ("pool_name", 3, TEXT, False),
        ("device_name", 4, TEXT, False),
        ("share_id", 5, TEXT, False),
    ],
    "DynamicResource": [
        ("claim_name", 2, TEXT, False),
        ("claim_namespace", 3, TEXT, False),
        ("claim_resources", 4, "ClaimResource", True),
    ],
    "ContainerMemory": [
        ("memory_type", 1, TEXT, False),
        ("size", 2, UNSIGNED, False),
        ("topology", 3, "TopologyInfo", False),
    ],
    "ContainerDevices": [
        ("resource_name", 1, TEXT, False),
        ("device_ids", 2, TEXT, True),
        ("topology", 3, "TopologyInfo", False),
    ],
    "ContainerResources": [
        ("name", 1, TEXT, False),
        ("devices", 2, "ContainerDevices", True),
        ("cpu_ids", 3, INTEGER, True),
        ("memory", 4, "ContainerMemory", True),
        ("dynamic_resources", 5, "DynamicResource", True),
    ],
    "PodResources": [
        ("name", 1, TEXT, False),
        ("namespace", 2, TEXT, False),
        ("containers", 3, "ContainerResources", True),
        ("cpu_ids", 4, INTEGER, True),
        ("memory", 5, "ContainerMemory", True),
    ],
    "ListPodResourcesResponse": [("pod_resources", 1, "PodResources", True)],
}
"""Fields by name, number, type, and repetition; version 1alpha1 has fewer."""


def _response_class() -> Any:
    file = descriptor_pb2.FileDescriptorProto(
        name="pod_resources.proto", package="rightsizer_test", syntax="proto3"
    )
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind, repeats in fields:
            label = "LABEL_REPEATED" if repeats else "LABEL_OPTIONAL"
            declared = message.field.add(
                name=field, number=number, label=getattr(descriptor_pb2.FieldDescriptorProto, label)
            )
            if isinstance(kind, str):
                declared.type = MESSAGE
                declared.type_name = f".{file.package}.{kind}"
            else:
                declared.type = kind
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(
        pool.FindMessageTypeByName(f"{file.package}.ListPodResourcesResponse")
    )


Response: Final = _response_class()


def pod(
    namespace: str,
    name: str,
    devices: Sequence[str] = (),
    *,
    container: str = "main",
    claimed: Sequence[str] = (),
) -> dict[str, Any]:
    """A pod of one container, as keyword arguments of its message."""
    claims = [
        {"driver_name": "gpu.nvidia.com", "pool_name": "node", "device_name": each}
        for each in claimed
    ]
    numa = {"nodes": [{"ID": 1}]}
    return {
        "name": name,
        "namespace": namespace,
        "cpu_ids": [2**40],
        "containers": [
            {
                "name": container,
                "devices": [
                    {"resource_name": "nvidia.com/gpu", "device_ids": devices, "topology": numa}
                ],
                "cpu_ids": [0, 1, 300],
                "memory": [{"memory_type": "hugepages-2Mi", "size": 2**63, "topology": numa}],
                "dynamic_resources": [
                    {"claim_name": "c", "claim_namespace": namespace, "claim_resources": claims}
                ],
            }
        ],
    }


def answer(*pods: dict[str, Any]) -> bytes:
    """A response to `List`."""
    return bytes(Response(pod_resources=pods).SerializeToString())


@contextmanager
def kubelet(
    path: Path, reply: Callable[[grpc.ServicerContext], bytes], version: str = "v1"
) -> Iterator[list[str]]:
    """A kubelet with a single version; returns the names of the methods called."""
    calls: list[str] = []

    def listed(_: bytes, context: grpc.ServicerContext) -> bytes:
        calls.append("List")
        return reply(context)

    server = grpc.server(futures.ThreadPoolExecutor(2))
    handler = grpc.method_handlers_generic_handler(
        f"{version}.PodResourcesLister", {"List": grpc.unary_unary_rpc_method_handler(listed)}
    )
    server.add_generic_rpc_handlers((handler,))
    server.add_insecure_port(f"unix:{path}")
    server.start()
    try:
        yield calls
    finally:
        server.stop(None).wait()
