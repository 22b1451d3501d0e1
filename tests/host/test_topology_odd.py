"""Trees damaged in any way: nothing is raised, and no wrong fact is reported."""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightsizer.host.pcie import expected_gpus
from rightsizer.host.topology import TopologyFacts, read_topology
from rightsizer.model.device import Device
from rightsizer.model.topology import LinkKind, Placement, Topology
from sysfs_trees import SysfsTree, flat_virtual_machine, grace_hopper, hgx, no_numa, one_socket
from sysfs_trees import paths_of as everything_in

TREES: Final = (one_socket, hgx, no_numa, flat_virtual_machine, grace_hopper)
BUILD: Final = st.sampled_from(TREES)
PLACES: Final = st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=12)
CONTENTS: Final = (
    b"",
    b"-1",
    b"-1\n",
    b"99999999999999999999",
    b"0x",
    b"0-9999999",
    b"0-\xff",
    b"0-0,0",
    b"N/A",
    b"255",
    b"0",
    b"32.0 GT/s PCIe",
    b"\x00\x00",
    b"7" * 5000,
)
GARBAGE: Final = st.one_of(st.binary(max_size=40), st.sampled_from(CONTENTS))


def devices_of(tree: SysfsTree) -> list[Device]:
    """The tree's GPUs, as without damage."""
    return [
        Device(uuid=address, index=index, pci_bus_id=address)
        for index, address in enumerate(tree.gpus)
    ]


def damaged(
    build: Callable[[Path], SysfsTree], places: list[float], damage: Callable[[Path], None]
) -> tuple[Topology, Topology]:
    """Topology of a tree before and after parts of it were damaged."""
    with tempfile.TemporaryDirectory() as folder:
        tree = build(Path(folder))
        devices = devices_of(tree)
        before = read_topology(tree.root, devices, TopologyFacts())
        paths = everything_in(tree)
        for path in dict.fromkeys(paths[int(place * len(paths))] for place in places):
            if path.is_symlink() or path.exists():
                damage(path)
        expected_gpus(tree.root)
        return before, read_topology(tree.root, devices, TopologyFacts())


def remove(path: Path) -> None:
    """Remove a file, link or folder with its contents."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def agrees(now: object, before: object) -> bool:
    """Whether a value is the same as before, or unknown."""
    return now in {None, (), before}


def wrong_places(now: Placement, before: Placement) -> list[str]:
    """Reported places of a GPU that were not true of the whole tree."""
    names = ("numa_node", "cpus", "generation", "width", "generation_maximum", "width_maximum")
    slots = ("slot_generation_maximum", "slot_width_maximum")
    return [
        name for name in (*names, *slots) if not agrees(getattr(now, name), getattr(before, name))
    ]


@given(BUILD, PLACES)
def test_missing_facts_are_never_invented(
    build: Callable[[Path], SysfsTree], places: list[float]
) -> None:
    """Whatever is removed, each fact is true of the whole tree or unknown."""
    before, now = damaged(build, places, remove)

    for uuid, placement in now.placements.items():
        assert wrong_places(placement, before.placements[uuid]) == []
    for link, true in zip(now.links, before.links, strict=True):
        assert link.kind in {LinkKind.UNKNOWN, true.kind}
    known = {(adapter.kind, adapter.name): adapter for adapter in before.adapters}
    for adapter in now.adapters:
        if (adapter.kind, adapter.name) in known:
            true_links = known[adapter.kind, adapter.name].links
            for uuid, kind in adapter.links.items():
                assert kind in {LinkKind.UNKNOWN, true_links[uuid]}


@given(BUILD, PLACES, st.data())
def test_garbage_is_survived(
    build: Callable[[Path], SysfsTree], places: list[float], data: st.DataObject
) -> None:
    """Covers any bytes in any file, files in place of folders, and wrong links."""

    def spoil(path: Path) -> None:
        remove(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        kind = data.draw(st.sampled_from(["file", "folder", "astray", "loop"]))
        if kind == "file":
            path.write_bytes(data.draw(GARBAGE))
        elif kind == "folder":
            path.mkdir()
        else:
            path.symlink_to("../../nowhere" if kind == "astray" else path.name)

    _, now = damaged(build, places, spoil)

    for placement in now.placements.values():
        assert placement.numa_node is None or placement.numa_node in now.numa_nodes
        assert placement.width in {None, 1, 2, 4, 8, 12, 16, 32}
        assert placement.generation is None or 1 <= placement.generation <= 7
        assert list(placement.cpus) == sorted(set(placement.cpus))


@given(st.lists(st.text(max_size=20), max_size=3))
def test_any_address_of_a_driver_is_survived(addresses: list[str]) -> None:
    """For any address, no file outside the tree is accessed."""
    with tempfile.TemporaryDirectory() as folder:
        tree = one_socket(Path(folder))
        devices = [
            Device(uuid=f"GPU-{index}", index=index, pci_bus_id=address)
            for index, address in enumerate(addresses)
        ]
        topology = read_topology(tree.root, devices, TopologyFacts())

    assert {placement.pci_bus_id for placement in topology.placements.values()} <= {None}


@pytest.mark.parametrize("name", ["bus", "class", "devices"])
def test_a_folder_that_leads_to_itself_is_no_way(tmp_path: Path, name: str) -> None:
    """A real bus has no circular links; a bad mount may."""
    tree = one_socket(tmp_path)
    devices = devices_of(tree)
    remove(tmp_path / name)
    (tmp_path / name).symlink_to(name)

    topology = read_topology(tmp_path, devices, TopologyFacts())
    assert set(topology.placements) == set(tree.gpus)
