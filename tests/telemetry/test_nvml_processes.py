"""Processes of a device: three lists in two versions, and each process's share."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pynvml
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvml_activity import LISTS, ProcessSample, listed, listing, process_samples
from nvml_driver import FakeDriver, FakeGpu, FakeInstance, reading, tick
from nvml_rounds import one_reading, rounds
from rightsizer.io.clock import FastClock
from rightsizer.model.reading import Missing, Process, ProcessKind, Reading
from rightsizer.model.signal import Signal

COMPUTE = ProcessKind.COMPUTE
GRAPHICS = ProcessKind.GRAPHICS
MPS = ProcessKind.MPS
GIB = 1 << 30
SHARES = {
    True: "nvmlDeviceGetProcessesUtilizationInfo",
    False: "nvmlDeviceGetProcessUtilization",
}
"""Samples, by whether the call is the newer one."""


def holding(version: int, **lists: dict[int, int | None]) -> FakeDriver:
    """A driver that lists processes, in one version of each function."""
    driver = FakeDriver(FakeGpu("GPU-0"))
    for name in LISTS.values():
        driver.lacking.add(f"{name}_v{5 - version}")
    for kind, processes in lists.items():
        driver.more[f"{LISTS[kind]}_v{version}"] = listing(processes)
    return driver


@pytest.mark.parametrize("version", [2, 3])
def test_three_lists_in_either_version(version: int) -> None:
    """Compute, graphics and MPS clients are distinguished, by older and newer drivers."""
    driver = holding(
        version, Compute={11: GIB, 12: None}, Graphics={21: 2 * GIB}, MPSCompute={31: 3 * GIB}
    )
    found = one_reading(driver)
    assert found.processes == (
        Process(11, GIB, COMPUTE),
        Process(12, None, COMPUTE),
        Process(21, 2 * GIB, GRAPHICS),
        Process(31, 3 * GIB, MPS),
    )
    assert found.get(Signal.PROCESS_COUNT) == 3  # Those that compute.


def test_a_list_is_one_call_that_processes_cannot_outgrow() -> None:
    """The bindings' own call fails where many processes begin between its length and its answer."""
    driver = FakeDriver(FakeGpu("GPU-0"))
    name = f"{LISTS['Compute']}_v3"
    many = dict.fromkeys(range(1, 301), GIB)

    def grow(*arguments: Any) -> int:
        code = listing(dict(list(many.items())[:length]))(*arguments)
        driver.more[name] = listing(many)
        return code

    for length in (0, 1, 20):
        driver.more[name] = grow
        before = driver.calls.count(name)
        found = one_reading(driver)
        assert (found.get(Signal.PROCESS_COUNT), driver.calls.count(name) - before) == (length, 1)
    assert one_reading(driver).get(Signal.PROCESS_COUNT) == len(many)


def test_drivers_before_r450_have_the_first_version_of_the_list() -> None:
    """Its processes have an id and memory alone, and the bindings lack it (pynvml#43)."""
    driver = FakeDriver(FakeGpu("GPU-0"))
    driver.lacking |= {f"{name}_v{version}" for name in LISTS.values() for version in (2, 3)}
    driver.more[LISTS["Compute"]] = listing({11: GIB, 12: None})
    driver.more[LISTS["Graphics"]] = listing({})
    found = one_reading(driver)
    assert found.processes == (Process(11, GIB, COMPUTE), Process(12, None, COMPUTE))
    assert found.get(Signal.PROCESS_COUNT) == 2


def test_process_on_two_lists_counts_once() -> None:
    """An MPS client also computes, and a graphics process may."""
    driver = holding(
        3,
        Compute={11: GIB, 12: GIB},
        Graphics={12: 2 * GIB, 13: GIB},
        MPSCompute={11: GIB},
    )
    found = one_reading(driver)
    assert found.processes == (
        Process(11, GIB, MPS),
        Process(12, GIB, COMPUTE),
        Process(13, GIB, GRAPHICS),
    )
    assert found.get(Signal.PROCESS_COUNT) == 2


@pytest.mark.parametrize("rows", [((5, GIB), (5, 2 * GIB)), ((5, 2 * GIB), (5, 2**64 - 1))])
def test_process_listed_twice_counts_once(rows: Sequence[tuple[int, int]]) -> None:
    """With the larger memory that is known."""
    driver = FakeDriver(FakeGpu("GPU-0"))
    driver.more["nvmlDeviceGetComputeRunningProcesses_v3"] = listed(rows)
    found = one_reading(driver)
    assert found.processes == (Process(5, 2 * GIB, COMPUTE),)
    assert found.get(Signal.PROCESS_COUNT) == 1


def test_list_of_another_layout_gives_way_to_the_older_version() -> None:
    """Version 3 has a longer structure in some drivers (pynvml#48): members become ids."""
    driver = FakeDriver(FakeGpu("GPU-0"))
    shifted = listed(((5, GIB), (0, 2**32 - 1), (1 << 30, 6)))
    driver.more["nvmlDeviceGetComputeRunningProcesses_v3"] = shifted
    driver.more["nvmlDeviceGetComputeRunningProcesses_v2"] = listing({5: GIB, 6: GIB})
    assert one_reading(driver).processes == (Process(5, GIB, COMPUTE), Process(6, GIB, COMPUTE))
    driver.more["nvmlDeviceGetComputeRunningProcesses_v2"] = shifted
    found = one_reading(driver)
    assert found.processes is None
    assert found.why_missing(Signal.PROCESS_COUNT) is Missing.INVALID


def test_implausible_memory_is_unknown_on_every_list() -> None:
    """No process holds more than the device's memory."""
    more = {7: 81 * GIB}
    found = one_reading(holding(3, Compute={5: 81 * GIB}, Graphics=more, MPSCompute={9: 80 * GIB}))
    assert found.processes == (
        Process(5, None, COMPUTE),
        Process(7, None, GRAPHICS),
        Process(9, 80 * GIB, MPS),
    )


def test_driver_with_compute_alone_tells_the_others_nothing() -> None:
    """The compute list is used, and each missing list is tried once."""
    driver = holding(2, Compute={11: GIB}, Graphics={}, MPSCompute={})
    clock = FastClock(0)
    others = [f"{LISTS[kind]}_v2" for kind in ("Graphics", "MPSCompute")]
    driver.codes = dict.fromkeys(others, pynvml.NVML_ERROR_NOT_SUPPORTED)
    with reading(driver, clock, slow_interval_seconds=1.0) as source:
        for _ in range(4):
            snapshot = source.read()
            tick(clock)
    assert snapshot.readings["GPU-0"].processes == (Process(11, GIB),)
    assert snapshot.collectors["processes"].success
    assert [driver.calls.count(name) for name in others] == [1, 1]


def test_lists_that_fail_are_reported_and_tried_again() -> None:
    """The first list is used; the failure of another is the collector's."""
    driver = holding(3, Compute={11: GIB}, MPSCompute={31: GIB})
    clock = FastClock(0)
    driver.codes[f"{LISTS['MPSCompute']}_v3"] = pynvml.NVML_ERROR_NO_PERMISSION
    with reading(driver, clock, slow_interval_seconds=2.0) as source:
        failed = source.read()
        driver.codes.clear()
        tick(clock, 2)
        found = source.read()
    assert failed.readings["GPU-0"].processes == (Process(11, GIB),)
    assert not failed.collectors["processes"].success
    assert found.readings["GPU-0"].get(Signal.PROCESS_COUNT) == 2
    assert found.collectors["processes"].success


def test_unknown_processes_are_not_none() -> None:
    """Without the first list processes are unknown; an empty list means that there are none."""
    driver = holding(3, Graphics={21: GIB})
    driver.more |= dict.fromkeys([f"{LISTS['Compute']}_v{version}" for version in (2, 3)], _refuse)
    unknown = one_reading(driver)
    assert unknown.processes is None
    assert unknown.get(Signal.PROCESS_COUNT) is None
    assert unknown.why_missing(Signal.PROCESS_COUNT) is Missing.NO_PERMISSION
    nobody = one_reading(holding(3, Compute={}))
    assert nobody.processes == ()
    assert nobody.get(Signal.PROCESS_COUNT) == 0


def _refuse(*_: object) -> int:
    return int(pynvml.NVML_ERROR_NO_PERMISSION)


def test_processes_that_end_leave_no_share() -> None:
    """Lists have the age of their own reading: an old share adds no process."""
    driver = holding(3, MPSCompute={})
    clock = FastClock(0)
    processes: dict[int, int | None] = {11: GIB, 12: GIB}
    driver.more[f"{LISTS['Compute']}_v3"] = listing(processes)
    process_samples(driver, [ProcessSample(11, 1, 40), ProcessSample(12, 1, 20)], newer=True)
    with rounds(driver, clock, slow_interval_seconds=60.0) as read:
        (first,) = read()
        del processes[11]
        tick(clock)
        (second,) = read()
    assert shares(first.readings["GPU-0"]) == {11: 0.4, 12: 0.2}
    assert shares(second.readings["GPU-0"]) == {12: 0.2}


def shares(found: Reading) -> dict[int, float | None]:
    """Share of each process."""
    return {process.pid: process.gpu_busy for process in found.processes or ()}


def sharing(taken: Sequence[ProcessSample], *, newer: bool = True) -> FakeDriver:
    """A driver with two processes, and their known shares."""
    driver = FakeDriver(FakeGpu("GPU-0", processes={11: GIB, 12: GIB}))
    process_samples(driver, taken, newer=newer)
    return driver


@pytest.mark.parametrize("newer", [True, False])
def test_shares_are_means_by_process(*, newer: bool) -> None:
    """Samples of a process are averaged; impossible ones and unknown processes are ignored."""
    taken = [
        ProcessSample(11, 10, 20),
        ProcessSample(11, 20, 40),
        ProcessSample(11, 30, 101),
        ProcessSample(99, 30, 50),
    ]
    driver = sharing(taken, newer=newer)
    found = one_reading(driver)
    assert shares(found) == {11: pytest.approx(0.3), 12: None}
    assert found.get(Signal.PROCESS_COUNT) == 2


def test_newer_call_goes_before_the_older() -> None:
    """The older call reads 0 on Blackwell, and is used only without the newer."""
    driver = sharing([ProcessSample(11, 1, 50)])
    clock = FastClock(0)
    process_samples(driver, [ProcessSample(11, 1, 0)], newer=False)
    assert shares(one_reading(driver))[11] == 0.5
    assert SHARES[False] not in driver.calls
    driver.codes[SHARES[True]] = pynvml.NVML_ERROR_NOT_SUPPORTED
    with rounds(driver, clock, slow_interval_seconds=1.0) as read:
        for _ in range(4):
            (found,) = read()
            driver.calls.remove(SHARES[False])
            tick(clock)
    assert shares(found.readings["GPU-0"])[11] is None
    assert driver.calls.count(SHARES[True]) == 2 + 1  # Twice, for the two steps of reading one.


@pytest.mark.parametrize("code", [pynvml.NVML_SUCCESS, pynvml.NVML_ERROR_NOT_FOUND])
@pytest.mark.parametrize("newer", [True, False])
def test_no_samples_are_no_shares(*, newer: bool, code: int) -> None:
    """Not found means none, and so does success, which the bindings raise."""
    driver = sharing([], newer=newer)
    driver.codes[SHARES[newer]] = code
    with reading(driver, FastClock(0)) as source:
        snapshot = source.read()
    assert shares(snapshot.readings["GPU-0"]) == {11: None, 12: None}
    assert snapshot.collectors["processes"].success


@given(st.lists(st.tuples(st.integers(11, 12), st.integers(0, 130)), max_size=12))
def test_each_share_is_possible(samples: list[tuple[int, int]]) -> None:
    """For any samples, a share is within 0 to 1 or unknown, in each of several rounds."""
    taken: list[ProcessSample] = []
    driver = sharing(taken)
    clock = FastClock(0)
    with rounds(driver, clock, slow_interval_seconds=1.0) as read:
        for time, (pid, percent) in enumerate(samples, 1):
            taken.append(ProcessSample(pid, time, percent))
            (found,) = read()
            known = shares(found.readings["GPU-0"])
            assert known[pid] == (pytest.approx(percent / 100) if percent <= 100 else None)
            tick(clock)


def test_instances_have_no_shares() -> None:
    """The driver does not sample them, and is not queried for them."""
    instances = [FakeInstance("MIG-a", processes={11: GIB}), FakeInstance("MIG-b")]
    driver = FakeDriver(FakeGpu("GPU-0", instances=instances))
    process_samples(driver, [ProcessSample(11, 1, 50)], newer=True)
    with rounds(driver) as read:
        (found,) = read()
    assert shares(found.readings["MIG-a"]) == {11: None}
    assert found.readings["MIG-b"].processes == ()
    assert SHARES[True] not in driver.calls


def test_sample_that_is_reported_again_is_not_new() -> None:
    """Some drivers return their whole buffer each time; each sample counts once."""
    taken = [ProcessSample(11, 10, 20)]
    driver = sharing([])
    clock = FastClock(0)
    process_samples(driver, taken, newer=True, repeats=True)
    samples = []
    with rounds(driver, clock, slow_interval_seconds=1.0) as read:
        for _ in range(3):
            (found,) = read()
            samples.append(shares(found.readings["GPU-0"])[11])
            if len(samples) == 1:
                taken.append(ProcessSample(11, 20, 40))
            tick(clock)
    assert samples == [0.2, 0.4, None]


def test_shares_come_back_after_the_clock_was_set_back() -> None:
    """Samples with times before those of earlier ones are not lost until the clock catches up."""
    taken = [ProcessSample(11, 3600, 20)]
    driver = sharing(taken)
    clock = FastClock(0)
    samples = []
    with rounds(driver, clock, slow_interval_seconds=1.0) as read:
        for time in range(10, 50, 10):
            (found,) = read()
            samples.append(shares(found.readings["GPU-0"])[11])
            taken[:] = [ProcessSample(11, time, 40)]
            tick(clock)
    assert samples == [0.2, None, None, 0.4]


def test_samples_are_asked_for_from_the_last_one_on() -> None:
    """The driver gets the time of the last one, so that it returns each sample once."""
    taken = [ProcessSample(11, 10, 50)]
    times = list[int]()
    driver = sharing(taken)
    clock = FastClock(0)
    usual = driver.more[SHARES[True]]

    def watched(fake: FakeDriver, device: object, info: object) -> int:
        times.append(info._obj.lastSeenTimeStamp)  # type: ignore[attr-defined] # What `byref` gives.
        return usual(fake, device, info)

    driver.more[SHARES[True]] = watched
    with rounds(driver, clock, slow_interval_seconds=1.0) as read:
        for second in range(3):
            (found,) = read()
            taken.append(ProcessSample(11, 20 + second, 70))
            tick(clock)
    assert all(one <= other for one, other in pairwise(times))
    assert {*times} == {0, 10, 20}
    assert shares(found.readings["GPU-0"])[11] == 0.7
