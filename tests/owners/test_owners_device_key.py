"""Spellings of devices: each resolves to the right device or to none."""

from pathlib import Path

import pytest

from owner_trees import write_gpu
from rightsizer.host.device_files import gpu_addresses
from rightsizer.model.device import Device, MigInstance
from rightsizer.owners.device_keys import dra_device_key, keys_of, kubelet_device_key

UUID = "8ba15a3a-9c15-45e7-ad2f-0b1c6b14b9e0"
ADDRESSES = {0: "0000:3b:00.0", 1: "0000:1b:00.0"}
GPU = Device(f"GPU-{UUID}", 0, pci_bus_id="00000000:1B:00.0")
INSTANCE = Device(
    f"MIG-{UUID}",
    0,
    pci_bus_id="00000000:1B:00.0",
    mig=MigInstance(GPU.uuid, "1g.10gb", 7, 0, 1 / 7, 1 / 8),
)


@pytest.mark.parametrize(
    ("spelling", "key"),
    [
        (f"GPU-{UUID}", f"GPU-{UUID}"),
        (f"MIG-{UUID}", f"MIG-{UUID}"),
        (f"GPU-{UUID}::3", f"GPU-{UUID}"),
        (f"MIG-{UUID}::0", f"MIG-{UUID}"),
        (f"GPU-{UUID}-7", f"GPU-{UUID}"),
        (f"MIG-GPU-{UUID}/7/0", f"GPU-{UUID}/gi7"),
        ("nvidia1", "0000:1b:00.0"),
        ("/dev/nvidia1", "0000:1b:00.0"),
        ("nvidia1/gi7", "0000:1b:00.0/gi7"),
        ("nvidia1/gi7/vgpu0", "0000:1b:00.0/gi7"),
        ("nvidia1/vgpu2", "0000:1b:00.0"),
        ("0000:1B:00.0", "0000:1b:00.0"),
        ("00000000:1B:00.0", "0000:1b:00.0"),
        ("nvidia9", None),
        ("nvidia", None),
        (f"GPU-{UUID}0", None),
        ("GPU-1", None),
        ("3", None),
        ("", None),
        ("mlx5_0", None),
    ],
)
def test_device_plugins(spelling: str, key: str | None) -> None:
    """Covers NVIDIA's plugin with replicas and MIG, GKE's, and KubeVirt's; others are ignored."""
    assert kubelet_device_key(spelling, ADDRESSES.get) == key


@pytest.mark.parametrize(
    ("driver", "spelling", "key"),
    [
        ("gpu.nvidia.com", "gpu-1", "0000:1b:00.0"),
        ("gpu.nvidia.com", "gpu-9", None),
        ("gpu.nvidia.com", "gpu-1-mig-1g10gb-19-0", None),
        ("compute-domain.nvidia.com", "gpu-1", None),
        ("gpu.example.com", "gpu-1", None),
    ],
)
def test_claims(driver: str, spelling: str, key: str | None) -> None:
    """A claim's device is identified by its minor number; an instance's cannot be."""
    assert dra_device_key(driver, spelling, ADDRESSES.get) == key


def test_a_minor_number_is_no_index(tmp_path: Path) -> None:
    """jobstats#34: device files and NVML number GPUs differently; only the address is common."""
    write_gpu(tmp_path, "0000:1b:00.0", 1)
    write_gpu(tmp_path, "0000:3B:00.0", 0)
    (tmp_path / "driver/nvidia/gpus/0000:ff:00.0").mkdir()
    assert gpu_addresses(tmp_path) == ADDRESSES
    assert gpu_addresses(tmp_path / "nowhere") == {}
    # nvidia1 is the GPU with index 0.
    key = kubelet_device_key("nvidia1", gpu_addresses(tmp_path).get)
    assert key in keys_of(GPU)
    assert "index:1" not in keys_of(GPU)


def test_keys_of_a_device() -> None:
    """A GPU and its instances have no key in common."""
    assert keys_of(GPU) == (f"GPU-{UUID}", "index:0", "0000:1b:00.0")
    assert keys_of(INSTANCE) == (
        f"MIG-{UUID}",
        f"GPU-{UUID}/gi7",
        "index:0/gi7",
        "0000:1b:00.0/gi7",
    )
    assert keys_of(Device("index:4", 4)) == ("index:4", "index:4")
