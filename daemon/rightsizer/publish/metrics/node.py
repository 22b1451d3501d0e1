"""The metrics of what a node's devices share: driver, topology, fabric ports."""

from collections.abc import Iterable

from rightsizer.domain.fabric_port import FabricPort
from rightsizer.domain.report import NodeReport
from rightsizer.publish.metrics.families import Families

__all__ = ["add_node"]


def add_node(families: Families, node: NodeReport) -> None:
    """Add the node's series."""
    if node.driver:
        names = ("driver_version", "cuda_version", "nvml_version")
        families.add_info("rightsizer_driver_info", *(node.driver.get(name, "") for name in names))
    if node.topology is not None:
        for link in node.topology.links:
            families.add_info(
                "rightsizer_topology_link_info", link.uuid, link.peer_uuid, link.label
            )
    _add_ports(families, node.ports)


def _add_ports(families: Families, ports: Iterable[FabricPort]) -> None:
    for port in ports:
        for name, value in (
            ("up", float(port.is_active)),
            ("rate_bytes_per_second", port.rate_bytes_per_second),
            ("receive_bytes_total", port.receive_bytes),
            ("transmit_bytes_total", port.transmit_bytes),
            ("transmit_wait_total", port.transmit_wait),
        ):
            families.add(f"rightsizer_fabric_port_{name}", value, port.name)
        for kind, count in port.errors.items():
            families.add("rightsizer_fabric_port_errors_total", count, port.name, kind)
