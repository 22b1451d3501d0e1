"""A case's data beyond its windows: workload, shape, trend and sample size."""

from collections.abc import Callable, Mapping
from typing import Final

import pytest
from msgspec.structs import replace

from cases import case as case_by_hand
from cases import window as window_by_hand
from cases import window_over
from readings import DAY, EPOCH, GIBIBYTE, HELD, HOUR, Signals, gpu, snapshot, workload
from rightsizer.accounting.node_accounts import NodeAccounts
from rightsizer.accounting.window_codec import decode_window, encode_window
from rightsizer.model.block import Blocks, Measure
from rightsizer.model.device import Device
from rightsizer.model.finding import Case
from rightsizer.model.signal import Signal
from rightsizer.model.state import State
from rightsizer.model.workload import Workload

GPU = gpu(0)
PEER = gpu(1)
JOB: Final = workload("job")
DAYS: Final = 10


def working(busy: float, memory_bytes: float = 20 * GIBIBYTE) -> Signals:
    """A device that is active for some of the time, with profiling."""
    return {
        **HELD,
        Signal.GPU_BUSY: busy,
        Signal.SM_ACTIVE: busy / 2,
        Signal.TENSOR_ACTIVE: busy / 4,
        Signal.DRAM_ACTIVE: busy / 5,
        Signal.MEMORY_USED_BYTES: memory_bytes,
        Signal.POWER_WATTS: 100 + 500 * busy,
    }


def live(
    accounts: NodeAccounts,
    hours: range,
    load: Callable[[int], Mapping[Device, Signals]],
    holder: Workload | None = JOB,
) -> None:
    """Readings every five minutes for some hours."""
    for at in range(hours.start * 12, hours.stop * 12 + 1):
        values = load(at)
        holders = {} if holder is None else dict.fromkeys(values, holder)
        accounts.post(
            snapshot(300.0 * at, tuple(values), values, interval_seconds=300.0, holders=holders)
        )


def day_and_night(at: int) -> Mapping[Device, Signals]:
    """Two devices active from 8 to 18, with memory use growing every day."""
    busy = 0.8 if 96 <= at % 288 < 216 else 0.0
    values = working(busy, (20 + at / 288) * GIBIBYTE)
    return {GPU: values, PEER: values}


@pytest.fixture(scope="module")
def lived() -> NodeAccounts:
    """Ten days of a workload on two devices."""
    accounts = NodeAccounts()
    live(accounts, range(24 * DAYS), day_and_night)
    return accounts


@pytest.fixture(scope="module")
def two_days(lived: NodeAccounts) -> Case:
    """The workload over the last two days."""
    (case,) = lived.snapshot(EPOCH + DAYS * DAY).cases(2 * DAY)
    return case


def test_workload_is_summed_over_its_devices(two_days: Case) -> None:
    """The workload's window is the sum of its devices' windows."""
    found = two_days.workload_window
    assert found is not None
    assert found.known == sum(window.known for window in two_days.windows) == 4 * DAY
    assert found.workload_key == two_days.key
    day = [each for each in found.blocks.of(Measure.BUSY) if each.start % DAY == 12 * HOUR]
    assert [each.mean for each in day] == [pytest.approx(1.6, rel=1e-3)] * 2


def test_shape_is_of_all_that_is_remembered(two_days: Case) -> None:
    """The daily cycle comes from ten days, although the case covers two."""
    found = two_days.shape()
    assert found is not None
    assert found.is_daily
    assert found.covers_cycle
    assert found.known_days == pytest.approx(DAYS, abs=0.1)
    assert found.hours_of_day[12] == pytest.approx(1.6, rel=1e-3)
    assert found.hours_of_day[2] == 0.0


def test_memory_trend_is_of_its_daily_peaks(two_days: Case) -> None:
    """Memory grows by one GiB a day on each of two devices."""
    found = two_days.trend(Measure.MEMORY_BYTES)
    assert found is not None
    assert found.slope_per_day == pytest.approx(2 * GIBIBYTE, rel=0.01)
    assert found.is_growing
    busy = two_days.trend(Measure.BUSY)
    assert busy is not None
    assert not busy.is_growing


def test_blocks_of_two_days_are_worth_few(two_days: Case) -> None:
    """Ten hours of similar load are not ten hours of evidence."""
    assert 1 <= two_days.effective_samples() < 30


def test_peaks_beyond_a_capacity(two_days: Case) -> None:
    """Per device, of the one that exceeds it most often; together, in devices' worth."""
    share = 10 / 24
    of_one = two_days.exceedance(Measure.COMPUTE, 0.3)
    of_both = two_days.group_exceedance(Measure.COMPUTE, 0.7)
    assert of_one is not None
    assert of_both is not None
    assert of_one.share == of_both.share == pytest.approx(share, abs=0.01)
    assert of_one.blocks == 576
    assert of_one.effective_blocks < 30
    never = two_days.exceedance(Measure.COMPUTE, 0.5)
    assert never is not None
    assert never.share == 0.0
    assert two_days.exceedance(Measure.NVLINK, 0.5) is None


def test_device_without_a_holder_has_a_past_too() -> None:
    """It is the device's own past since nobody held it."""
    accounts = NodeAccounts()
    live(accounts, range(24), lambda _: {GPU: working(0.8)})
    live(accounts, range(25, 72), lambda _: {GPU: {**HELD, Signal.PROCESS_COUNT: 0.0}}, None)
    empty = replace(accounts.device_records()[0], holder=None, holder_since=EPOCH + DAY)
    accounts.restore_record(empty)
    (case,) = accounts.snapshot(EPOCH + 3 * DAY).cases(2 * HOUR)
    found = case.shape()
    assert found is not None
    assert found.hours_of_day[12] == 0.0
    assert case.workload_window == case.windows[0]


def test_workload_that_moved_keeps_its_past() -> None:
    """The devices' windows begin with the move, the workload's do not."""
    accounts = NodeAccounts()
    live(accounts, range(24), lambda _: {GPU: working(0.8)})
    live(accounts, range(25, 49), lambda _: {PEER: working(0.8)})
    (case,) = accounts.snapshot(EPOCH + 49 * HOUR).cases(3 * DAY)
    assert case.devices == (PEER,)
    assert case.windows[0].known <= DAY
    assert case.workload_window is not None
    assert case.workload_window.known >= 47 * HOUR


def test_restart_keeps_the_past(lived: NodeAccounts) -> None:
    """It is restored from the bytes of a history."""
    after = NodeAccounts()
    for record in lived.device_records():
        after.restore_record(record)
    for window in (*lived.drain_closed(), *lived.open_windows()):
        after.restore(decode_window(window.uuid, encode_window(window)))
    now = EPOCH + DAYS * DAY
    (was,), (found,) = lived.snapshot(now).cases(2 * DAY), after.snapshot(now).cases(2 * DAY)
    assert found.shape() == was.shape()
    assert found.trend(Measure.MEMORY_BYTES) == was.trend(Measure.MEMORY_BYTES)
    assert found.effective_samples() == was.effective_samples()
    assert found.group_exceedance(Measure.BUSY, 1.0) == was.group_exceedance(Measure.BUSY, 1.0)


def test_history_of_former_times_has_windows_but_no_past() -> None:
    """Its cases are judged by their windows; missing values stay missing."""
    before = NodeAccounts()
    live(before, range(6), day_and_night)
    after = NodeAccounts()
    for record in before.device_records():
        after.restore_record(record)
    for window in before.drain_closed():
        if window.workload_key is None:
            after.restore(replace(window, blocks=Blocks()))
    (case,) = after.snapshot(EPOCH + 6 * HOUR).cases(3 * HOUR)
    assert all(window.known > 2 * HOUR for window in case.windows)
    assert case.workload_window is None
    assert (case.shape(), case.trend(), case.effective_samples()) == (None, None, 0.0)
    assert case.exceedance(Measure.BUSY, 0.5) is None


def test_case_without_a_past_says_so() -> None:
    """Cases built by hand are an example."""
    found = case_by_hand([window_by_hand({State.PRODUCTIVE: 1})])
    assert (found.shape(), found.trend(), found.workload_window) == (None, None, None)
    assert found.effective_samples() == 0.0
    assert found.exceedance(Measure.BUSY, 0.5) is None
    assert found.group_exceedance(Measure.BUSY, 0.5) is None


def test_case_over_everything_posted_has_blocks() -> None:
    """A whole recording is judged by the same peaks."""
    accounts = NodeAccounts()
    live(accounts, range(6), lambda _: {GPU: working(0.8)})
    (case,) = accounts.snapshot(0).cases(None)
    found = case.exceedance(Measure.BUSY, 0.5)
    assert found is not None
    assert (found.share, found.blocks) == (1.0, 72)


def test_look_gives_cases_of_the_moment_it_was_taken() -> None:
    """Sampling continues while a rule judges."""
    accounts = NodeAccounts()
    live(accounts, range(6), day_and_night)
    now = EPOCH + 6 * HOUR
    look = accounts.snapshot(now)
    (before,) = look.cases(DAY)
    live(accounts, range(7, 30), lambda _: {GPU: working(0.9), PEER: working(0.9)})
    (after,) = look.cases(DAY)
    assert after == before
    assert after.workload_window == before.workload_window
    assert before.windows == tuple(
        window_over(accounts.device(each.uuid).windows, 0, now) for each in (GPU, PEER)
    )
    assert before.windows[0].known == 6 * HOUR


@pytest.mark.parametrize("holder", [JOB, None])
def test_a_look_shared_by_all_spans_answers_each_as_a_look_of_its_own(
    holder: Workload | None,
) -> None:
    """Values read once for several spans are not mixed up, in any order."""
    accounts = NodeAccounts()
    live(accounts, range(24 * 3), day_and_night, holder)
    now = EPOCH + 3 * DAY
    shared = accounts.snapshot(now)
    for span in (None, HOUR, 2 * DAY, DAY // 2, 3 * DAY, HOUR, None):
        for case, alone in zip(shared.cases(span), accounts.snapshot(now).cases(span), strict=True):
            assert case == alone
            assert case.workload_window == alone.workload_window
            assert case.remembered == alone.remembered
            assert case.shape() == alone.shape()
            assert case.trend() == alone.trend()
            assert case.effective_samples() == alone.effective_samples()
            assert case.exceedance(Measure.COMPUTE, 0.3) == alone.exceedance(Measure.COMPUTE, 0.3)
