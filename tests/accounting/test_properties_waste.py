"""Accounting of every second and joule: used and wasted sum to the whole, day after day."""

from collections.abc import Sequence
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from node_lives import GPU, Moment, lives, snapshots_of
from readings import DAY, HOUR, MINUTE, SECOND, TRAINING, gpu, snapshot
from rightsizer.accounting.entry_builder import EntryBuilder
from rightsizer.accounting.node_accounts import NodeAccounts
from rightsizer.catalogue.catalogue import built_in
from rightsizer.model.report import Totals
from rightsizer.model.signal import Signal
from rightsizer.model.snapshot import Snapshot
from rightsizer.model.state import Cause, State
from rightsizer.model.units import Nanoseconds
from rightsizer.model.window import EnergySource
from rightsizer.simulator.scenario_reader import load_scenario
from rightsizer.simulator.source import DEFAULT_START, SimulatedSource

COUNTER = EnergySource.COUNTER
POWER = EnergySource.POWER
CATALOGUE: Final = built_in()


def simulated(
    name: str, seed: int, *, interval: Nanoseconds, duration: Nanoseconds
) -> list[Snapshot]:
    """A span of a scenario with its own seed, from some hour of some day."""
    scenario = replace(load_scenario(name, CATALOGUE), seed=seed)
    start = DEFAULT_START + seed * 7 * HOUR
    source = SimulatedSource(scenario, CATALOGUE, start=start, interval=interval, duration=duration)
    return list(iter(source.read, None))


def posted(snapshots: Sequence[Snapshot]) -> NodeAccounts:
    """The accounts after the snapshots."""
    accounts = NodeAccounts()
    for each in snapshots:
        accounts.post(each)
    return accounts


def assert_whole(totals: Totals) -> None:
    """Used and wasted sum to all known time and its energy; that of unknown time is neither."""
    known = sum(time for state, time in totals.state_seconds.items() if state is not State.UNKNOWN)
    assert totals.used_seconds + sum(totals.waste_seconds.values()) == pytest.approx(known)
    joules = totals.used_joules + sum(totals.waste_joules.values())
    drawn = sum(totals.energy_joules.values())
    assert joules == pytest.approx(drawn) or (
        joules < drawn and State.UNKNOWN in totals.state_seconds
    )


@given(lives())
def test_every_stretch_is_whole(life: tuple[Nanoseconds, list[Moment]]) -> None:
    """For any readings: known time has a use, unknown time has neither use nor waste."""
    builder = EntryBuilder()
    for each in snapshots_of(*life):
        for entry in builder.post(each):
            parts = sum(entry.waste.values())
            if entry.state is State.UNKNOWN:
                assert (entry.used_ratio, parts, entry.pressed) == (None, 0, frozenset())
            else:
                assert entry.used_ratio is not None
                assert 0.0 <= entry.used_ratio <= 1.0
                assert entry.used_ratio + parts == pytest.approx(1.0)
            assert (entry.energy_joules is None) == (entry.energy_source is None)


@pytest.mark.parametrize("name", ["single-h100", "t4-pair"])
@given(seed=st.integers(0, 999))
@settings(max_examples=4)
def test_random_days_are_whole(name: str, seed: int) -> None:
    """On the profiling and power tiers; energy equals the counter's to the joule."""
    snapshots = simulated(name, seed, interval=120 * SECOND, duration=DAY)
    accounts = posted(snapshots)
    for device in accounts.devices:
        totals = accounts.device(device.uuid).totals.totals()
        assert_whole(totals)
        counters = [
            each.readings[device.uuid].values[Signal.ENERGY_JOULES]
            for each in (snapshots[0], snapshots[-1])
        ]
        assert totals.energy_joules == pytest.approx({COUNTER: counters[1] - counters[0]})
        assert accounts.device(device.uuid).whole.window().energy_joules == pytest.approx(
            counters[1] - counters[0]
        )


def test_time_with_every_fault_is_whole() -> None:
    """Hangs, losses, unloaded drivers; energy that the counter lost is estimated from the draw."""
    snapshots = simulated("faulty-node", 1, interval=5 * SECOND, duration=11 * MINUTE)
    accounts = posted(snapshots)
    for device in accounts.devices:
        totals = accounts.device(device.uuid).totals.totals()
        assert_whole(totals)
        assert totals.energy_joules[COUNTER] > 9 * totals.energy_joules[POWER] > 0


def test_instance_of_a_gpu_has_waste_in_seconds_alone() -> None:
    """The draw is of the whole board; that of an instance is unknown."""
    accounts = posted(simulated("h100-mig", 3, interval=60 * SECOND, duration=2 * HOUR))
    instances = [device for device in accounts.devices if device.mig is not None]
    assert instances
    for device in instances:
        totals = accounts.device(device.uuid).totals.totals()
        assert_whole(totals)
        assert totals.waste_seconds
        assert totals.energy_joules == {}


def test_energy_of_a_second_follows_its_use() -> None:
    """A second used to a third uses a third of its joules, by the counter and not the draw."""
    accounts = NodeAccounts()
    for at, joules in enumerate((1000.0, 1600.0, 2200.0)):
        signals = {**TRAINING, Signal.TENSOR_ACTIVE: 0.24, Signal.ENERGY_JOULES: joules}
        signals[Signal.DRAM_ACTIVE] = 0.1
        accounts.post(snapshot(at, [GPU], {GPU: signals}))
    totals = accounts.device(GPU.uuid).totals.totals()
    assert totals.energy_joules == {COUNTER: 1200.0}
    assert totals.used_joules == pytest.approx(0.3 * 1200.0)
    assert totals.waste_joules == {Cause.HEADROOM: pytest.approx(0.7 * 1200.0)}


def test_energy_of_a_gap_is_nobodys() -> None:
    """The counter went on; energy of the seconds after the gap comes from the draw."""
    accounts = NodeAccounts()
    steps = [(0, 0.0), (1, 590.0), (1000, 600_000.0), (1001, 600_580.0)]
    for at, joules in steps:
        signals = {**TRAINING, Signal.ENERGY_JOULES: joules}
        accounts.post(snapshot(at, [GPU], {GPU: signals}))
    totals = accounts.device(GPU.uuid).totals.totals()
    assert totals.state_seconds[State.UNKNOWN] == 994.0
    assert totals.energy_joules == {COUNTER: 590.0 + 580.0, POWER: 600.0 * 5}
    assert_whole(totals)


def test_device_that_was_down_begins_its_counter_again() -> None:
    """Even if the driver returns within the usual gap after the last accounted time."""
    builder = EntryBuilder()
    joules = []
    for at in range(20):
        is_down = 3 <= at < 12
        signals = {**TRAINING, Signal.ENERGY_JOULES: 500.0 * at}
        taken = snapshot(
            at, [GPU], {} if is_down else {GPU: signals}, down=[GPU] if is_down else ()
        )
        joules += [(entry.energy_source, entry.energy_joules) for entry in builder.post(taken)]
    known = [joule for joule in joules if joule[0] is not None]
    assert known == [(COUNTER, 500.0)] * 2 + [(POWER, 600.0)] + [(COUNTER, 500.0)] * 7


def test_devices_have_counters_of_their_own() -> None:
    """Counter steps of two GPUs in one tick are not mixed up."""
    one = gpu(0)
    other = gpu(1)
    accounts = NodeAccounts()
    for at in range(3):
        readings = {
            one: {**TRAINING, Signal.ENERGY_JOULES: 100.0 * at},
            other: {**TRAINING, Signal.ENERGY_JOULES: 7000.0 + 200.0 * at},
        }
        accounts.post(snapshot(at, [one, other], readings))
    assert accounts.device(one.uuid).totals.totals().energy_joules == {COUNTER: 200.0}
    assert accounts.device(other.uuid).totals.totals().energy_joules == {COUNTER: 400.0}
