"""Drivers that refuse a call now and then, or refuse one function alone for good."""

from collections.abc import Callable
from typing import Any

import pynvml
import pytest

from nvml_answers import refusing, texts
from nvml_driver import FakeDriver, FakeGpu, FakeInstance, constant, reading, tick
from nvml_rounds import inventory_of, one_reading, rounds
from rightsizer.io.clock import FastClock
from rightsizer.model.reading import Missing, Reading
from rightsizer.model.signal import Signal

UNSUPPORTED = [pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND]
INVALID = int(pynvml.NVML_ERROR_INVALID_ARGUMENT)


def undivided(**options: Any) -> FakeDriver:
    """A driver of one GPU without GPM."""
    return FakeDriver(FakeGpu("GPU-0", gpm=None, **options))


def readings(driver: FakeDriver, *steps: tuple[Callable[[], object], float]) -> list[Reading]:
    """Readings, each after a change of the driver and some seconds."""
    clock = FastClock(0)
    found = []
    with rounds(driver, clock) as read:
        for change, seconds in steps:
            change()
            tick(clock, seconds)
            found.append(read()[0].readings["GPU-0"])
    return found


@pytest.mark.parametrize("code", UNSUPPORTED)
@pytest.mark.parametrize(
    ("call", "signal"),
    [
        ("nvmlDeviceGetUtilizationRates", Signal.GPU_BUSY),
        ("nvmlDeviceGetMemoryInfo_v2", Signal.MEMORY_USED_BYTES),
        ("nvmlDeviceGetPowerUsage", Signal.POWER_WATTS),
        ("nvmlDeviceGetFieldValues", Signal.MEMORY_TEMPERATURE_CELSIUS),
    ],
)
def test_refusal_of_what_has_answered_is_not_final(call: str, signal: Signal, code: int) -> None:
    """It is missing once; an older call with another meaning does not replace it."""
    driver = undivided()
    before, during, after = readings(
        driver,
        (lambda: None, 1),
        (lambda: driver.codes.update({call: code}), 1),
        (driver.codes.clear, 1),
    )
    assert during.why_missing(signal) is Missing.NOT_SUPPORTED
    assert before.get(signal) == after.get(signal) is not None


def test_refused_call_is_made_again_after_ten_minutes() -> None:
    """A driver may refuse what it answers later."""
    driver = undivided()
    driver.codes["nvmlDeviceGetPowerUsage"] = int(pynvml.NVML_ERROR_NOT_SUPPORTED)
    _, soon, later = readings(
        driver, (lambda: None, 1), (driver.codes.clear, 60), (lambda: None, 600)
    )
    assert soon.why_missing(Signal.POWER_WATTS) is Missing.NOT_SUPPORTED
    assert later.get(Signal.POWER_WATTS) == 350.0


@pytest.mark.parametrize("call", ["nvmlGpmSampleGet", "nvmlGpmMetricsGet"])
def test_refused_profiling_comes_back(call: str) -> None:
    """Until then the utilization of the driver stands in."""
    driver = FakeDriver(FakeGpu("GPU-0"))
    *_, before, during, _, after = readings(
        driver,
        (lambda: None, 1),
        (lambda: None, 1),
        (lambda: driver.codes.update({call: int(pynvml.NVML_ERROR_NOT_SUPPORTED)}), 1),
        (driver.codes.clear, 600),
        (lambda: None, 1),
    )
    assert (before.get(Signal.SM_ACTIVE), after.get(Signal.SM_ACTIVE)) == (0.8, 0.8)
    assert (during.get(Signal.SM_ACTIVE), during.get(Signal.GPU_BUSY)) == (None, 0.42)


@pytest.mark.parametrize(
    "code",
    [
        pynvml.NVML_ERROR_RESET_REQUIRED,
        pynvml.NVML_ERROR_GPU_NOT_FOUND,
        pynvml.NVML_ERROR_UNINITIALIZED,
    ],
)
def test_one_function_that_calls_the_gpu_lost_costs_itself_alone(code: int) -> None:
    """Only the code for a GPU off the bus speaks for all functions."""
    driver = undivided()
    driver.more["nvmlDeviceGetRemappedRows"] = refusing(code)
    found = one_reading(driver)
    assert found.why_missing(Signal.REMAPPED_ROWS_PENDING) is Missing.LOST
    assert found.get(Signal.POWER_WATTS) == 350.0


@pytest.mark.parametrize(
    ("call", "signal", "value"),
    [
        ("nvmlDeviceGetMemoryInfo_v2", Signal.MEMORY_USED_BYTES, 8 << 30),
        ("nvmlDeviceGetComputeRunningProcesses_v3", Signal.PROCESS_COUNT, 1),
        ("nvmlDeviceGetCurrentClocksEventReasons", Signal.CLOCK_EVENT_REASONS, 4),
    ],
)
def test_version_refused_as_an_invalid_argument_gives_way_to_the_older(
    call: str, signal: Signal, value: int
) -> None:
    """Not every driver says that it does not know a version."""
    driver = undivided(processes={7: 1 << 30})
    driver.codes[call] = INVALID
    assert one_reading(driver).get(signal) == value


def test_ecc_that_a_virtual_gpu_refuses_is_not_supported() -> None:
    """It has a code of its own."""
    driver = undivided()
    driver.more["nvmlDeviceGetTotalEccErrors"] = refusing(pynvml.NVML_ERROR_VGPU_ECC_NOT_SUPPORTED)
    found = one_reading(driver)
    assert found.why_missing(Signal.ECC_UNCORRECTED_ERRORS) is Missing.NOT_SUPPORTED


def test_facts_that_could_not_be_read_are_read_later() -> None:
    """Without its name a GPU has no entry in the catalogue."""
    driver = undivided()
    clock = FastClock(0)
    driver.codes["nvmlDeviceGetName"] = int(pynvml.NVML_ERROR_TIMEOUT)
    with reading(driver, clock) as source:
        (device,) = source.read().devices
        assert device.board is None
        driver.codes.clear()
        for _ in range(1000):
            tick(clock, 5)
            if (device := source.read().devices[0]).board is not None:
                break
    assert device.name == "NVIDIA H100 80GB HBM3"
    assert device.board is not None


@pytest.mark.parametrize("call", ["nvmlDeviceGetUUID", "nvmlDeviceGetName"])
def test_instance_that_does_not_name_itself_now_is_no_other(call: str) -> None:
    """Its identity and facts are those of the last enumeration."""
    instances = [FakeInstance("MIG-a", gpu_instance_id=7)]
    driver = FakeDriver(FakeGpu("GPU-0", instances=instances))
    clock = FastClock(0)
    with reading(driver, clock) as source:
        before = source.read().devices
        driver.codes[call] = int(pynvml.NVML_ERROR_TIMEOUT)
        for _ in range(40):
            tick(clock, 5)
            assert source.read().devices == before


@pytest.mark.parametrize("text", ["0", "N/A", "[N/A]", "Unknown"])
def test_fact_that_is_a_placeholder_is_left_out(text: str) -> None:
    """Boards without a serial number report 0."""
    driver = undivided()
    driver.more["nvmlDeviceGetSerial"] = texts(text)
    driver.more["nvmlDeviceGetMinorNumber"] = constant(0)
    (gpu,) = inventory_of(driver).gpus
    assert "serial" not in gpu.whole.device.facts
    assert gpu.whole.device.facts["minor_number"] == "0"
