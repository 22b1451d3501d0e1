"""Collectors over the real bindings: units, older drivers, and calls that are not repeated."""

from collections import Counter

import pynvml
import pytest

from nvml_driver import FakeDriver, FakeGpu, FakeInstance, reading, tick
from rightsizer.io.clock import FastClock
from rightsizer.model.reading import Missing, Process
from rightsizer.model.signal import Signal
from rightsizer.model.snapshot import CollectorOutcome
from rightsizer.telemetry.nvml.collectors import COLLECTORS


def test_every_signal_has_its_unit() -> None:
    """Milliwatts, megahertz, percent and MiB become base units."""
    gpu = FakeGpu("GPU-0", gpm=None, processes={11: 1 << 30, 12: None})
    with reading(FakeDriver(gpu), FastClock(0)) as source:
        found = source.read().readings["GPU-0"]
    assert found.values == {
        Signal.GPU_BUSY: 0.42,
        Signal.MEMORY_CONTROLLER_BUSY: 0.11,
        Signal.ENCODER: 0.05,
        Signal.DECODER: 0.05,
        Signal.JPEG: 0.05,
        Signal.OFA: 0.05,
        Signal.MEMORY_USED_BYTES: 8 * 2**30,
        Signal.MEMORY_TOTAL_BYTES: 80 * 2**30,
        Signal.MEMORY_FREE_BYTES: 71 * 2**30,
        Signal.MEMORY_RESERVED_BYTES: 2**30,
        Signal.POWER_WATTS: 350.0,
        Signal.POWER_LIMIT_WATTS: 700.0,
        Signal.ENERGY_JOULES: pytest.approx(123.456),
        Signal.SM_CLOCK_HERTZ: 1.41e9,
        Signal.MEMORY_CLOCK_HERTZ: 1.41e9,
        Signal.SM_CLOCK_MAXIMUM_HERTZ: 1.98e9,
        Signal.MEMORY_CLOCK_MAXIMUM_HERTZ: 1.98e9,
        Signal.VIDEO_CLOCK_HERTZ: 1.41e9,
        Signal.CLOCK_EVENT_REASONS: 4,
        Signal.TEMPERATURE_CELSIUS: 55,
        Signal.MEMORY_TEMPERATURE_CELSIUS: 65,
        Signal.PCIE_LINK_GENERATION: 5,
        Signal.PCIE_LINK_WIDTH: 16,
        Signal.PROCESS_COUNT: 2,
    }
    assert found.processes == (Process(11, 2**30), Process(12, None))
    assert found.missing[Signal.TENSOR_ACTIVE] is Missing.NOT_SUPPORTED


def test_collectors_say_what_they_give() -> None:
    """Names are unique, and each value is one that its collector declares."""
    names = [collector.name for collector in COLLECTORS]
    assert len(set(names)) == len(names)
    announced = {signal for collector in COLLECTORS for signal in collector.signals}
    with reading(FakeDriver(FakeGpu("GPU-0")), FastClock(0)) as source:
        found = source.read().readings["GPU-0"]
    assert set(found.values) | set(found.missing) <= announced


def test_old_driver_is_asked_the_old_way() -> None:
    """Without newer versions, memory, processes and clock events use the older calls."""
    driver = FakeDriver(FakeGpu("GPU-0", processes={11: 1 << 30}))
    driver.lacking |= {
        "nvmlDeviceGetMemoryInfo_v2",
        "nvmlDeviceGetComputeRunningProcesses_v3",
        "nvmlDeviceGetCurrentClocksEventReasons",
    }
    with reading(driver, FastClock(0)) as source:
        found = source.read().readings["GPU-0"]
    assert found.get(Signal.MEMORY_USED_BYTES) == 8 * 2**30
    assert found.get(Signal.MEMORY_RESERVED_BYTES) is None
    assert found.get(Signal.CLOCK_EVENT_REASONS) == 4
    assert found.processes == (Process(11, 2**30),)


def test_unsupported_is_asked_once() -> None:
    """Unsupported metrics cost no call from the second tick on."""
    driver = FakeDriver(FakeGpu("GPU-0", gpm=None))
    clock = FastClock(0)
    refused = ("nvmlDeviceGetUtilizationRates", "nvmlDeviceGetPowerUsage")
    driver.codes |= dict.fromkeys(refused, pynvml.NVML_ERROR_NOT_SUPPORTED)
    with reading(driver, clock) as source:
        for _ in range(5):
            found = source.read().readings["GPU-0"]
            tick(clock)
        calls = Counter(driver.calls)
    assert found.why_missing(Signal.POWER_WATTS) is Missing.NOT_SUPPORTED
    assert found.get(Signal.POWER_LIMIT_WATTS) == 700
    assert [calls[name] for name in refused] == [1, 1]
    assert calls["nvmlGpmQueryDeviceSupport"] == 1
    assert calls["nvmlDeviceGetClockInfo"] == 11


def test_constant_facts_are_not_read_each_tick() -> None:
    """Names, limits of the board and the highest clock are constant."""
    driver = FakeDriver(FakeGpu("GPU-0"))
    clock = FastClock(0)
    with reading(driver, clock) as source:
        source.read()
        source.read()
        before = Counter(driver.calls)
        for _ in range(5):
            tick(clock)
            source.read()
        asked = Counter(driver.calls) - before
    for name in (
        "nvmlDeviceGetCount_v2",
        "nvmlDeviceGetName",
        "nvmlDeviceGetUUID",
        "nvmlDeviceGetMaxClockInfo",
        "nvmlDeviceGetPowerManagementDefaultLimit",
        "nvmlGpmQueryDeviceSupport",
        "nvmlGpmSampleAlloc",
    ):
        assert name not in asked
    assert asked["nvmlDeviceGetPowerUsage"] == 5


def test_refusal_for_lack_of_permission_is_asked_again() -> None:
    """Permission may be granted at run time."""
    driver = FakeDriver(FakeGpu("GPU-0", gpm=None))
    clock = FastClock(0)
    driver.codes["nvmlDeviceGetPowerUsage"] = pynvml.NVML_ERROR_NO_PERMISSION
    with reading(driver, clock) as source:
        refused = source.read()
        driver.codes.clear()
        tick(clock)
        granted = source.read()
    assert refused.readings["GPU-0"].missing[Signal.POWER_WATTS] is Missing.NO_PERMISSION
    assert not refused.collectors["power"].success
    assert granted.readings["GPU-0"].get(Signal.POWER_WATTS) == 350
    assert granted.collectors["power"].success


def test_absent_collectors_report_nothing() -> None:
    """A collector without a supported device neither fails nor succeeds."""
    with reading(FakeDriver(FakeGpu("GPU-0", gpm=None)), FastClock(0)) as source:
        collectors = source.read().collectors
    assert "gpm" not in collectors
    assert isinstance(collectors["power"], CollectorOutcome)
    assert collectors["power"].duration_seconds > 0


def test_blocking_throughput_is_a_setting() -> None:
    """Measuring PCIe throughput blocks the driver, so that it is opt-in."""
    gpu = FakeGpu("GPU-0", gpm=None)
    with reading(FakeDriver(gpu), FastClock(0)) as source:
        found = source.read().readings["GPU-0"]
    assert found.why_missing(Signal.PCIE_RECEIVE_BYTES_PER_SECOND) is Missing.NOT_SUPPORTED
    with reading(FakeDriver(gpu), FastClock(0), disabled_collectors=("power",)) as source:
        found = source.read().readings["GPU-0"]
    assert found.get(Signal.PCIE_RECEIVE_BYTES_PER_SECOND) == 2**20
    assert found.why_missing(Signal.POWER_WATTS) is Missing.NOT_READ


def test_memory_sensor_at_zero_is_absent() -> None:
    """Boards without a memory sensor report 0 degrees."""
    with reading(FakeDriver(FakeGpu("GPU-0", temperature=-10)), FastClock(0)) as source:
        found = source.read().readings["GPU-0"]
    assert found.why_missing(Signal.MEMORY_TEMPERATURE_CELSIUS) is Missing.NOT_SUPPORTED


def test_mig_instances_have_what_is_theirs() -> None:
    """Power and clocks belong to the GPU, memory and activity to the instances."""
    gpu = FakeGpu("GPU-0", instances=[FakeInstance("MIG-a", processes={11: 1 << 30})])
    clock = FastClock(0)
    with reading(FakeDriver(gpu), clock) as source:
        source.read()
        tick(clock)
        readings = source.read().readings
    whole = readings["GPU-0"]
    instance = readings["MIG-a"]
    assert whole.get(Signal.POWER_WATTS) == 350
    assert whole.why_missing(Signal.GPU_BUSY) is Missing.NOT_SUPPORTED
    assert whole.processes is None
    assert instance.get(Signal.GPU_BUSY) == 0.9
    assert instance.get(Signal.MEMORY_TOTAL_BYTES) == 10 * 2**30
    assert instance.why_missing(Signal.POWER_WATTS) is Missing.NOT_SUPPORTED
    assert instance.processes == (Process(11, 2**30),)


def test_mig_instance_without_gpm_is_not_idle() -> None:
    """Before Hopper an instance's activity is unknown, not 0."""
    gpu = FakeGpu("GPU-0", gpm=None, instances=[FakeInstance("MIG-a")])
    with reading(FakeDriver(gpu), FastClock(0)) as source:
        found = source.read().readings["MIG-a"]
    assert found.get(Signal.GPU_BUSY) is None
    assert found.why_missing(Signal.GPU_BUSY) is Missing.NOT_SUPPORTED


def test_impossible_process_memory_is_unknown() -> None:
    """More than the device's memory is a layout mismatch, and is dropped."""
    gpu = FakeGpu("GPU-0", processes={11: 1 << 50})
    with reading(FakeDriver(gpu), FastClock(0)) as source:
        assert source.read().readings["GPU-0"].processes == (Process(11, None),)
