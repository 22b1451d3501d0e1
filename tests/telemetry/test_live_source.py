"""The live source over a driver that hangs, refuses, disappears and returns."""

import threading
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pynvml
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvml_driver import FUNCTIONS, FakeDriver, FakeGpu, FakeInstance, reading, tick
from rightsizer.io.clock import FastClock
from rightsizer.model.driver_codes import XidLog
from rightsizer.model.errors import ConfigurationError
from rightsizer.model.reading import Missing
from rightsizer.model.signal import Signal
from rightsizer.model.snapshot import Down, Snapshot
from rightsizer.telemetry.live import LiveSource
from rightsizer.telemetry.nvml.xid_listener import OutageXids

POWER = "nvmlDeviceGetPowerUsage"


def read_until(source: LiveSource, clock: FastClock, is_so: Callable[[Snapshot], bool]) -> Snapshot:
    """Tick until a condition holds; returning or discovering threads need a moment."""
    for _ in range(500):
        snapshot = source.read()
        if is_so(snapshot):
            return snapshot
        time.sleep(0.005)
        tick(clock)
    pytest.fail(f"it never came to pass: {snapshot}")


def read_until_up(source: LiveSource, clock: FastClock, uuid: str) -> Snapshot:
    """Tick until a device gives readings."""
    return read_until(source, clock, lambda snapshot: uuid in snapshot.readings)


def uuids(snapshot: Snapshot) -> list[str]:
    """The listed devices, in order."""
    return [device.uuid for device in snapshot.devices]


def two_gpus() -> FakeDriver:
    """A driver with two H100."""
    return FakeDriver(FakeGpu("GPU-0"), FakeGpu("GPU-1"))


def test_snapshot_carries_both_clocks() -> None:
    """Times are the injected clock's, the interval is the caller's."""
    clock = FastClock(1_000_000_000)
    with reading(two_gpus(), clock) as source:
        tick(clock, 5)
        snapshot = source.read()
    assert snapshot.wall_time == snapshot.time == 6_000_000_000
    assert {found.time for found in snapshot.readings.values()} == {6_000_000_000}
    assert snapshot.interval == 1_000_000_000


def test_hung_device_delays_no_one_and_resumes() -> None:
    """A stuck GPU is down with the hanging call; its neighbor is read at every tick."""
    driver = two_gpus()
    clock = FastClock(0)
    gate = threading.Event()
    with reading(driver, clock, deadline_seconds=0.3, hung_after_seconds=0.2) as source:
        read_until_up(source, clock, "GPU-1")
        driver.hanging[POWER, 1] = gate
        for _ in range(4):
            tick(clock)
            snapshot = source.read()
            assert "GPU-0" in snapshot.readings
            assert "GPU-1" not in snapshot.readings
        down = snapshot.down["GPU-1"]
        assert down.reason is Missing.TIMED_OUT
        assert down.detail.startswith(f"hung in {POWER} for ")
        assert not snapshot.collectors["power"].success
        assert uuids(snapshot) == ["GPU-0", "GPU-1"]
        driver.hanging.clear()
        gate.set()
        assert not read_until_up(source, clock, "GPU-1").down


def test_hung_device_is_tried_by_few_threads() -> None:
    """New threads try a hung device, up to the setting's number."""
    driver = two_gpus()
    clock = FastClock(0)
    gate = threading.Event()
    bounds = {"abandon_after_seconds": 0.01, "abandoned_threads_maximum": 2}
    with reading(driver, clock, deadline_seconds=0.3, hung_after_seconds=0.2, **bounds) as source:
        read_until_up(source, clock, "GPU-1")
        before = threading.active_count()
        driver.hanging[POWER, 1] = gate
        for _ in range(8):
            time.sleep(0.011)
            tick(clock)
            source.read()
        # Two are left behind, one more tries it, and one reads the other GPU.
        assert threading.active_count() == before + 3
        driver.hanging.clear()
        gate.set()
        read_until_up(source, clock, "GPU-1")


def test_fresh_thread_recovers_a_device_whose_call_never_returns() -> None:
    """If only one call hangs forever, the next thread succeeds."""
    driver = two_gpus()
    clock = FastClock(0)
    gate = threading.Event()
    with reading(
        driver, clock, deadline_seconds=0.3, hung_after_seconds=0.2, abandon_after_seconds=0.2
    ) as source:
        read_until_up(source, clock, "GPU-1")
        driver.hanging[POWER, 1] = gate
        tick(clock)
        assert "GPU-1" in source.read().down
        driver.hanging.clear()
        read_until_up(source, clock, "GPU-1")
        gate.set()


def test_hung_start_says_so_and_recovers() -> None:
    """While NVML does not initialize, the snapshot names the call; then the devices appear."""
    driver = two_gpus()
    clock = FastClock(0)
    gate = threading.Event()
    driver.hanging["nvmlInitWithFlags", -1] = gate
    with reading(driver, clock, deadline_seconds=0.3, hung_after_seconds=0.2) as source:
        # A busy machine may not have started initializing by the first tick.
        snapshot = read_until(
            source,
            clock,
            lambda each: (each.trouble or "").startswith("NVML hangs in nvmlInit for "),
        )
        assert snapshot.devices == ()
        driver.hanging.clear()
        gate.set()
        assert read_until_up(source, clock, "GPU-0").trouble is None


def test_slow_start_is_not_begun_again() -> None:
    """Each call takes a while, all together longer than the timeout of one."""

    class Slow(FakeDriver):
        def _call(self, *call: Any) -> int:
            time.sleep(0.01)
            return super()._call(*call)

    driver = Slow(*(FakeGpu(f"GPU-{index}") for index in range(8)))
    clock = FastClock(0)
    patience = {"deadline_seconds": 0.1, "abandon_after_seconds": 0.8}
    with reading(driver, clock, **patience) as source:
        source.read()
        assert (source.read().trouble or "").startswith("NVML is slow: ")
        snapshot = read_until(source, clock, lambda snapshot: bool(snapshot.devices))
    assert len(snapshot.devices) == 8
    assert driver.openings == 1


def test_lost_device_leaves_the_others_alone() -> None:
    """A GPU off the bus is down and listed, queried once a tick, and recovers."""
    driver = two_gpus()
    clock = FastClock(0)
    with reading(driver, clock) as source:
        source.read()
        driver.gpus[1].is_lost = True
        for _ in range(70):  # After the next discovery.
            tick(clock)
            snapshot = source.read()
            assert "GPU-0" in snapshot.readings
            assert snapshot.down["GPU-1"].reason is Missing.LOST
            assert uuids(snapshot) == ["GPU-0", "GPU-1"]
        assert snapshot.devices[1].board == "H100-SXM5-80GB"
        assert driver.openings == 1
        driver.gpus[1].is_lost = False
        assert not read_until_up(source, clock, "GPU-1").down


def test_one_gpu_that_says_the_driver_is_gone_leaves_the_others_alone() -> None:
    """A driver that is gone says so of every GPU."""
    driver = two_gpus()
    clock = FastClock(0)
    with reading(driver, clock) as source:
        source.read()
        gone = pynvml.NVML_ERROR_UNINITIALIZED
        driver.codes_of |= {(name, 1): gone for name in set(driver.calls)}
        for _ in range(70):  # After the next discovery.
            tick(clock)
            snapshot = source.read()
            assert "GPU-0" in snapshot.readings
            assert snapshot.down["GPU-1"].reason is Missing.LOST
        assert driver.openings == 1


def test_a_gpu_without_a_handle_hides_no_other() -> None:
    """This holds for any error code."""
    driver = two_gpus()
    clock = FastClock(0)
    name = "nvmlDeviceGetHandleByIndex_v2"
    by_index = getattr(driver, name)

    def refuse(_: FakeDriver, index: Any, handle: Any) -> int:
        return pynvml.NVML_ERROR_UNINITIALIZED if index.value else by_index(index, handle)

    driver.more[name] = refuse
    with reading(driver, clock) as source:
        snapshot = source.read()
    assert set(snapshot.readings) == {"GPU-0"}
    assert snapshot.down["index:1"].reason is Missing.LOST


def test_removed_device_is_forgotten_after_a_while() -> None:
    """It stays listed as down until the retention ends."""
    driver = two_gpus()
    clock = FastClock(0)
    with reading(driver, clock, lost_retention_seconds=600.0) as source:
        source.read()
        driver.gpus.pop()
        listed = []
        for _ in range(20):
            tick(clock, 61)
            snapshot = source.read()
            listed.append("GPU-1" in snapshot.down)
            assert len(snapshot.devices) == 1 + listed[-1]
    assert listed[0]
    assert not listed[-1]
    assert listed == sorted(listed, reverse=True)


def test_no_gpu_is_forgotten_while_the_driver_is_away() -> None:
    """Only a driver that answers shows that a GPU is gone; what it last said stands there."""
    driver = two_gpus()
    clock = FastClock(0)
    with reading(driver, clock, lost_retention_seconds=60.0) as source:
        source.read()
        driver.is_loaded = False
        for _ in range(5):
            tick(clock, 86_400)
            snapshot = source.read()
        assert snapshot.down.keys() == {"GPU-0", "GPU-1"}
        assert all(down.is_of_driver for down in snapshot.down.values())
        assert all("modprobe nvidia" in down.detail for down in snapshot.down.values())


def test_lost_gpu_takes_its_instances_along() -> None:
    """MIG instances of a lost GPU are down without a query."""
    driver = FakeDriver(FakeGpu("GPU-0", instances=[FakeInstance("MIG-a")]))
    clock = FastClock(0)
    with reading(driver, clock) as source:
        source.read()
        driver.gpus[0].is_lost = True
        tick(clock)
        snapshot = source.read()
    assert {uuid: down.reason for uuid, down in snapshot.down.items()} == {
        "GPU-0": Missing.LOST,
        "MIG-a": Missing.LOST,
    }


def test_mig_changes_are_seen() -> None:
    """New instances appear, removed ones vanish at once."""
    gpu = FakeGpu("GPU-0", instances=[FakeInstance("MIG-a")])
    clock = FastClock(0)
    driver = FakeDriver(gpu)
    with reading(driver, clock) as source:
        source.read()
        gpu.instances = [FakeInstance("MIG-b"), FakeInstance("MIG-c")]
        tick(clock, 61)
        snapshot = read_until_up(source, clock, "MIG-c")
        assert uuids(snapshot) == ["GPU-0", "MIG-b", "MIG-c"]
        gpu.instances = None
        tick(clock, 61)
        snapshot = read_until(source, clock, lambda snapshot: len(snapshot.devices) == 1)
    assert uuids(snapshot) == ["GPU-0"]
    assert driver.samples_alive == 0


def test_lost_driver_is_opened_again() -> None:
    """NVML is shut down with the driver; when it returns, everything is as before."""
    driver = two_gpus()
    clock = FastClock(0)
    with reading(driver, clock) as source:
        source.read()
        driver.is_loaded = False
        for _ in range(1000):
            tick(clock)
            snapshot = source.read()
            if "modprobe nvidia" in (snapshot.trouble or ""):
                break
            time.sleep(0.002)
            assert not snapshot.readings
            assert {down.reason for down in snapshot.down.values()} == {Missing.LOST}
            assert len(snapshot.devices) == 2
        assert "modprobe nvidia" in (snapshot.trouble or "")
        assert driver.closings == 1
        driver.is_loaded = True
        snapshot = read_until_up(source, clock, "GPU-0")
        assert set(snapshot.readings) == {"GPU-0", "GPU-1"}
        assert snapshot.trouble is None
        assert driver.openings == 2
    assert driver.closings == 2
    assert driver.samples_alive == 0


def test_repeated_unknown_errors_open_nvml_again() -> None:
    """A device with only unknown errors makes NVML restart, with growing delays."""
    driver = two_gpus()
    clock = FastClock(0)
    driver.codes_of |= {(name, 1): pynvml.NVML_ERROR_UNKNOWN for name in FUNCTIONS}
    openings = []
    read = 0
    with reading(driver, clock) as source:
        for _ in range(120):
            read += "GPU-0" in source.read().readings
            openings.append(driver.openings)
            tick(clock)
        times = [at for at, (one, other) in enumerate(pairwise(openings)) if other > one]
        gaps = [later - earlier for earlier, later in pairwise(times)]
        assert 3 <= len(gaps) <= 6
        assert gaps[-1] > 2 * gaps[0]
        assert read > 100
        driver.codes_of.clear()
        read_until_up(source, clock, "GPU-1")


def test_absent_driver_is_retried_less_and_less() -> None:
    """Without a driver the source stays up, reports why, and waits longer each time."""
    driver = two_gpus()
    clock = FastClock(0)
    driver.codes["nvmlInitWithFlags"] = pynvml.NVML_ERROR_LIBRARY_NOT_FOUND
    attempts = []
    with reading(driver, clock, retry_longest_seconds=16.0) as source:
        for _ in range(300):
            snapshot = source.read()
            assert snapshot.devices == ()
            assert "libnvidia-ml.so.1 was not found" in (snapshot.trouble or "")
            attempts.append(driver.calls.count("nvmlInitWithFlags"))
            tick(clock)
        # Each second, then after a tenth of the time so far, at last every 16 seconds.
        assert attempts[10] == 11
        assert 20 <= attempts[59] <= 30
        assert attempts[250 + 32] - attempts[250] == 2
        driver.codes.clear()
        assert set(read_until_up(source, clock, "GPU-0").readings) == {"GPU-0", "GPU-1"}


def test_lost_and_read_exclude_each_other() -> None:
    """A device is either read or down in a snapshot."""
    driver = two_gpus()
    clock = FastClock(0)
    with reading(driver, clock) as source:
        for tick_number in range(40):
            driver.codes_of = {}
            if tick_number % 10 > 4:
                driver.codes_of = {(name, 1): pynvml.NVML_ERROR_UNKNOWN for name in FUNCTIONS}
            driver.is_loaded = tick_number % 17 < 14
            snapshot = source.read()
            assert not snapshot.readings.keys() & snapshot.down.keys()
            assert snapshot.readings.keys() | snapshot.down.keys() == set(uuids(snapshot))
            tick(clock)
    assert driver.samples_alive == 0


def test_unknown_collector_is_refused() -> None:
    """Disabling an unknown one is an error at the start."""
    with (
        pytest.raises(ConfigurationError, match="there is no collector 'gpn'; choose from gpm"),
        reading(two_gpus(), FastClock(0), disabled_collectors=("gpn",)),
    ):
        pass


def test_machine_without_library() -> None:
    """With the bindings' real loading, a machine without NVML gives an empty snapshot."""
    with reading(None, FastClock(0)) as source:
        snapshot = source.read()
    if snapshot.devices:
        pytest.skip("this machine has a GPU")
    assert snapshot.trouble


@given(
    lacking=st.sets(st.sampled_from(FUNCTIONS)),
    refused=st.sets(st.sampled_from(FUNCTIONS)),
)
def test_snapshot_reports_the_rest_whatever_is_missing(
    lacking: set[str], refused: set[str]
) -> None:
    """For any missing or refused functions, a snapshot has the other values."""
    gpu = FakeGpu("GPU-1", instances=[FakeInstance("MIG-a")])
    driver = FakeDriver(FakeGpu("GPU-0"), gpu)
    clock = FastClock(0)
    driver.lacking = set(lacking)
    driver.codes = dict.fromkeys(refused, pynvml.NVML_ERROR_NOT_SUPPORTED)
    gone = lacking | refused
    with reading(driver, clock) as source:
        source.read()
        tick(clock)
        snapshot = source.read()
    needed = {"nvmlInitWithFlags", "nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2"}
    if needed & gone:
        assert not snapshot.readings
        assert snapshot.trouble or snapshot.down
        return
    nameless = "index:0" if "nvmlDeviceGetPciInfo_v3" in gone else "pci:0000:17:00.0"
    uuid = nameless if "nvmlDeviceGetUUID" in gone else "GPU-0"
    found = snapshot.readings.get(uuid)
    if POWER not in gone:
        assert found is not None
        assert found.get(Signal.POWER_WATTS) == 350
    elif found is not None:
        assert found.why_missing(Signal.POWER_WATTS) is Missing.NOT_SUPPORTED
    for known in snapshot.readings.values():
        assert not known.values.keys() & known.missing.keys()
    listed = {device.uuid for device in snapshot.devices}
    assert snapshot.readings.keys() | snapshot.down.keys() == listed


def test_all_workers_end_with_the_source() -> None:
    """Closing leaves no thread and no buffer, and NVML is shut down."""
    before = threading.active_count()
    driver = two_gpus()
    clock = FastClock(0)
    with reading(driver, clock) as source:
        source.read()
        # One thread reads both GPUs.
        assert threading.active_count() == before + 4
    assert threading.active_count() == before
    assert (driver.openings, driver.closings, driver.samples_alive) == (1, 1, 0)


def test_waking_up_is_no_load() -> None:
    """Without persistence mode the first readings after initialization are omitted as artifacts."""
    driver = FakeDriver(FakeGpu("GPU-0", is_persistent=False, gpm=None))
    clock = FastClock(0)
    busy = []
    with reading(driver, clock, settling_seconds=3.0) as source:
        for _ in range(5):
            found = source.read().readings["GPU-0"]
            busy.append(found.why_missing(Signal.GPU_BUSY))
            assert found.get(Signal.MEMORY_USED_BYTES) is not None
            tick(clock)
    assert busy == [Missing.NO_SAMPLE] * 3 + [None] * 2


def test_collectors_of_a_device_that_is_down_have_no_failures_of_their_own() -> None:
    """The device is logged with its reason; ten lines more would say the same."""
    driver = FakeDriver(FakeGpu("GPU-0"), FakeGpu("GPU-1"))
    clock = FastClock(0)
    with reading(driver, clock) as source:
        source.read()
        for name in FUNCTIONS:
            driver.codes_of[name, 1] = int(pynvml.NVML_ERROR_UNKNOWN)
        tick(clock)
        found = source.read()
    assert "GPU-1" in found.down
    failed = [outcome for outcome in found.collectors.values() if not outcome.success]
    assert failed
    assert {outcome.failure for outcome in failed} == {None}


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        (pynvml.NVML_ERROR_GPU_IS_LOST, "GPU is lost"),
        (pynvml.NVML_ERROR_RESET_REQUIRED, "GPU requires restart"),
        (pynvml.NVML_ERROR_UNKNOWN, "Unknown Error"),
    ],
)
def test_reason_of_a_lost_gpu_has_what_the_driver_said(code: int, cause: str) -> None:
    """'lost' alone does not tell a reset from a board that must be exchanged."""
    driver, clock = two_gpus(), FastClock(0)
    with reading(driver, clock) as source:
        source.read()
        driver.codes_of |= {(name, 1): code for name in FUNCTIONS}
        tick(clock)
        assert source.read().down["GPU-1"].cause == cause


def test_outage_has_its_xid_and_no_former_one() -> None:
    """An Xid long before says nothing of it; neither does one of a GPU that only sleeps."""
    second = 10**9
    lost = Down(Missing.LOST, "nvmlDeviceGetHandleByIndex: GPU is lost", "GPU is lost")
    asleep = Down(Missing.SUSPENDED, "the kernel has put the GPU to sleep")
    xids = {uuid: XidLog({79: 1}, 79, 1000 * second) for uuid in ("GPU-0", "GPU-1")}
    found = OutageXids().explained({"GPU-0": lost, "GPU-1": asleep}, xids, 1010 * second)
    assert found["GPU-0"].cause.startswith("Xid 79: ")
    assert found["GPU-0"].detail.startswith("nvmlDeviceGetHandleByIndex: GPU is lost; Xid 79: ")
    assert found["GPU-1"] == asleep
    assert OutageXids().explained({"GPU-0": lost}, xids, 2000 * second)["GPU-0"] == lost
