"""Whole sysfs trees of machines, as far as their topology goes."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from msgspec import Struct

__all__ = [
    "Near",
    "SysfsTree",
    "flat_virtual_machine",
    "grace_hopper",
    "hgx",
    "no_numa",
    "one_socket",
    "paths_of",
]

NVIDIA: Final = "0x10de"
_DISPLAY = "0x030200"
_AUDIO = "0x040300"
_BRIDGE = "0x060400"
_SWITCH = "0x068000"
_NETWORK = "0x020000"
_INFINIBAND = "0x020700"
_NVME = "0x010802"
_SPEEDS: Final = {3: "8.0 GT/s PCIe", 4: "16.0 GT/s PCIe", 5: "32.0 GT/s PCIe"}


class Near(Struct, frozen=True):
    """Neighborhood of a PCI function, as the kernel reports it."""

    node: int = -1
    cpus: str = ""


_NEAR: Final = Near()


@dataclass
class SysfsTree:
    """A tree under construction; functions are added from the root port down."""

    root: Path
    gpus: list[str] = field(default_factory=list)
    """The PCI addresses of the NVIDIA GPUs."""
    has_cpulists: bool = True

    def node(self, number: int, cpus: str) -> None:
        """A NUMA node; without CPUs it is memory alone."""
        folder = self.root / "devices/system/node"
        write(folder / f"node{number}/cpulist", cpus)
        numbers = sorted(int(path.name[4:]) for path in folder.glob("node*"))
        write(folder / "online", ",".join(map(str, numbers)))

    def function(  # noqa: PLR0913 - all that the kernel tells of one.
        self,
        path: str,
        kind: str,
        *,
        vendor: str = "0x8086",
        near: Near = _NEAR,
        now: tuple[int, int] | None = None,
        most: tuple[int, int] | None = None,
        driver: str | None = None,
        status: str = "active",
    ) -> str:
        """A PCI function; its path begins with its host bridge. Its address is returned.

        Args:
            path: From the host bridge on, as in `pci0000:00/0000:00:01.0`.
            kind: Its class.
            vendor: Who made it.
            near: Its NUMA node, -1 where the firmware does not say, and the CPUs there.
            now: Generation and width of its link.
            most: What its link could do; `None` for what `now` says.
            driver: Which driver has it.
            status: Of its power management.
        """
        folder = self.root / "devices" / path
        address = folder.name
        write(folder / "class", kind)
        write(folder / "vendor", vendor)
        write(folder / "numa_node", str(near.node))
        write(folder / "power/runtime_status", status)
        if self.has_cpulists:
            write(folder / "local_cpulist", near.cpus)
        if now is not None:
            for prefix, (generation, width) in (("current", now), ("max", most or now)):
                write(folder / f"{prefix}_link_speed", _SPEEDS[generation])
                write(folder / f"{prefix}_link_width", str(width))
        link(self.root / "bus/pci/devices" / address, folder)
        if driver is not None:
            drivers = self.root / "bus/pci/drivers" / driver
            drivers.mkdir(parents=True, exist_ok=True)
            link(folder / "driver", drivers)
        if vendor == NVIDIA and kind.startswith("0x03"):
            self.gpus.append(address)
        return address

    def adapter(self, kind: str, name: str, path: str) -> None:
        """A network interface, RDMA device or disk on a PCI function."""
        folder = self.root / "devices" / path / kind / name
        folder.mkdir(parents=True)
        link(self.root / "class" / kind / name, folder)

    def virtual_interface(self, name: str) -> None:
        """A network interface that hangs on nothing."""
        folder = self.root / "devices/virtual/net" / name
        folder.mkdir(parents=True)
        link(self.root / "class/net" / name, folder)

    def write(self, address: str, name: str, text: str) -> None:
        """Change an attribute of a PCI function."""
        write(self.root / "bus/pci/devices" / address / name, text)

    def remove(self, address: str) -> None:
        """Take a PCI function off the bus."""
        entry = self.root / "bus/pci/devices" / address
        shutil.rmtree(entry.resolve())
        entry.unlink()


def one_socket(root: Path) -> SysfsTree:
    """A server with two GPUs on one host bridge; the second sits in a slot that is too narrow."""
    tree = SysfsTree(root)
    tree.node(0, "0-31")
    bus = "pci0000:00"
    near = Near(0, "0-31")
    tree.function(f"{bus}/0000:00:01.0", _BRIDGE, now=(4, 16), most=(5, 16), near=near)
    gpu = f"{bus}/0000:00:01.0/0000:01:00.0"
    tree.function(gpu, _DISPLAY, vendor=NVIDIA, now=(4, 16), driver="nvidia", near=near)
    tree.function(f"{gpu[:-1]}1", _AUDIO, vendor=NVIDIA, now=(4, 16), near=near)
    tree.function(f"{bus}/0000:00:03.0", _BRIDGE, now=(3, 8), near=near)
    tree.function(
        f"{bus}/0000:00:03.0/0000:02:00.0",
        _DISPLAY,
        vendor=NVIDIA,
        now=(3, 8),
        most=(4, 16),
        driver="nvidia",
        near=near,
    )
    tree.function(f"{bus}/0000:00:02.0", "0x030000", near=near)  # The processor's own display.
    _disk(tree, f"{bus}/0000:00:06.0", "0000:03:00.0", "nvme0", near=near)
    tree.function(f"{bus}/0000:00:1f.6", _NETWORK, near=near)
    tree.adapter("net", "eno1", f"{bus}/0000:00:1f.6")
    tree.virtual_interface("lo")
    tree.virtual_interface("bond0")
    return tree


def hgx(root: Path) -> SysfsTree:
    """Two sockets of 56 cores, eight GPUs; each pair below a PCIe switch with a NIC beside it."""
    tree = SysfsTree(root)
    halves = (Near(0, "0-55,112-167"), Near(1, "56-111,168-223"))
    for half in halves:
        tree.node(half.node, half.cpus)
    pairs = ((0x15, 0x19, 0x3B), (0x48, 0x4C, 0x5D), (0x97, 0x9B, 0xBB), (0xC7, 0xCB, 0xDB))
    for number, (first, *gpus) in enumerate(pairs):
        near = halves[number // 2]
        switch = f"pci0000:{first:02x}/0000:{first:02x}:01.0/0000:{first + 1:02x}:00.0"
        tree.function(switch.rpartition("/")[0], _BRIDGE, now=(5, 16), near=near)
        tree.function(switch, _BRIDGE, vendor="0x1000", now=(5, 16), near=near)
        ends = [*((bus, _DISPLAY, NVIDIA) for bus in gpus), (first + 3, _INFINIBAND, "0x15b3")]
        for port, (bus, kind, vendor) in enumerate(ends):
            below = f"{switch}/0000:{first + 2:02x}:{port:02x}.0"
            tree.function(below, _BRIDGE, vendor="0x1000", now=(5, 16), near=near)
            driver = "nvidia" if vendor == NVIDIA else "mlx5_core"
            tree.function(
                f"{below}/0000:{bus:02x}:00.0",
                kind,
                vendor=vendor,
                now=(5, 16),
                driver=driver,
                near=near,
            )
        card = f"{switch}/0000:{first + 2:02x}:02.0/0000:{first + 3:02x}:00.0"
        tree.adapter("infiniband", f"mlx5_{number}", card)
        tree.adapter("net", f"ib{number}", card)
    _rest_of_hgx(tree, *halves)
    return tree


def _rest_of_hgx(tree: SysfsTree, first: Near, second: Near) -> None:
    """NVSwitches, disks, and a card whose second port is lent to virtual machines."""
    switches = "pci0000:01/0000:01:01.0"
    tree.function(switches, _BRIDGE, now=(3, 2), near=first)
    for number in range(4):
        path = f"{switches}/0000:{number + 5:02x}:00.0"
        tree.function(path, _SWITCH, vendor=NVIDIA, now=(3, 2), near=first)
    _disk(tree, "pci0000:37/0000:37:01.0", "0000:38:00.0", "nvme0", near=first)
    _disk(tree, "pci0000:b7/0000:b7:01.0", "0000:b8:00.0", "nvme1", near=second)
    port = "pci0000:00/0000:00:1c.0"
    tree.function(port, _BRIDGE, now=(3, 4), near=first)
    for function, name in enumerate(("eno1", "eno1v0")):
        path = f"{port}/0000:02:00.{function}"
        tree.function(path, _NETWORK, now=(3, 4), near=first)
        tree.adapter("net", name, path)
    entry = tree.root / "devices" / port
    link(entry / "0000:02:00.1/physfn", entry / "0000:02:00.0")


def no_numa(root: Path) -> SysfsTree:
    """A workstation with two host bridges whose firmware names no node."""
    tree = SysfsTree(root)
    tree.node(0, "0-47")
    near = Near(-1, "0-47")
    for first in (0x00, 0x40):
        port = f"pci0000:{first:02x}/0000:{first:02x}:01.1"
        tree.function(port, _BRIDGE, now=(4, 16), near=near)
        tree.function(
            f"{port}/0000:{first + 1:02x}:00.0",
            "0x030000",
            vendor=NVIDIA,
            now=(4, 16),
            near=near,
            driver="nvidia",
        )
    _disk(tree, "pci0000:40/0000:40:03.1", "0000:42:00.0", "nvme0", near=near)
    return tree


def flat_virtual_machine(root: Path) -> SysfsTree:
    """A virtual machine whose GPUs seem to sit on the host bridge itself."""
    tree = SysfsTree(root, has_cpulists=False)
    bus = "pci0000:00"
    for slot in (5, 6):
        path = f"{bus}/0000:00:{slot:02x}.0"
        tree.function(path, _DISPLAY, vendor=NVIDIA, driver="nvidia")
        for name in ("current_link_speed", "max_link_speed"):
            tree.write(path[-12:], name, "Unknown")
        for name in ("current_link_width", "max_link_width"):
            tree.write(path[-12:], name, "0")
    tree.function(f"{bus}/0000:00:03.0", _NETWORK, vendor="0x1af4")
    tree.adapter("net", "eth0", f"{bus}/0000:00:03.0/virtio0")
    return tree


def grace_hopper(root: Path) -> SysfsTree:
    """Two superchips: a PCIe domain for each GPU, whose memory is a NUMA node of its own."""
    tree = SysfsTree(root)
    for number, cpus in ((0, "0-71"), (1, "72-143"), (2, ""), (10, "")):
        tree.node(number, cpus)
    for node, cpus in ((0, "0-71"), (1, "72-143")):
        near = Near(node, cpus)
        domain = f"00{node}9"
        port = f"pci{domain}:00/{domain}:00:00.0"
        tree.function(port, _BRIDGE, vendor=NVIDIA, now=(5, 16), near=near)
        path = f"{port}/{domain}:01:00.0"
        tree.function(path, _DISPLAY, vendor=NVIDIA, now=(5, 16), driver="nvidia", near=near)
        domain = f"00{node}0"
        port = f"pci{domain}:00/{domain}:00:00.0"
        tree.function(port, _BRIDGE, vendor=NVIDIA, now=(5, 16), near=near)
        path = f"{port}/{domain}:01:00.0"
        tree.function(path, _INFINIBAND, vendor="0x15b3", now=(5, 16), near=near)
        tree.adapter("infiniband", f"mlx5_{node}", path)
    return tree


def paths_of(tree: SysfsTree) -> list[Path]:
    """Everything in a tree but the root, in a fixed order; links are not followed."""
    return sorted(_walk(tree.root))


def write(path: Path, text: str) -> None:
    """A file as the kernel writes it, with a line's end."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def link(place: Path, target: Path) -> None:
    """A link as the kernel makes it: relative."""
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(os.path.relpath(target, place.parent))


def _disk(tree: SysfsTree, port: str, address: str, name: str, near: Near) -> None:
    tree.function(port, _BRIDGE, now=(4, 4), near=near)
    tree.function(f"{port}/{address}", _NVME, vendor="0x144d", now=(4, 4), near=near)
    tree.adapter("nvme", name, f"{port}/{address}")


def _walk(folder: Path) -> Iterator[Path]:
    for entry in folder.iterdir():
        yield entry
        if entry.is_dir() and not entry.is_symlink():
            yield from _walk(entry)
