"""Network cards and disks beside the GPUs."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from rightsizer.domain.topology import Adapter, AdapterKind, LinkKind
from rightsizer.telemetry.topology.files import read_names
from rightsizer.telemetry.topology.site import Site, chain_of, relate

__all__ = ["read_adapters"]

_CLASSES: Final = (
    ("infiniband", AdapterKind.INFINIBAND),
    ("net", AdapterKind.NETWORK),
    ("nvme", AdapterKind.NVME),
)
"""The kernel's word for each; a card that speaks RDMA is in the first two."""


def read_adapters(
    sysfs: Path,
    gpus: Mapping[str, Site],
    *,
    numa_node: Callable[[str], int | None],
    has_one_node: bool,
) -> tuple[Adapter, ...]:
    """All adapters that hang on PCIe, with their ways to the GPUs.

    Args:
        sysfs: Where sysfs is mounted.
        gpus: The places of the GPUs, by uuid.
        numa_node: Gives the node of a PCI address.
        has_one_node: As `relate` wants it.
    """
    return tuple(
        Adapter(
            name=name,
            kind=kind,
            pci_bus_id=chain[-1],
            numa_node=node,
            links=_links(Site(chain, node), gpus.items(), has_one_node=has_one_node),
        )
        for name, kind, chain in _found(sysfs)
        for node in [numa_node(chain[-1])]
    )


def _links(
    site: Site, gpus: Iterable[tuple[str, Site]], *, has_one_node: bool
) -> Mapping[str, LinkKind]:
    return {uuid: relate(gpu, site, has_one_node=has_one_node) for uuid, gpu in gpus}


def _found(sysfs: Path) -> Iterator[tuple[str, AdapterKind, tuple[str, ...]]]:
    for folder, kind in _CLASSES:
        for name in read_names(sysfs / "class" / folder):
            chain = chain_of(sysfs, f"class/{folder}/{name}")
            # Bonds, bridges and disks on the network hang on nothing; virtual functions are
            # lent to virtual machines and containers by the hundred.
            if chain and not _is_virtual_function(sysfs, chain[-1]):
                yield name, kind, chain


def _is_virtual_function(sysfs: Path, address: str) -> bool:
    return os.path.lexists(sysfs / "bus/pci/devices" / address / "physfn")
