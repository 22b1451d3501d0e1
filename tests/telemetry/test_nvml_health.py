"""Memory errors, retired pages, remapped rows, recovery action and fabric state."""

from collections import Counter

import pynvml
import pytest

from nvml_answers import fabric, refusing, telling
from nvml_driver import FakeDriver, FakeGpu, FakeInstance, tick
from nvml_rounds import one_reading, rounds
from rightsizer.io.clock import FastClock
from rightsizer.model.reading import Missing, Reading
from rightsizer.model.signal import Signal
from simulated_driver import simulated_driver

ECC = (
    Signal.ECC_CORRECTED_ERRORS,
    Signal.ECC_UNCORRECTED_ERRORS,
    Signal.ECC_CORRECTED_ERRORS_LIFETIME,
    Signal.ECC_UNCORRECTED_ERRORS_LIFETIME,
)
PAGES = (
    Signal.RETIRED_PAGES_CORRECTABLE,
    Signal.RETIRED_PAGES_UNCORRECTABLE,
    Signal.RETIRED_PAGES_PENDING,
)
ROWS = (
    Signal.REMAPPED_ROWS_CORRECTABLE,
    Signal.REMAPPED_ROWS_UNCORRECTABLE,
    Signal.REMAPPED_ROWS_PENDING,
    Signal.REMAPPED_ROWS_FAILED,
)


def values(found: Reading, signals: tuple[Signal, ...]) -> list[float | None]:
    """Values of some signals in a reading."""
    return [found.get(signal) for signal in signals]


def reasons(found: Reading, signals: tuple[Signal, ...]) -> set[Missing | None]:
    """Reasons of some missing signals."""
    return {found.why_missing(signal) for signal in signals}


def test_health_comes_with_the_fields() -> None:
    """A board with all numbered fields needs no function calls."""
    gpu = FakeGpu(
        "GPU-0",
        fields={1: 1, 3: 10, 4: 1, 5: 100, 6: 2, 29: 3, 30: 4, 31: 1, 142: 5, 143: 6, 144: 0}
        | {145: 1, 230: 2},
    )
    driver = FakeDriver(gpu)
    found = one_reading(driver)
    assert values(found, ECC) == [10, 1, 100, 2]
    assert values(found, PAGES) == [3, 4, 1]
    assert values(found, ROWS) == [5, 6, 0, 1]
    assert found.get(Signal.RECOVERY_ACTION) == 2
    assert found.origins[ECC[0]] == "ecc"


def test_older_driver_tells_by_functions() -> None:
    """Without the fields functions are called."""
    driver = FakeDriver(FakeGpu("GPU-0"))
    driver.more |= {
        "nvmlDeviceGetTotalEccErrors": telling(7),
        "nvmlDeviceGetRetiredPages": _two_pages,
        "nvmlDeviceGetRetiredPagesPendingStatus": telling(1),
        "nvmlDeviceGetRemappedRows": telling(1, 2, 0, 1),
    }
    found = one_reading(driver)
    assert values(found, ECC) == [7, 7, 7, 7]
    assert values(found, PAGES) == [2, 2, 1]
    assert values(found, ROWS) == [1, 2, 0, 1]
    assert found.why_missing(Signal.RECOVERY_ACTION) is Missing.NOT_SUPPORTED


def _two_pages(_driver: FakeDriver, *arguments: object) -> int:
    count = arguments[2]
    count._obj.value = 2  # type: ignore[attr-defined] # What `byref` gives.
    return int(pynvml.NVML_SUCCESS)


def test_ecc_that_is_off_counts_nothing() -> None:
    """With ECC off, a count of 0 would suggest verified health."""
    found = one_reading(FakeDriver(FakeGpu("GPU-0", fields={1: 0, 3: 0, 4: 0, 5: 0, 6: 0})))
    assert values(found, ECC) == [None] * 4
    assert reasons(found, ECC) == {Missing.NOT_SUPPORTED}


def test_board_without_any_of_it_is_asked_once() -> None:
    """Unsupported signals cost no call after the first slow round, and are no failure."""
    driver = FakeDriver(FakeGpu("GPU-0"))
    clock = FastClock(0)
    names = (
        "nvmlDeviceGetTotalEccErrors",
        "nvmlDeviceGetRetiredPages",
        "nvmlDeviceGetRetiredPagesPendingStatus",
        "nvmlDeviceGetRemappedRows",
        "nvmlDeviceGetGpuFabricInfoV",
        "nvmlDeviceGetGpuFabricInfo",
    )
    driver.more |= dict.fromkeys(names, refusing(pynvml.NVML_ERROR_NOT_SUPPORTED))
    with rounds(driver, clock) as read:
        read()
        first = Counter(driver.calls)
        for _ in range(3):
            tick(clock, 30.0)
            (last,) = read()
    assert [first[name] for name in names] == [4, 2, 1, 1, 1, 1]
    assert [Counter(driver.calls)[name] for name in names] == [4, 2, 1, 1, 1, 1]
    for signals in (ECC, PAGES, ROWS, (Signal.RECOVERY_ACTION, Signal.FABRIC_STATE)):
        assert reasons(last.readings["GPU-0"], signals) == {Missing.NOT_SUPPORTED}
    absent = {"ecc", "retired_pages", "remapped_rows", "recovery", "fabric"}
    assert not absent & last.collectors.keys()


def test_health_is_read_slowly() -> None:
    """Errors are read at the slow interval, and stay valid in between."""
    gpu = FakeGpu("GPU-0", fields={1: 1, 3: 1})
    clock = FastClock(0)
    with rounds(FakeDriver(gpu), clock, slow_interval_seconds=10.0) as read:
        read()
        gpu.fields[3] = 2
        tick(clock, 5.0)
        (held,) = read()
        tick(clock, 6.0)
        (fresh,) = read()
    assert held.readings["GPU-0"].get(ECC[0]) == 1
    assert fresh.readings["GPU-0"].get(ECC[0]) == 2


def test_mig_instance_has_errors_of_its_own() -> None:
    """An instance counts uncorrected errors outside DRAM; its GPU the aggregate ones."""
    gpu = FakeGpu("GPU-0", fields={1: 1, 5: 100, 6: 2}, instances=[FakeInstance("MIG-a")])
    driver = FakeDriver(gpu)
    driver.more["nvmlDeviceGetMemoryErrorCounter"] = telling(3)
    whole = one_reading(driver)
    instance = one_reading(driver, "MIG-a")
    assert values(whole, ECC) == [None, None, 100, 2]
    assert reasons(whole, ECC[:2]) == {Missing.NOT_SUPPORTED}
    assert values(instance, ECC) == [None, 3, None, None]
    assert reasons(instance, ROWS) == {Missing.NOT_SUPPORTED}


@pytest.mark.parametrize("state", [1, 2, 3])
def test_fabric_state(state: int) -> None:
    """The state comes from the newer call or the older one."""
    driver = FakeDriver(FakeGpu("GPU-0"))
    driver.more["nvmlDeviceGetGpuFabricInfoV"] = fabric(state)
    assert one_reading(driver).get(Signal.FABRIC_STATE) == state
    driver.more = {"nvmlDeviceGetGpuFabricInfo": fabric(state)}
    assert one_reading(driver).get(Signal.FABRIC_STATE) == state


def test_gpu_in_no_fabric_is_asked_once() -> None:
    """It reports that state, and not an error."""
    driver = FakeDriver(FakeGpu("GPU-0"))
    clock = FastClock(0)
    driver.more["nvmlDeviceGetGpuFabricInfoV"] = fabric(0)
    with rounds(driver, clock) as read:
        for _ in range(3):
            (last,) = read()
            tick(clock, 30.0)
    assert last.readings["GPU-0"].why_missing(Signal.FABRIC_STATE) is Missing.NOT_SUPPORTED
    assert Counter(driver.calls)["nvmlDeviceGetGpuFabricInfoV"] == 1


def test_failed_registration_is_no_completed_one() -> None:
    """A completed state with an error status is a failure."""
    driver = FakeDriver(FakeGpu("GPU-0"))
    driver.more["nvmlDeviceGetGpuFabricInfoV"] = fabric(3, int(pynvml.NVML_ERROR_UNKNOWN))
    with rounds(driver) as read:
        (first,) = read()
    assert first.readings["GPU-0"].why_missing(Signal.FABRIC_STATE) is Missing.FAILED
    assert not first.collectors["nvlink"].success


def test_impossible_counts_are_dropped() -> None:
    """All ones mean that there is no value."""
    found = one_reading(FakeDriver(FakeGpu("GPU-0", fields={1: 1, 3: 2**64 - 1, 142: 2**32 - 1})))
    assert found.why_missing(ECC[0]) is Missing.INVALID
    assert found.why_missing(ROWS[0]) is Missing.INVALID


@pytest.mark.parametrize(
    ("scenario", "remedy", "links"),
    [("eight-gpu-node", ROWS, 18), ("l4-pair", ROWS, None), ("t4-pair", PAGES, None)],
)
def test_architectures_have_what_they_have(
    scenario: str, remedy: tuple[Signal, ...], links: int | None
) -> None:
    """Pages are retired before Ampere, rows remapped since; only some boards have NVLink."""
    with simulated_driver(scenario) as bench:
        library = bench.library
    with rounds(library) as read:
        (found,) = read()[0].readings.values()
    for signals in (ROWS, PAGES):
        assert (None not in values(found, signals)) == (signals is remedy)
    assert found.get(ECC[0]) == 0
    assert found.get(Signal.NVLINK_LINKS) == found.get(Signal.NVLINK_LINKS_UP) == links
    assert len(found.nvlinks) == (links or 0)
    assert all(link.is_up and link.leads_to_switch for link in found.nvlinks)
