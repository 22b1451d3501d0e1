"""Discovery that is slow or hangs affects the GPU at which it is, and no other."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from nvml_driver import (
    FakeDriver,
    FakeGpu,
    FakeInstance,
    installed,
    patient_settings,
    reading,
    tick,
)
from rightsizer.catalogue.catalogue import built_in
from rightsizer.io.clock import FastClock
from rightsizer.model.reading import Missing
from rightsizer.model.snapshot import Snapshot
from rightsizer.telemetry.live import LiveSource
from rightsizer.telemetry.nvml.connection import NvmlConnection

POWER = "nvmlDeviceGetPowerUsage"
PEERS = "nvmlDeviceGetTopologyCommonAncestor"
PATIENCE = {"deadline_seconds": 3.0, "hung_after_seconds": 0.2, "abandon_after_seconds": 0.3}
SLOW = {"deadline_seconds": 0.05, "hung_after_seconds": 30.0}


def three_gpus() -> FakeDriver:
    """A driver with three H100, each at its own address."""
    return FakeDriver(*(FakeGpu(f"GPU-{at}", bus_id=f"00000000:{at + 1}7:00.0") for at in range(3)))


def until(source: LiveSource, clock: FastClock, is_so: Callable[[Snapshot], bool]) -> Snapshot:
    """Tick until a condition holds; threads need a moment of real time."""
    deadline = time.monotonic() + 60.0
    while time.monotonic() < deadline:
        snapshot = source.read()
        if is_so(snapshot):
            return snapshot
        time.sleep(0.005)
        tick(clock)
    pytest.fail(f"it never came to pass: {snapshot.down} {snapshot.trouble}")


@pytest.mark.parametrize("call", ["nvmlDeviceGetMigMode", "nvmlDeviceGetUUID", "nvmlDeviceGetName"])
def test_a_gpu_at_which_the_first_look_hangs_costs_no_other(call: str) -> None:
    """All other GPUs are read, and the hanging call is reported for that GPU.

    No thread enters the call again while one hangs there; once it returns, the GPU appears.
    """
    driver = three_gpus()
    clock = FastClock(0)
    gate = threading.Event()
    before = threading.enumerate()  # Threads of other tests may still end.
    driver.hanging[call, 1] = gate
    with reading(driver, clock, **PATIENCE) as source:
        snapshot = until(source, clock, lambda found: len(found.readings) == 2)
        assert set(snapshot.readings) == {"GPU-0", "GPU-2"}
        (down,) = snapshot.down.values()
        assert down.reason is Missing.TIMED_OUT
        assert call in down.detail
        for _ in range(30):
            tick(clock, 10.0)
            snapshot = source.read()
            assert set(snapshot.readings) == {"GPU-0", "GPU-2"}
            assert snapshot.abandoned_workers == 1
            time.sleep(0.002)
        started = [thread for thread in threading.enumerate() if thread not in before]
        assert sum(thread.name == "nvml" for thread in started) == 2
        driver.hanging.clear()
        gate.set()
        snapshot = until(source, clock, lambda found: len(found.readings) == 3)
    assert not snapshot.down
    assert snapshot.abandoned_workers == 0
    assert driver.openings == driver.closings == 2


def test_gpus_at_which_the_first_look_hangs_are_passed_by_at_once() -> None:
    """They may outnumber the threads abandoned for one; no thread has to be given up first."""
    driver = three_gpus()
    clock = FastClock(0)
    gate = threading.Event()
    driver.gpus += [FakeGpu(f"GPU-{at}", bus_id=f"00000000:{at}7:00.0") for at in (4, 5)]
    for at in (0, 1, 3, 4):
        driver.hanging["nvmlDeviceGetUUID", at] = gate
    patience = {**PATIENCE, "abandon_after_seconds": 3600.0, "abandoned_threads_maximum": 2}
    with reading(driver, clock, **patience) as source:
        snapshot = until(source, clock, lambda found: bool(found.readings))
        driver.hanging.clear()
        gate.set()
        found = until(source, clock, lambda found: len(found.readings) == 5)
    assert set(snapshot.readings) == {"GPU-2"}
    assert len(snapshot.down) == 4
    assert {down.reason for down in snapshot.down.values()} == {Missing.TIMED_OUT}
    assert not found.down


def test_a_gpu_beside_seven_that_hang_is_read_within_two_ticks() -> None:
    """This holds for any duration after which a call counts as hung."""
    driver = three_gpus()
    clock = FastClock(0)
    gate = threading.Event()
    driver.gpus += [FakeGpu(f"GPU-{at}", bus_id=f"00000000:{at + 1}7:00.0") for at in range(3, 8)]
    for at in range(7):
        driver.hanging["nvmlDeviceGetUUID", at] = gate
    with reading(driver, clock, deadline_seconds=3.0, hung_after_seconds=3600.0) as source:
        source.read()
        tick(clock)
        snapshot = source.read()
        driver.hanging.clear()
        gate.set()
    assert set(snapshot.readings) == {"GPU-7"}, (snapshot.down, snapshot.trouble)
    assert len(snapshot.down) == 7


def test_ways_between_gpus_that_hang_cost_no_gpu() -> None:
    """The connections are unknown, and every GPU is read."""
    driver = three_gpus()
    clock = FastClock(0)
    gate = threading.Event()
    driver.more[PEERS] = lambda *_: int(not gate.wait())
    with reading(driver, clock, **PATIENCE) as source:
        snapshot = until(source, clock, lambda found: len(found.readings) == 3)
        gate.set()
    assert not snapshot.down


def test_a_later_look_that_hangs_takes_no_gpu_that_answers() -> None:
    """Known facts stay, as readings still arrive; new GPUs are found."""
    driver = three_gpus()
    clock = FastClock(0)
    gate = threading.Event()
    with reading(driver, clock, **PATIENCE, enumeration_interval_seconds=5.0) as source:
        until(source, clock, lambda found: len(found.readings) == 3)
        driver.hanging["nvmlDeviceGetMigMode", 1] = gate
        driver.gpus.append(FakeGpu("GPU-3", bus_id="00000000:47:00.0"))
        snapshot = until(source, clock, lambda found: "GPU-3" in found.readings)
        gate.set()
    assert {"GPU-0", "GPU-1", "GPU-2"} <= set(snapshot.readings)
    assert not snapshot.down


def test_a_first_round_that_is_slow_is_no_hang() -> None:
    """Until it ends the GPU is unknown and has no sample."""
    driver = three_gpus()
    clock = FastClock(0)
    gate = threading.Event()
    driver.hanging[POWER, 1] = gate
    with reading(driver, clock, **SLOW) as source:
        snapshot = until(source, clock, lambda found: len(found.readings) == 2)
        assert snapshot.down["GPU-1"].reason is Missing.NO_SAMPLE
        driver.hanging.clear()
        gate.set()
        assert not until(source, clock, lambda found: len(found.readings) == 3).down


def test_a_slow_gpu_that_is_cut_again_keeps_what_it_gave() -> None:
    """Its new instances have no sample; the GPU's last reading stays, as in any late round."""
    driver = three_gpus()
    clock = FastClock(0)
    gate = threading.Event()
    with reading(driver, clock, **SLOW, enumeration_interval_seconds=5.0) as source:
        until(source, clock, lambda found: len(found.readings) == 3)
        driver.hanging[POWER, 1] = gate
        driver.gpus[1].instances = [FakeInstance("MIG-1")]
        snapshot = until(source, clock, lambda found: "MIG-1" in found.down)
        assert set(snapshot.readings) == {"GPU-0", "GPU-1", "GPU-2"}
        assert snapshot.down["MIG-1"].reason is Missing.NO_SAMPLE
        driver.hanging.clear()
        gate.set()
        assert not until(source, clock, lambda found: "MIG-1" in found.readings).down


def test_change_during_an_enumeration_is_looked_for_again() -> None:
    """Its result may be from before the change; the next one would be a minute later."""
    driver = three_gpus()
    clock = FastClock(0)
    gate = threading.Event()
    with installed(driver):
        connection = NvmlConnection(
            clock=clock,
            settings=patient_settings(),
            catalogue=built_in(),
            sysfs=Path("/nowhere"),
            root=Path("/nowhere"),
        )
        connection.advance(time.monotonic() + 60)
        first = connection.inventory
        tick(clock, 61)
        driver.hanging["nvmlDeviceGetCount_v2", -1] = gate
        connection.advance(time.monotonic())
        connection.retry_soon()
        driver.hanging.clear()
        gate.set()
        deadline = time.monotonic() + 60
        for wait_seconds in (0.0, 2.0):
            tick(clock, wait_seconds)
            while connection.inventory is first and time.monotonic() < deadline:
                connection.advance(time.monotonic())
            first = connection.inventory
        connection.close(time.monotonic() + 60)
    assert driver.calls.count("nvmlDeviceGetCount_v2") == 3
