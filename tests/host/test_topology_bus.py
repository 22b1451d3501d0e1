"""GPUs on the bus, found without the driver and without waking them."""

from pathlib import Path

from rightsizer.host.pcie import BusGpu, expected_gpus
from sysfs_trees import grace_hopper, hgx, one_socket


def test_gpus_are_nvidias_display_devices(tmp_path: Path) -> None:
    """Audio functions, NVSwitches and the processor's own display are excluded."""
    assert [gpu.pci_bus_id for gpu in expected_gpus(one_socket(tmp_path / "one").root)] == [
        "0000:01:00.0",
        "0000:02:00.0",
    ]
    tree = hgx(tmp_path / "two")
    assert [gpu.pci_bus_id for gpu in expected_gpus(tree.root)] == tree.gpus
    assert len(expected_gpus(grace_hopper(tmp_path / "three").root)) == 2


def test_driver_and_sleep_are_reported(tmp_path: Path) -> None:
    """A GPU passed to a virtual machine is on the bus too."""
    tree = one_socket(tmp_path)
    tree.write("0000:01:00.0", "power/runtime_status", "suspended")
    driver = tmp_path / "bus/pci/devices/0000:02:00.0/driver"
    driver.unlink()
    driver.symlink_to("../../../bus/pci/drivers/vfio-pci")

    first, second = expected_gpus(tmp_path)
    assert first == BusGpu("0000:01:00.0", "suspended", "nvidia")
    assert second == BusGpu("0000:02:00.0", "active", "vfio-pci")
    assert first.is_asleep
    assert not second.is_asleep


def test_a_gpu_without_driver_or_power_management_says_so(tmp_path: Path) -> None:
    """Values missing in the kernel are unknown."""
    tree = one_socket(tmp_path)
    entry = tmp_path / "bus/pci/devices" / tree.gpus[0]
    (entry / "driver").unlink()
    (entry / "power/runtime_status").unlink()

    gpu = expected_gpus(tmp_path)[0]
    assert (gpu.driver_name, gpu.runtime_status, gpu.is_asleep) == (None, None, False)


def test_a_gpu_that_left_the_bus_is_not_expected(tmp_path: Path) -> None:
    """Only present GPUs count."""
    tree = one_socket(tmp_path)
    tree.remove("0000:01:00.0")

    assert [gpu.pci_bus_id for gpu in expected_gpus(tmp_path)] == ["0000:02:00.0"]


def test_without_a_bus_there_are_no_gpus(tmp_path: Path) -> None:
    """A container without sysfs is such a case."""
    assert expected_gpus(tmp_path / "nowhere") == ()
