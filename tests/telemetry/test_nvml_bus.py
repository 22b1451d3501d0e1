"""GPUs on the PCI bus compared with those of the driver, and sleeping GPUs."""

import ctypes
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pynvml
import pytest

from nvml_driver import FakeDriver, FakeGpu, reading, tick
from owner_trees import write_gpu
from readings import gpu
from rightsizer.io.clock import FastClock
from rightsizer.model.reading import Missing
from rightsizer.model.signal import Signal

FIRST = "0000:17:00.0"
SECOND = "0000:2a:00.0"


class Addressed(FakeDriver):
    """A driver whose GPUs can be looked up by address too."""

    def nvmlDeviceGetHandleByPciBusId_v2(self, address: ctypes.c_char_p, handle: object) -> int:  # noqa: N802
        """Handle of the GPU at an address."""
        known = {gpu.bus_id[4:]: index for index, gpu in enumerate(self.gpus)}
        wanted = (address.value or b"").decode()
        if wanted not in known:
            return int(pynvml.NVML_ERROR_NOT_FOUND)
        by_index = FakeDriver.__getattr__(self, "nvmlDeviceGetHandleByIndex_v2")
        return int(by_index(ctypes.c_uint(known[wanted]), handle))


class Refusing(Addressed):
    """A driver that counts some GPUs but returns no handle for them."""

    refused: Mapping[int, int] = MappingProxyType({})
    """NVML's codes by index."""

    def nvmlDeviceGetHandleByIndex_v2(self, index: ctypes.c_uint, handle: object) -> int:  # noqa: N802
        """Handle of a GPU."""
        if index.value in self.refused:
            return self.refused[index.value]
        return int(FakeDriver.__getattr__(self, "nvmlDeviceGetHandleByIndex_v2")(index, handle))


def two_gpus() -> Refusing:
    """Two GPUs at two addresses."""
    return Refusing(
        FakeGpu("GPU-0", bus_id=f"0000{FIRST}"), FakeGpu("GPU-1", bus_id=f"0000{SECOND}")
    )


def on_bus(
    root: Path, address: str, *, status: str = "active", driver: str | None = "nvidia"
) -> None:
    """Add a GPU to a sysfs tree."""
    folder = root / "sys/bus/pci/devices" / address
    (folder / "power").mkdir(parents=True, exist_ok=True)
    (folder / "vendor").write_text("0x10de\n")
    (folder / "class").write_text("0x030200\n")
    (folder / "power/runtime_status").write_text(f"{status}\n")
    if driver is not None and not (folder / "driver").is_symlink():
        (folder / "driver").symlink_to(f"../../drivers/{driver}")


def test_gpu_that_the_driver_does_not_offer_is_listed(tmp_path: Path) -> None:
    """A GPU on the bus that NVML lacks is down by its address, with the reason."""
    for address in (FIRST, SECOND):
        on_bus(tmp_path, address)
    driver = FakeDriver(FakeGpu("GPU-0", bus_id=f"0000{FIRST}"))
    with reading(driver, FastClock(0), tmp_path) as source:
        snapshot = source.read()
    assert [device.uuid for device in snapshot.devices] == ["GPU-0", f"pci:{SECOND}"]
    assert [device.stated_index for device in snapshot.devices] == [0, None]
    assert set(snapshot.readings) == {"GPU-0"}
    down = snapshot.down[f"pci:{SECOND}"]
    assert down.reason is Missing.LOST
    assert "driver does not offer it" in down.detail


@pytest.mark.parametrize("toolkit", ["shows all in /proc", "shows its own in /proc"])
def test_a_container_has_the_gpus_that_it_was_given(tmp_path: Path, toolkit: str) -> None:
    """The node's others are not lost, though /sys shows them; one given and lost is."""
    third = "0000:3d:00.0"
    given = {FIRST: 0, SECOND: 1}
    for minor, address in enumerate((FIRST, SECOND, third)):
        on_bus(tmp_path, address)
        if address in given or toolkit == "shows all in /proc":
            write_gpu(tmp_path / "proc", address, minor)
    (tmp_path / "dev").mkdir()
    for minor in given.values():
        (tmp_path / f"dev/nvidia{minor}").touch()
    driver = FakeDriver(FakeGpu("GPU-0", bus_id=f"0000{FIRST}"))
    with reading(driver, FastClock(0), tmp_path) as source:
        snapshot = source.read()
    assert [device.uuid for device in snapshot.devices] == ["GPU-0", f"pci:{SECOND}"]
    assert snapshot.down[f"pci:{SECOND}"].reason is Missing.LOST


@pytest.mark.parametrize(
    "code",
    [
        pynvml.NVML_ERROR_GPU_IS_LOST,
        pynvml.NVML_ERROR_UNKNOWN,
        pynvml.NVML_ERROR_NOT_FOUND,
        pynvml.NVML_ERROR_TIMEOUT,
    ],
)
def test_a_gpu_that_cannot_be_opened_is_one_device(tmp_path: Path, code: int) -> None:
    """It has the bus address and the driver's error, and is not listed by index too."""
    for address in (FIRST, SECOND):
        on_bus(tmp_path, address)
    driver = two_gpus()
    clock = FastClock(0)
    driver.refused = {0: code}
    with reading(driver, clock, tmp_path, retry_first_seconds=1.0) as source:
        first = source.read()
        driver.refused = {}
        for _ in range(100):
            tick(clock)
            snapshot = source.read()
            if "GPU-0" in snapshot.readings:
                break
    assert [(device.uuid, device.index) for device in first.devices] == [
        (f"pci:{FIRST}", 0),
        ("GPU-1", 1),
    ]
    assert "nvmlDeviceGetHandleByIndex" in first.down[f"pci:{FIRST}"].detail
    assert [device.uuid for device in snapshot.devices] == ["GPU-0", "GPU-1"]
    assert not snapshot.down


def test_no_gpu_is_missed_where_the_bus_knows_of_more(tmp_path: Path) -> None:
    """One cannot be opened and one is not counted: two devices are listed, in any order."""
    third = "0000:3d:00.0"
    for address in (FIRST, SECOND, third):
        on_bus(tmp_path, address)
    driver = two_gpus()
    driver.refused = {0: pynvml.NVML_ERROR_UNKNOWN}
    with reading(driver, FastClock(0), tmp_path) as source:
        snapshot = source.read()
    assert set(snapshot.down) == {f"pci:{FIRST}", f"pci:{third}"}
    assert len(snapshot.devices) == 3


def test_without_a_bus_a_gpu_that_cannot_be_opened_is_identified_by_its_index(
    tmp_path: Path,
) -> None:
    """A container without sysfs is such a case."""
    driver = two_gpus()
    driver.refused = {0: pynvml.NVML_ERROR_UNKNOWN}
    with reading(driver, FastClock(0), tmp_path) as source:
        snapshot = source.read()
    assert [device.uuid for device in snapshot.devices] == ["index:0", "GPU-1"]


def test_known_device_is_down_until_the_driver_offers_it(tmp_path: Path) -> None:
    """Without a driver it is listed by its name from the first snapshot on."""
    for address in (FIRST, SECOND):
        on_bus(tmp_path, address)
    driver = two_gpus()
    clock = FastClock(0)
    driver.is_loaded = False
    known = [
        gpu(at, uuid=f"GPU-{at}", pci_bus_id=f"0000{address}")
        for at, address in enumerate((FIRST, SECOND))
    ]
    with reading(driver, clock, tmp_path, retry_first_seconds=1.0) as source:
        source.expect(known)
        before = source.read()
        driver.is_loaded = True
        driver.refused = {1: pynvml.NVML_ERROR_UNKNOWN}
        for _ in range(100):
            tick(clock)
            snapshot = source.read()
            if "GPU-0" in snapshot.readings:
                break
    assert [device.uuid for device in before.devices] == ["GPU-0", "GPU-1"]
    assert {down.reason for down in before.down.values()} == {Missing.LOST}
    assert [device.uuid for device in snapshot.devices] == ["GPU-0", "GPU-1"]
    assert "nvmlDeviceGetHandleByIndex" in snapshot.down["GPU-1"].detail


def test_gpu_of_another_driver_is_ignored(tmp_path: Path) -> None:
    """One passed to a virtual machine, or without a driver, is not missing."""
    on_bus(tmp_path, FIRST)
    on_bus(tmp_path, SECOND, driver="vfio-pci")
    on_bus(tmp_path, "0000:3d:00.0", driver=None)
    driver = FakeDriver(FakeGpu("GPU-0", bus_id=f"0000{FIRST}"))
    with reading(driver, FastClock(0), tmp_path) as source:
        snapshot = source.read()
    assert [device.uuid for device in snapshot.devices] == ["GPU-0"]
    assert not snapshot.down


def test_hidden_gpu_leaves_the_list_when_it_is_offered(tmp_path: Path) -> None:
    """Once the driver has it, its UUID identifies it."""
    on_bus(tmp_path, FIRST)
    on_bus(tmp_path, SECOND)
    driver = two_gpus()
    clock = FastClock(0)
    late = driver.gpus.pop()
    with reading(driver, clock, tmp_path, enumeration_interval_seconds=1.0) as source:
        first = source.read()
        driver.gpus.append(late)
        for _ in range(100):
            tick(clock)
            snapshot = source.read()
            if "GPU-1" in snapshot.readings:
                break
    assert f"pci:{SECOND}" in first.down
    assert [device.uuid for device in snapshot.devices] == ["GPU-0", "GPU-1"]
    assert not snapshot.down


def test_all_asleep_are_left_asleep(tmp_path: Path) -> None:
    """NVML is not initialized until one of them wakes up."""
    on_bus(tmp_path, FIRST, status="suspended")
    driver = two_gpus()
    clock = FastClock(0)
    driver.gpus.pop()
    with reading(driver, clock, tmp_path, retry_first_seconds=1.0) as source:
        asleep = source.read()
        assert driver.calls == []
        on_bus(tmp_path, FIRST)
        for _ in range(4):
            tick(clock)
            awake = source.read()
            if awake.readings:
                break
    assert asleep.trouble == "all GPUs are asleep, and asking would wake them"
    assert set(awake.readings) == {"GPU-0"}


def test_sleeping_gpu_beside_one_that_works(tmp_path: Path) -> None:
    """NVML is initialized without attaching; awake GPUs are looked up by address."""
    on_bus(tmp_path, FIRST)
    on_bus(tmp_path, SECOND, status="suspended")
    driver = two_gpus()
    clock = FastClock(0)
    with reading(driver, clock, tmp_path) as source:
        snapshot = source.read()
    assert set(snapshot.readings) == {"GPU-0"}
    assert snapshot.down[f"pci:{SECOND}"].reason is Missing.SUSPENDED
    assert "nvmlDeviceGetCount_v2" not in driver.calls


def test_gpu_that_falls_asleep_is_asked_no_more(tmp_path: Path) -> None:
    """It is down while it sleeps, at the cost of reading one small file a tick."""
    on_bus(tmp_path, FIRST)
    driver = two_gpus()
    clock = FastClock(0)
    driver.gpus.pop()
    with reading(driver, clock, tmp_path) as source:
        source.read()
        on_bus(tmp_path, FIRST, status="suspended")
        tick(clock)
        before = len(driver.calls)
        asleep = source.read()
        calls = driver.calls[before:]
        on_bus(tmp_path, FIRST)
        tick(clock)
        awake = source.read()
    assert asleep.down["GPU-0"].reason is Missing.SUSPENDED
    assert not asleep.readings
    assert calls == []
    assert awake.readings["GPU-0"].get(Signal.POWER_WATTS) == 350
