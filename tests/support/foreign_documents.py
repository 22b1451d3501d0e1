"""Pages of dcgm-exporters with GPUs of other nodes, and many holders; the bus of a node."""

from collections.abc import Iterable
from pathlib import Path

__all__ = ["foreign_page", "foreign_uuid", "held_page", "node_bus"]


def foreign_uuid(number: int) -> str:
    """The uuid of a GPU of another node."""
    return f"GPU-f0f0f0f0-{number >> 16:04x}-4000-8000-{number:012x}"


def foreign_page(gpus: int, own: Iterable[str] = ()) -> str:
    """A page with a line for each GPU of other nodes, and each of this node's own.

    With 5,000 it has half a megabyte, within the limit of a page's size.
    """
    uuids = [*own, *map(foreign_uuid, range(gpus))]
    return "".join(
        f'DCGM_FI_DEV_GPU_UTIL{{gpu="{index}",UUID="{uuid}",modelName="H100"}} 5\n'
        for index, uuid in enumerate(uuids)
    )


def held_page(holders: int, uuid: str) -> str:
    """A page with one GPU that many pods share."""
    return "".join(
        f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",UUID="{uuid}",pod="p{number}",namespace="shop"}} 5\n'
        for number in range(holders)
    )


def node_bus(root: Path, *addresses: str) -> Path:
    """A sysfs with GPUs at PCI addresses."""
    for address in addresses:
        folder = root / "bus/pci/devices" / address
        folder.mkdir(parents=True)
        (folder / "vendor").write_text("0x10de\n")
        (folder / "class").write_text("0x030200\n")
    return root
