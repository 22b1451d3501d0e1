"""Kernel facts for schedulers beside topology: cores, distances, device files."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from rightsizer.host.device_files import device_files
from rightsizer.host.numa_locality import read_cores, read_distances
from rightsizer.model.device import Device, MigInstance
from sysfs_trees import SysfsTree, write


def processor(root: Path, package: int, cpus: list[tuple[int, ...]]) -> None:
    """A socket whose cores have the given threads."""
    for threads in cpus:
        for cpu in threads:
            folder = root / f"devices/system/cpu/cpu{cpu}/topology"
            write(folder / "physical_package_id", str(package))
            write(folder / "thread_siblings_list", ",".join(map(str, threads)))


def two_sockets(root: Path) -> Path:
    """Two sockets of two cores with two threads each, in the kernel's usual numbering."""
    processor(root, 0, [(0, 4), (1, 5)])
    processor(root, 1, [(2, 6), (3, 7)])
    write(root / "devices/system/cpu/online", "0-7")
    return root


def test_threads_of_one_core_have_its_number(tmp_path: Path) -> None:
    """The kernel numbers second threads after all first ones, Slurm beside them."""
    assert read_cores(two_sockets(tmp_path)) == {0: 0, 4: 0, 1: 1, 5: 1, 2: 2, 6: 2, 3: 3, 7: 3}


def test_cores_are_counted_socket_by_socket(tmp_path: Path) -> None:
    """The kernel numbers CPUs over the sockets in turn."""
    processor(tmp_path, 0, [(0,), (2,)])
    processor(tmp_path, 1, [(1,), (3,)])

    assert read_cores(tmp_path) == {0: 0, 2: 1, 1: 2, 3: 3}


@pytest.mark.parametrize("missing", ["physical_package_id", "thread_siblings_list"])
def test_one_cpu_that_tells_nothing_leaves_all_cores_unknown(tmp_path: Path, missing: str) -> None:
    """A core that is offline shifts the number of every core after it."""
    two_sockets(tmp_path)
    (tmp_path / f"devices/system/cpu/cpu1/topology/{missing}").unlink()

    assert read_cores(tmp_path) == {}


def test_no_tree_has_no_cores_and_no_distances(tmp_path: Path) -> None:
    """A simulated node is such a case."""
    assert read_cores(tmp_path / "none") == {}
    assert read_distances(tmp_path / "none") == {}


def test_distances_are_by_the_numbers_of_nodes_that_are_there(tmp_path: Path) -> None:
    """Grace Hopper's GPU memory makes nodes whose numbers have gaps."""
    tree = SysfsTree(tmp_path)
    for number, distances in ((0, "10 40 80"), (1, "40 10 80"), (10, "80 80 10")):
        tree.node(number, "")
        write(tmp_path / f"devices/system/node/node{number}/distance", distances)

    found = read_distances(tmp_path)

    assert found[0, 1] == found[1, 0] == 40
    assert found[10, 0] == 80
    assert {found[node, node] for node in (0, 1, 10)} == {10}
    assert len(found) == 9


@pytest.mark.parametrize("text", ["10", "10 21 31", "10 far", ""])
def test_a_matrix_that_is_not_whole_is_none(tmp_path: Path, text: str) -> None:
    """A scheduler takes a missing distance for near."""
    tree = SysfsTree(tmp_path)
    tree.node(0, "0")
    tree.node(1, "1")
    write(tmp_path / "devices/system/node/node0/distance", "10 21")
    write(tmp_path / "devices/system/node/node1/distance", text)

    assert read_distances(tmp_path) == {}


GPU = Device("GPU-0", 0, name="H100", facts={"minor_number": "3"})
INSTANCE = Device("MIG-0", 0, name="H100", mig=MigInstance("GPU-0", "1g.10gb", 7, 0, 1 / 7, 1 / 8))


def capability(procfs: Path, below: str, minor: int) -> None:
    """A capability as the driver lists it."""
    folder = procfs / "driver/nvidia/capabilities" / below
    write(folder / "access", f"DeviceFileMinor: {minor}\nDeviceFileMode: 444\nDeviceFileModify: 1")


def test_a_gpu_is_the_file_of_its_minor_number(tmp_path: Path) -> None:
    """It differs from its index."""
    assert device_files(tmp_path, [GPU]) == {"GPU-0": ("/dev/nvidia3",)}


def test_a_gpu_without_a_minor_number_has_no_file(tmp_path: Path) -> None:
    """A guess could be another GPU; its MIG instances have none either."""
    assert device_files(tmp_path, [replace(GPU, facts={}), INSTANCE]) == {}


def test_an_instance_is_its_gpu_and_both_capabilities(tmp_path: Path) -> None:
    """Capabilities of GPU and compute instance have the driver's minor numbers."""
    capability(tmp_path, "gpu3/mig/gi7", 66)
    capability(tmp_path, "gpu3/mig/gi7/ci0", 67)

    assert device_files(tmp_path, [GPU, INSTANCE])["MIG-0"] == (
        "/dev/nvidia3",
        "/dev/nvidia-caps/nvidia-cap66",
        "/dev/nvidia-caps/nvidia-cap67",
    )


def test_an_instance_with_one_capability_unknown_has_no_files(tmp_path: Path) -> None:
    """A job that may open half of it fails."""
    capability(tmp_path, "gpu3/mig/gi7", 66)

    assert device_files(tmp_path, [GPU, INSTANCE]) == {"GPU-0": ("/dev/nvidia3",)}
