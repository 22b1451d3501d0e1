"""GPUs and counters that are released on request, and resumed."""

import sys
import threading
import time
from collections.abc import Callable

import pynvml
import pytest

from nvml_driver import FakeDriver, FakeGpu, FakeInstance, reading, tick
from rightsizer.io.clock import FastClock
from rightsizer.model.device import Device
from rightsizer.model.reading import Missing
from rightsizer.model.signal import Signal
from rightsizer.model.snapshot import Snapshot
from rightsizer.telemetry.live import LiveSource
from rightsizer.telemetry.nvml.device_pool import DevicePool
from rightsizer.telemetry.nvml.inventory import DeviceTarget, Gpu, Inventory
from rightsizer.telemetry.nvml.settings import LiveSettings
from rightsizer.telemetry.source import ReleasableResource, ReleaseController

PIPE = Signal.TENSOR_ACTIVE
POWER = "nvmlDeviceGetPowerUsage"


def two_gpus() -> FakeDriver:
    """A driver with two H100."""
    return FakeDriver(FakeGpu("GPU-0"), FakeGpu("GPU-1", bus_id="00000000:18:00.0"))


def read_until(
    source: LiveSource, clock: FastClock | None, is_so: Callable[[Snapshot], bool]
) -> Snapshot:
    """Tick until a condition holds; a thread of its own releases resources."""
    for _ in range(500):
        snapshot = source.read()
        if is_so(snapshot):
            return snapshot
        time.sleep(0.005)
        if clock is not None:
            tick(clock)
    pytest.fail(f"it never came to pass: {snapshot}")


def test_released_counters_are_freed_by_the_threads_that_read() -> None:
    """GPM's buffers are freed, its signals have the reason, and gpu_busy comes from NVML."""
    instances = [FakeInstance("MIG-a"), FakeInstance("MIG-b")]
    driver = FakeDriver(FakeGpu("GPU-0"), FakeGpu("GPU-1", instances=instances))
    freed_by = set[int]()
    usual = driver.nvmlGpmSampleFree

    def freeing(_driver: FakeDriver, sample: object) -> int:
        freed_by.add(threading.get_ident())
        return usual(sample)

    driver.more["nvmlGpmSampleFree"] = freeing
    clock = FastClock(0)
    controls = ReleaseController(clock)
    with reading(driver, clock, controls=controls) as source:
        source.read()
        tick(clock)
        before = source.read()
        release = controls.release(ReleasableResource.COUNTERS)
        assert source.still_held(release) == "threads that still hold profiling counters: 2"
        tick(clock)
        during = source.read()
        assert driver.samples_alive == 0
        assert source.still_held(release) is None
        assert threading.get_ident() not in freed_by
    assert before.readings["GPU-0"].get(PIPE) == 0.6
    found = during.readings["GPU-0"]
    assert found.why_missing(PIPE) is Missing.RELEASED
    assert (found.get(Signal.GPU_BUSY), found.origins[Signal.GPU_BUSY]) == (0.42, "utilization")
    assert found.get(Signal.POWER_WATTS) == 350
    assert during.readings["MIG-a"].why_missing(Signal.GPU_BUSY) is Missing.RELEASED
    assert during.released == "the profiling counters were released until 'rightsizer resume'"
    assert not during.down


def test_counters_are_taken_back() -> None:
    """After the requested time sampling restarts, with a first sample."""
    driver = two_gpus()
    clock = FastClock(0)
    controls = ReleaseController(clock)
    reasons = []
    with reading(driver, clock, controls=controls) as source:
        for second in range(7):
            if second == 2:
                controls.release(ReleasableResource.COUNTERS, for_seconds=2.0)
            snapshot = source.read()
            reasons.append((snapshot.readings["GPU-0"].why_missing(PIPE), snapshot.released))
            tick(clock)
    released = "the profiling counters were released for 2 s"
    assert reasons == [
        (Missing.NO_SAMPLE, None),
        (None, None),
        (Missing.RELEASED, released),
        (Missing.RELEASED, released),
        (Missing.NO_SAMPLE, None),
        (None, None),
        (None, None),
    ]
    assert driver.calls.count("nvmlGpmQueryDeviceSupport") == 2
    assert driver.samples_alive == 0


def test_nothing_is_sampled_while_counters_are_released() -> None:
    """A profiler has them exclusively."""
    driver = two_gpus()
    clock = FastClock(0)
    controls = ReleaseController(clock)
    controls.release(ReleasableResource.COUNTERS)
    with reading(driver, clock, controls=controls) as source:
        for _ in range(3):
            snapshot = source.read()
            tick(clock)
        assert snapshot.readings["GPU-1"].why_missing(PIPE) is Missing.RELEASED
    assert not {"nvmlGpmSampleAlloc", "nvmlGpmSampleGet"} & set(driver.calls)


def test_board_without_gpm_has_nothing_to_release() -> None:
    """It reports that it has no counters, and is queried for them once."""
    driver = FakeDriver(FakeGpu("GPU-0", gpm=None))
    clock = FastClock(0)
    controls = ReleaseController(clock)
    release = controls.release(ReleasableResource.COUNTERS)
    with reading(driver, clock, controls=controls) as source:
        for _ in range(3):
            found = source.read().readings["GPU-0"]
            tick(clock)
        assert source.still_held(release) is None
        controls.resume(ReleasableResource.COUNTERS)
        source.read()
    assert found.why_missing(PIPE) is Missing.NOT_SUPPORTED
    assert driver.calls.count("nvmlGpmQueryDeviceSupport") == 1


def test_metric_that_was_refused_stays_refused() -> None:
    """An unsupported metric is not queried again after a release."""
    driver = FakeDriver(FakeGpu("GPU-0"))
    clock = FastClock(0)
    controls = ReleaseController(clock)
    reasons = []
    with reading(driver, clock, controls=controls) as source:
        for step in (None, None, controls.release, controls.resume, None):
            if step is not None:
                step(ReleasableResource.COUNTERS)
            reasons.append(source.read().readings["GPU-0"].why_missing(Signal.DRAM_ACTIVE))
            tick(clock)
    refused = Missing.NOT_SUPPORTED
    assert reasons == [Missing.NO_SAMPLE, refused, refused, Missing.NO_SAMPLE, refused]


def test_hung_gpu_still_holds_its_counters() -> None:
    """Counters are not reported as free while a hanging thread uses them."""
    driver = two_gpus()
    clock = FastClock(0)
    gate = threading.Event()
    controls = ReleaseController(clock)
    with reading(
        driver, clock, controls=controls, deadline_seconds=0.3, hung_after_seconds=0.2
    ) as source:
        source.read()
        driver.hanging[POWER, 1] = gate
        tick(clock)
        source.read()
        release = controls.release(ReleasableResource.COUNTERS)
        tick(clock)
        source.read()
        assert source.still_held(release) == "threads that still hold profiling counters: 1"
        driver.hanging.clear()
        gate.set()
        # The hanging round comes first, and still holds them.
        read_until(source, clock, lambda _: source.still_held(release) is None)
        assert "GPU-1" in source.read().readings


def test_released_gpus_are_down_and_nothing_is_asked() -> None:
    """Every handle is closed, devices stay listed, and no call is made."""
    driver = two_gpus()
    clock = FastClock(0)
    controls = ReleaseController(clock)
    with reading(driver, clock, controls=controls) as source:
        source.read()
        release = controls.release(ReleasableResource.GPUS)
        assert source.still_held(release) is not None
        read_until(source, clock, lambda _: source.still_held(release) is None)
        assert (driver.openings, driver.closings, driver.samples_alive) == (1, 1, 0)
        asked = len(driver.calls)
        for _ in range(200):
            tick(clock, 30)
            snapshot = source.read()
        assert len(driver.calls) == asked
    assert [device.uuid for device in snapshot.devices] == ["GPU-0", "GPU-1"]
    assert {down.reason for down in snapshot.down.values()} == {Missing.RELEASED}
    assert snapshot.released == "the GPUs were released until 'rightsizer resume'"
    assert snapshot.trouble == snapshot.released
    assert not snapshot.readings
    assert (driver.openings, driver.closings) == (1, 1)


def test_released_gpus_stay_listed_for_days() -> None:
    """A GPU lent to a virtual machine is kept longer than a removed one."""
    driver = two_gpus()
    clock = FastClock(0)
    controls = ReleaseController(clock)
    with reading(driver, clock, controls=controls, lost_retention_seconds=60.0) as source:
        source.read()
        controls.release(ReleasableResource.GPUS)
        for _ in range(5):
            tick(clock, 86_400)
            snapshot = source.read()
        assert snapshot.down.keys() == {"GPU-0", "GPU-1"}


def test_gpus_are_taken_back_by_themselves() -> None:
    """When the time has passed, or on resume, everything is as before."""
    driver = two_gpus()
    clock = FastClock(0)
    controls = ReleaseController(clock)
    with reading(driver, clock, controls=controls) as source:
        source.read()
        release = controls.release(ReleasableResource.GPUS, for_seconds=120.0)
        read_until(source, clock, lambda _: source.still_held(release) is None)
        assert driver.closings == 1
        tick(clock, 121)
        snapshot = read_until(source, clock, lambda found: "GPU-0" in found.readings)
        assert snapshot.readings.keys() == {"GPU-0", "GPU-1"}
        assert (snapshot.released, snapshot.trouble, dict(snapshot.down)) == (None, None, {})
        assert driver.openings == 2
        release = controls.release(ReleasableResource.GPUS)
        read_until(source, clock, lambda _: source.still_held(release) is None)
        assert controls.resume(ReleasableResource.GPUS)
        assert not controls.resume(ReleasableResource.GPUS)
        snapshot = read_until(source, clock, lambda found: "GPU-1" in found.readings)
    assert not snapshot.down
    assert (driver.openings, driver.closings, driver.samples_alive) == (3, 3, 0)


def test_release_waits_for_a_call_that_hangs() -> None:
    """NVML is not reported as closed while a thread is inside the driver."""
    driver = two_gpus()
    clock = FastClock(0)
    gate = threading.Event()
    controls = ReleaseController(clock)
    with reading(
        driver, clock, controls=controls, deadline_seconds=0.3, hung_after_seconds=0.2
    ) as source:
        source.read()
        driver.hanging[POWER, 1] = gate
        tick(clock)
        source.read()
        release = controls.release(ReleasableResource.GPUS)
        for _ in range(40):
            tick(clock)
            snapshot = source.read()
            assert source.still_held(release) == "NVML is still open: a driver call is under way"
            time.sleep(0.005)
        assert snapshot.down["GPU-1"].reason is Missing.RELEASED
        driver.hanging.clear()
        gate.set()
        read_until(source, clock, lambda _: source.still_held(release) is None)
        assert driver.closings == 1


@pytest.mark.parametrize("call", ["nvmlInitWithFlags", "nvmlDeviceGetCount_v2"])
def test_release_during_opening(call: str) -> None:
    """An initialization in progress is undone, and gives no reading."""
    driver = two_gpus()
    clock = FastClock(0)
    gate = threading.Event()
    controls = ReleaseController(clock)
    driver.hanging[call, -1] = gate
    with reading(
        driver, clock, controls=controls, deadline_seconds=0.3, hung_after_seconds=0.2
    ) as source:
        source.read()
        release = controls.release(ReleasableResource.GPUS)
        tick(clock)
        source.read()
        assert source.still_held(release) is not None
        driver.hanging.clear()
        gate.set()
        read_until(source, clock, lambda _: source.still_held(release) is None)
        assert (driver.openings, driver.closings) == (1, 1)
        assert POWER not in driver.calls
        controls.resume(ReleasableResource.GPUS)
        read_until(source, clock, lambda found: "GPU-0" in found.readings)


def test_taken_back_while_it_is_let_go() -> None:
    """Closing takes time; a resume meanwhile takes effect after it."""
    driver = two_gpus()
    clock = FastClock(0)
    gate = threading.Event()
    controls = ReleaseController(clock)
    with reading(
        driver, clock, controls=controls, deadline_seconds=0.3, hung_after_seconds=0.2
    ) as source:
        source.read()
        driver.hanging["nvmlShutdown", -1] = gate
        controls.release(ReleasableResource.GPUS)
        source.read()
        controls.resume(ReleasableResource.GPUS)
        tick(clock)
        waiting = source.read()
        assert not waiting.readings
        driver.hanging.clear()
        gate.set()
        # No time passes: after a release there is no delay as after a failure.
        snapshot = read_until(source, None, lambda found: "GPU-0" in found.readings)
    assert snapshot.trouble is None
    assert "released" not in (waiting.trouble or "")
    assert (driver.openings, driver.closings) == (2, 2)


def test_release_without_a_driver() -> None:
    """The release completes at once."""
    driver = two_gpus()
    clock = FastClock(0)
    driver.codes["nvmlInitWithFlags"] = pynvml.NVML_ERROR_LIBRARY_NOT_FOUND
    controls = ReleaseController(clock)
    with reading(driver, clock, controls=controls) as source:
        source.read()
        release = controls.release(ReleasableResource.GPUS)
        read_until(source, clock, lambda _: source.still_held(release) is None)
        assert driver.closings == 0


def test_held_devices_may_be_listed_while_gpus_change() -> None:
    """The list is read from the thread of the caller."""
    clock = FastClock(0)
    pool = DevicePool(clock=clock, settings=LiveSettings())
    devices = [Device(f"GPU-{number}", number) for number in range(200)]
    gpus = tuple(Gpu(DeviceTarget(device, number)) for number, device in enumerate(devices))
    has_ended = threading.Event()
    troubles: list[BaseException] = []

    def ask() -> None:
        try:
            while not has_ended.is_set():
                assert pool.counters_held + pool.abandoned >= 0
        except BaseException as error:  # noqa: BLE001 - told by the test.
            troubles.append(error)

    asking = threading.Thread(target=ask)
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        asking.start()
        for generation in range(50):
            pool.set_inventory(Inventory(generation, gpus[: 1 + generation * 4]))
            pool.set_inventory(None)
        has_ended.set()
        asking.join()
    finally:
        sys.setswitchinterval(usual)
    assert not troubles
