"""NVML's numbered fields: one call a round, for all that are due."""

from typing import Any

import pynvml
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvml_answers import telling
from nvml_driver import FakeDriver, FakeGpu, tick
from nvml_rounds import one_reading, rounds
from rightsizer.io.clock import FastClock
from rightsizer.model.reading import Missing, Reading
from rightsizer.model.signal import Signal
from rightsizer.telemetry.nvml.collectors import COLLECTORS

CALL = "nvmlDeviceGetFieldValues"
ENERGY = pynvml.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION
REPLAYS = pynvml.NVML_FI_DEV_PCIE_REPLAY_COUNTER
MEMORY_TEMPERATURE = pynvml.NVML_FI_DEV_MEMORY_TEMP
RECEIVED = 198
TRANSMITTED = 197
GPM_SAMPLE = "nvmlGpmSampleGet"
POWER_POLICY = pynvml.NVML_FI_DEV_PERF_POLICY_POWER
FIELDS = {key for collector in COLLECTORS for key in collector.fields}


class Watched(FakeDriver):
    """Records the fields of each call; refuses calls that have one of some fields."""

    def __init__(self, gpu: FakeGpu, refused: set[int] | None = None) -> None:
        super().__init__(gpu)
        self.asked: list[list[int]] = []
        refused = refused or set()
        usual = self.nvmlDeviceGetFieldValues

        def watch(_driver: FakeDriver, device: Any, count: Any, values: Any) -> int:
            wanted = [values._obj[place].fieldId for place in range(count.value)]
            self.asked.append(wanted)
            if refused & set(wanted):
                return int(pynvml.NVML_ERROR_INVALID_ARGUMENT)
            return usual(device, count, values)

        self.more[CALL] = watch

    def rounds(self, count: int, **options: Any) -> list[tuple[Reading, list[list[int]]]]:
        """Rounds a second apart: the readings, and the field calls that they took."""
        clock = FastClock(0)
        results = []
        with rounds(self, clock, **options) as read:
            for _ in range(count):
                self.asked.clear()
                (found,) = read()
                results.append((found.readings["GPU-0"], list(self.asked)))
                tick(clock)
        return results


def gpu_with(*fields: int) -> FakeGpu:
    """A GPU without GPM that has the given fields, each 1000."""
    return FakeGpu("GPU-0", gpm=None, fields=dict.fromkeys(fields, 1000))


def test_all_that_is_due_comes_in_one_call() -> None:
    """The first round requests the fields of all collectors, the next one those that remain."""
    driver = Watched(gpu_with(ENERGY, REPLAYS, POWER_POLICY))
    rounds_read = driver.rounds(3, slow_interval_seconds=2.0)
    calls = [calls for _, calls in rounds_read]
    assert [len(call) for call in calls] == [1, 1, 1]
    assert set(calls[0][0]) == {key if isinstance(key, int) else key[0] for key in FIELDS}
    assert set(calls[1][0]) == {MEMORY_TEMPERATURE}
    assert set(calls[2][0]) == {ENERGY, MEMORY_TEMPERATURE, POWER_POLICY, REPLAYS}


def test_counters_of_a_link_are_not_fetched_beside_gpm() -> None:
    """From the second round on GPM gives the traffic; when it fails, the counters are back."""
    gpu = FakeGpu("GPU-0", gpm={1: 50.0, 20: 7.0, 21: 7.0}, fields={RECEIVED: 0, TRANSMITTED: 0})
    driver = Watched(gpu)
    clock = FastClock(0)
    fetched = []
    with rounds(driver, clock) as read:
        for codes in ({}, {}, {}, {GPM_SAMPLE: pynvml.NVML_ERROR_TIMEOUT}, {}, {}):
            driver.codes = codes
            driver.asked.clear()
            read()
            tick(clock)
            fetched.append(RECEIVED in {key for wanted in driver.asked for key in wanted})
    assert fetched == [True, True, False, False, True, True]


def test_round_without_a_field_makes_no_call() -> None:
    """A board without any field is not queried for them again."""
    driver = Watched(FakeGpu("GPU-0", temperature=-10))
    usual = driver.more[CALL]

    def refuse_each(fake: FakeDriver, device: Any, count: Any, values: Any) -> int:
        code = usual(fake, device, count, values)
        for place in range(count.value):
            values._obj[place].nvmlReturn = pynvml.NVML_ERROR_NOT_SUPPORTED
        return code

    driver.more[CALL] = refuse_each
    assert [len(calls) for _, calls in driver.rounds(3, slow_interval_seconds=1.0)] == [1, 0, 0]


def test_driver_that_refuses_all_for_one_is_asked_one_by_one() -> None:
    """This finds the unsupported field; the others are in one call again."""
    driver = Watched(gpu_with(ENERGY, REPLAYS), refused={230})
    driver.more["nvmlDeviceGetRetiredPagesPendingStatus"] = telling(0)
    first, second, third = driver.rounds(3, slow_interval_seconds=2.0)
    assert len(first[1]) == 1 + len(FIELDS)
    assert [len(wanted) for wanted in first[1][1:]] == [1] * len(FIELDS)
    assert [len(calls) for _, calls in (second, third)] == [1, 1]
    assert 230 not in third[1][0]
    for found, _ in (first, second, third):
        assert found.get(Signal.ENERGY_JOULES) == 1
        assert found.get(Signal.PCIE_REPLAYS) == 1000
        assert found.why_missing(Signal.RECOVERY_ACTION) is Missing.NOT_SUPPORTED


@pytest.mark.parametrize("code", [pynvml.NVML_ERROR_UNKNOWN, pynvml.NVML_ERROR_TIMEOUT])
def test_other_failures_of_the_call_are_asked_again_as_one(code: int) -> None:
    """Only an invalid argument indicates an unsupported field."""
    driver = FakeDriver(gpu_with(ENERGY))
    driver.codes[CALL] = code
    clock = FastClock(0)
    with rounds(driver, clock) as read:
        driver.calls.clear()
        (failed,) = read()
        assert driver.calls.count(CALL) == 1
        driver.codes.clear()
        tick(clock, 11)
        (found,) = read()
    reason = failed.readings["GPU-0"].why_missing(Signal.ENERGY_JOULES)
    assert reason in {Missing.FAILED, Missing.TIMED_OUT}
    assert not failed.collectors["power"].success
    assert str(failed.collectors["power"].failure).startswith(f"GPU 0: {CALL}: ")
    assert found.readings["GPU-0"].get(Signal.ENERGY_JOULES) == 1


def test_function_answers_where_there_is_no_field() -> None:
    """Energy and replays of an older driver come from functions."""
    driver = FakeDriver(gpu_with())
    driver.more["nvmlDeviceGetPcieReplayCounter"] = telling(7)
    found = one_reading(driver)
    assert found.get(Signal.ENERGY_JOULES) == pytest.approx(123.456)
    assert found.get(Signal.PCIE_REPLAYS) == 7


def test_function_is_not_asked_where_there_is_a_field() -> None:
    """A value from the fields costs no further call."""
    driver = FakeDriver(gpu_with(ENERGY, REPLAYS))
    driver.more["nvmlDeviceGetPcieReplayCounter"] = telling(7)
    found = one_reading(driver)
    assert found.get(Signal.PCIE_REPLAYS) == 1000
    assert "nvmlDeviceGetPcieReplayCounter" not in driver.calls
    assert "nvmlDeviceGetTotalEnergyConsumption" not in driver.calls


def test_field_that_fails_is_no_reason_to_ask_the_function() -> None:
    """A supported field without a value has a reason."""
    driver = FakeDriver(gpu_with(ENERGY))
    driver.codes[CALL] = pynvml.NVML_ERROR_TIMEOUT
    found = one_reading(driver)
    assert found.why_missing(Signal.ENERGY_JOULES) is Missing.TIMED_OUT
    assert "nvmlDeviceGetTotalEnergyConsumption" not in driver.calls


def test_violation_times_come_by_field_or_by_function() -> None:
    """Fields are in nanoseconds, and so is the older function's structure."""

    def violated(_driver: FakeDriver, _device: Any, policy: Any, status: Any) -> int:
        status._obj.violationTime = 3_000_000_000 + policy.value
        return int(pynvml.NVML_SUCCESS)

    gpu = FakeGpu("GPU-0", fields={POWER_POLICY: 2_000_000_000})
    driver = FakeDriver(gpu)
    driver.more["nvmlDeviceGetViolationStatus"] = violated
    found = one_reading(driver)
    assert found.get(Signal.POWER_VIOLATION_SECONDS) == 2
    assert found.get(Signal.THERMAL_VIOLATION_SECONDS) == pytest.approx(3)


@given(known=st.sets(st.sampled_from(sorted(FIELDS, key=str))), refused=st.integers(0, 300))
def test_any_set_of_fields_leaves_one_call(known: set[int | tuple[int, int]], refused: int) -> None:
    """For any supported fields, the third round takes at most one call, for those only."""
    gpu = FakeGpu("GPU-0", gpm=None, fields=dict.fromkeys(known, 1))
    driver = Watched(gpu, refused={refused})
    calls = driver.rounds(3, slow_interval_seconds=1.0)[2][1]
    assert len(calls) <= 1
    numbers = {key if isinstance(key, int) else key[0] for key in known}
    assert set(*calls) <= (numbers | {MEMORY_TEMPERATURE}) - {refused}
