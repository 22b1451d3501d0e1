"""A driver or a GPU that goes and returns, in all ways: unknown for the time it is away."""

import time
from collections.abc import Callable
from typing import Final

import pynvml
import pytest

from nvml_driver import FUNCTIONS, FakeDriver, FakeGpu, reading, tick
from rightsizer.accounting.entry_builder import EntryBuilder
from rightsizer.io.clock import FastClock
from rightsizer.model.signal import Signal
from rightsizer.model.state import State
from rightsizer.model.units import seconds

CYCLES: Final = 2
AGAIN_SECONDS: Final = 2.0
"""To enumerate on another thread, and to take its answer a tick later."""

Fault = Callable[..., None]


def unload(driver: FakeDriver, *, is_away: bool) -> None:
    """The kernel module is unloaded."""
    driver.is_loaded = not is_away


def replace_library(driver: FakeDriver, *, is_away: bool) -> None:
    """The module has another version than the library until both are there."""
    unload(driver, is_away=is_away)
    mismatch = pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH
    driver.codes = {"nvmlInitWithFlags": mismatch} if is_away else {}


def fall_off_the_bus(driver: FakeDriver, *, is_away: bool) -> None:
    """One GPU is lost."""
    driver.gpus[1].is_lost = is_away


def lose_all(driver: FakeDriver, *, is_away: bool) -> None:
    """All GPUs are lost, as behind a switch that resets."""
    for gpu in driver.gpus:
        gpu.is_lost = is_away


def unlist(driver: FakeDriver, *, is_away: bool) -> None:
    """One GPU is removed from the bus, and added again."""
    if is_away:
        driver.gpus.pop()
    else:
        driver.gpus.append(FakeGpu("GPU-1"))


def fail_one(driver: FakeDriver, *, is_away: bool) -> None:
    """All calls at one GPU give unknown errors, for which NVML is reopened."""
    unknown = pynvml.NVML_ERROR_UNKNOWN
    driver.codes_of = {(name, 1): unknown for name in FUNCTIONS} if is_away else {}


@pytest.mark.parametrize(
    "fault", [unload, replace_library, fall_off_the_bus, lose_all, unlist, fail_one]
)
@pytest.mark.parametrize("away", [2, 10, 45, pytest.param(130, marks=pytest.mark.soak)])
def test_flapping_device_is_unknown_only_while_it_is_away(fault: Fault, away: int) -> None:
    """Each search for it comes after a tenth of its absence, so its return is seen that soon."""
    driver, clock = FakeDriver(FakeGpu("GPU-0"), FakeGpu("GPU-1")), FastClock(0)
    builder = EntryBuilder()
    unknown_seconds = 0.0
    with reading(driver, clock) as source:
        builder.post(source.read())
        for second in range(CYCLES * 3 * away):
            if second % (3 * away) in {away, 2 * away}:
                fault(driver, is_away=second % (3 * away) == away)
            tick(clock)
            # On another thread NVML is enumerated, without a word to this clock.
            time.sleep(0.002)
            unknown_seconds += sum(
                seconds(entry.end - entry.start)
                for entry in builder.post(source.read())
                if entry.uuid == "GPU-1" and entry.state is State.UNKNOWN
            )
    longest = away * 1.1 + AGAIN_SECONDS
    assert CYCLES * (away - 1) <= unknown_seconds <= CYCLES * longest


def test_missing_device_is_sought_less_and_less() -> None:
    """A GPU that is away for good costs no enumeration a second."""
    driver, clock = FakeDriver(FakeGpu("GPU-0"), FakeGpu("GPU-1")), FastClock(0)
    enumerations = []
    with reading(driver, clock) as source:
        source.read()
        driver.gpus.pop()
        for _ in range(20):
            driver.calls.clear()
            for _ in range(60):
                tick(clock)
                time.sleep(0.001)
                assert "GPU-0" in source.read().readings
            enumerations.append(driver.calls.count("nvmlDeviceGetCount_v2"))
    assert enumerations[0] > 10
    assert enumerations[-1] <= 2


def test_gpu_in_use_is_read_at_once_after_nvml_was_reopened() -> None:
    """Its processes keep it awake without persistence mode; one that nothing uses wakes up."""
    held = FakeGpu("GPU-0", is_persistent=False, gpm=None, processes={4242: 2**30})
    empty = FakeGpu("GPU-1", is_persistent=False, gpm=None)
    driver, clock = FakeDriver(held, empty), FastClock(0)
    with reading(driver, clock, settling_seconds=3.0) as source:
        readings = source.read().readings
    assert readings["GPU-0"].get(Signal.GPU_BUSY) is not None
    assert readings["GPU-1"].get(Signal.GPU_BUSY) is None
