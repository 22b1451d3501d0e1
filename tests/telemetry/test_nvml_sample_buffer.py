"""The driver's sample buffer: activity between two ticks is not lost."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pynvml
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvml_activity import Samples
from nvml_driver import FakeDriver, FakeGpu, tick
from nvml_rounds import driver_thread, rounds
from rightsizer.io.clock import FastClock
from rightsizer.model.reading import Reading
from rightsizer.model.signal import Signal
from rightsizer.telemetry.nvml.collectors.utilization import SampleBuffer
from rightsizer.telemetry.nvml.handle import DeviceHandle
from rightsizer.telemetry.nvml.inventory import Inventory
from rightsizer.telemetry.nvml.library import NvmlLibrary
from rightsizer.telemetry.nvml.settings import LiveSettings
from simulated_driver import simulated_driver

KIND = pynvml.NVML_GPU_UTILIZATION_SAMPLES
CALL = "nvmlDeviceGetSamples"


def sampled(samples: Samples, **changes: object) -> FakeDriver:
    """A driver of one GPU without GPM, with the given samples."""
    driver = FakeDriver(FakeGpu("GPU-0", gpm=None, **changes))  # type: ignore[arg-type]
    driver.more[CALL] = samples.answer
    return driver


@contextmanager
def buffer_of(driver: FakeDriver) -> Iterator[SampleBuffer]:
    """Buffer of the driver's first GPU."""
    with driver_thread(driver) as own:
        found = own.find_devices()
        assert isinstance(found, Inventory)
        handle = DeviceHandle(
            found.gpus[0].whole, library=NvmlLibrary(), clock=FastClock(0), settings=LiveSettings()
        )
        yield SampleBuffer(handle, KIND)


def test_first_look_gives_nothing() -> None:
    """The buffer has older samples too; later values are means since the last reading."""
    samples = Samples(taken=[(10, 100), (20, 100)])
    with buffer_of(sampled(samples)) as buffer:
        assert buffer.mean() is None
        samples.taken += [(30, 10), (40, 30)]
        assert buffer.mean() == 20
        assert buffer.mean() is None
        samples.taken.append((50, 7))
        assert buffer.mean() == 7
    assert samples.asked_since == [0, 20, 40, 0]


@pytest.mark.parametrize("newest", [3600, 2**64 - 1])
def test_samples_before_the_last_one_are_read_again(newest: int) -> None:
    """The wall clock was set back, or one time was garbage: new samples are not lost for good."""
    samples = Samples(taken=[(10, 0), (newest, 50)])
    with buffer_of(sampled(samples)) as buffer:
        buffer.mean()
        samples.taken = [(20, 80)]
        assert [buffer.mean(), buffer.mean()] == [None, None]  # Finds out, then where it is now.
        samples.taken.append((30, 60))
        assert buffer.mean() == 60


def test_nothing_new_is_no_value() -> None:
    """`NOT_FOUND` means no new sample, and is retried."""
    samples = Samples()
    with buffer_of(sampled(samples)) as buffer:
        assert [buffer.mean(), buffer.mean()] == [None, None]
        samples.taken = [(10, 100)]
        assert buffer.mean() is None
        samples.taken.append((20, 50))
        assert buffer.mean() == 50


def test_impossible_samples_are_dropped() -> None:
    """A value above the whole is no sample, and is not read a second time."""
    samples = Samples(taken=[(10, 0)])
    with buffer_of(sampled(samples)) as buffer:
        buffer.mean()
        samples.taken += [(20, 101), (30, 40), (40, 2**32 - 1)]
        assert buffer.mean() == 40
        samples.taken.append((50, 4000))
        assert buffer.mean() is None
    assert samples.asked_since == [0, 10, 40]


@pytest.mark.parametrize(
    ("code", "times"),
    [
        (pynvml.NVML_ERROR_NOT_SUPPORTED, 1),
        (pynvml.NVML_ERROR_NO_PERMISSION, 4),
        (pynvml.NVML_ERROR_NOT_FOUND, 4),
    ],
)
def test_only_a_refusal_is_final(code: int, times: int) -> None:
    """An unsupported buffer is queried once; any other failure is temporary."""
    driver = sampled(Samples())
    driver.codes[CALL] = code
    with buffer_of(driver) as buffer:
        for _ in range(4):
            assert buffer.mean() is None
        assert driver.calls.count(CALL) == times


@given(st.lists(st.lists(st.integers(0, 120), max_size=4), max_size=6))
def test_each_sample_counts_once(turns: list[list[int]]) -> None:
    """For any samples between two readings, the value is the mean of the possible ones."""
    samples = Samples(taken=[(1, 50)])
    with buffer_of(sampled(samples)) as buffer:
        buffer.mean()
        for values in turns:
            start = len(samples.taken) + 1
            samples.taken += [(start + place, value) for place, value in enumerate(values)]
            possible = [value for value in values if value <= 100]
            expected = pytest.approx(sum(possible) / len(possible)) if possible else None
            assert buffer.mean() == expected


def busy(found: Reading) -> tuple[float | None, str | None]:
    """Busy share of the GPU, and its origin."""
    return found.get(Signal.GPU_BUSY), found.origins.get(Signal.GPU_BUSY)


def read_twice(driver: FakeDriver, samples: Samples, between: Sequence[tuple[int, int]]) -> Reading:
    """The second reading, with samples since the first."""
    clock = FastClock(0)
    with rounds(driver, clock) as read:
        read()
        samples.taken += between
        tick(clock)
        (found,) = read()
    return found.readings["GPU-0"]


def test_burst_between_two_ticks_shows() -> None:
    """The rate's last window was idle; the samples contain the earlier burst."""
    samples = Samples(taken=[(10, 0)])
    driver = sampled(samples, busy_percent=0)
    burst = [(20, 100), (30, 100), (40, 100), (50, 0), (60, 0), (70, 0)]
    assert busy(read_twice(driver, samples, burst)) == (0.5, "utilization")


def test_rates_stand_in_for_samples() -> None:
    """They are used on the first tick, and without a new sample."""
    samples = Samples(taken=[(10, 100)])
    assert busy(read_twice(sampled(samples, busy_percent=42), samples, []))[0] == 0.42


def test_samples_stand_in_for_rates() -> None:
    """A driver with samples but no rates still gives the busy share."""
    samples = Samples(taken=[(10, 100)])
    driver = sampled(samples)
    driver.codes["nvmlDeviceGetUtilizationRates"] = pynvml.NVML_ERROR_NOT_SUPPORTED
    assert busy(read_twice(driver, samples, [(20, 25)]))[0] == 0.25


def test_memory_has_a_buffer_of_its_own() -> None:
    """Memory activity is the mean of memory samples."""
    samples = Samples(kind=pynvml.NVML_MEMORY_UTILIZATION_SAMPLES, taken=[(10, 0)])
    found = read_twice(sampled(samples), samples, [(20, 60), (30, 80)])
    assert found.get(Signal.MEMORY_CONTROLLER_BUSY) == 0.7
    assert found.get(Signal.GPU_BUSY) == 0.42


def test_board_with_gpm_is_not_asked_for_samples() -> None:
    """GPM covers the whole tick, so that the buffer costs no call."""
    driver = FakeDriver(FakeGpu("GPU-0"))
    clock = FastClock(0)
    samples = Samples(taken=[(10, 0)])
    driver.more[CALL] = samples.answer
    with rounds(driver, clock) as read:
        read()  # Only one of the two samples that GPM needs exists.
        asked_at_first = driver.calls.count(CALL)
        for _ in range(4):
            tick(clock)
            (found,) = read()
    assert busy(found.readings["GPU-0"]) == (0.9, "gpm")
    assert driver.calls.count(CALL) == asked_at_first > 0


def test_simulated_board_keeps_samples() -> None:
    """On the simulated driver the mean follows the samples of a T4, which has no GPM."""
    with simulated_driver("t4-pair") as bench:
        clock = FastClock(bench.time)
        with rounds(bench.library, clock) as read:
            read()
            found = []
            for _ in range(20):
                bench.pass_seconds(1)
                tick(clock)
                found.append(read()[0].readings)
    ratios = [reading.get(Signal.GPU_BUSY) for each in found for reading in each.values()]
    assert all(ratio is not None and 0 <= ratio <= 1 for ratio in ratios)
    # Rates are whole percentages; means of several samples mostly lie in between.
    assert any(ratio is not None and ratio * 100 % 1 > 1e-6 for ratio in ratios)
