"""Where a device sits on the PCIe bus, and what lies between two of them."""

import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rightsizer.domain.topology import LinkKind
from rightsizer.telemetry.topology.address import is_address, is_host_bridge

__all__ = ["Site", "chain_of", "relate"]


@dataclass(frozen=True, slots=True)
class Site:
    """A place on the bus."""

    chain: tuple[str, ...] = ()
    """From the host bridge down to the device; empty where the real way is not seen."""
    numa_node: int | None = None

    @property
    def bridges(self) -> tuple[str, ...]:
        """The bridges above the device, from it up to the root port."""
        return tuple(name for name in reversed(self.chain[:-1]) if is_address(name))


def chain_of(sysfs: Path, link: str) -> tuple[str, ...]:
    """The buses and devices on the real path of one of the kernel's links, from the host bridge.

    Ends with the last PCI function, whatever hangs below it; empty where there is none.
    """
    # Unlike `Path.resolve`, this takes a link that leads to itself for what it is: no way.
    real = Path(os.path.relpath(os.path.realpath(sysfs / link), os.path.realpath(sysfs)))
    chain = [part for part in real.parts if is_host_bridge(part) or is_address(part)]
    if not chain or not is_host_bridge(chain[0]) or not is_address(chain[-1]):
        return ()  # A folder that is bound into a container alone does not tell its way.
    return tuple(chain)


def relate(one: Site, other: Site, *, has_one_node: bool) -> LinkKind:
    """The way between two devices over PCIe.

    Args:
        one: A device.
        other: Another.
        has_one_node: Whether the machine has a single NUMA node, so that not naming it is no loss.
    """
    if one.chain and one.chain == other.chain:
        return LinkKind.SELF
    shared = _shared(one.chain, other.chain)
    if shared:
        return _below(one, other, shared)
    if one.numa_node is not None and other.numa_node is not None:
        if one.numa_node != other.numa_node:
            return LinkKind.SYSTEM
    elif not has_one_node:
        return LinkKind.UNKNOWN
    return LinkKind.NODE if one.chain and other.chain else LinkKind.UNKNOWN


def _shared(one: Sequence[str], other: Sequence[str]) -> int:
    """How many steps down from the host bridge two ways have in common."""
    pairs = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return sum(1 for _ in pairs)


def _below(one: Site, other: Site, shared: int) -> LinkKind:
    """The way between two devices below one host bridge."""
    if is_host_bridge(one.chain[shared - 1]):
        return LinkKind.PHB
    # Two ports of one switch stand below its upstream port, and are one bridge to whoever counts.
    bridges = max(len(one.chain), len(other.chain)) - shared - 1
    return LinkKind.PIX if bridges <= 1 else LinkKind.PXB
