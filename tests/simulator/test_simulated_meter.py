"""Call counts and latencies are simulated only on request."""

import time

import pynvml
import pytest

from instrumented_library import InstrumentedLibrary, measured_latency
from rightsizer.telemetry.nvml.library import use_library
from simulated_driver import MIDNIGHT, node_of


def library(**options: object) -> InstrumentedLibrary:
    """An initialized library below the bindings."""
    made = InstrumentedLibrary(node_of("single-h100"), lambda: MIDNIGHT, **options)  # type: ignore[arg-type]
    use_library(made)
    pynvml.nvmlInit()
    return made


@pytest.fixture(autouse=True)
def _bindings() -> object:
    yield
    use_library(None)


def test_calls_are_counted_by_function() -> None:
    """Each has its number of calls, whatever they returned."""
    made = library(counts_calls=True)
    gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
    for _ in range(3):
        pynvml.nvmlDeviceGetPowerUsage(gpu)
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceGetNumFans(gpu)
    assert made.calls["nvmlDeviceGetPowerUsage"] == 3
    assert made.calls["nvmlDeviceGetNumFans"] == made.calls["nvmlInitWithFlags"] == 1
    assert "nvmlDeviceGetName" not in made.calls


def test_nothing_is_counted_unless_asked_for() -> None:
    """The functions are then the plain ones."""
    made = library()
    pynvml.nvmlDeviceGetCount()
    assert not made.calls


def test_a_latency_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function takes the given seconds, others none."""
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    library(latency=lambda name: 0.002 if name == "nvmlDeviceGetPowerUsage" else 0.0)
    gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
    pynvml.nvmlDeviceGetPowerUsage(gpu)
    pynvml.nvmlDeviceGetName(gpu)
    pynvml.nvmlDeviceGetPowerUsage(gpu)
    assert slept == [0.002, 0.002]


def test_a_metered_library_lacks_what_the_plain_one_lacks() -> None:
    """Missing symbols, faults and results are the same."""
    made = library(counts_calls=True)
    made.faults.remove("nvmlDeviceGetName")
    with pytest.raises(AttributeError):
        made.nvmlDeviceGetName  # noqa: B018 - looking is the test.
    with pytest.raises(AttributeError):
        made.nvmlNothing  # noqa: B018


def test_latencies_are_those_of_a_real_driver() -> None:
    """All versions of a call take the same time; calls within the library take none."""
    assert measured_latency("nvmlDeviceGetComputeRunningProcesses_v3") == 0.00004
    assert measured_latency("nvmlDeviceGetMemoryInfo_v2") == measured_latency(
        "nvmlDeviceGetMemoryInfo"
    )
    assert measured_latency("nvmlGpmMetricsGet") == 0.0021
    assert measured_latency("nvmlErrorString") == 0.0
    assert 0.0 < measured_latency("nvmlDeviceGetSerial") < 0.0003
