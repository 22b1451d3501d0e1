"""Facts of devices from driver, sysfs and catalog."""

import time
from pathlib import Path
from typing import Any

import pynvml
import pytest

from nvml_driver import FakeDriver, FakeGpu, FakeInstance, reading, tick
from rightsizer.io.clock import FastClock
from rightsizer.model.device import Device, MigInstance
from rightsizer.model.reading import Missing
from rightsizer.model.signal import Signal


def devices_of(driver: FakeDriver, root: Path | None = None) -> tuple[Device, ...]:
    """Devices of a first discovery."""
    with reading(driver, FastClock(0), root) as source:
        return source.read().devices


def with_text(name: str, text: bytes) -> FakeDriver:
    """A driver with a GPU of which one function returns the given text."""
    driver = FakeDriver(FakeGpu("GPU-0"))

    def answer(_driver: FakeDriver, _handle: Any, buffer: Any, _size: Any) -> int:
        buffer.value = text
        return 0

    driver.more[name] = answer
    return driver


def test_board_of_the_catalogue() -> None:
    """A known board adds NVLink and achievable ratios, which the driver lacks."""
    (device,) = devices_of(FakeDriver(FakeGpu("GPU-0")))
    assert device.board == "H100-SXM5-80GB"
    assert device.architecture == "Hopper"
    assert device.pci_bus_id == "00000000:17:00.0"
    assert device.power_limit_watts == 700
    assert device.sm_clock_maximum_hertz == 1.98e9
    assert (device.pcie_generation_maximum, device.pcie_width_maximum) == (5, 16)
    assert device.nvlink_bytes_per_second == 450e9
    assert device.memory_total_bytes == 80 * 2**30


def test_unknown_board_keeps_what_the_driver_tells() -> None:
    """It is a device without the catalog's facts."""
    (device,) = devices_of(FakeDriver(FakeGpu("GPU-0", name="NVIDIA Z1", architecture=77)))
    assert (device.board, device.architecture, device.name) == (None, None, "NVIDIA Z1")
    assert device.nvlink_bytes_per_second is None
    assert device.power_limit_watts == 700


@pytest.mark.parametrize(("text", "node"), [("1\n", 1), ("-1\n", None), ("?", None)])
def test_numa_node_comes_from_sysfs(tmp_path: Path, text: str, node: int | None) -> None:
    """The kernel's -1 means unknown, and so do invalid values."""
    folder = tmp_path / "sys/bus/pci/devices/0000:17:00.0"
    folder.mkdir(parents=True)
    (folder / "numa_node").write_text(text)
    (device,) = devices_of(FakeDriver(FakeGpu("GPU-0")), tmp_path)
    assert device.numa_node == node


def test_absent_numa_node(tmp_path: Path) -> None:
    """A virtual machine may hide the device from sysfs."""
    (device,) = devices_of(FakeDriver(FakeGpu("GPU-0")), tmp_path)
    assert device.numa_node is None


def test_device_without_uuid_is_identified_by_its_address() -> None:
    """Its index would become another GPU's when one falls off the bus; it serves as a last name."""
    gpus = [FakeGpu("GPU-0"), FakeGpu("GPU-1", bus_id="00000000:18:00.0"), FakeGpu("GPU-2")]
    driver = FakeDriver(*gpus)
    driver.lacking.add("nvmlDeviceGetUUID")
    found = [device.uuid for device in devices_of(driver)]
    assert found == ["pci:0000:17:00.0", "pci:0000:18:00.0", "index:2"]


@pytest.mark.parametrize("uuid", [b"GPU-\xff\xfe", b"GPU-a\nb", b""])
def test_uuid_of_garbage_is_no_uuid(uuid: bytes) -> None:
    """It may be another one next time, and would then be another GPU."""
    driver = with_text("nvmlDeviceGetUUID", uuid)
    assert [device.uuid for device in devices_of(driver)] == ["pci:0000:17:00.0"]


def test_name_with_odd_bytes_is_readable() -> None:
    """Bytes of no encoding and control characters are replaced; the rest remains."""
    driver = with_text("nvmlDeviceGetName", b"NVIDIA \xffH100\n80GB\x1b")
    mark = "\N{REPLACEMENT CHARACTER}"
    assert [device.name for device in devices_of(driver)] == [f"NVIDIA {mark}H100{mark}80GB{mark}"]


def test_counts_of_garbage_are_refused() -> None:
    """Four billion handles would be asked for."""
    driver = FakeDriver(FakeGpu("GPU-0"))

    def answer(_driver: FakeDriver, count: Any) -> int:
        count._obj.value = 4_000_000
        return 0

    driver.more["nvmlDeviceGetCount_v2"] = answer
    with reading(driver, FastClock(0)) as source:
        assert source.read().trouble == (
            "NVML does not answer: nvmlDeviceGetCount: the driver answered 4000000"
        )


def test_mig_profile_of_the_catalogue() -> None:
    """Name and IDs are the driver's, shares the catalog's."""
    instances = [
        FakeInstance("MIG-a", "3g.40gb", gpu_instance_id=2, slices=3, memory_total=40 << 30),
        FakeInstance("MIG-b", "1g.10gb+me", gpu_instance_id=9),
    ]
    whole, first, second = devices_of(FakeDriver(FakeGpu("GPU-0", instances=instances)))
    assert whole.has_mig_instances
    assert whole.mig is None
    assert first.mig == MigInstance("GPU-0", "3g.40gb", 2, 0, 3 / 7, 4 / 8)
    assert first.capacity_ratio == 3 / 7
    assert first.memory_total_bytes == 40 * 2**30
    assert second.mig is not None
    assert (second.mig.profile, second.mig.memory_share) == ("1g.10gb+me", 1 / 8)
    assert first.power_limit_watts is None
    assert first.sm_clock_maximum_hertz == whole.sm_clock_maximum_hertz


def test_compute_instance_has_a_part_of_its_gpu_instance() -> None:
    """It shares its GPU instance's memory and has compute slices of its own."""
    instance = FakeInstance("MIG-a", "1c.3g.40gb", slices=1, memory_total=40 << 30)
    _, device = devices_of(FakeDriver(FakeGpu("GPU-0", instances=[instance])))
    assert device.mig is not None
    assert (device.mig.compute_share, device.mig.memory_share) == (1 / 7, 4 / 8)


def test_mig_shares_without_the_catalogue() -> None:
    """Slices and memory of an unknown board give the shares."""
    instance = FakeInstance("MIG-a", "2g.20gb", slices=2, memory_total=20 << 30)
    gpu = FakeGpu("GPU-0", name="NVIDIA Z1", instances=[instance])
    _, device = devices_of(FakeDriver(gpu))
    assert device.mig is not None
    assert (device.mig.compute_share, device.mig.memory_share) == (2 / 7, 1 / 4)


def test_gpu_that_cannot_be_opened_is_listed_as_down() -> None:
    """A GPU that fell off the bus before the start has no UUID, but is listed."""
    driver = FakeDriver(FakeGpu("GPU-0"), FakeGpu("GPU-1", is_lost=True))
    with reading(driver, FastClock(0)) as source:
        snapshot = source.read()
    assert [device.uuid for device in snapshot.devices] == ["GPU-0", "index:1"]
    assert snapshot.down["index:1"].reason is Missing.LOST
    assert snapshot.trouble is None


def test_node_without_gpus_says_so() -> None:
    """A driver without devices is a problem of its own kind."""
    with reading(FakeDriver(), FastClock(0)) as source:
        snapshot = source.read()
    assert snapshot.devices == ()
    assert snapshot.trouble == "the NVIDIA driver offers no GPU on this node"


def test_refused_count_says_so() -> None:
    """A driver that cannot count its devices has none, and the call is named."""
    driver = FakeDriver(FakeGpu("GPU-0"))
    driver.codes["nvmlDeviceGetCount_v2"] = pynvml.NVML_ERROR_UNKNOWN
    with reading(driver, FastClock(0)) as source:
        snapshot = source.read()
    assert snapshot.devices == ()
    assert "nvmlDeviceGetCount" in (snapshot.trouble or "")


def test_gpu_keeps_its_identity_while_the_driver_does_not_tell_it() -> None:
    """A known device whose UUID is refused later stays the same device."""
    driver = FakeDriver(FakeGpu("GPU-0"))
    clock = FastClock(0)
    with reading(driver, clock, enumeration_interval_seconds=1.0) as source:
        source.read()
        driver.codes["nvmlDeviceGetUUID"] = int(pynvml.NVML_ERROR_UNKNOWN)
        for _ in range(4):
            tick(clock)
            snapshot = source.read()
    assert [device.uuid for device in snapshot.devices] == ["GPU-0"]
    assert set(snapshot.readings) == {"GPU-0"}


def test_identity_is_remembered_over_openings() -> None:
    """After NVML was restarted, a GPU that does not return its UUID is still the same."""
    driver = FakeDriver(FakeGpu("GPU-0"))
    clock = FastClock(0)
    with reading(driver, clock) as source:
        source.read()
        driver.is_loaded = False
        tick(clock)
        source.read()
        driver.is_loaded = True
        driver.codes["nvmlDeviceGetUUID"] = int(pynvml.NVML_ERROR_UNKNOWN)
        for _ in range(8):
            tick(clock)
            snapshot = source.read()
            if snapshot.readings:
                break
    assert set(snapshot.readings) == {"GPU-0"}
    assert [device.uuid for device in snapshot.devices] == ["GPU-0"]


def test_gpu_that_could_not_be_opened_is_soon_tried_again() -> None:
    """A refused handle costs a second, not the interval of discovery.

    Its thread has a moment of real time for each second of the clock.
    """
    driver = FakeDriver(FakeGpu("GPU-0"), FakeGpu("GPU-1"))
    clock = FastClock(0)
    driver.gpus[1].is_lost = True
    with reading(driver, clock, enumeration_interval_seconds=3600.0) as source:
        first = source.read()
        driver.gpus[1].is_lost = False
        for _ in range(1000):
            tick(clock)
            time.sleep(0.002)
            snapshot = source.read()
            if "GPU-1" in snapshot.readings:
                break
    assert "GPU-1" not in first.readings
    assert set(snapshot.readings) == {"GPU-0", "GPU-1"}


def test_gpu_in_mig_mode_without_an_instance_is_idle() -> None:
    """No work can run on it: it has idle time of its own, until an instance exists."""
    gpu = FakeGpu("GPU-0", instances=[], gpm=None)
    clock = FastClock(0)
    driver = FakeDriver(gpu)
    driver.lacking |= {"nvmlDeviceGetUtilizationRates", "nvmlDeviceGetSamples"}
    with reading(driver, clock, enumeration_interval_seconds=1.0) as source:
        snapshot = source.read()
        assert gpu.instances is not None
        gpu.instances.append(FakeInstance("MIG-a"))
        for _ in range(1000):
            tick(clock)
            time.sleep(0.002)
            later = source.read()
            if len(later.devices) > 1:
                break
    (device,) = snapshot.devices
    assert device.awaits_mig_instances
    assert not device.has_mig_instances
    assert snapshot.readings["GPU-0"].get(Signal.GPU_BUSY) == 0.0
    whole, instance = later.devices
    assert whole.has_mig_instances
    assert not whole.awaits_mig_instances
    assert instance.mig is not None


@pytest.mark.parametrize(
    "call",
    [
        "nvmlDeviceGetMigMode",
        "nvmlDeviceGetMaxMigDeviceCount",
        "nvmlDeviceGetMigDeviceHandleByIndex",
        "nvmlDeviceGetGpuInstanceId",
    ],
)
def test_instances_stay_while_nobody_tells_them(call: str) -> None:
    """A failed list is not an empty one; their GPU does not become idle."""
    gpu = FakeGpu("GPU-0", instances=[FakeInstance("MIG-a")])
    clock = FastClock(0)
    driver = FakeDriver(gpu)
    with reading(driver, clock, enumeration_interval_seconds=1.0) as source:
        source.read()
        driver.codes[call] = pynvml.NVML_ERROR_UNKNOWN
        for _ in range(100):
            tick(clock)
            time.sleep(0.001)
            snapshot = source.read()
    assert driver.calls.count(call) > 1
    assert [device.uuid for device in snapshot.devices] == ["GPU-0", "MIG-a"]
    assert snapshot.devices[0].has_mig_instances


def test_a_whole_gpu_stays_whole_while_its_mode_is_not_reported() -> None:
    """This holds from the first discovery on, and later."""
    driver = FakeDriver(FakeGpu("GPU-0"))
    clock = FastClock(0)
    driver.codes["nvmlDeviceGetMigMode"] = pynvml.NVML_ERROR_UNKNOWN
    with reading(driver, clock, enumeration_interval_seconds=1.0) as source:
        first = source.read()
        for _ in range(20):
            tick(clock)
            time.sleep(0.001)
            later = source.read()
    for snapshot in (first, later):
        assert [device.has_mig_instances for device in snapshot.devices] == [False]
        assert "GPU-0" in snapshot.readings
