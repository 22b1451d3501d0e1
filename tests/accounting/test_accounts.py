"""The accounts: entries in; totals, windows and cases out."""

from collections.abc import Mapping, Sequence

import pytest
from msgspec.structs import replace

from readings import (
    EMPTY,
    EPOCH,
    GIBIBYTE,
    HELD,
    HOUR,
    MINUTE,
    SECOND,
    TRAINING,
    Signals,
    gpu,
    snapshot,
    workload,
)
from rightsizer.accounting.device_record import DeviceRecord
from rightsizer.accounting.node_accounts import (
    CURRENT_WINDOW,
    DAY_WINDOW,
    WEEK_WINDOW,
    NodeAccounts,
)
from rightsizer.accounting.window_codec import decode_window, encode_window
from rightsizer.io.codec import decode, encode
from rightsizer.model.device import Device, MigInstance
from rightsizer.model.reading import Reading
from rightsizer.model.signal import Signal
from rightsizer.model.state import Resource, State
from rightsizer.model.workload import Allocator, Holding, Workload

GPU = gpu()
JOB = workload("job")
NEXT = workload("next")
UP = Signal.NVLINK_LINKS_UP


def live(
    accounts: NodeAccounts,
    seconds: Sequence[float],
    readings: Mapping[Device, Signals],
    holders: Mapping[Device, Workload] | None = None,
) -> None:
    """The same readings of the same devices at the given times."""
    for at in seconds:
        accounts.post(
            snapshot(at, tuple(readings), readings, interval_seconds=10.0, holders=holders)
        )


def ticks(start: int, end: int, step: int = 10) -> list[int]:
    """Times in steps of one second."""
    return list(range(start, end + 1, step))


def test_most_nvlinks_up_outlast_a_restart() -> None:
    """The reference for links that are down on all GPUs; older records have the last reading."""
    before = NodeAccounts()
    for second, up in enumerate((17.0, 18.0, 0.0)):
        before.post(snapshot(second, [GPU], {GPU: {UP: up}}))
    (record,) = before.device_records()
    older = replace(record, nvlinks_up=0.0, reading=Reading("GPU-0", 0, {UP: 16.0}))
    for known, most in ((decode(encode(record), DeviceRecord), 18.0), (older, 16.0)):
        after = NodeAccounts()
        after.restore_record(known)
        after.post(snapshot(9, [GPU], {GPU: {UP: 0.0}}))
        (case,) = after.snapshot(EPOCH + 9 * SECOND).cases(0)
        assert case.node is not None
        assert case.node.nvlinks_up == {GPU.uuid: most}


def test_accounts_of_a_device_agree() -> None:
    """Counters, totals, the day and the strip agree on the same seconds."""
    accounts = NodeAccounts()
    live(accounts, ticks(0, 1000), {GPU: HELD})
    live(accounts, ticks(1010, 3000), {GPU: TRAINING})
    expected = {State.IDLE_HELD: 1000 * SECOND, State.COMPUTE_BOUND: 2000 * SECOND}
    assert accounts.device(GPU.uuid).whole.window().states == expected
    assert accounts.device(GPU.uuid).totals.totals().state_seconds == {
        state: time / SECOND for state, time in expected.items()
    }
    strip = accounts.device(GPU.uuid).windows.strip(EPOCH + 3000 * SECOND)
    assert sum(sum(cell.states.values()) for cell in strip) == 3000 * SECOND
    last = accounts.device(GPU.uuid).last
    assert last is not None
    assert last.state is State.COMPUTE_BOUND
    assert accounts.devices == (GPU,)


def test_closed_windows_are_handed_over_once() -> None:
    """Windows given to a history are not given again; the running window is separate."""
    accounts = NodeAccounts()
    live(accounts, ticks(0, 700), {GPU: HELD})
    closed = accounts.drain_closed()
    assert [(window.start, window.end) for window in closed] == [
        (EPOCH, EPOCH + 5 * MINUTE),
        (EPOCH + 5 * MINUTE, EPOCH + 10 * MINUTE),
    ]
    assert accounts.drain_closed() == []
    (running,) = accounts.open_windows()
    assert (running.start, running.end) == (EPOCH + 10 * MINUTE, EPOCH + 700 * SECOND)


def test_gauges_of_three_windows() -> None:
    """Gauges cover a day, a week and the current need; memory counts by its weekly maximum."""
    accounts = NodeAccounts()
    live(accounts, ticks(0, 7200), {GPU: TRAINING}, {GPU: JOB})
    found = accounts.provisioning(GPU.uuid)
    assert found.keys() == {DAY_WINDOW, WEEK_WINDOW, CURRENT_WINDOW}
    for fit in found.values():
        assert fit.resources[Resource.MEMORY].demand == 0.5
        assert fit.resources[Resource.COMPUTE].demand == 0.8
        assert fit.overprovisioned == pytest.approx(1 - 0.92)


def test_current_demand_fades_and_current_memory_does_not() -> None:
    """Three busy hours four days ago count for the week; their memory may be needed again."""
    peak = {**TRAINING, Signal.SM_ACTIVE: 1.0, Signal.MEMORY_USED_BYTES: 72 * GIBIBYTE}
    calm = {**TRAINING, Signal.SM_ACTIVE: 0.6, Signal.MEMORY_USED_BYTES: 8 * GIBIBYTE}
    accounts = NodeAccounts()
    live(accounts, ticks(0, 3 * 3600, 100), {GPU: peak}, {GPU: JOB})
    live(accounts, ticks(3 * 3600 + 100, 5 * 86_400, 100), {GPU: calm}, {GPU: JOB})
    found = accounts.provisioning(GPU.uuid)
    demands = {
        name: [fit.resources[each].demand for each in (Resource.COMPUTE, Resource.MEMORY)]
        for name, fit in found.items()
    }
    assert demands == {
        DAY_WINDOW: [0.75, 0.1],
        WEEK_WINDOW: [1.0, 0.9],
        CURRENT_WINDOW: [0.75, 0.9],
    }


def test_holder_of_the_larger_part_answers_for_a_shared_device() -> None:
    """A small co-tenant does not take over the recommendation."""
    accounts = NodeAccounts()
    shared = (Holding(NEXT, 0.2), Holding(JOB, 0.7))
    for at in ticks(0, 100):
        taken = snapshot(at, [GPU], {GPU: HELD}, interval_seconds=10.0)
        accounts.post(replace(taken, holdings={GPU.uuid: shared}))
    (case,) = accounts.snapshot(0).cases(None)
    assert case.workload == JOB


def test_nothing_is_known_of_a_device_before_its_first_entry() -> None:
    """A single reading spans no time."""
    accounts = NodeAccounts()
    live(accounts, [0], {GPU: HELD})
    assert accounts.device(GPU.uuid).last is None
    assert accounts.device(GPU.uuid).totals.totals().state_seconds == {}
    assert accounts.open_windows() == []
    assert accounts.provisioning(GPU.uuid)[DAY_WINDOW].overprovisioned is None


def test_case_is_all_that_a_workload_holds() -> None:
    """A workload's devices form one case; a device without a holder is a case of its own."""
    devices = tuple(gpu(index) for index in range(4))
    holders = {devices[0]: JOB, devices[1]: NEXT, devices[2]: JOB}
    accounts = NodeAccounts()
    live(accounts, ticks(0, 100), dict.fromkeys(devices, HELD), holders)
    cases = accounts.snapshot(0).cases(None)
    assert [(case.key, [device.index for device in case.devices]) for case in cases] == [
        (JOB.key, [0, 2]),
        (NEXT.key, [1]),
        ("GPU-3", [3]),
    ]
    assert [case.workload for case in cases] == [JOB, NEXT, None]
    for case in cases:
        assert [window.uuid for window in case.windows] == [device.uuid for device in case.devices]
        assert len(case.provisioning) == len(case.devices)


def test_parent_of_mig_instances_is_no_case() -> None:
    """Its instances are cases."""
    parent = gpu(0, has_mig_instances=True)
    instance = gpu(0, uuid="MIG-0", mig=MigInstance("GPU-0", "1g.10gb", 7, 0, 1 / 7, 1 / 8))
    accounts = NodeAccounts()
    live(accounts, ticks(0, 100), {parent: HELD, instance: HELD})
    assert [case.key for case in accounts.snapshot(0).cases(None)] == ["MIG-0"]


def test_evidence_begins_when_the_holder_took_the_device() -> None:
    """A job is not judged by its predecessor's activity."""
    accounts = NodeAccounts()
    live(accounts, ticks(0, 3600), {GPU: HELD}, {GPU: JOB})
    live(accounts, ticks(3610, 5400), {GPU: TRAINING}, {GPU: NEXT})
    (case,) = accounts.snapshot(EPOCH + 5400 * SECOND).cases(3 * HOUR)
    assert case.workload == NEXT
    assert case.windows[0].share(State.COMPUTE_BOUND) > 0.98
    (whole,) = accounts.snapshot(0).cases(None)
    assert whole.windows[0].known == 5400 * SECOND


def test_holder_stays_until_the_device_was_empty_for_a_while() -> None:
    """A device with an unknown holder is still held; one that stays empty has no holder."""
    accounts = NodeAccounts()
    live(accounts, ticks(0, 100), {GPU: HELD}, {GPU: JOB})
    live(accounts, ticks(110, 200), {GPU: HELD})
    assert accounts.snapshot(0).cases(None)[0].workload == JOB
    live(accounts, ticks(210, 790), {GPU: EMPTY})
    assert accounts.snapshot(0).cases(None)[0].workload == JOB
    live(accounts, ticks(800, 810), {GPU: EMPTY})
    assert accounts.snapshot(0).cases(None)[0].workload is None


def test_a_device_at_work_is_not_empty_meanwhile() -> None:
    """Two empty moments far apart, with work in between, are no departure."""
    accounts = NodeAccounts()
    live(accounts, ticks(0, 100), {GPU: HELD}, {GPU: JOB})
    live(accounts, ticks(110, 200), {GPU: EMPTY})
    live(accounts, ticks(210, 900), {GPU: TRAINING})
    live(accounts, ticks(910, 1000), {GPU: EMPTY})
    assert accounts.snapshot(0).cases(None)[0].workload == JOB


def test_a_holder_is_judged_though_the_clock_was_set_back() -> None:
    """A clock set back does not put the start of holding into the future."""
    accounts = NodeAccounts()
    live(accounts, ticks(0, 600), {GPU: HELD}, {GPU: JOB})
    for at in ticks(610, 1200):
        accounts.post(
            snapshot(
                at,
                (GPU,),
                {GPU: HELD},
                interval_seconds=10.0,
                holders={GPU: JOB},
                wall_time=EPOCH + (at - 7 * 86400) * SECOND,
            )
        )
    (case,) = accounts.snapshot(EPOCH + (1200 - 7 * 86400) * SECOND).cases(HOUR)
    assert case.windows[0].known == 600 * SECOND


def test_restart_of_the_holder_is_no_new_holder() -> None:
    """A service away for minutes keeps its evidence; another workload starts with its own."""
    accounts = NodeAccounts()
    live(accounts, ticks(0, 3600), {GPU: TRAINING}, {GPU: JOB})
    live(accounts, ticks(3610, 3900), {GPU: EMPTY})
    live(accounts, ticks(3910, 5400), {GPU: TRAINING}, {GPU: JOB})
    (case,) = accounts.snapshot(EPOCH + 5400 * SECOND).cases(3 * HOUR)
    assert case.windows[0].accounted == 5400 * SECOND


def test_need_begins_with_the_holder() -> None:
    """The demand of the former holder does not count."""
    accounts = NodeAccounts()
    live(accounts, ticks(0, 3600), {GPU: TRAINING}, {GPU: JOB})
    (before,) = accounts.snapshot(EPOCH + 3600 * SECOND).cases(HOUR)
    live(accounts, ticks(3610, 7200), {GPU: HELD}, {GPU: NEXT})
    (after,) = accounts.snapshot(EPOCH + 7200 * SECOND).cases(HOUR)
    assert Resource.COMPUTE in before.provisioning[0].resources
    assert all(fit.demand is None for fit in after.provisioning[0].resources.values())


def test_allocator_of_the_holder_decides_on_memory() -> None:
    """A case is judged by what is known about its workload."""
    full = {**TRAINING, Signal.MEMORY_USED_BYTES: 76 * GIBIBYTE}
    serving = workload(allocator=Allocator.PREALLOCATING)
    for holder, is_preallocated in ((JOB, False), (serving, True)):
        accounts = NodeAccounts()
        live(accounts, ticks(0, 900), {GPU: full}, {GPU: holder})
        (case,) = accounts.snapshot(EPOCH + 900 * SECOND).cases(HOUR)
        assert case.provisioning[0].memory_is_preallocated == is_preallocated


def test_restart_changes_no_case() -> None:
    """Windows, devices and holders restored from a history are judged as before."""
    steady = NodeAccounts()
    before = NodeAccounts()
    for accounts in (steady, before):
        live(accounts, ticks(0, 7200), {GPU: HELD}, {GPU: JOB})
    after = NodeAccounts()
    for record in before.device_records():
        after.restore_record(record)
    after.restore_node(before.device_records())
    for window in (*before.drain_closed(), *before.open_windows()):
        after.restore(decode_window(window.uuid, encode_window(window)))
    now = EPOCH + 7200 * SECOND
    (was,), (found,) = steady.snapshot(now).cases(HOUR), after.snapshot(now).cases(HOUR)
    assert (found.key, found.workload, found.devices) == (was.key, was.workload, was.devices)
    assert found.windows[0].states == was.windows[0].states
    assert after.device_records() == before.device_records()
    live(after, ticks(7200, 10800), {GPU: HELD}, {GPU: JOB})
    (later,) = after.snapshot(EPOCH + 10800 * SECOND).cases(3 * HOUR)
    assert later.windows[0].known == 3 * HOUR


def test_driver_that_is_late_costs_no_history() -> None:
    """Restored windows wait for their devices; snapshots without devices discard nothing."""
    before = NodeAccounts()
    after = NodeAccounts()
    live(before, ticks(0, 7200), {GPU: HELD})
    for window in before.drain_closed():
        after.restore(window)
    live(after, ticks(7200, 7300), {})
    live(after, ticks(7310, 7400), {GPU: HELD})
    assert after.provisioning(GPU.uuid)[DAY_WINDOW].coverage_ratio > 0.9
    (case,) = after.snapshot(EPOCH + 7400 * SECOND).cases(3 * HOUR)
    assert case.windows[0].known >= 6900 * SECOND


def test_devices_that_come_and_go_do_not_pile_up() -> None:
    """Of a year's hundred thousand MIG instances only the latest few remain."""
    accounts = NodeAccounts()
    for number in range(500):
        device = gpu(0, uuid=f"MIG-{number}")
        live(accounts, [number * 20, number * 20 + 10], {device: HELD})
    assert accounts.devices == (gpu(0, uuid="MIG-499"),)
    assert len(accounts.open_windows()) <= 65
