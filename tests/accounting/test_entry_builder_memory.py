"""The entry builder's memory of a device: a reading is judged by earlier ones."""

from collections.abc import Mapping, Sequence
from typing import Final

import pytest
from msgspec.structs import replace

from readings import EMPTY, HELD, SECOND, SPINNING, TRAINING, Signals, gpu, snapshot
from rightsizer.accounting.entry_builder import EntryBuilder
from rightsizer.accounting.node_accounts import NodeAccounts
from rightsizer.accounting.power import LearnedPower
from rightsizer.model.device import Device, MigInstance
from rightsizer.model.reading import Missing, Reading
from rightsizer.model.signal import Signal
from rightsizer.model.snapshot import Snapshot
from rightsizer.model.state import Condition, State, Tier
from rightsizer.model.window import Entry

GPU: Final = gpu()
WATTS: Final = Signal.POWER_WATTS


def post(
    builder: EntryBuilder, first: int, course: Sequence[Mapping[Device, Signals]]
) -> list[Entry]:
    """The entries of consecutive seconds, one reading of each device a second."""
    return [
        entry
        for at, readings in enumerate(course, start=first)
        for entry in builder.post(snapshot(at, tuple(readings), readings))
    ]


def states(course: Sequence[Signals]) -> list[State]:
    """The states of one GPU, second by second."""
    return [entry.state for entry in post(EntryBuilder(), 0, [{GPU: each} for each in course])]


def test_idle_draw_is_learned_from_empty_seconds() -> None:
    """After a minute of emptiness, 90 W is this GPU's idle draw."""
    empty = {**EMPTY, WATTS: 90.0}
    held = {**HELD, WATTS: 90.0}
    entries = post(EntryBuilder(), 0, [{GPU: empty}] * 70 + [{GPU: held}] * 2)
    assert entries[0].signals[Signal.POWER] == 0.0
    assert entries[-1].signals[Signal.POWER] == 0.0
    warm = post(EntryBuilder(), 0, [{GPU: {**HELD, WATTS: 60.0}}] * 2 + [{GPU: empty}])
    assert warm[-1].signals[Signal.POWER] == pytest.approx((90 - 60) / (700 - 60))


def test_idle_draw_survives_a_restart() -> None:
    """A minute of emptiness is enough, even if a service then never leaves again."""
    before = EntryBuilder()
    post(before, 0, [{GPU: {**EMPTY, WATTS: 90.0}}] * 70)
    learned = before.learned_power(GPU.uuid)
    assert learned == LearnedPower(90.0, 90.0, 90.0, 69.0)
    after = EntryBuilder()
    after.restore_power(GPU.uuid, learned)
    after.restore_power("GPU-1", None)
    entries = post(after, 0, [{}, {}, *[{GPU: {**TRAINING, WATTS: 395.0}}] * 2])
    assert entries[-1].signals[Signal.POWER] == 0.5
    assert after.learned_power("GPU-1") is None


def test_accounts_keep_the_draw_with_the_device() -> None:
    """A history stores and restores it with the device's facts."""
    before = NodeAccounts()
    after = NodeAccounts()
    for at in range(70):
        before.post(snapshot(at, [GPU], {GPU: {**EMPTY, WATTS: 90.0}}))
    (known,) = before.device_records()
    after.restore_record(known)
    for at in (0, 1):
        after.post(snapshot(at, [GPU], {GPU: {**TRAINING, WATTS: 395.0}}))
    last = after.device(GPU.uuid).last
    assert last is not None
    assert last.signals[Signal.POWER] == 0.5


def test_ranges_of_absent_devices_are_bounded() -> None:
    """A board that was lost returns with the same uuid; MIG makes new ones each time."""
    builder = EntryBuilder()
    for number in range(100):
        builder.restore_power(f"MIG-{number}", LearnedPower(10.0, 20.0))
    post(builder, 0, [{}])
    kept = [number for number in range(100) if builder.learned_power(f"MIG-{number}")]
    assert kept == list(range(36, 100))


LINK: Final = {Signal.PCIE_LINK_GENERATION: 1.0, Signal.PCIE_LINK_WIDTH: 16.0}


def test_link_that_trains_up_is_not_degraded() -> None:
    """It is slow at rest to save power, and may still be in the first readings under load."""
    slow = LINK
    fast = LINK | {Signal.PCIE_LINK_GENERATION: 5.0}
    course = [{GPU: HELD | slow}] * 30 + [{GPU: TRAINING | slow}] * 3 + [{GPU: TRAINING | fast}] * 9
    entries = post(EntryBuilder(), 0, course)
    assert not any(Condition.PCIE_LINK_DEGRADED in entry.conditions for entry in entries)


def test_link_that_stays_down_under_load_is_degraded() -> None:
    """From the fifth second of load on, and not while it rests again."""
    slow = LINK | {Signal.PCIE_LINK_GENERATION: 3.0}
    course = [{GPU: TRAINING | slow}] * 11 + [{GPU: HELD | slow}] * 5
    found = [
        Condition.PCIE_LINK_DEGRADED in entry.conditions
        for entry in post(EntryBuilder(), 0, course)
    ]
    assert found == [False] * 4 + [True] * 6 + [False] * 5


def test_lost_lanes_are_reported_at_once() -> None:
    """Links do not reduce their width to save power."""
    narrow = LINK | {Signal.PCIE_LINK_WIDTH: 8.0}
    (entry,) = post(EntryBuilder(), 0, [{GPU: HELD | narrow}] * 2)
    assert entry.conditions == {Condition.PCIE_LINK_DEGRADED}


def test_dead_counters_are_remembered() -> None:
    """Counters found dead under load stay distrusted when the load falls, until one moves."""
    dead = dict.fromkeys((Signal.SM_ACTIVE, Signal.TENSOR_ACTIVE, Signal.DRAM_ACTIVE), 0.0)
    light = {**TRAINING, Signal.GPU_BUSY: 0.6, WATTS: 150.0}
    course = [light | dead, TRAINING | dead, light | dead, TRAINING, light | dead]
    entries = post(EntryBuilder(), 0, [{GPU: each} for each in course])
    power = Tier.POWER
    profiling = Tier.PROFILING
    assert [entry.tier for entry in entries] == [power, power, profiling, profiling]
    assert [entry.state for entry in entries][1] is State.PRODUCTIVE


def test_counters_and_power_that_contradict_each_other_are_unknown() -> None:
    """All counters at rest at 600 W: whichever is wrong, the GPU is not idle."""
    assert states([HELD, {**HELD, Signal.SM_ACTIVE: 0.0, WATTS: 600.0}]) == [State.UNKNOWN]


def test_woken_gpu_is_unknown_and_teaches_nothing() -> None:
    """100% and 145 W with no process and 0 MiB, then rest: an L40S without persistence."""
    board = gpu(0, name="NVIDIA L40S", power_limit_watts=350.0, memory_total_bytes=48 * 2.0**30)
    rest = {**EMPTY, Signal.MEMORY_USED_BYTES: 0.0, WATTS: 33.0}
    woken = {**rest, Signal.GPU_BUSY: 1.0, WATTS: 145.0}
    builder = EntryBuilder()
    entries = post(builder, 0, [{board: each} for each in (rest, rest, woken, rest)])
    assert [entry.state for entry in entries] == [
        State.IDLE_EMPTY,
        State.UNKNOWN,
        State.IDLE_EMPTY,
    ]
    assert entries[1].used_ratio is None
    assert entries[1].waste == {}


def settling(at: int, values: Signals, *, is_settled: bool) -> Snapshot:
    """Readings of the live source in the first seconds after it opened the driver."""
    unsettled = (Signal.GPU_BUSY, WATTS)
    missing = {} if is_settled else dict.fromkeys(unsettled, Missing.NO_SAMPLE)
    kept = {signal: value for signal, value in values.items() if signal not in missing}
    reading = Reading(GPU.uuid, at * SECOND, kept, missing)
    return replace(snapshot(at, [GPU], {}), readings={GPU.uuid: reading})


def test_gpu_that_settles_is_unknown() -> None:
    """Utilization and power are left out at first; memory and processes do not show rest."""
    builder = EntryBuilder()
    entries = [
        entry for at in range(6) for entry in builder.post(settling(at, EMPTY, is_settled=at >= 3))
    ]
    unknown = State.UNKNOWN
    empty = State.IDLE_EMPTY
    assert [entry.state for entry in entries] == [unknown, unknown, empty, empty, empty]


def test_stall_at_low_clocks_needs_less_power_still() -> None:
    """200 W at 1980 MHz is a spin; at half of the clock it may be the full draw of work."""
    clock = Signal.SM_CLOCK_HERTZ
    fast, slow = ({**SPINNING, WATTS: 200.0, clock: hertz} for hertz in (1980e6, 990e6))
    assert states([fast, fast]) == [State.HIDDEN_STALL]
    assert states([slow, slow]) == [State.PRODUCTIVE]


def test_instances_are_clamped_and_judged_without_power() -> None:
    """SM activity of MIG instances exceeds 1, and the draw is of the whole board."""
    mig = MigInstance("GPU-0", "3g.40gb", 1, 0, 3 / 7, 4 / 8)
    instance = gpu(0, uuid="MIG-0", mig=mig, power_limit_watts=None)
    busy = {
        Signal.GPU_BUSY: 1.04,
        Signal.SM_ACTIVE: 1.02,
        Signal.TENSOR_ACTIVE: 0.6,
        Signal.PROCESS_COUNT: 1.0,
    }
    (entry,) = post(EntryBuilder(), 0, [{instance: busy}] * 2)
    assert entry.state is State.COMPUTE_BOUND
    assert entry.signals[Signal.SM_ACTIVE] == entry.signals[Signal.GPU_BUSY] == 1.0
    assert entry.energy_joules is None
