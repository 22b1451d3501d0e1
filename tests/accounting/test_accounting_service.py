"""The accounts behind their lock: immutable reports and fresh gauges."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from msgspec.structs import replace

from readings import EMPTY, EPOCH, HELD, SECOND, TRAINING, gpu, snapshot, workload
from rightsizer.accounting.service import AccountingService
from rightsizer.accounting.settings import AccountingSettings
from rightsizer.advice.policy import Policy, PolicyMatch, apply_policies
from rightsizer.model.advice import Advice
from rightsizer.model.device import Device
from rightsizer.model.reading import Missing
from rightsizer.model.report import AgentReport, Report
from rightsizer.model.signal import Signal
from rightsizer.model.snapshot import Down, Snapshot
from rightsizer.model.state import State, Tier
from rightsizer.model.units import Nanoseconds
from rightsizer.model.workload import WorkloadClass

AGENT: Final = AgentReport("0", "test", EPOCH, 1.0)
MINUTE: Final = 60 * SECOND


def accounting(*policies: Policy) -> AccountingService:
    """Empty accounts, with gauges once a minute."""
    return AccountingService(
        AccountingSettings(), partial(apply_policies, policies=policies), gauges_every=MINUTE
    )


def post(service: AccountingService, seen: Snapshot, advice: Sequence[Advice] = ()) -> Report:
    """The report after a snapshot."""
    return service.post(seen, advice, lambda: AGENT)


def minutes(
    service: AccountingService, device: Device, count: int, wall_time: Nanoseconds | None = None
) -> Report:
    """Post a training GPU once a minute; return the last report."""
    for minute in range(count):
        wall = None if wall_time is None else wall_time + minute * MINUTE
        report = post(
            service,
            snapshot(
                minute * 60.0, [device], {device: TRAINING}, interval_seconds=60.0, wall_time=wall
            ),
        )
    return report


def test_there_is_no_report_before_the_first_snapshot() -> None:
    """A caller gets an explanation instead of an empty node."""
    assert accounting().latest() is None


def test_every_snapshot_gives_a_newer_report() -> None:
    """Outputs cache by generation."""
    service = accounting()
    device = gpu()
    first = post(service, snapshot(0, [device], {device: TRAINING}))
    second = post(service, snapshot(1, [device], {device: TRAINING}))

    assert (first.generation, second.generation) == (1, 2)
    assert service.latest() is second
    assert second.wall_time == EPOCH + SECOND
    assert second.agent is AGENT


def test_a_report_shows_what_the_last_reading_was_found_to_be() -> None:
    """State, tier and derived signals are those of the entry; totals grow."""
    service = accounting()
    device = gpu()
    post(service, snapshot(0, [device], {device: TRAINING}))
    (found,) = post(service, snapshot(1, [device], {device: TRAINING})).devices

    assert (found.state, found.tier) == (State.COMPUTE_BOUND, Tier.PROFILING)
    assert found.last_sample == EPOCH + SECOND
    assert found.totals.state_seconds[State.COMPUTE_BOUND] == 1.0
    assert set(found.signals) > set(TRAINING)


def test_a_device_that_is_down_shows_nothing_of_before() -> None:
    """Its last sample keeps its own time, so that its age is visible."""
    service = accounting()
    device = gpu()
    post(service, snapshot(0, [device], {device: TRAINING}))
    post(service, snapshot(1, [device], {device: TRAINING}))
    lost = Down(Missing.LOST, "fell off the bus")
    silent = snapshot(2, [device], {})
    (found,) = post(
        service,
        Snapshot(
            silent.wall_time,
            silent.time,
            silent.interval,
            silent.devices,
            {},
            down={device.uuid: lost},
        ),
    ).devices

    assert found.down is lost
    assert (found.state, found.tier, dict(found.signals)) == (State.UNKNOWN, Tier.NONE, {})
    assert found.last_sample == EPOCH + SECOND


def test_gauges_and_strip_are_made_once_in_a_while() -> None:
    """Reports in between show the previous ones."""
    service = accounting()
    device = gpu()
    early = post(service, snapshot(0, [device], {device: TRAINING})).devices[0]
    between = post(service, snapshot(59, [device], {device: TRAINING})).devices[0]
    later = post(service, snapshot(60, [device], {device: TRAINING})).devices[0]

    assert between.strip is early.strip
    assert later.strip is not early.strip
    assert set(later.provisioning) == {"24h", "7d", "current"}


def test_gauges_stay_fresh_when_the_wall_clock_is_set_back() -> None:
    """Otherwise a step back by an hour would mean an hour of old gauges."""
    service = accounting()
    device = gpu()
    post(service, snapshot(0, [device], {device: TRAINING}))
    hour_back = EPOCH - 60 * MINUTE
    seen = snapshot(60, [device], {device: TRAINING}, interval_seconds=60.0, wall_time=hour_back)
    stepped = post(service, seen).devices[0]

    assert sum(sum(cell.states.values()) for cell in stepped.strip) == 60 * SECOND


def test_a_parent_with_instances_has_no_gauges() -> None:
    """Its instances have gauges, so nothing is counted twice."""
    service = accounting()
    parent = gpu(has_mig_instances=True)
    (found,) = post(service, snapshot(0, [parent], {parent: TRAINING})).devices

    assert (dict(found.provisioning), found.strip) == ({}, ())
    assert found.state is State.UNKNOWN


def test_a_gpu_that_was_cut_shows_its_own_readings_and_no_state() -> None:
    """It still draws power and has a temperature; its state before the cut is not shown."""
    service = accounting()
    device = gpu()
    post(service, snapshot(0, [device], {device: TRAINING}))
    parent = replace(device, has_mig_instances=True)
    own = {Signal.POWER_WATTS: 140.0, Signal.ENERGY_JOULES: 7e6}
    (found,) = post(service, snapshot(1, [parent], {parent: own})).devices

    assert dict(found.signals) == own
    assert (found.state, found.tier, found.conditions) == (State.UNKNOWN, Tier.NONE, frozenset())


def test_policies_reach_the_accounts() -> None:
    """Rules judge with the policies applied."""
    standby = Policy(PolicyMatch(owner="llama"), class_=WorkloadClass.STANDBY)
    service = accounting(standby)
    device = gpu()
    for at in range(2):
        seen = snapshot(at, [device], {device: HELD}, holders={device: workload("llama")})
        report = post(service, seen)
    (case,) = service.snapshot(EPOCH + SECOND).cases(None)

    assert case.workload is not None
    assert case.workload.workload_class is WorkloadClass.STANDBY
    assert report.devices[0].holdings[0].workload == case.workload


def test_windows_are_handed_over_once_when_closed_and_always_while_open() -> None:
    """Running windows are saved again at each flush, so that a crash loses little."""
    service = accounting()
    device = gpu()
    minutes(service, device, 8)
    closed, running, devices = service.drain_windows()
    closed_again, running_again, _ = service.drain_windows()

    assert [window.accounted for window in closed] == [5 * MINUTE]
    assert closed_again == []
    assert running == running_again
    assert sum(window.accounted for window in (*closed, *running)) == 7 * MINUTE
    assert [known.device for known in devices] == [device]


def test_accounts_are_restored_from_saved_windows() -> None:
    """After a restart the rules judge the same data."""
    before = accounting()
    device = gpu()
    minutes(before, device, 31)
    closed, running, devices = before.drain_windows()

    after = accounting()
    restored = after.restore(devices, [*closed, *running])
    span = 60 * MINUTE
    now = EPOCH + 30 * MINUTE

    assert restored.number == len(closed) + len(running)
    assert restored.ends == {device.uuid: restored.end}
    assert after.latest() is None
    assert [case.windows for case in after.snapshot(now).cases(span)] == [
        case.windows for case in before.snapshot(now).cases(span)
    ]


def test_backfilled_days_leave_the_windows_of_days_lived() -> None:
    """Five-minute windows that would be too old by the end are skipped; all else is equal."""
    device = gpu()
    days = 5
    now = EPOCH + days * 24 * 60 * MINUTE
    found = []
    for until in (0, now):
        service = accounting()
        service.backfill(
            (
                snapshot(hour * 3600.0, [device], {device: EMPTY}, interval_seconds=3600.0)
                for hour in range(days * 24 + 1)
            ),
            until,
        )
        found.append([case.windows for case in service.snapshot(now).cases(4 * 24 * 60 * MINUTE)])
        (query,) = service.device_queries()[1]
        found.append(query.fine.between(query.fine_since, now))
    assert found[:2] == found[2:]


def test_backfilled_days_are_judged_and_flushed_but_not_counted() -> None:
    """Reports tell of a demonstration's past as the page does; counters begin with the process."""
    service = accounting()
    device = gpu()
    service.backfill(
        snapshot(minute * 60.0, [device], {device: EMPTY}, interval_seconds=60.0)
        for minute in range(20)
    )
    assert service.latest() is None
    closed, _, _ = service.drain_windows()
    (case,) = service.snapshot(EPOCH + 19 * MINUTE).cases(60 * MINUTE)
    (found,) = post(
        service, snapshot(1200.0, [device], {device: EMPTY}, interval_seconds=60.0)
    ).devices

    assert [window.states for window in closed] == [{State.IDLE_EMPTY: 5 * MINUTE}] * 3
    assert case.windows[0].states == {State.IDLE_EMPTY: 19 * MINUTE}
    assert found.totals.state_seconds[State.IDLE_EMPTY] == 60.0
