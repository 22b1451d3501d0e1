"""GPM: pairs of samples with one owner, measured at a distance, and freed."""

import threading
from unittest.mock import MagicMock

import pynvml
import pytest

from nvml_driver import FakeDriver, FakeGpu, FakeInstance, reading, tick
from rightsizer.io.clock import FastClock
from rightsizer.model.reading import Missing
from rightsizer.model.signal import Signal
from rightsizer.telemetry.nvml.collectors import gpm

PIPE = Signal.TENSOR_ACTIVE


def test_second_sample_gives_values() -> None:
    """The first tick reports a missing sample; gpu_busy comes from NVML until the second."""
    driver = FakeDriver(FakeGpu("GPU-0"))
    clock = FastClock(0)
    with reading(driver, clock) as source:
        first = source.read().readings["GPU-0"]
        tick(clock)
        second = source.read().readings["GPU-0"]
    assert first.why_missing(PIPE) is Missing.NO_SAMPLE
    assert first.get(Signal.GPU_BUSY) == 0.42
    assert second.get(PIPE) == 0.6
    assert second.get(Signal.GPU_BUSY) == 0.9


def test_rates_are_bytes_per_second() -> None:
    """PCIe and NVLink values are converted from MiB a second."""
    gpu = FakeGpu("GPU-0", gpm={20: 1.0, 21: 2.0, 60: 3.0, 61: 4.0})
    clock = FastClock(0)
    with reading(FakeDriver(gpu), clock) as source:
        source.read()
        tick(clock)
        found = source.read().readings["GPU-0"]
    assert found.get(Signal.PCIE_TRANSMIT_BYTES_PER_SECOND) == 2**20
    assert found.get(Signal.PCIE_RECEIVE_BYTES_PER_SECOND) == 2 * 2**20
    assert found.get(Signal.NVLINK_RECEIVE_BYTES_PER_SECOND) == 3 * 2**20
    assert found.get(Signal.NVLINK_TRANSMIT_BYTES_PER_SECOND) == 4 * 2**20


def test_samples_too_close_are_not_compared() -> None:
    """Below the minimum distance no sample is taken; the next tick compares with the last one."""
    driver = FakeDriver(FakeGpu("GPU-0"))
    clock = FastClock(0)
    with reading(driver, clock) as source:
        source.read()
        tick(clock, 0.05)
        close = source.read().readings["GPU-0"]
        tick(clock, 0.06)
        apart = source.read().readings["GPU-0"]
        taken = driver.calls.count("nvmlGpmSampleGet")
    assert close.why_missing(PIPE) is Missing.NO_SAMPLE
    assert apart.get(PIPE) == 0.6
    assert taken == 2


def test_metrics_hold_until_the_next_sample() -> None:
    """At ten readings a second every other comes a moment too early; its values are the last."""
    known = dict.fromkeys(gpm._METRICS.values(), 60.0)
    driver = FakeDriver(FakeGpu("GPU-0", gpm=known))
    clock = FastClock(0)
    found = []
    with reading(driver, clock) as source:
        for _ in range(6):
            found.append(source.read().readings["GPU-0"])
            tick(clock, 0.099)
        taken = driver.calls.count("nvmlGpmSampleGet")
    assert [each.get(PIPE) for each in found] == [None, None, 0.6, 0.6, 0.6, 0.6]
    assert taken == 3


def test_failed_sample_starts_over() -> None:
    """After a failure the next sample is a first one: no difference spans the gap."""
    driver = FakeDriver(FakeGpu("GPU-0"))
    clock = FastClock(0)
    reasons = []
    with reading(driver, clock) as source:
        for code in (None, pynvml.NVML_ERROR_TIMEOUT, None, None):
            driver.codes = {} if code is None else {"nvmlGpmSampleGet": code}
            reasons.append(source.read().readings["GPU-0"].why_missing(PIPE))
            tick(clock)
    assert reasons == [Missing.NO_SAMPLE, Missing.TIMED_OUT, Missing.NO_SAMPLE, None]


def test_buffers_have_one_owner_and_are_freed() -> None:
    """Only one thread fills a buffer, and none is left when the source closes."""
    gpu = FakeGpu("GPU-1", instances=[FakeInstance("MIG-a"), FakeInstance("MIG-b")])
    driver = FakeDriver(FakeGpu("GPU-0"), gpu)
    clock = FastClock(0)
    with reading(driver, clock) as source:
        for _ in range(4):
            source.read()
            tick(clock)
        assert driver.samples_alive == 6
    assert driver.samples_alive == 0
    assert all(len(threads) == 1 for threads in driver.sampled_by.values())
    assert threading.get_ident() not in set().union(*driver.sampled_by.values())


def test_unsupported_metrics_are_not_asked_for_again() -> None:
    """A refused metric leaves the query; the others stay."""
    wanted: list[int] = []

    class Watching(FakeDriver):
        def nvmlGpmMetricsGet(self, query: object) -> int:  # noqa: N802
            wanted.append(query._obj.numMetrics)  # type: ignore[attr-defined]
            return int(FakeDriver.__getattr__(self, "nvmlGpmMetricsGet")(query))

    clock = FastClock(0)
    with reading(Watching(FakeGpu("GPU-0")), clock) as source:
        for _ in range(4):
            found = source.read().readings["GPU-0"]
            tick(clock)
    assert wanted == [13, 3, 3]
    assert found.get(PIPE) == 0.6
    assert found.why_missing(Signal.DRAM_ACTIVE) is Missing.NOT_SUPPORTED


def test_device_without_any_metric_is_left_in_peace() -> None:
    """If every metric is refused, no more samples are taken."""
    driver = FakeDriver(FakeGpu("GPU-0", gpm={}))
    clock = FastClock(0)
    with reading(driver, clock) as source:
        for _ in range(5):
            found = source.read().readings["GPU-0"]
            tick(clock)
    assert driver.calls.count("nvmlGpmSampleGet") == 2
    assert found.why_missing(PIPE) is Missing.NOT_SUPPORTED
    assert found.get(Signal.GPU_BUSY) == 0.42


def test_dead_counter_is_not_believed() -> None:
    """GPM that reads 0 beside a busy GPU is replaced by NVML's value, with its origin."""
    driver = FakeDriver(FakeGpu("GPU-0", gpm={1: 0.0, 2: 0.0}, busy_percent=97))
    clock = FastClock(0)
    with reading(driver, clock) as source:
        source.read()
        tick(clock)
        found = source.read().readings["GPU-0"]
    assert found.get(Signal.GPU_BUSY) == 0.97
    assert found.origins[Signal.GPU_BUSY] == "utilization"
    assert found.origins[Signal.SM_ACTIVE] == "gpm"


@pytest.mark.parametrize(
    ("gpm", "percent", "busy"),
    [
        (0.0, 49, 0.0),  # Utilization has another window: a small value is no evidence.
        (0.0, 50, 0.5),
        (0.0, 101, 0.0),
        (3.0, 100, 0.03),
    ],
)
def test_counter_that_may_be_right_is_believed(gpm: float, percent: int, busy: float) -> None:
    """GPM is used unless it reads 0 on a GPU that was certainly busy."""
    driver = FakeDriver(FakeGpu("GPU-0", gpm={1: gpm}, busy_percent=percent))
    clock = FastClock(0)
    with reading(driver, clock) as source:
        source.read()
        tick(clock)
        assert source.read().readings["GPU-0"].get(Signal.GPU_BUSY) == busy


def test_failed_allocation_is_tried_again() -> None:
    """Allocation is retried, and no buffer is used twice."""
    driver = FakeDriver(FakeGpu("GPU-0"))
    clock = FastClock(0)
    driver.codes["nvmlGpmSampleAlloc"] = pynvml.NVML_ERROR_MEMORY
    with reading(driver, clock) as source:
        failed = source.read()
        driver.codes.clear()
        for _ in range(2):
            tick(clock)
            found = source.read().readings["GPU-0"]
        assert driver.samples_alive == 2
    assert failed.readings["GPU-0"].why_missing(PIPE) is Missing.FAILED
    assert not failed.collectors["gpm"].success
    assert found.get(PIPE) == 0.6
    assert driver.samples_alive == 0


def test_a_close_beside_another_frees_no_buffer_twice() -> None:
    """A driver cannot free twice; a late reader closes with the pool."""
    freed: list[str] = []

    def ask(_: str, buffer: str) -> None:
        freed.append(buffer)
        sampler.close()

    sampler = gpm._Sampler(MagicMock(**{"library.ask": ask}))
    sampler._buffers.extend(["first", "second"])
    sampler.close()
    assert sorted(freed) == ["first", "second"]
