"""Collectors of slowly changing values: rare reads, values valid in between, in turns."""

import threading
from collections import Counter
from typing import Any

import pynvml
import pytest

from nvml_answers import telling
from nvml_driver import FUNCTIONS, FakeDriver, FakeGpu, reading, tick
from nvml_rounds import rounds
from rightsizer.io.clock import FastClock
from rightsizer.model.reading import Missing
from rightsizer.model.signal import Signal
from rightsizer.telemetry.nvml.collectors import COLLECTORS

LIMIT = "nvmlDeviceGetEnforcedPowerLimit"
POWER = "nvmlDeviceGetPowerUsage"
STATE = "nvmlDeviceGetPerformanceState"
FAST = sorted({collector.name for collector in COLLECTORS if not collector.is_slow} - {"gpm"})


def test_slow_is_read_at_its_interval_and_holds() -> None:
    """Between two slow reads the value is kept; fast ones are read every second."""
    driver = FakeDriver(FakeGpu("GPU-0"))
    clock = FastClock(0)
    limits = []

    def rising(*asked: Any) -> int:
        return telling(700_000 + 1000 * len(limits))(*asked)

    driver.more[LIMIT] = rising
    with reading(driver, clock, slow_interval_seconds=5.0) as source:
        for _ in range(11):
            limits.append(source.read().readings["GPU-0"].get(Signal.POWER_LIMIT_WATTS))
            tick(clock)
    assert limits == [700] * 5 + [705] * 5 + [710]
    assert Counter(driver.calls)[LIMIT] == 3
    assert Counter(driver.calls)[POWER] == 11


def test_devices_take_turns() -> None:
    """After the first round, no tick has the slow reads of all devices."""
    gpus = [FakeGpu(f"GPU-{index}", bus_id=f"00000000:{index:02X}:00.0") for index in range(8)]
    driver = FakeDriver(*gpus)
    clock = FastClock(0)
    slow_reads = []
    with rounds(driver, clock, slow_interval_seconds=16.0) as read:
        for _ in range(50):
            before = driver.calls.count(LIMIT)
            read()
            slow_reads.append(driver.calls.count(LIMIT) - before)
            tick(clock)
    assert slow_reads[0] == 8
    assert max(slow_reads[1:]) == 1
    # Each has its turn once an interval, the last one seven seconds after the first.
    assert [second for second, reads in enumerate(slow_reads) if reads] == [
        0,
        *range(16, 24),
        *range(32, 40),
        48,
        49,
    ]


def test_failing_slow_collector_says_so_and_recovers() -> None:
    """A failure stays for an interval, as a value does; fast signals are unaffected."""
    driver = FakeDriver(FakeGpu("GPU-0"))
    clock = FastClock(0)
    driver.codes[LIMIT] = pynvml.NVML_ERROR_TIMEOUT
    driver.codes["nvmlDeviceGetPowerManagementLimit"] = pynvml.NVML_ERROR_TIMEOUT
    with reading(driver, clock, slow_interval_seconds=2.0) as source:
        failed = source.read()
        driver.codes.clear()
        tick(clock)
        held = source.read()
        tick(clock)
        recovered = source.read()
    for snapshot in (failed, held):
        found = snapshot.readings["GPU-0"]
        assert found.why_missing(Signal.POWER_LIMIT_WATTS) is Missing.TIMED_OUT
        assert found.get(Signal.POWER_WATTS) == 350
        assert not snapshot.collectors["power"].success
    assert recovered.readings["GPU-0"].get(Signal.POWER_LIMIT_WATTS) == 700
    assert recovered.collectors["power"].success


def test_outcomes_are_reported_under_the_collector_they_are_part_of() -> None:
    """Operators see one `power`, not one for each of its intervals."""
    driver = FakeDriver(FakeGpu("GPU-0"))
    clock = FastClock(0)
    driver.more[STATE] = telling(0)
    with reading(driver, clock) as source:
        outcomes = source.read().collectors
    parts = {collector.name for collector in COLLECTORS if collector.part_of}
    assert not parts & outcomes.keys()
    assert {"power", "clocks", "memory", "processes", "temperature"} <= outcomes.keys()


def test_hanging_slow_collector_names_itself() -> None:
    """A device that hangs in a slow read is down for it, and its neighbor is not."""
    gpus = FakeGpu("GPU-0"), FakeGpu("GPU-1", bus_id="00000000:18:00.0")
    driver = FakeDriver(*gpus)
    clock = FastClock(0)
    gate = threading.Event()
    with reading(
        driver, clock, deadline_seconds=0.3, hung_after_seconds=0.2, slow_interval_seconds=1.0
    ) as source:
        source.read()
        driver.hanging[LIMIT, 1] = gate
        tick(clock, 2)
        snapshot = source.read()
        assert "GPU-0" in snapshot.readings
        assert snapshot.down["GPU-1"].reason is Missing.TIMED_OUT
        assert snapshot.down["GPU-1"].detail.startswith(f"hung in {LIMIT} for ")
        assert not snapshot.collectors["power"].success
        driver.hanging.clear()
        gate.set()


def test_slow_values_alone_keep_no_device_alive() -> None:
    """When all fast calls fail, the device is down although slow values are valid."""
    driver = FakeDriver(FakeGpu("GPU-0", gpm=None))
    clock = FastClock(0)
    with reading(driver, clock, slow_interval_seconds=60.0) as source:
        first = source.read()
        functions = set(driver.calls) - {"nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2"}
        driver.codes = dict.fromkeys(functions, pynvml.NVML_ERROR_TIMEOUT)
        tick(clock)
        snapshot = source.read()
    assert first.readings["GPU-0"].get(Signal.POWER_LIMIT_WATTS) == 700
    assert snapshot.down["GPU-0"].reason is Missing.TIMED_OUT
    assert not snapshot.readings


def test_device_lost_during_a_slow_read_is_down() -> None:
    """Its fast values of that round are dropped; once back, slow ones are read at once."""
    driver = FakeDriver(FakeGpu("GPU-0"))
    clock = FastClock(0)
    with reading(driver, clock, slow_interval_seconds=3.0) as source:
        source.read()
        driver.codes[LIMIT] = pynvml.NVML_ERROR_GPU_IS_LOST
        tick(clock, 3)
        lost = source.read()
        driver.codes.clear()
        tick(clock)
        back = source.read()
    assert lost.down["GPU-0"].reason is Missing.LOST
    assert "GPU-0" not in lost.readings
    assert back.readings["GPU-0"].get(Signal.POWER_LIMIT_WATTS) == 700


def test_unsupported_slow_collector_costs_nothing() -> None:
    """It is called in the first slow round only."""
    driver = FakeDriver(FakeGpu("GPU-0"))
    clock = FastClock(0)
    refused = (STATE, "nvmlDeviceGetBAR1MemoryInfo", "nvmlDeviceGetMarginTemperature")
    driver.more |= dict.fromkeys(refused, telling(1))
    driver.codes |= dict.fromkeys(refused, pynvml.NVML_ERROR_NOT_SUPPORTED)
    with reading(driver, clock, slow_interval_seconds=1.0) as source:
        for _ in range(4):
            found = source.read().readings["GPU-0"]
            tick(clock)
    assert [driver.calls.count(name) for name in refused] == [1, 1, 1]
    assert found.why_missing(Signal.PERFORMANCE_STATE) is Missing.NOT_SUPPORTED


@pytest.mark.parametrize("disabled", ["power_limit", "fans", "ecc"])
def test_slow_collectors_can_be_disabled(disabled: str) -> None:
    """As with any other, no call is made, and no outcome is reported."""
    collector = next(found for found in COLLECTORS if found.name == disabled)
    driver = FakeDriver(FakeGpu("GPU-0"))
    with reading(driver, FastClock(0), disabled_collectors=(disabled,)) as source:
        found = source.read().readings["GPU-0"]
    for signal in collector.signals:
        assert found.why_missing(signal) is Missing.NOT_READ


def test_device_with_slow_answers_alone_is_down() -> None:
    """With every fast collector disabled, nothing shows that a device is up."""
    disabled = (*FAST, "gpm")
    with reading(
        FakeDriver(FakeGpu("GPU-0")), FastClock(0), disabled_collectors=disabled
    ) as source:
        snapshot = source.read()
    assert snapshot.down["GPU-0"].reason is Missing.NOT_READ
    assert not snapshot.readings


def test_device_is_down_for_the_gravest_reason() -> None:
    """A missing second GPM sample or fan explains nothing where all calls are refused.

    One callable function is enough to bring the device up again.
    """
    driver = FakeDriver(FakeGpu("GPU-0"))
    clock = FastClock(0)
    asked = [name for name in FUNCTIONS if name.startswith("nvmlDeviceGet")]
    known = {"Count_v2", "HandleByIndex_v2", "UUID", "MigMode", "Name"}
    refused = [name for name in asked if name.removeprefix("nvmlDeviceGet") not in known]
    driver.codes = dict.fromkeys(refused, pynvml.NVML_ERROR_NO_PERMISSION)
    with reading(driver, clock) as source:
        snapshot = source.read()
        del driver.codes[POWER]
        tick(clock)
        granted = source.read()
    assert snapshot.down["GPU-0"].reason is Missing.NO_PERMISSION
    assert granted.readings["GPU-0"].get(Signal.POWER_WATTS) == 350
