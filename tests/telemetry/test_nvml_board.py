"""State of a board beside its work: fans, BAR1, performance state, margins, and its link."""

from collections.abc import Callable
from typing import Any

import pynvml
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvml_answers import telling
from nvml_driver import FakeDriver, FakeGpu, tick
from nvml_rounds import one_reading, rounds
from rightsizer.host.rates import CounterMeter, MonotonicCounter
from rightsizer.io.clock import FastClock
from rightsizer.model.reading import Missing
from rightsizer.model.signal import Signal
from rightsizer.telemetry.nvml.library import is_blank

TRANSMITTED = 197
RECEIVED = 198
TRANSMIT = Signal.PCIE_TRANSMIT_BYTES_PER_SECOND
RECEIVE = Signal.PCIE_RECEIVE_BYTES_PER_SECOND


def offering(**answers: Callable[..., int]) -> FakeDriver:
    """A driver of one GPU without GPM, with the given functions."""
    driver = FakeDriver(FakeGpu("GPU-0", gpm=None))
    driver.more |= {f"nvmlDeviceGet{name}": answer for name, answer in answers.items()}
    return driver


def fans(*percents: int | None) -> dict[str, Callable[..., int]]:
    """Fans of the given speeds; `None` cannot be read."""

    def speed(_driver: FakeDriver, _device: Any, fan: Any, reference: Any) -> int:
        found = percents[getattr(fan, "value", fan)]
        if found is None:
            return int(pynvml.NVML_ERROR_UNKNOWN)
        reference._obj.value = found
        return int(pynvml.NVML_SUCCESS)

    return {"NumFans": telling(len(percents)), "FanSpeed_v2": speed}


@pytest.mark.parametrize(
    ("answers", "speed"),
    [
        (fans(30, 45), 0.45),
        (fans(None, 20), 0.2),
        (fans(0), 0.0),
        (fans(104), 1.0),  # Shares of the intended maximum, which a fan may exceed.
        ({"FanSpeed": telling(55)}, 0.55),  # Older drivers report one fan.
    ],
)
def test_fastest_fan_counts(answers: dict[str, Callable[..., int]], speed: float) -> None:
    """Unreadable fans are ignored."""
    assert one_reading(offering(**answers)).get(Signal.FAN_SPEED) == speed


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        (fans(), Missing.NOT_SUPPORTED),
        (fans(None), Missing.FAILED),
        (fans(250), Missing.INVALID),
        ({}, Missing.NOT_SUPPORTED),
    ],
)
def test_no_fan_is_not_a_standing_fan(
    answers: dict[str, Callable[..., int]], reason: Missing
) -> None:
    """A passive board has no fan speed, and an unreadable fan is not at 0."""
    found = one_reading(offering(**answers))
    assert found.why_missing(Signal.FAN_SPEED) is reason


def test_number_of_fans_is_asked_once() -> None:
    """It is constant; the speeds are not."""
    driver = offering(**fans(30, 40))
    clock = FastClock(0)
    with rounds(driver, clock, slow_interval_seconds=1.0) as read:
        for _ in range(3):
            read()
            tick(clock)
    assert driver.calls.count("nvmlDeviceGetNumFans") == 1
    assert driver.calls.count("nvmlDeviceGetFanSpeed_v2") == 6


def test_bar1_is_used_of_total() -> None:
    """A full BAR1 blocks RDMA and mappings."""

    def window(_driver: FakeDriver, _device: Any, memory: Any) -> int:
        memory._obj.bar1Total = 128 << 30
        memory._obj.bar1Used = 3 << 20
        return int(pynvml.NVML_SUCCESS)

    found = one_reading(offering(BAR1MemoryInfo=window))
    assert found.get(Signal.BAR1_USED_BYTES) == 3 << 20
    assert found.get(Signal.BAR1_TOTAL_BYTES) == 128 << 30
    assert one_reading(offering()).why_missing(Signal.BAR1_USED_BYTES) is Missing.NOT_SUPPORTED


@pytest.mark.parametrize(
    ("answer", "state", "reason"),
    [(0, 0, None), (8, 8, None), (pynvml.NVML_PSTATE_UNKNOWN, None, Missing.NOT_SUPPORTED)],
)
def test_unknown_performance_state_is_none(
    answer: int, state: int | None, reason: Missing | None
) -> None:
    """The driver has a number for unknown."""
    found = one_reading(offering(PerformanceState=telling(answer)))
    assert found.get(Signal.PERFORMANCE_STATE) == state
    assert found.why_missing(Signal.PERFORMANCE_STATE) is reason


@given(st.integers(-200, 200))
def test_temperature_margin_may_be_passed(margin: int) -> None:
    """From Hopper on the margin to the threshold is reported; above it, it is negative."""

    def below(_driver: FakeDriver, _device: Any, info: Any) -> int:
        info._obj.marginTemperature = margin
        return int(pynvml.NVML_SUCCESS)

    found = one_reading(offering(MarginTemperature=below))
    assert found.get(Signal.TEMPERATURE_MARGIN_CELSIUS) == margin


def test_encoder_sessions_are_counted() -> None:
    """The driver also returns means, which are not used."""
    found = one_reading(offering(EncoderStats=telling(3, 60, 4000)))
    assert found.get(Signal.ENCODER_SESSIONS) == 3


def test_application_clocks_are_told_where_they_are_set() -> None:
    """They are in hertz, read once in a slow interval."""
    found = one_reading(offering(ApplicationsClock=telling(1410)))
    assert found.get(Signal.SM_CLOCK_APPLICATION_HERTZ) == 1.41e9
    assert found.get(Signal.MEMORY_CLOCK_APPLICATION_HERTZ) == 1.41e9


def test_older_limit_stands_in_for_the_enforced_one() -> None:
    """Without the limit in force the operator's limit is used."""
    driver = offering(PowerManagementLimit=telling(250_000))
    driver.lacking.add("nvmlDeviceGetEnforcedPowerLimit")
    assert one_reading(driver).get(Signal.POWER_LIMIT_WATTS) == 250


@given(
    st.lists(
        st.integers(0, 10**11).filter(lambda count: not is_blank(count)), min_size=1, max_size=8
    ),
    st.floats(0.1, 10),
)
def test_link_counters_give_rates(counts: list[int], apart_seconds: float) -> None:
    """The first reading gives none, growth gives a rate, and a counter that fell was reset.

    Counts are bounded: no link carries more in so short a time.
    """
    gpu = FakeGpu("GPU-0", gpm=None, fields={RECEIVED: 0})
    driver = FakeDriver(gpu)
    clock = FastClock(0)
    former = None
    with rounds(driver, clock) as read:
        for count in counts:
            gpu.fields[TRANSMITTED] = count
            found = read()[0].readings["GPU-0"]
            if former is None or count < former:
                assert found.why_missing(TRANSMIT) is Missing.NO_SAMPLE
            else:
                expected = (count - former) / apart_seconds
                assert found.get(TRANSMIT) == pytest.approx(expected, rel=1e-6)
            former = count
            tick(clock, apart_seconds)


def test_link_counters_are_counted_apart() -> None:
    """Each direction has its own counter; a missing one has a reason."""
    gpu = FakeGpu("GPU-0", gpm=None, fields={TRANSMITTED: 0})
    driver = FakeDriver(gpu)
    clock = FastClock(0)
    with rounds(driver, clock) as read:
        read()
        gpu.fields[TRANSMITTED] = 5 << 30
        tick(clock, 5)
        (found,) = read()
    assert found.readings["GPU-0"].get(TRANSMIT) == 1 << 30
    assert found.readings["GPU-0"].origins[TRANSMIT] == "pcie_counters"
    assert found.readings["GPU-0"].why_missing(RECEIVE) is Missing.NOT_SUPPORTED
    assert found.collectors["pcie"].success


def test_gpm_goes_before_the_link_counters() -> None:
    """GPM measures the tick itself; counters fill in what it lacks."""
    gpu = FakeGpu("GPU-0", gpm={1: 50.0, 20: 7.0}, fields={TRANSMITTED: 0, RECEIVED: 0})
    driver = FakeDriver(gpu)
    clock = FastClock(0)
    with rounds(driver, clock) as read:
        read()
        gpu.fields |= {TRANSMITTED: 1 << 30, RECEIVED: 2 << 30}
        tick(clock)
        (found,) = read()
    reading = found.readings["GPU-0"]
    assert (reading.get(TRANSMIT), reading.origins[TRANSMIT]) == (7 << 20, "gpm")
    assert (reading.get(RECEIVE), reading.origins[RECEIVE]) == (2 << 30, "pcie_counters")


def test_rate_over_no_time_is_none() -> None:
    """Two readings at one time give no rate, and the next rate starts at the second."""
    meter = CounterMeter[str](0)
    for count, seconds, rates in ((10, 0, {}), (20, 0, {}), (40, 1, {"sent": 20.0})):
        counter = MonotonicCounter(count, seconds)
        assert meter.update(seconds * 10**9, lambda counter=counter: {"sent": counter}) == rates
