"""The live source over the whole simulated driver, with known true values."""

import threading
import time

import pytest
from msgspec.structs import replace

from instrumented_library import InstrumentedLibrary
from nvml_driver import reading, tick
from rightsizer.catalogue.catalogue import built_in
from rightsizer.io.clock import FastClock
from rightsizer.model.reading import Missing
from rightsizer.model.signal import Signal
from rightsizer.simulator.node import SimulatedNode
from rightsizer.simulator.scenario_reader import load_scenario

NOON = 1_790_000_000 * 10**9


def simulated(name: str, clock: FastClock) -> tuple[SimulatedNode, InstrumentedLibrary]:
    """A node of a packaged scenario, and the driver library on it."""
    node = SimulatedNode(load_scenario(name, built_in()), built_in())
    return node, InstrumentedLibrary(node, clock.wall_time)


@pytest.mark.parametrize("scenario", ["eight-gpu-node", "a100-mig", "l4-pair", "t4-pair"])
def test_devices_are_the_scenarios(scenario: str) -> None:
    """Every device of a node is found, with its board, profile and shares."""
    clock = FastClock(NOON)
    node, library = simulated(scenario, clock)
    with reading(library, clock) as source:
        snapshot = source.read()
    assert snapshot.trouble is None
    assert not snapshot.down
    assert {device.uuid for device in snapshot.devices} == snapshot.readings.keys()
    found = {device.uuid: device for device in snapshot.devices}
    assert found.keys() == {device.uuid for device in node.devices}
    for truth in node.devices:
        device = found[truth.uuid]
        assert device.board == truth.board
        assert device.has_mig_instances == truth.has_mig_instances
        assert (device.mig is None) == (truth.mig is None)
        if device.mig is not None and truth.mig is not None:
            assert device.mig.profile == truth.mig.profile
            assert device.mig.compute_share == pytest.approx(truth.mig.compute_share)
            assert device.mig.memory_share == pytest.approx(truth.mig.memory_share)


_NOT_OF_AN_H100 = {
    Signal.FAN_SPEED,
    Signal.RETIRED_PAGES_CORRECTABLE,
    Signal.RETIRED_PAGES_UNCORRECTABLE,
    Signal.RETIRED_PAGES_PENDING,
}


def test_readings_are_the_physical_truth() -> None:
    """Readings through bindings and collectors equal the model's, to the driver's resolution.

    GPM values are means over the second before, so they are compared loosely.
    """
    clock = FastClock(NOON)
    node, library = simulated("eight-gpu-node", clock)
    with reading(library, clock) as source:
        for _ in range(3):
            snapshot = source.read()
            now = clock.time()
            tick(clock)
    assert len(snapshot.readings) == 8
    for uuid, found in snapshot.readings.items():
        truth = node.state(uuid, now)
        assert set(found.missing) <= _NOT_OF_AN_H100
        assert found.get(Signal.POWER_WATTS) == pytest.approx(truth.power_watts, abs=0.001)
        assert found.processes is not None
        running = tuple(replace(process, gpu_busy=None) for process in found.processes)
        assert running == node.processes(uuid, now)
        assert 0 <= found.values[Signal.GPU_BUSY] <= 1
        assert found.values[Signal.MEMORY_USED_BYTES] <= found.values[Signal.MEMORY_TOTAL_BYTES]


def test_one_mig_gpu_per_kind_of_signal() -> None:
    """On A100 an instance has memory and processes, its GPU has power, and activity is missing."""
    clock = FastClock(NOON)
    _, library = simulated("a100-mig", clock)
    with reading(library, clock) as source:
        source.read()
        tick(clock)
        snapshot = source.read()
    instances = [device for device in snapshot.devices if device.mig is not None]
    assert len(instances) == 12
    for device in instances:
        assert device.mig is not None
        instance = snapshot.readings[device.uuid]
        whole = snapshot.readings[device.mig.parent_uuid]
        assert instance.why_missing(Signal.GPU_BUSY) is Missing.NOT_SUPPORTED
        assert instance.get(Signal.MEMORY_TOTAL_BYTES) == device.memory_total_bytes
        assert whole.get(Signal.POWER_WATTS) is not None
        assert whole.why_missing(Signal.GPU_BUSY) is Missing.NOT_SUPPORTED


def test_lost_and_hung_gpus_of_eight() -> None:
    """The other six are read, and both recover afterward."""
    clock = FastClock(NOON)
    node, library = simulated("eight-gpu-node", clock)
    lost = node.devices[2].uuid
    hung = node.devices[5].uuid
    with reading(library, clock, deadline_seconds=3.0, hung_after_seconds=0.5) as source:
        assert len(source.read().readings) == 8
        library.faults.lose(lost)
        library.faults.hang("nvmlDeviceGetPowerUsage", hung)
        for _ in range(2):
            tick(clock)
            snapshot = source.read()
        assert len(snapshot.readings) == 6
        assert snapshot.down[lost].reason is Missing.LOST
        assert snapshot.down[hung].reason is Missing.TIMED_OUT
        library.faults.clear()
        for _ in range(200):
            tick(clock)
            snapshot = source.read()
            if len(snapshot.readings) == 8:
                break
            time.sleep(0.005)
        assert not snapshot.down


def test_unloaded_driver_comes_back() -> None:
    """After the driver was reloaded, all devices are read as before."""
    clock = FastClock(NOON)
    _, library = simulated("single-h100", clock)
    with reading(library, clock) as source:
        source.read()
        library.faults.unload()
        for _ in range(3):
            tick(clock)
            snapshot = source.read()
            assert not snapshot.readings
            assert len(snapshot.devices) == 1
        assert "not loaded" in (snapshot.trouble or "")
        library.faults.clear()
        for _ in range(20):
            tick(clock)
            snapshot = source.read()
            if snapshot.readings:
                break
        assert snapshot.trouble is None
        assert not snapshot.down


def test_no_thread_is_left() -> None:
    """A source over the simulated driver ends all its workers."""
    before = threading.active_count()
    clock = FastClock(NOON)
    _, library = simulated("eight-gpu-node", clock)
    with reading(library, clock) as source:
        source.read()
    assert threading.active_count() == before
