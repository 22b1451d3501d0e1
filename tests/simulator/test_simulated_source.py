"""Snapshots from the model equal those of the live source, without a driver in between."""

from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest
from msgspec.structs import replace

from instrumented_library import InstrumentedLibrary
from nvml_driver import patient_settings
from rightsizer.catalogue.catalogue import built_in
from rightsizer.io.clock import FastClock
from rightsizer.model.reading import Missing
from rightsizer.model.signal import Signal
from rightsizer.model.snapshot import Snapshot
from rightsizer.model.state import State
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Unit
from rightsizer.simulator.node import ScenarioHost
from rightsizer.simulator.packaged import packaged_scenarios
from rightsizer.simulator.scenario_reader import load_scenario
from rightsizer.simulator.source import SimulatedSource
from rightsizer.telemetry.host_context import HostContextCollector, NodeHostProbe
from rightsizer.telemetry.live import LiveSource
from rightsizer.telemetry.nvml.library import use_library
from simulated_driver import MIDNIGHT, hour, node_of

_NOWHERE = Path("/nonexistent")
SECOND = NANOSECONDS_PER_SECOND
LAST_DIGITS = {Unit.CELSIUS: 1.0, Unit.RATIO: 0.02}
STEADY = {"single-h100": 9.1, "eight-gpu-node": 11.5, "a100-mig": 12.0, "l4-pair": 12.0}


def source_of(name: str, hours: float, interval: float = 1.0) -> SimulatedSource:
    """A source of a packaged scenario, from a time of its day on."""
    return SimulatedSource(
        load_scenario(name, built_in()),
        built_in(),
        start=hour(hours),
        interval=round(interval * SECOND),
        duration=None,
    )


def next_of(source: SimulatedSource) -> Snapshot:
    """The next snapshot of an endless source."""
    snapshot = source.read()
    assert snapshot is not None
    return snapshot


@pytest.fixture(params=packaged_scenarios())
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[Snapshot, Snapshot]]:
    """Snapshots of the live source over the library, and of the model itself.

    Five seconds after the start, when a woken GPU has settled.
    """
    name = request.param
    start = hour(STEADY.get(name, 10.0))
    scenario = load_scenario(name, built_in())
    node = node_of(name, start)
    clock = FastClock(start)
    use_library(InstrumentedLibrary(node, clock.wall_time))
    live = LiveSource(
        clock=clock,
        interval=SECOND,
        settings=patient_settings(slow_interval_seconds=1.0),
        catalogue=built_in(),
        host_context=HostContextCollector(
            NodeHostProbe(ScenarioHost(node, clock.wall_time), node.workloads, _NOWHERE)
        ),
        sysfs=_NOWHERE,
    )
    model = SimulatedSource(scenario, built_in(), start=start, interval=5 * SECOND, duration=None)
    try:
        live.read()
        next_of(model)
        clock.wait_until(start + 5 * SECOND, Event())
        yield live.read(), next_of(model)
    finally:
        live.close()
        use_library(None)


def test_both_ways_list_the_same_devices(pair: tuple[Snapshot, Snapshot]) -> None:
    """All device attributes agree, except those that only kernel and driver know."""
    live, model = pair
    found = tuple(replace(device, facts={}) for device in live.devices)
    assert found == tuple(replace(device, numa_node=None) for device in model.devices)


def test_both_ways_give_the_same_signals(pair: tuple[Snapshot, Snapshot]) -> None:
    """The same values are present, and the same are missing, for the same reasons."""
    live, model = pair
    assert live.readings.keys() == model.readings.keys()
    for uuid, reading in model.readings.items():
        assert live.readings[uuid].values.keys() == reading.values.keys()
        assert dict(live.readings[uuid].missing) == dict(reading.missing)


def test_both_ways_read_the_same_values(pair: tuple[Snapshot, Snapshot]) -> None:
    """Sampled signals agree to the driver's last digit, averaged ones up to sensor noise."""
    live, model = pair
    for uuid, reading in model.readings.items():
        for signal, value in reading.values.items():
            found = live.readings[uuid].values[signal]
            digit = LAST_DIGITS.get(signal.unit, 1e-6)
            assert found == pytest.approx(value, rel=0.05, abs=digit), signal


def test_both_ways_see_the_same_holders(pair: tuple[Snapshot, Snapshot]) -> None:
    """Processes, holdings and the host's own signals are the same."""
    live, model = pair
    assert live.holdings == model.holdings
    assert live.host == model.host
    for uuid, reading in model.readings.items():
        assert live.readings[uuid].processes == reading.processes


def test_times_depend_on_the_interval() -> None:
    """From the start on, snapshots are an interval apart on both clocks."""
    source = source_of("single-h100", 3.0, 10.0)
    times = [next_of(source).wall_time for _ in range(3)]
    assert times == [hour(3.0), hour(3.0) + 10 * SECOND, hour(3.0) + 20 * SECOND]
    snapshot = next_of(source)
    assert (snapshot.time, snapshot.interval) == (snapshot.wall_time, 10 * SECOND)


def test_a_source_without_a_start_begins_on_a_fixed_monday() -> None:
    """Two runs are therefore the same."""
    scenario = load_scenario("single-h100", built_in())
    source = SimulatedSource(scenario, built_in(), interval=SECOND, duration=None)
    assert next_of(source).wall_time == MIDNIGHT


def test_a_source_ends_after_its_duration() -> None:
    """A duration of three intervals gives three snapshots."""
    scenario = load_scenario("single-h100", built_in())
    source = SimulatedSource(scenario, built_in(), interval=10 * SECOND, duration=30 * SECOND)
    assert [source.read() is not None for _ in range(5)] == [True] * 3 + [False] * 2
    source.close()


def test_two_sources_give_the_same_bytes() -> None:
    """Every value of every snapshot is equal."""
    one, other = (source_of("eight-gpu-node", 11.0, 60.0) for _ in range(2))
    for _ in range(20):
        assert next_of(one) == next_of(other)


def test_readings_carry_the_pressure_of_their_owner() -> None:
    """A data loader's CPU pressure is on its own GPU, not on its neighbors'."""
    snapshot = next_of(source_of("eight-gpu-node", 9.0))
    pressure = [
        snapshot.readings[device.uuid].get(Signal.CPU_PRESSURE) for device in snapshot.devices
    ]
    assert pressure[5] == 0.45
    assert pressure[0] == 0.0
    assert snapshot.host[Signal.CPU_PRESSURE] == 0.45


def test_an_empty_gpu_has_no_owner_and_no_pressure() -> None:
    """Without a process there is no owner whose host signals could be read."""
    snapshot = next_of(source_of("eight-gpu-node", 3.0))
    uuid = snapshot.devices[7].uuid
    assert snapshot.readings[uuid].processes == ()
    assert snapshot.readings[uuid].get(Signal.CPU_PRESSURE) is None
    assert uuid not in snapshot.holdings


def test_an_instance_has_no_activity_without_profiling() -> None:
    """On an A100 an instance's utilization is not supported, and never 0."""
    snapshot = next_of(source_of("a100-mig", 12.0))
    instance = next(device for device in snapshot.devices if device.mig)
    reading = snapshot.readings[instance.uuid]
    for signal in (Signal.GPU_BUSY, Signal.SM_ACTIVE, Signal.POWER_WATTS):
        assert reading.get(signal) is None
        assert reading.why_missing(signal) is Missing.NOT_SUPPORTED
    assert reading.get(Signal.MEMORY_USED_BYTES)
    assert reading.get(Signal.PROCESS_COUNT) == 1.0


def test_owners_and_holdings_agree() -> None:
    """One workload holds both GPUs of the stalled job."""
    source = source_of("eight-gpu-node", 12.0)
    snapshot = next_of(source)
    owners = source.node.workloads
    held = [snapshot.holdings[snapshot.devices[index].uuid] for index in (2, 3)]
    assert held[0] == held[1]
    (holding,) = held[0]
    assert holding.share_ratio == 1.0
    (process,) = snapshot.readings[snapshot.devices[2].uuid].processes or ()
    assert owners.workload_of(process.pid) == holding.workload
    assert owners.workload_of(7) is None


def test_the_host_of_strange_processes_is_unknown() -> None:
    """A process that is not in the scenario has no signals."""
    node = node_of("eight-gpu-node")
    host = ScenarioHost(node, lambda: hour(9.0))
    assert host.owner([7]) == {}
    (process,) = node.processes(node.units[5].device.uuid, hour(9.0))
    assert host.owner([process.pid])[Signal.CPU] == 0.99
    assert host.node()[Signal.CPU_PRESSURE] == 0.45


def test_truth_is_at_hand_for_evaluations() -> None:
    """The source's node has the true state for each snapshot."""
    source = source_of("eight-gpu-node", 12.0)
    snapshot = next_of(source)
    state, _ = source.node.truth(snapshot.devices[2].uuid, snapshot.wall_time)
    assert state is State.HIDDEN_STALL
