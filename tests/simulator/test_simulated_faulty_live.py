"""A scenario's faults through the whole live path: bindings, workers, snapshots."""

import threading
import time as clock_of_the_machine
from pathlib import Path

import pytest

from instrumented_library import InstrumentedLibrary
from nvml_driver import reading, tick
from rightsizer.catalogue.catalogue import built_in
from rightsizer.io.clock import FastClock
from rightsizer.model.reading import Missing
from rightsizer.model.signal import Signal
from rightsizer.model.snapshot import Snapshot
from rightsizer.simulator.node import SimulatedNode
from rightsizer.telemetry.live import LiveSource
from simulated_driver import MIDNIGHT
from simulated_trouble import scenario_with


def until(source: LiveSource, clock: FastClock, seconds: int) -> Snapshot:
    """The snapshot at some seconds after the start."""
    snapshot = source.read()
    while clock.time() < MIDNIGHT + seconds * 10**9:
        tick(clock)
        snapshot = source.read()
    return snapshot


def node_with(
    folder: Path, clock: FastClock, *faults: str
) -> tuple[SimulatedNode, InstrumentedLibrary]:
    """A node with faults, and the library over it."""
    node = SimulatedNode(scenario_with(folder, *faults), built_in(), MIDNIGHT)
    return node, InstrumentedLibrary(node, clock.wall_time)


def test_a_scenario_s_troubles_cost_their_own_gpus_alone(tmp_path: Path) -> None:
    """One hangs, one is lost, one refuses: each is down with its reason, and recovers afterward."""
    clock = FastClock(MIDNIGHT)
    node, library = node_with(
        tmp_path,
        clock,
        "{kind: hang, gpus: [0], after: 4, for: 3, function: nvmlDeviceGetPowerUsage}",
        "{kind: loss, gpus: [1], after: 4, for: 3}",
        "{kind: answer, gpus: [3], after: 4, for: 3, code: unknown}",
    )
    uuids = [unit.device.uuid for unit in node.units]
    with reading(library, clock, deadline_seconds=0.5, hung_after_seconds=0.3) as source:
        assert not until(source, clock, 3).down
        snapshot = until(source, clock, 5)
        assert {uuid: down.reason for uuid, down in snapshot.down.items()} == {
            uuids[0]: Missing.TIMED_OUT,
            uuids[1]: Missing.LOST,
            uuids[3]: Missing.FAILED,
        }
        assert snapshot.readings.keys() == {uuids[2]}
        for _ in range(200):
            tick(clock)
            if not (snapshot := source.read()).down:
                break
            clock_of_the_machine.sleep(0.005)
        assert snapshot.readings.keys() >= set(uuids)
        library.faults.clear()


@pytest.mark.parametrize("kind", ["power_brake", "hardware_thermal"])
def test_a_held_clock_reaches_the_reading(tmp_path: Path, kind: str) -> None:
    """Reason and clock change in the same reading."""
    clock = FastClock(MIDNIGHT)
    fault = f"{{kind: throttle, gpus: [0], after: 2, reason: {kind}, clock_ratio: 0.5}}"
    node, library = node_with(tmp_path, clock, fault)
    with reading(library, clock) as source:
        values = until(source, clock, 4).readings[node.units[0].device.uuid].values
    assert values[Signal.SM_CLOCK_HERTZ] == pytest.approx(0.5 * 1980e6, rel=0.02)
    assert int(values[Signal.CLOCK_EVENT_REASONS]) & 0x8


def test_no_thread_waits_for_an_event_after_the_end(tmp_path: Path) -> None:
    """A source over a scenario with Xids ends all threads that it has started."""
    before = threading.active_count()
    clock = FastClock(MIDNIGHT)
    _, library = node_with(tmp_path, clock, "{kind: xid, gpus: [0], after: 1, every: 1, code: 31}")
    with reading(library, clock) as source:
        until(source, clock, 3)
    assert threading.active_count() == before
