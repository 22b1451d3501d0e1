"""GPUs that are lost, late, partitioned or hung, through the bindings and in plain snapshots."""

import threading
import time as clock_of_the_machine
from pathlib import Path

import pynvml
import pytest

from instrumented_library import InstrumentedLibrary
from rightsizer.catalogue.catalogue import built_in
from rightsizer.model.reading import Missing
from rightsizer.model.signal import Signal
from rightsizer.model.units import NANOSECONDS_PER_SECOND
from rightsizer.simulator.node import SimulatedNode
from rightsizer.telemetry.nvml.library import use_library
from simulated_driver import MIDNIGHT
from simulated_trouble import driver_with, scenario_with, snapshots

SECOND = NANOSECONDS_PER_SECOND


def test_a_driver_that_was_loaded_just_now_is_there(tmp_path: Path) -> None:
    """A node may start within a refresh step of the driver, because of the clock's resolution."""
    start = MIDNIGHT + SECOND // 20
    node = SimulatedNode(scenario_with(tmp_path), built_in(), start)
    use_library(InstrumentedLibrary(node, lambda: start))
    try:
        pynvml.nvmlInit()
        assert pynvml.nvmlDeviceGetCount() == 4
    finally:
        use_library(None)


def test_a_lost_gpu_is_reported_and_comes_back(tmp_path: Path) -> None:
    """It reports Xid 79, gives no reading while lost, and leaves other GPUs unaffected."""
    with driver_with(tmp_path, "{kind: loss, gpus: [1], after: 20, for: 10}") as bench:
        events = pynvml.nvmlEventSetCreate()
        gpu = bench.gpu(1)
        pynvml.nvmlDeviceRegisterEvents(gpu, pynvml.nvmlEventTypeXidCriticalError, events)
        with pytest.raises(pynvml.NVMLError_Timeout):
            pynvml.nvmlEventSetWait_v2(events, 1)
        bench.pass_seconds(25)
        data = pynvml.nvmlEventSetWait_v2(events, 1000)
        assert (data.eventType, data.eventData) == (8, 79)
        assert (data.gpuInstanceId, data.computeInstanceId) == (0xFFFFFFFF, 0xFFFFFFFF)
        for call in (lambda: pynvml.nvmlDeviceGetPowerUsage(gpu), lambda: bench.gpu(1)):
            with pytest.raises(pynvml.NVMLError_GpuIsLost):
                call()
        assert pynvml.nvmlDeviceGetPowerUsage(bench.gpu(0)) > 0
        bench.pass_seconds(5)
        assert pynvml.nvmlDeviceGetPowerUsage(gpu) > 0
        with pytest.raises(pynvml.NVMLError_Timeout):
            pynvml.nvmlEventSetWait_v2(events, 1)


def test_a_lost_gpu_is_down_in_plain_snapshots(tmp_path: Path) -> None:
    """It is down with its reason and its Xid, without a reading; its true state is unknown."""
    taken = snapshots(tmp_path, 31, "{kind: loss, gpus: [1], after: 20, for: 10}")
    uuid = taken[0].devices[1].uuid
    assert [taken[at].down[uuid].reason for at in (20, 29)] == [Missing.LOST] * 2
    assert uuid not in taken[25].readings
    assert uuid in taken[19].readings
    assert uuid in taken[30].readings
    assert not taken[19].xids
    assert dict(taken[30].xids[uuid].counts) == {79: 1}
    assert taken[30].xids[uuid].last_wall_time == MIDNIGHT + 20 * SECOND


def test_a_gpu_that_is_plugged_in_late(tmp_path: Path) -> None:
    """It is neither counted nor found before; then it takes its index among the others."""
    with driver_with(tmp_path, "{kind: absence, gpus: [1], after: 0, for: 15}") as bench:
        uuid = bench.node.units[1].device.uuid.encode()
        assert pynvml.nvmlDeviceGetCount() == 3
        assert pynvml.nvmlDeviceGetName(bench.gpu(2)) == "Tesla T4"
        assert pynvml.nvmlDeviceGetIndex(bench.gpu(1)) == 1
        assert pynvml.nvmlDeviceGetMinorNumber(bench.gpu(1)) == 2
        with pytest.raises(pynvml.NVMLError_NotFound):
            pynvml.nvmlDeviceGetHandleByUUID(uuid)
        bench.pass_seconds(15)
        assert pynvml.nvmlDeviceGetCount() == 4
        assert pynvml.nvmlDeviceGetIndex(pynvml.nvmlDeviceGetHandleByUUID(uuid)) == 1
    taken = snapshots(tmp_path, 16, "{kind: absence, gpus: [1], after: 0, for: 15}")
    assert [len(taken[at].devices) for at in (0, 14, 15)] == [3, 3, 4]


def test_a_driver_that_is_reloaded_begins_again(tmp_path: Path) -> None:
    """Calls fail meanwhile; afterward the library must be initialized again, and counters are 0."""
    with driver_with(tmp_path, "{kind: unload, after: 60, for: 5}") as bench:
        gpu = bench.gpu(0)
        bench.pass_seconds(59)
        before = pynvml.nvmlDeviceGetTotalEnergyConsumption(gpu)
        bench.pass_seconds(3)
        for call in (pynvml.nvmlInit, lambda: pynvml.nvmlDeviceGetName(gpu)):
            with pytest.raises(pynvml.NVMLError_DriverNotLoaded):
                call()
        bench.pass_seconds(8)
        with pytest.raises(pynvml.NVMLError_Uninitialized):
            pynvml.nvmlDeviceGetName(gpu)
        pynvml.nvmlInit()
        after = pynvml.nvmlDeviceGetTotalEnergyConsumption(gpu)
        assert 0 < after < before / 5
    taken = snapshots(tmp_path, 67, "{kind: unload, after: 60, for: 5}")
    assert taken[62].trouble == "the driver is not loaded"
    assert taken[62].down.keys() == {device.uuid for device in taken[62].devices}
    energy = [taken[at].readings[taken[0].devices[0].uuid] for at in (59, 66)]
    assert energy[1].values[Signal.ENERGY_JOULES] < energy[0].values[Signal.ENERGY_JOULES] / 5


def test_a_gpu_is_cut_for_a_while(tmp_path: Path) -> None:
    """MIG instances and their processes exist in between; their handles become invalid."""
    with driver_with(tmp_path) as bench:
        assert pynvml.nvmlDeviceGetMigMode(bench.gpu(2)) == [0, 0]
        assert pynvml.nvmlDeviceGetUtilizationRates(bench.gpu(2)).gpu == 0
        bench.pass_seconds(40)
        assert pynvml.nvmlDeviceGetMigMode(bench.gpu(2)) == [1, 1]
        instance = bench.instance(2, 0)
        assert pynvml.nvmlDeviceGetName(instance).endswith("MIG 3g.40gb")
        (process,) = pynvml.nvmlDeviceGetComputeRunningProcesses(instance)
        assert process.usedGpuMemory == 10 * 2**30
        with pytest.raises(pynvml.NVMLError_NotSupported):
            pynvml.nvmlDeviceGetUtilizationRates(bench.gpu(2))
        bench.pass_seconds(60)
        with pytest.raises(pynvml.NVMLError_InvalidArgument):
            pynvml.nvmlDeviceGetName(instance)
        assert pynvml.nvmlDeviceGetComputeRunningProcesses(bench.gpu(2)) == []


def test_plain_snapshots_follow_the_cut(tmp_path: Path) -> None:
    """Devices appear and vanish, the parent is marked, and the true state is the instance's."""
    taken = snapshots(tmp_path, 95)
    assert [len(taken[at].devices) for at in (29, 30, 89, 90)] == [4, 6, 6, 4]
    parent = taken[40].devices[2]
    instance = taken[40].devices[3]
    assert parent.has_mig_instances
    assert not taken[20].devices[2].has_mig_instances
    assert instance.mig is not None
    assert instance.mig.parent_uuid == parent.uuid
    assert taken[40].readings[instance.uuid].values[Signal.TENSOR_ACTIVE] > 0.5
    assert taken[40].readings[parent.uuid].get(Signal.TENSOR_ACTIVE) is None
    assert taken[40].holdings[instance.uuid][0].workload.name == "cut"


def test_a_call_hangs_until_its_time_is_over(tmp_path: Path) -> None:
    """Other functions of the same GPU work where one function is named."""
    fault = "{kind: hang, gpus: [0], after: 5, for: 10, function: nvmlDeviceGetPowerUsage}"
    with driver_with(tmp_path, fault) as bench:
        gpu = bench.gpu(0)
        answers = []
        bench.pass_seconds(6)
        caller = threading.Thread(
            target=lambda: answers.append(pynvml.nvmlDeviceGetPowerUsage(gpu)), daemon=True
        )
        caller.start()
        caller.join(0.05)
        assert caller.is_alive()
        assert pynvml.nvmlDeviceGetEnforcedPowerLimit(gpu) == 700_000
        bench.pass_seconds(10)
        caller.join(10)
        assert not caller.is_alive()
        assert answers[0] > 0
    uuid = snapshots(tmp_path, 1)[0].devices[0].uuid
    assert snapshots(tmp_path, 7, fault)[6].down[uuid].reason is Missing.TIMED_OUT


def test_an_answer_takes_the_place_of_the_reading(tmp_path: Path) -> None:
    """All calls of a GPU, or one, return the code; plain snapshots support the first case."""
    every = "{kind: answer, gpus: [0], after: 5, for: 10, code: unknown}"
    one = "{kind: answer, gpus: [1], after: 5, code: timeout, function: nvmlDeviceGetPowerUsage}"
    with driver_with(tmp_path, every, one) as bench:
        gpu = bench.gpu(0)
        other = bench.gpu(1)
        bench.pass_seconds(6)
        with pytest.raises(pynvml.NVMLError_Unknown):
            pynvml.nvmlDeviceGetName(gpu)
        with pytest.raises(pynvml.NVMLError_Timeout):
            pynvml.nvmlDeviceGetPowerUsage(other)
        assert pynvml.nvmlDeviceGetName(other)
    taken = snapshots(tmp_path, 7, every, one)[6]
    assert [down.reason for down in taken.down.values()] == [Missing.FAILED]


def test_clearing_ends_the_scenarios_faults_too(tmp_path: Path) -> None:
    """A test that clears faults also ends those of the scenario."""
    with driver_with(tmp_path, "{kind: loss, gpus: [1], after: 0}") as bench:
        with pytest.raises(pynvml.NVMLError_GpuIsLost):
            bench.gpu(1)
        bench.library.faults.clear()
        assert pynvml.nvmlDeviceGetPowerUsage(bench.gpu(1)) > 0


def test_events_are_heard_from_the_registration_on(tmp_path: Path) -> None:
    """Earlier events are not reported; an event during a wait ends it."""
    fault = "{kind: xid, gpus: [0], after: 5, every: 10, code: 31}"
    with driver_with(tmp_path, fault) as bench:
        bench.pass_seconds(8)
        events = pynvml.nvmlEventSetCreate()
        pynvml.nvmlDeviceRegisterEvents(bench.gpu(0), pynvml.nvmlEventTypeXidCriticalError, events)
        heard: list[int] = []
        waiter = threading.Thread(
            target=lambda: heard.append(pynvml.nvmlEventSetWait_v2(events, 20_000).eventData),
            daemon=True,
        )
        waiter.start()
        clock_of_the_machine.sleep(0.02)
        bench.pass_seconds(30)
        waiter.join(10)
        assert heard == [31]
        assert [pynvml.nvmlEventSetWait_v2(events, 0).eventData for _ in range(2)] == [31, 31]
        with pytest.raises(pynvml.NVMLError_Timeout):
            pynvml.nvmlEventSetWait_v2(events, 0)
