"""Waits for the host by what fills them: calls, launches, pauses, recorded graphs."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from profile_calls import kernel, launch, nanoseconds, only, recorded, step, time_of, wait
from profile_traces import KinetoTrace
from profiles_built import device as built_device
from profiles_built import profile as built
from profiles_built import time_use
from rightsizer.model.finding import FindingKind
from rightsizer.model.profile import GapUse, HostSpanUse, SpanKind
from rightsizer.profiler.rules import host_bound, launch_bound
from rightsizer.profiles.capture_phases import CapturePhases
from rightsizer.profiles.limits import ReadLimits, TimeSettings
from rightsizer.profiles.recorder import Recorder
from rightsizer.profiles.registry import open_profile
from rightsizer.profiles.timeline import NamedLine

PAUSE = TimeSettings().pause_minimum_nanoseconds
SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=12)


@pytest.mark.parametrize(("gap", "dispatched"), [(PAUSE - 1, PAUSE - 1), (PAUSE, 0)])
def test_short_gaps_are_dispatch_and_long_ones_are_not(gap: int, dispatched: int) -> None:
    """The host issues the next kernel, or does something else."""
    time = time_of(
        launch(1, 0, 5), kernel(10, 50, correlation=1),
        launch(2, 45 + gap, 48 + gap), kernel(50 + gap, 90 + gap, correlation=2),
    )  # fmt: skip

    assert nanoseconds(time.host_wait_seconds) == gap
    assert nanoseconds(time.dispatch_wait_seconds) == dispatched


def test_gaps_are_counted_with_their_median() -> None:
    """Three of them; a call in one takes its part."""
    calls = [wait(120, 130)]
    for number, at in enumerate((0, 110, 190, 400)):
        calls += [launch(number, at + 40, at + 45), kernel(at + 50, at + 60, correlation=number)]
    found = only(recorded(*calls)).dispatch_gaps
    assert found == GapUse(3, 90e-9)


def test_calls_count_by_their_part_of_the_gaps() -> None:
    """A call while the device computes costs nothing, however long it is."""
    device = only(
        recorded(
            launch(1, 0, 5), kernel(10, 5_000, correlation=1), wait(20, 4_000), wait(5_010, 5_030),
            launch(2, 5_090, 5_095), kernel(5_100, 5_200, correlation=2),
        )
    )  # fmt: skip

    called = HostSpanUse(SpanKind.SYNCHRONIZATION, "cudaStreamSynchronize", 1, 20e-9)
    assert device.host_calls == (called,)
    assert device.time is not None
    assert nanoseconds(device.time.synchronization_wait_seconds) == 20
    assert nanoseconds(device.time.dispatch_wait_seconds) == 80


@given(SPANS)
def test_of_calls_at_once_the_first_one_counts(calls: list[tuple[int, int]]) -> None:
    """Each nanosecond has the call that began first, and no other."""
    line = NamedLine()
    starts, lengths = np.array(calls, np.int64).reshape(-1, 2).T
    line.extend(starts, starts + lengths, np.arange(len(calls)))
    named = [*zip(*(column.tolist() for column in line.named()), strict=True)]

    called = {at for start, length in calls for at in range(start, start + length)}
    moments = [at for start, end, _ in named for at in range(start, end)]
    assert sorted(moments) == sorted(called)
    for start, _, number in named:
        assert calls[number][0] <= start


def _captures(*captures: tuple[int, int]) -> list[tuple[int, int]]:
    phases = CapturePhases()
    for start, end in captures:
        phases.mark(1, "Begin", (start, start + 1))
        phases.mark(1, "End", (end - 1, end))
    starts, ends = phases.phases()
    return [*zip(starts.tolist(), ends.tolist(), strict=True)]


@pytest.mark.parametrize(
    ("captures", "phases"),
    [
        ((), []),
        (((10, 20),), [(10, 20)]),
        # What runs between pieces of one model belongs to its recording.
        (((10, 20), (25, 45), (60, 70)), [(10, 70)]),
        (((10, 20), (500, 510)), [(10, 20), (500, 510)]),
    ],
)
def test_recordings_that_follow_each_other_are_one(
    captures: tuple[tuple[int, int], ...], phases: list[tuple[int, int]]
) -> None:
    """Within the time of the longest of them."""
    assert _captures(*captures) == phases


def test_an_end_without_its_beginning_is_no_recording() -> None:
    """It began before the profile."""
    phases = CapturePhases()
    phases.mark(1, "End", (10, 20))
    phases.mark(2, "Begin", (30, 40))
    assert not phases.phases()[0].size


def _recording(recorder: Recorder, start: int, end: int) -> Recorder:
    recorder.capture(1, "Begin", (start, start + 1))
    recorder.capture(1, "End", (end - 1, end))
    return recorder


def test_time_in_which_graphs_are_recorded_is_judged_apart() -> None:
    """What was launched then did not run: the device only seems to wait."""
    calls = [launch(1, 0, 5), kernel(10, 100, correlation=1), launch(2, 890, 895),
             kernel(900, 1000, correlation=2)]  # fmt: skip
    device = only(_recording(recorded(*calls), 150, 850))

    assert device.time is not None
    assert device.work_time is not None
    assert nanoseconds(device.time.host_wait_seconds) == 800
    assert nanoseconds(device.work_time.host_wait_seconds) == 100
    assert nanoseconds(device.work_time.span_seconds) == 290
    assert device.captured_ratio == pytest.approx(700 / 990)
    assert only(recorded(*calls)).work_time is None


def test_a_trace_of_recording_has_no_verdict(tmp_path: Path) -> None:
    """Of 100 kernels whose launches wait for the capture of a graph, one can say nothing."""
    trace = KinetoTrace()
    for number in range(100):
        at = 1000.0 * number
        trace.launch(number + 1, at, 5.0)
        trace.kernel("tiny", at + 5.0, 5.0, correlation=number + 1)
        for name, moment in (("cudaStreamBeginCapture", 20.0), ("cudaStreamEndCapture", 980.0)):
            trace.complete("cuda_runtime", name, at + moment, 2.0)
    profile = open_profile(trace.write(tmp_path), ReadLimits())

    for rule in (launch_bound.RULE, host_bound.RULE):
        finding = rule.judge([profile])
        assert "graphs are recorded in" in (finding.abstained or "")
    assert any("Graphs are recorded in" in note for note in profile.notes)


def test_two_steps_are_a_steady_phase_however_few_kernels_they_have() -> None:
    """Three kernels of a step, as of a compiled one, can be judged; a single step cannot."""
    calls = []
    for number in range(3):
        begin = number * 10_000_000
        calls += [step(begin, begin + 10_000_000, f"step {number}")]
        for kernels in range(3):
            at = begin + 1_000_000 + 1_000_000 * kernels
            calls += [launch(10 * number + kernels, at, at + 10_000)]
            calls += [kernel(at + 20_000, at + 120_000, correlation=10 * number + kernels)]
    recorder = recorded(*calls)
    judged = host_bound.RULE.judge([built(*recorder.devices())])
    assert judged.kind is FindingKind.INEFFICIENT
    for count, words in ((7, "only 3 kernels, too few"), (3, "only 1 kernel, too few")):
        single = host_bound.RULE.judge([built(*recorded(*calls[:count]).devices())])
        assert f"{words} for a steady phase" in (single.abstained or "")


def test_what_the_host_does_after_a_wait_is_not_the_waits() -> None:
    """A call ends soon after the device ran dry; then the host computes for a long time."""
    calls = [launch(0, 0, 5), kernel(10, 1_000, correlation=0), wait(20, 1_100)]
    calls += [launch(1, 5_000_000, 5_000_010), kernel(5_000_020, 5_001_000, correlation=1)]
    device = only(recorded(*calls))
    assert device.time is not None
    assert nanoseconds(device.time.synchronization_wait_seconds) == 100
    assert nanoseconds(device.time.dispatch_wait_seconds) == 0
    assert nanoseconds(device.time.host_wait_seconds) == 4_999_020


def test_launching_ahead_hides_no_more_than_the_kernels() -> None:
    """Nine tenths of the time wait for the device, which computes for a tenth."""
    waits = replace(time_use(kernel=0.1, host=0.9), synchronization_wait_seconds=0.9)
    calls = (HostSpanUse(SpanKind.SYNCHRONIZATION, "cudaStreamSynchronize", 10, 0.9),)
    finding = host_bound.RULE.judge([built(built_device(time=waits, host_calls=calls))])
    assert finding.evidence["saved_ratio_high"] == pytest.approx(0.1)


def test_names_of_calls_are_bounded() -> None:
    """As those of all spans are: what exceeds the limit is named together."""
    limits = ReadLimits(kernel_names_maximum=100)
    recorder = Recorder(limits)
    for number in range(300):
        at = 1_000 * number
        recorder.launch(number, (at + 500, at + 510))
        recorder.kernel("0", (at + 600, at + 700), "gemm", correlation=number)
        recorder.wait(f"wait {number}", (at + 710, at + 720))
    assert len(only(recorder).host_calls) <= 101
