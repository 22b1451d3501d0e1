"""Successful but impossible answers cost their own value, never a GPU or its identity."""

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pynvml
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvml_driver import FakeDriver, FakeGpu, FakeInstance, constant, reading, tick
from nvml_rounds import inventory_of, one_reading, rounds
from rightsizer.io.clock import FastClock
from rightsizer.model.reading import Missing, Reading
from rightsizer.model.signal import Signal
from rightsizer.model.snapshot import Snapshot
from rightsizer.telemetry.nvml.library import value_of
from rightsizer.telemetry.nvml.reading_builder import ReadingBuilder, is_possible

OK = int(pynvml.NVML_SUCCESS)
ENERGY = pynvml.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION
Fill = Callable[[Any], None]


def reading_of(name: str, number: int) -> Reading:
    """A reading with one function returning the given number."""
    driver = FakeDriver(FakeGpu("GPU-0", gpm=None))

    def answer(_driver: FakeDriver, *arguments: Any) -> int:
        arguments[-1]._obj.value = number
        return OK

    driver.more[name] = answer
    return one_reading(driver)


def with_fields(fill: Fill) -> FakeDriver:
    """A driver whose field calls succeed, filled in by a function."""
    driver = FakeDriver(FakeGpu("GPU-0", gpm=None))

    def answer(_driver: FakeDriver, _handle: Any, count: Any, values: Any) -> int:
        for place in range(count.value):
            fill(values._obj[place])
        return OK

    driver.more["nvmlDeviceGetFieldValues"] = answer
    return driver


@pytest.mark.parametrize(
    ("name", "number", "signal"),
    [
        ("nvmlDeviceGetPowerUsage", 0, Signal.POWER_WATTS),
        ("nvmlDeviceGetPowerUsage", 2**31 - 1, Signal.POWER_WATTS),
        ("nvmlDeviceGetEnforcedPowerLimit", 0, Signal.POWER_LIMIT_WATTS),
        ("nvmlDeviceGetTemperature", 65535, Signal.TEMPERATURE_CELSIUS),
        ("nvmlDeviceGetClockInfo", 2**32 - 2, Signal.SM_CLOCK_HERTZ),
        ("nvmlDeviceGetClockInfo", 0, Signal.SM_CLOCK_HERTZ),
        ("nvmlDeviceGetMaxClockInfo", 0, Signal.SM_CLOCK_MAXIMUM_HERTZ),
        ("nvmlDeviceGetPerformanceState", 255, Signal.PERFORMANCE_STATE),
        ("nvmlDeviceGetCurrPcieLinkGeneration", 0, Signal.PCIE_LINK_GENERATION),
        ("nvmlDeviceGetCurrPcieLinkWidth", 0, Signal.PCIE_LINK_WIDTH),
    ],
)
def test_impossible_number_is_missing(name: str, number: int, signal: Signal) -> None:
    """A value beyond any board's capability is no reading, and all others are read."""
    found = reading_of(name, number)
    assert found.get(signal) is None
    assert found.why_missing(signal) is Missing.INVALID
    assert found.get(Signal.GPU_BUSY) == 0.42


@given(
    st.sampled_from(sorted(Signal)),
    st.one_of(st.integers(), st.floats()),
    st.sampled_from([1e-3, 1.0, 1e6]),
)
def test_nothing_impossible_gets_through(signal: Signal, answer: float, scale: float) -> None:
    """For any answers, stored values are finite, possible and, except margins, positive."""
    builder = ReadingBuilder()
    builder.put(signal, answer, scale)
    for value in builder.values.values():
        assert math.isfinite(value)
        assert value >= 0 or signal is Signal.TEMPERATURE_MARGIN_CELSIUS
        assert is_possible(signal, value)
    assert (signal in builder.values) is not (signal in builder.failures)


@pytest.mark.parametrize(("used", "total"), [(81 << 30, 80 << 30), (0, 0), (1 << 30, 0)])
def test_memory_that_contradicts_itself_is_missing(used: int, total: int) -> None:
    """More used than total memory, or no memory at all, makes both unknown."""
    driver = FakeDriver(FakeGpu("GPU-0", gpm=None))

    def answer(_driver: FakeDriver, _handle: Any, info: Any) -> int:
        info._obj.total = total
        info._obj.used = used
        info._obj.free = 0
        return OK

    driver.more["nvmlDeviceGetMemoryInfo"] = driver.more["nvmlDeviceGetMemoryInfo_v2"] = answer
    found = one_reading(driver)
    for signal in (Signal.MEMORY_USED_BYTES, Signal.MEMORY_TOTAL_BYTES, Signal.MEMORY_FREE_BYTES):
        assert found.why_missing(signal) is Missing.INVALID


@pytest.mark.parametrize("free", [81 << 30, 2**32 - 1, 2**64 - 1])
def test_part_above_the_total_is_missing_alone(free: int) -> None:
    """What is in use is read all the same."""
    driver = FakeDriver(FakeGpu("GPU-0", gpm=None))

    def answer(_driver: FakeDriver, _handle: Any, info: Any) -> int:
        info._obj.total = 80 << 30
        info._obj.used = 8 << 30
        info._obj.free = free
        return OK

    driver.more["nvmlDeviceGetMemoryInfo"] = driver.more["nvmlDeviceGetMemoryInfo_v2"] = answer
    found = one_reading(driver)
    assert found.get(Signal.MEMORY_USED_BYTES) == 8 << 30
    assert found.why_missing(Signal.MEMORY_FREE_BYTES) is Missing.INVALID


@pytest.mark.parametrize(("used", "total"), [(2 << 30, 1 << 30), (0, 0)])
def test_window_that_contradicts_itself_is_missing(used: int, total: int) -> None:
    """BAR1 with more in use than there is."""
    driver = FakeDriver(FakeGpu("GPU-0", gpm=None))

    def answer(_driver: FakeDriver, _handle: Any, info: Any) -> int:
        info._obj.bar1Total = total
        info._obj.bar1Used = used
        return OK

    driver.more["nvmlDeviceGetBAR1MemoryInfo"] = answer
    found = one_reading(driver)
    assert found.why_missing(Signal.BAR1_USED_BYTES) is Missing.INVALID
    assert found.why_missing(Signal.BAR1_TOTAL_BYTES) is Missing.INVALID


@pytest.mark.parametrize(("watts", "is_read"), [(100, True), (655.35, False)])
def test_draw_far_above_the_limit_is_missing(watts: float, is_read: bool) -> None:  # noqa: FBT001
    """The maximum of the sensor, on a board of 72 W; a transient is a reading."""
    driver = FakeDriver(FakeGpu("GPU-0", gpm=None, power_milliwatts=round(watts * 1000)))
    driver.more["nvmlDeviceGetPowerManagementDefaultLimit"] = constant(72_000)
    found = one_reading(driver)
    assert (found.get(Signal.POWER_WATTS) == watts) is is_read
    assert (found.why_missing(Signal.POWER_WATTS) is Missing.INVALID) is not is_read


@pytest.mark.parametrize(("node", "used"), [(1, 2 << 30), (None, 30 << 30)])
def test_page_cache_in_memory_of_the_gpu_is_not_in_use(
    node: int | None, used: int, tmp_path: Path
) -> None:
    """Where it is a NUMA node of the kernel, the driver counts it (TensorRT-LLM#13955)."""
    folder = tmp_path / "sys/devices/system/node/node1"
    folder.mkdir(parents=True)
    pages = 28 << 20
    (folder / "meminfo").write_text(f"Node 1 MemTotal: 9 kB\nNode 1 FilePages: {pages:>8} kB\n")
    driver = FakeDriver(FakeGpu("GPU-0", gpm=None, memory_used=30 << 30))
    if node is not None:
        driver.more["nvmlDeviceGetNumaNodeId"] = constant(node)
    with reading(driver, FastClock(0), tmp_path) as source:
        found = source.read().readings["GPU-0"]
    assert found.get(Signal.MEMORY_USED_BYTES) == used
    free = found.get(Signal.MEMORY_FREE_BYTES)
    assert free == (80 << 30) - used - (1 << 30)


@pytest.mark.parametrize("number", [0, 2**31 - 1, 2**32 - 1])
def test_limit_that_is_none_is_no_fact(number: int) -> None:
    """A limit of no watts, or of megawatts, is omitted."""
    driver = FakeDriver(FakeGpu("GPU-0"))

    def answer(_driver: FakeDriver, *arguments: Any) -> int:
        arguments[-1]._obj.value = number
        return OK

    driver.more["nvmlDeviceGetPowerManagementDefaultLimit"] = answer
    driver.more["nvmlDeviceGetMaxClockInfo"] = answer
    (gpu,) = inventory_of(driver).gpus
    device = gpu.whole.device
    assert device.power_limit_watts is None
    assert device.sm_clock_maximum_hertz is None


def test_field_that_was_left_as_it_was_is_not_supported() -> None:
    """A call that succeeds without filling in values gives no zeros; functions are called."""
    found = one_reading(with_fields(lambda _field: None))
    assert found.get(Signal.ENERGY_JOULES) == pytest.approx(123.456)
    assert found.why_missing(Signal.REMAPPED_ROWS_PENDING) is Missing.NOT_SUPPORTED
    assert found.why_missing(Signal.MEMORY_TEMPERATURE_CELSIUS) is Missing.NOT_SUPPORTED


def test_energy_field_that_counts_nothing_leaves_it_to_the_function() -> None:
    """The field is 0 while the function counts."""

    def fill(field: Any) -> None:
        field.valueType = pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG
        field.timestamp = 1

    assert one_reading(with_fields(fill)).get(Signal.ENERGY_JOULES) == pytest.approx(123.456)


@pytest.mark.parametrize("blank", [2**32 - 1, 0x7FFFFFFFFFFFFFF2, 2**64 - 1])
def test_counter_of_all_ones_has_no_rate(blank: int) -> None:
    """It stands still, which is no traffic of 0."""
    driver = FakeDriver(FakeGpu("GPU-0", gpm=None))
    clock = FastClock(0)
    driver.gpus[0].fields = {197: blank, 198: blank}
    with rounds(driver, clock) as read:
        read()
        tick(clock)
        found = read()[0].readings["GPU-0"]
    assert found.why_missing(Signal.PCIE_TRANSMIT_BYTES_PER_SECOND) is Missing.INVALID


@pytest.mark.parametrize("number", [math.nan, math.inf, -3.0, 2.5, 18.0, 1e300])
def test_field_of_any_number_costs_no_gpu(number: float) -> None:
    """Counts of links and states that are no integers leave the GPU readable."""

    def fill(field: Any) -> None:
        field.valueType = pynvml.NVML_VALUE_TYPE_DOUBLE
        field.timestamp = 1
        field.value.dVal = number

    found = one_reading(with_fields(fill))
    assert found.get(Signal.POWER_WATTS) == 350.0
    assert all(math.isfinite(value) for value in found.values.values())


@pytest.mark.parametrize(
    ("kind", "member", "number", "expected"),
    [
        (pynvml.NVML_VALUE_TYPE_DOUBLE, "dVal", 80.0, 80),
        (pynvml.NVML_VALUE_TYPE_DOUBLE, "dVal", 0.5, 0.5),
        (pynvml.NVML_VALUE_TYPE_DOUBLE, "dVal", math.nan, None),
        (pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, "ullVal", 2**40, 2**40),
        (pynvml.NVML_VALUE_TYPE_SIGNED_INT, "siVal", -5, -5),
        (99, "ullVal", 1, None),
    ],
)
def test_value_is_of_its_type(
    kind: int, member: str, number: float, expected: float | None
) -> None:
    """The driver's type selects the member of the union."""
    value = pynvml.c_nvmlValue_t()
    setattr(value, member, number)
    assert value_of(kind, value) == expected


def test_samples_are_of_their_type() -> None:
    """A buffer of doubles is not read as integers, whose lower half is zero."""
    driver = FakeDriver(FakeGpu("GPU-0", gpm=None, busy_percent=3))
    taken = [10]

    def answer(_driver: FakeDriver, *arguments: Any) -> int:
        _device, _kind, _since, value_type, count, samples = arguments
        value_type._obj.value = pynvml.NVML_VALUE_TYPE_DOUBLE
        count._obj.value = 1
        if samples is not None:
            samples[0].timeStamp = taken[-1]
            samples[0].sampleValue.dVal = 80.0
        return OK

    driver.more["nvmlDeviceGetSamples"] = answer
    clock = FastClock(0)
    with reading(driver, clock) as source:
        source.read()
        taken.append(20)
        tick(clock)
        found = source.read().readings["GPU-0"]
    assert found.get(Signal.GPU_BUSY) == 0.8


def test_gpus_of_one_uuid_are_all_there() -> None:
    """A second GPU with the first one's UUID is identified by its address, and its instances."""
    instances = [FakeInstance("MIG-a", gpu_instance_id=7), FakeInstance("MIG-b", gpu_instance_id=8)]
    driver = FakeDriver(
        FakeGpu("GPU-0", bus_id="00000000:17:00.0"),
        FakeGpu("GPU-0", bus_id="00000000:18:00.0", instances=instances),
    )
    found = [target.device for gpu in inventory_of(driver).gpus for target in gpu.targets]
    name = "pci:0000:18:00.0"
    assert [device.uuid for device in found] == ["GPU-0", name, f"{name}/0", f"{name}/1"]
    assert [device.mig.parent_uuid for device in found if device.mig] == [name, name]


def test_gpu_with_a_duplicate_uuid_keeps_its_name_without_the_other() -> None:
    """It must not take over the history of the other when that one falls off the bus."""
    first = FakeGpu("GPU-0", bus_id="00000000:17:00.0")
    driver = FakeDriver(first, FakeGpu("GPU-0", bus_id="00000000:18:00.0"))
    clock = FastClock(0)
    with reading(driver, clock) as source:
        source.read()
        driver.gpus.remove(first)
        tick(clock, 61)
        deadline = time.monotonic() + 30
        while "GPU-0" not in (snapshot := source.read()).down and time.monotonic() < deadline:
            tick(clock)
    assert list(snapshot.readings) == ["pci:0000:18:00.0"]
    assert list(snapshot.down) == ["GPU-0"]


def test_gpu_that_shares_a_uuid_for_a_while_gets_its_own() -> None:
    """A driver under repair may answer one GPU's uuid for all of them."""
    second = FakeGpu("GPU-0", bus_id="00000000:18:00.0")
    driver = FakeDriver(FakeGpu("GPU-0", bus_id="00000000:17:00.0"), second)
    clock = FastClock(0)
    with reading(driver, clock) as source:
        assert {*source.read().readings} == {"GPU-0", "pci:0000:18:00.0"}
        second.uuid = "GPU-1"
        tick(clock, 61)
        deadline = time.monotonic() + 30
        while "GPU-1" not in (snapshot := source.read()).readings and time.monotonic() < deadline:
            tick(clock)
    assert [device.uuid for device in snapshot.devices] == ["GPU-0", "GPU-1"]


def test_instance_among_the_gpus_is_listed_once() -> None:
    """A driver counts a MIG instance beside the GPU that it is a part of."""
    driver = FakeDriver(
        FakeGpu("GPU-0", instances=[FakeInstance("MIG-a")]),
        FakeGpu("MIG-a", bus_id="00000000:17:00.0"),
    )
    found = [target.device for gpu in inventory_of(driver).gpus for target in gpu.targets]
    assert [device.uuid for device in found] == ["GPU-0", "MIG-a"]
    assert found[1].mig is not None


@pytest.mark.parametrize("text", [b"\xff\xfe", b""])
def test_address_that_is_no_text_costs_itself_alone(text: bytes) -> None:
    """A GPU with an unreadable PCI address has none, and is read."""
    driver = FakeDriver(FakeGpu("GPU-0"))

    def answer(_driver: FakeDriver, _handle: Any, info: Any) -> int:
        info._obj.busId = text
        return OK

    driver.more["nvmlDeviceGetPciInfo_v3"] = answer
    (gpu,) = inventory_of(driver).gpus
    assert (gpu.whole.device.uuid, gpu.whole.device.pci_bus_id) == ("GPU-0", None)


@pytest.mark.parametrize("version", [-1, 0])
def test_version_that_is_none_is_left_out(version: int) -> None:
    """A negative version of CUDA is omitted."""
    driver = FakeDriver(FakeGpu("GPU-0"))

    def answer(_driver: FakeDriver, found: Any) -> int:
        found._obj.value = version
        return OK

    driver.more["nvmlSystemGetCudaDriverVersion_v2"] = answer
    assert "cuda_version" not in inventory_of(driver).versions


def test_known_gpu_that_tells_nothing_of_itself_is_down_under_its_own_name() -> None:
    """Errors after another initialization of NVML create no second GPU.

    Its thread has a moment of real time for each second of the clock.
    """
    driver = FakeDriver(FakeGpu("GPU-0"), FakeGpu("GPU-1"))
    clock = FastClock(0)
    seen: set[str] = set()

    def until(is_so: Callable[[Snapshot], bool]) -> Snapshot:
        for _ in range(1000):
            tick(clock)
            time.sleep(0.002)
            snapshot = source.read()
            seen.update(device.uuid for device in snapshot.devices)
            if is_so(snapshot):
                return snapshot
        raise AssertionError(snapshot)

    with reading(driver, clock) as source:
        source.read()
        driver.is_loaded = False
        until(lambda snapshot: not snapshot.readings)
        refused = ("nvmlDeviceGetUUID", "nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetName")
        driver.codes.update(dict.fromkeys(refused, int(pynvml.NVML_ERROR_UNKNOWN)))
        driver.is_loaded = True
        down = until(lambda snapshot: driver.openings > 1 and snapshot.trouble is None).down
        driver.codes.clear()
        until(lambda snapshot: set(snapshot.readings) == {"GPU-0", "GPU-1"})
    assert "nvmlDeviceGetUUID" in down["GPU-0"].detail
    assert seen == {"GPU-0", "GPU-1"}
