"""The entry builder: every device's time is accounted for once, for any readings."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from readings import (
    EMPTY,
    EPOCH,
    GIBIBYTE,
    HELD,
    SECOND,
    SPINNING,
    TRAINING,
    Signals,
    gpu,
    snapshot,
    workload,
)
from rightsizer.accounting.entry_builder import EntryBuilder
from rightsizer.model.device import Device, MigInstance
from rightsizer.model.reading import Missing
from rightsizer.model.signal import Signal
from rightsizer.model.snapshot import Down, Snapshot
from rightsizer.model.state import Cause, Condition, Resource, State, Tier
from rightsizer.model.units import nanoseconds
from rightsizer.model.window import Entry
from rightsizer.model.workload import Allocator

ACTIVITIES: Final = st.sampled_from([EMPTY, HELD, TRAINING, SPINNING, {}])
OUTCOMES: Final = st.one_of(st.sampled_from(["silent", "down"]), ACTIVITIES)
TICK: Final = st.tuples(
    # Irregular, repeated and backward times, with devices that may be silent or down.
    st.one_of(st.floats(0.0, 20.0), st.just(0.0), st.floats(-10.0, 0.0)),
    OUTCOMES,
    OUTCOMES,
)
Tick = tuple[float, Signals | str, Signals | str]


def post_all(snapshots: Sequence[Snapshot]) -> list[Entry]:
    """The entries of all snapshots in one list."""
    builder = EntryBuilder()
    return [entry for each in snapshots for entry in builder.post(each)]


def times(entries: Sequence[Entry]) -> Counter[State]:
    """Nanoseconds by state."""
    total: Counter[State] = Counter()
    for entry in entries:
        total[entry.state] += entry.duration
    return total


def snapshots_of(ticks: Sequence[Tick], devices: Sequence[Device]) -> list[Snapshot]:
    """Two devices over time steps, each with a reading, silent or down."""
    found = []
    now = 100.0
    for step, *outcomes in ticks:
        now += step
        said = dict(zip(devices, outcomes, strict=True))
        readings = {device: each for device, each in said.items() if not isinstance(each, str)}
        down = [device for device, each in said.items() if each == "down"]
        found.append(snapshot(now, devices, readings, down=down))
    return found


def accounted_span(snapshots: Sequence[Snapshot], uuid: str) -> int:
    """From a device's first reading to its last, or to when it was last reported down."""
    first = last = None
    for each in snapshots:
        if uuid in each.readings:
            first = each.time if first is None else first
            last = each.time if last is None else max(last, each.time)
        elif last is not None and uuid in each.down:
            last = max(last, each.time)
    return 0 if first is None or last is None else last - first


@given(st.lists(TICK, max_size=40))
def test_states_sum_to_wall_time_exactly(
    ticks: list[Tick],
) -> None:
    """Sums are exact to the nanosecond for any reading times and for devices that fall silent."""
    devices = (gpu(0), gpu(1))
    snapshots = snapshots_of(ticks, devices)
    entries = post_all(snapshots)
    for device in devices:
        mine = [entry for entry in entries if entry.uuid == device.uuid]
        assert times(mine).total() == accounted_span(snapshots, device.uuid)
        assert all(entry.duration > 0 for entry in mine)
        # Each stretch begins where the previous one ended.
        assert all(a.end == b.start for a, b in pairwise(mine))


@given(st.lists(TICK, max_size=40))
def test_used_and_waste_sum_to_one(
    ticks: list[Tick],
) -> None:
    """Every second is either used or wasted, exactly once."""
    for entry in post_all(snapshots_of(ticks, (gpu(0), gpu(1)))):
        if entry.state is State.UNKNOWN:
            assert entry.used_ratio is None
            assert entry.waste == {}
        else:
            assert entry.used_ratio is not None
            assert entry.used_ratio + sum(entry.waste.values()) == pytest.approx(1.0)


@given(st.lists(TICK, max_size=30))
def test_permuting_devices_permutes_entries(
    ticks: list[Tick],
) -> None:
    """A device's entries depend neither on its position nor on chance."""
    devices = (gpu(0), gpu(1))
    snapshots = snapshots_of(ticks, devices)
    turned = snapshots_of([(step, b, a) for step, a, b in ticks], devices[::-1])
    entries = post_all(snapshots)
    assert post_all(snapshots) == entries
    for device in devices:
        assert [entry for entry in post_all(turned) if entry.uuid == device.uuid] == [
            entry for entry in entries if entry.uuid == device.uuid
        ]


def test_first_reading_accounts_for_nothing() -> None:
    """Time before the first reading was not observed."""
    assert post_all([snapshot(7, [gpu()], {gpu(): EMPTY})]) == []


def test_reading_accounts_for_the_time_since_the_last() -> None:
    """An entry has the state, tier, times and energy of one stretch."""
    (entry,) = post_all(
        [snapshot(at, [gpu()], {gpu(): each}) for at, each in ((10, EMPTY), (12, TRAINING))]
    )
    assert (entry.start, entry.end) == (EPOCH + 10 * SECOND, EPOCH + 12 * SECOND)
    assert (entry.state, entry.tier) == (State.COMPUTE_BOUND, Tier.PROFILING)
    assert entry.energy_joules == 1200.0


@pytest.mark.parametrize(
    ("interval", "away", "unknown"),
    [
        (1.0, 5.0, 0.0),
        (1.0, 5.5, 0.5),
        (1.0, 60.0, 55.0),
        (10.0, 29.0, 0.0),
        (10.0, 31.0, 1.0),
        (57.0, 170.0, 0.0),
    ],
)
def test_time_beyond_the_usual_gap_is_unknown(interval: float, away: float, unknown: float) -> None:
    """A reading covers at most max(5 s, 3 intervals) before it."""
    entries = post_all(
        [
            snapshot(0, [gpu()], {gpu(): HELD}, interval_seconds=interval),
            snapshot(away, [gpu()], {gpu(): HELD}, interval_seconds=interval),
        ]
    )
    assert times(entries) == Counter(
        {State.IDLE_HELD: nanoseconds(away - unknown)}
        | ({State.UNKNOWN: nanoseconds(unknown)} if unknown else {})
    )


def test_device_that_is_down_is_unknown_while_it_is() -> None:
    """A hanging device is accounted for while it hangs, and is never idle."""
    hanging = [snapshot(at, [gpu()], {}, down=[gpu()]) for at in range(2, 60)]
    entries = post_all([snapshot(0, [gpu()], {gpu(): EMPTY}), *hanging])
    assert times(entries) == Counter({State.UNKNOWN: 59 * SECOND})
    assert {entry.tier for entry in entries} == {Tier.NONE}


def test_device_that_was_never_read_is_unknown_while_the_driver_is_away() -> None:
    """The agent was started without it."""
    away = {gpu().uuid: Down(Missing.LOST, "no driver", is_of_driver=True)}
    entries = post_all([replace(snapshot(at, [gpu()], {}), down=away) for at in range(60)])
    assert times(entries) == Counter({State.UNKNOWN: 59 * SECOND})


@pytest.mark.parametrize("period", [1, 2, 3, 8])
def test_device_that_comes_and_goes_is_unknown_while_it_is_away(period: int) -> None:
    """However short the absence, the previous reading does not cover it."""
    lives = [(at, at // period % 2 == 1) for at in range(240)]
    entries = post_all(
        snapshot(at, [gpu()], {} if away else {gpu(): TRAINING}, down=[gpu()] if away else [])
        for at, away in lives
    )
    assert times(entries)[State.UNKNOWN] == sum(away for _, away in lives) * SECOND


def test_silent_device_is_unknown_once_it_speaks_again() -> None:
    """In a recording, a device ends with its last reading, and a gap stays a gap."""
    silence = [snapshot(at, [gpu()], {}) for at in range(2, 60)]
    first, again = (snapshot(at, [gpu()], {gpu(): EMPTY}) for at in (0, 60))
    assert post_all([first, *silence]) == []
    assert times(post_all([first, *silence, again])) == Counter(
        {State.UNKNOWN: 55 * SECOND, State.IDLE_EMPTY: 5 * SECOND}
    )


def test_reading_without_a_word_on_compute_is_unknown() -> None:
    """Memory alone, as of a MIG instance without counters, does not show idleness."""
    mute = {Signal.MEMORY_USED_BYTES: GIBIBYTE, Signal.POWER_WATTS: 70.0}
    entries = post_all([snapshot(at, [gpu()], {gpu(): mute}) for at in (0, 1)])
    assert [entry.state for entry in entries] == [State.UNKNOWN]
    assert entries[0].conditions == frozenset()


@pytest.mark.parametrize("step_seconds", [-7200, 3600, 10**9])
def test_setting_the_clock_changes_no_duration(step_seconds: int) -> None:
    """Durations come from the monotonic clock; only dates follow the wall clock."""
    step = step_seconds * SECOND
    entries = post_all(
        [
            snapshot(0, [gpu()], {gpu(): HELD}),
            snapshot(1, [gpu()], {gpu(): HELD}),
            snapshot(2, [gpu()], {gpu(): HELD}, wall_time=EPOCH + 2 * SECOND + step),
            snapshot(3, [gpu()], {gpu(): HELD}, wall_time=EPOCH + 3 * SECOND + step),
        ]
    )
    assert [entry.duration for entry in entries] == [SECOND] * 3
    assert entries[-1].end == EPOCH + 3 * SECOND + step


def test_parent_of_mig_instances_has_no_state_of_its_own() -> None:
    """Its instances are accounted for; counting the parent would count their time twice."""
    parent = gpu(0, has_mig_instances=True)
    instance = gpu(
        0,
        uuid="MIG-0",
        mig=MigInstance(parent.uuid, "3g.40gb", 1, 0, 3 / 7, 4 / 8),
    )
    entries = post_all(
        [
            snapshot(at, [parent, instance], {parent: TRAINING, instance: TRAINING})
            for at in (0, 1, 2)
        ]
    )
    assert [entry.uuid for entry in entries] == ["MIG-0", "MIG-0"]


def test_device_that_went_away_starts_afresh() -> None:
    """Time during which a device was absent is not accounted for."""
    entries = post_all(
        [
            snapshot(0, [gpu()], {gpu(): HELD}),
            snapshot(1, [], {}),
            snapshot(2, [gpu()], {gpu(): HELD}),
            snapshot(3, [gpu()], {gpu(): HELD}),
        ]
    )
    assert times(entries) == Counter({State.IDLE_HELD: SECOND})


def test_two_spinning_devices_of_a_workload_vouch_for_each_other() -> None:
    """At 0.9 busy, one device may be decoding at low clocks; two at once wait for a third."""
    nearly = {**SPINNING, Signal.GPU_BUSY: 0.9}
    devices = (gpu(0), gpu(1), gpu(2))
    same = workload("same")
    other = workload("other")

    def states(*holders: object) -> list[State]:
        snapshots = [
            snapshot(
                at,
                devices,
                {devices[0]: nearly, devices[1]: nearly, devices[2]: TRAINING},
                holders=dict(zip(devices, holders, strict=False)),  # type: ignore[arg-type]
            )
            for at in (0, 1)
        ]
        return [entry.state for entry in post_all(snapshots)]

    stalled = State.HIDDEN_STALL
    productive = State.PRODUCTIVE
    assert states(same, same, same)[:2] == [stalled, stalled]
    assert states(same, other, same)[:2] == [productive, productive]
    assert states()[:2] == [productive, productive]


def test_host_signals_reach_every_device() -> None:
    """Gaps under I/O pressure are due to storage; a reading's own value precedes the node's."""
    gaps = {**SPINNING, Signal.GPU_BUSY: 0.4, Signal.POWER_WATTS: 300.0}
    own = {**gaps, Signal.IO_PRESSURE: 0.0}
    devices = (gpu(0), gpu(1))
    host = {Signal.IO_PRESSURE: 0.5}
    entries = post_all(
        [snapshot(at, devices, {devices[0]: gaps, devices[1]: own}, host=host) for at in (0, 1)]
    )
    assert [entry.state for entry in entries] == [State.STORAGE_BOUND, State.PRODUCTIVE]


def test_memory_pressure_depends_on_how_the_holder_allocates() -> None:
    """Full memory is pressure, unless the framework fills it by design."""
    full = {**TRAINING, Signal.MEMORY_USED_BYTES: 79 * GIBIBYTE}
    for allocator, pressed in (
        (Allocator.GROWING, frozenset({Resource.MEMORY})),
        (Allocator.UNKNOWN, frozenset({Resource.MEMORY})),
        (Allocator.PREALLOCATING, frozenset()),
    ):
        holders = {gpu(): workload(allocator=allocator)}
        (entry,) = post_all(
            [snapshot(at, [gpu()], {gpu(): full}, holders=holders) for at in (0, 1)]
        )
        assert entry.pressed == pressed
        assert (Condition.NEAR_OUT_OF_MEMORY in entry.conditions) == bool(pressed)


def test_waste_of_an_idle_second_is_all_idle() -> None:
    """Nothing was used, and the cause is idleness."""
    (entry,) = post_all([snapshot(at, [gpu()], {gpu(): HELD}) for at in (0, 1)])
    assert entry.waste == {Cause.IDLE: 1.0}
    assert entry.used_ratio == 0.0
