"""Facts of GPUs, names of MIG profiles and versions of the driver."""

from collections import Counter

import pynvml
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from nvml_answers import mig_profiles, refusing, telling, texts
from nvml_driver import FakeDriver, FakeGpu, FakeInstance
from nvml_rounds import driver_thread, inventory_of
from rightsizer.model.device import Device
from rightsizer.telemetry.nvml.inventory import Inventory

THRESHOLD = "nvmlDeviceGetTemperatureThreshold"
PROFILES = {19: "1g.10gb", 20: "1g.10gb+me", 14: "2g.20gb", 9: "3g.40gb"}


def device_of(driver: FakeDriver) -> Device:
    """The first GPU."""
    return inventory_of(driver).gpus[0].whole.device


def telling_all() -> FakeDriver:
    """A driver that supports every fact."""
    driver = FakeDriver(FakeGpu("GPU-0"))
    driver.more |= {
        "nvmlDeviceGetVbiosVersion": texts("96.00.74.00.01"),
        "nvmlDeviceGetSerial": texts("1650023012345"),
        "nvmlDeviceGetInforomImageVersion": texts("G520.0200.00.05"),
        "nvmlDeviceGetBrand": telling(14),
        "nvmlDeviceGetCudaComputeCapability": telling(9, 0),
        "nvmlDeviceGetNumGpuCores": telling(16896),
        "nvmlDeviceGetMinorNumber": telling(3),
        "nvmlDeviceGetModuleId": telling(2),
        "nvmlDeviceGetNumaNodeId": telling(4),
        "nvmlDeviceGetVirtualizationMode": telling(1),
        "nvmlDeviceGetEccMode": telling(1, 0),
        "nvmlDeviceGetComputeMode": telling(3),
        "nvmlDeviceGetPowerManagementLimitConstraints": telling(200_000, 700_000),
        THRESHOLD: telling(90),
    }
    return driver


def test_facts_of_a_gpu() -> None:
    """The driver's values become text, and modes by their usual names."""
    assert device_of(telling_all()).facts == {
        "vbios_version": "96.00.74.00.01",
        "serial": "1650023012345",
        "inforom_version": "G520.0200.00.05",
        "brand": "NVIDIA",
        "compute_capability": "9.0",
        "cores": "16896",
        "minor_number": "3",
        "module_id": "2",
        "numa_node_id": "4",
        "virtualization_mode": "passthrough",
        "ecc_mode": "enabled",
        "mig_mode": "disabled",
        "persistence_mode": "enabled",
        "compute_mode": "exclusive_process",
    }


def test_limits_of_a_gpu() -> None:
    """They cover the range of the power limit, and temperatures of throttling and shutdown."""
    device = device_of(telling_all())
    assert (device.power_limit_minimum_watts, device.power_limit_maximum_watts) == (200, 700)
    assert device.temperature_slowdown_celsius == 90
    assert device.temperature_shutdown_celsius == 90


@given(st.integers(min_value=0, max_value=2**32 - 1))
def test_margins_are_no_thresholds(answer: int) -> None:
    """Newer boards report a margin, possibly negative, which is no temperature."""
    driver = FakeDriver(FakeGpu("GPU-0"))
    driver.more[THRESHOLD] = telling(answer)
    found = device_of(driver).temperature_slowdown_celsius
    assert found == (answer if 50 <= answer <= 130 else None)


def test_unknown_facts_are_left_out() -> None:
    """A refused call omits its own fact only."""
    whole = telling_all()
    facts = device_of(whole).facts
    for name in [name for name in whole.more if "GetPower" not in name and name != THRESHOLD]:
        driver = telling_all()
        driver.more[name] = refusing(int(pynvml.NVML_ERROR_NOT_SUPPORTED))
        found = device_of(driver).facts
        assert found.items() < facts.items(), name
        assert len(found) == len(facts) - 1


def test_minus_one_is_no_number() -> None:
    """NUMA node -1 and blank numbers mean unknown."""
    driver = telling_all()
    driver.more |= {
        "nvmlDeviceGetNumaNodeId": telling(-1),
        "nvmlDeviceGetMinorNumber": telling(2**32 - 1),
        "nvmlDeviceGetBrand": telling(99),
    }
    assert not {"numa_node_id", "minor_number", "brand"} & device_of(driver).facts.keys()


def test_modes_are_looked_at_again_and_constants_are_not() -> None:
    """The compute mode may change at any time; a serial number does not."""
    driver = telling_all()
    modes = [3, 0]

    def mode(fake: FakeDriver, *arguments: object) -> int:
        return telling(modes.pop(0))(fake, *arguments)

    driver.more["nvmlDeviceGetComputeMode"] = mode
    with driver_thread(driver) as own:
        looks = [own.find_devices(), own.find_devices()]
    found = [look.gpus[0].whole.device for look in looks if isinstance(look, Inventory)]
    assert [device.facts["compute_mode"] for device in found] == ["exclusive_process", "default"]
    assert replace(found[0], facts={}) == replace(found[1], facts={})
    calls = Counter(driver.calls)
    assert calls["nvmlDeviceGetSerial"] == 1
    assert calls[THRESHOLD] == 2  # Two thresholds.


def test_persistence_mode_says_whether_a_gpu_stays_awake() -> None:
    """Without it NVML wakes the GPU; a GPU of unknown mode counts as awake."""
    sleepy = FakeDriver(FakeGpu("GPU-0", is_persistent=False))
    assert not inventory_of(sleepy).gpus[0].is_persistent
    sleepy.lacking.add("nvmlDeviceGetPersistenceMode")
    assert inventory_of(sleepy).gpus[0].is_persistent


def profile_of(instance: FakeInstance, ids: dict[int, int] | None) -> str:
    """Profile of an instance whose name lacks it.

    Args:
        instance: The instance.
        ids: Profile of each GPU instance; `None` where reading it needs privileges.
    """
    driver = FakeDriver(FakeGpu("GPU-0", instances=[instance]))
    mig_profiles(driver, PROFILES, ids or {})
    if ids is None:
        refused = refusing(int(pynvml.NVML_ERROR_NO_PERMISSION))
        driver.more["nvmlDeviceGetGpuInstanceById"] = refused
    driver.more["nvmlDeviceGetName"] = texts("NVIDIA H100 80GB HBM3")
    mig = inventory_of(driver).gpus[0].instances[0].device.mig
    assert mig is not None
    return mig.profile


def test_profile_is_that_of_the_gpu_instance() -> None:
    """It is used where the device's name lacks the profile."""
    instance = FakeInstance("MIG-a", gpu_instance_id=7)
    assert profile_of(instance, {7: 20}) == "1g.10gb+me"
    assert profile_of(instance, {7: 19}) == "1g.10gb"


def test_profile_without_privileges_is_the_one_of_that_size() -> None:
    """Slices, memory and engines identify one of the GPU's profiles."""
    assert profile_of(FakeInstance("MIG-a"), None) == "1g.10gb"
    large = FakeInstance("MIG-a", slices=3, memory_total=40 << 30)
    assert profile_of(large, None) == "3g.40gb"
    odd = FakeInstance("MIG-a", slices=5, memory_total=40 << 30)
    assert profile_of(odd, None) == ""


def test_profile_of_an_instance_without_a_number_is_no_other_instances() -> None:
    """Instance 0 is one, too: the largest or another; the size decides."""
    driver = FakeDriver(FakeGpu("GPU-0", instances=[FakeInstance("MIG-a")]))
    mig_profiles(driver, PROFILES, {0: 9})
    driver.more["nvmlDeviceGetName"] = texts("NVIDIA H100 80GB HBM3")
    driver.lacking.add("nvmlDeviceGetGpuInstanceId")
    mig = inventory_of(driver).gpus[0].instances[0].device.mig
    assert mig is not None
    assert mig.profile == "1g.10gb"


@pytest.mark.parametrize("number", [4_000_000_000, 99, 0])
def test_impossible_maximum_of_a_link_is_none(number: int) -> None:
    """Every link would count as degraded."""
    driver = FakeDriver(FakeGpu("GPU-0"))
    for name in ("Generation", "Width"):
        driver.more[f"nvmlDeviceGetMaxPcieLink{name}"] = telling(number)
    device = inventory_of(driver).gpus[0].whole.device
    assert (device.pcie_generation_maximum, device.pcie_width_maximum) == (None, None)


def test_profile_of_a_compute_instance_says_its_part() -> None:
    """Its name has its compute slices and its GPU instance's profile."""
    driver = FakeDriver(FakeGpu("GPU-0", instances=[FakeInstance("MIG-a", gpu_instance_id=2)]))
    mig_profiles(driver, PROFILES, {2: 9})

    def attributes(_driver: FakeDriver, _device: object, target: object) -> int:
        target._obj.gpuInstanceSliceCount = 3  # type: ignore[attr-defined] # What `byref` gives.
        target._obj.computeInstanceSliceCount = 1  # type: ignore[attr-defined]
        return int(pynvml.NVML_SUCCESS)

    driver.more |= {
        "nvmlDeviceGetName": texts("NVIDIA H100 80GB HBM3"),
        "nvmlDeviceGetAttributes_v2": attributes,
    }
    mig = inventory_of(driver).gpus[0].instances[0].device.mig
    assert mig is not None
    assert (mig.profile, mig.compute_share, mig.memory_share) == ("1c.3g.40gb", 1 / 7, 4 / 8)


def test_versions_of_the_driver() -> None:
    """CUDA's version is returned as one number, and formatted as usual."""
    driver = FakeDriver(FakeGpu("GPU-0"))
    driver.more |= {
        "nvmlSystemGetDriverVersion": texts("550.54.15"),
        "nvmlSystemGetNVMLVersion": texts("12.550.54.15"),
        "nvmlSystemGetCudaDriverVersion_v2": telling(12040),
    }
    assert inventory_of(driver).versions == {
        "driver_version": "550.54.15",
        "nvml_version": "12.550.54.15",
        "cuda_version": "12.4",
    }


@pytest.mark.parametrize("number", [11080, 13010])
def test_version_of_cuda_by_the_older_call(number: int) -> None:
    """Versions that the driver does not return are omitted."""
    driver = FakeDriver(FakeGpu("GPU-0"))
    driver.more["nvmlSystemGetCudaDriverVersion"] = telling(number)
    assert inventory_of(driver).versions == {
        "cuda_version": f"{number // 1000}.{number % 1000 // 10}"
    }


def test_versions_are_asked_once_an_opening() -> None:
    """A driver's version is constant while NVML is initialized."""
    driver = FakeDriver(FakeGpu("GPU-0"))
    versions = ["550.54.15", "580.95.05"]

    def version(fake: FakeDriver, *arguments: object) -> int:
        return texts(versions.pop(0))(fake, *arguments)

    driver.more["nvmlSystemGetDriverVersion"] = version
    with driver_thread(driver) as own:
        looks = [own.find_devices(), own.find_devices()]
        own.close()
        looks.append(own.find_devices())
    driver_versions = [
        look.versions["driver_version"] for look in looks if isinstance(look, Inventory)
    ]
    assert driver_versions == ["550.54.15", "550.54.15", "580.95.05"]
