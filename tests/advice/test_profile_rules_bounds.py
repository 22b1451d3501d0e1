"""The gain of removing a cause is never more than the cause's own time."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from profile_traces import KinetoTrace
from profiles_built import device, profile, time_use
from rightsizer.catalogue.catalogue import built_in
from rightsizer.model.finding import Finding
from rightsizer.model.profile import Profile, SpanKind
from rightsizer.profiler.profiled_run import profiled_run
from rightsizer.profiler.rules import host_bound, launch_bound, storage_bound
from rightsizer.profiler.rules.registry import PROFILE_RULES
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.registry import open_profile

STEPS = 6
KERNELS = 12
LAUNCH = 5.0
LENGTHS = st.floats(0.0, 8000.0)
CAUSES = ("SingleProcessDataLoaderIter.__next__", "save_checkpoint")
ROUNDING = 2e-8


def _stepped(cause: str, spent: float, more: float, busy: float) -> Profile:
    """Steps of a cause, as much other time, then launches; in microseconds."""
    trace = KinetoTrace()
    at = 1_000_000.0
    name = f"enumerate(DataLoader)#{cause}" if cause == CAUSES[0] else cause
    for step in range(STEPS):
        begin = at
        trace.annotation(name, at, spent)
        at += spent + more
        for number in range(KERNELS):
            correlation = step * KERNELS + number + 1
            trace.launch(correlation, at, LAUNCH)
            trace.kernel("gemm", at + LAUNCH, busy / KERNELS, correlation=correlation)
            at += LAUNCH + busy / KERNELS
        trace.annotation(f"ProfilerStep#{step}", begin, at - begin)
    with TemporaryDirectory() as folder:
        return open_profile(trace.write(Path(folder)), ReadLimits())


def _apart(loads: bool) -> Profile:  # noqa: FBT001 - a parameter of the test.
    """Steps of some 4 ms, marked without the 4 ms between them, in a loader or not."""
    trace = KinetoTrace()
    at = 1_000_000.0
    for step in range(STEPS):
        begin = at
        for number in range(KERNELS):
            correlation = step * KERNELS + number + 1
            trace.launch(correlation, at, LAUNCH)
            trace.kernel("gemm", at + LAUNCH, 328.0, correlation=correlation)
            at += LAUNCH + 328.0
        trace.annotation(f"ProfilerStep#{step}", begin, at - begin)
        if loads:
            trace.annotation(f"enumerate(DataLoader)#{CAUSES[0]}", at, 4000.0)
        at += 4000.0
    with TemporaryDirectory() as folder:
        return open_profile(trace.write(Path(folder)), ReadLimits())


def _given(finding: Finding) -> tuple[float, float]:
    """Maximum gains: of the span, and in seconds of a step."""
    found = finding.evidence
    step = found["saved_seconds_per_step_high"]
    ratio = found["saved_ratio_high"]
    assert isinstance(ratio, float)
    assert isinstance(step, float)
    return ratio, step


@pytest.mark.parametrize("loads", [False, True])
def test_time_between_marked_steps_counts_as_of_the_steps(loads: bool) -> None:  # noqa: FBT001
    """Six steps and five waits between them: a program's time, whatever its ranges omit."""
    found = _apart(loads)
    finding = host_bound.RULE.judge([found])
    ratio, step = _given(finding)
    length = finding.evidence["step_seconds"]

    assert ratio == pytest.approx(20 / 44, abs=0.01)
    assert isinstance(length, float)
    assert step / length == pytest.approx(ratio, abs=0.01)
    assert not loads or "3.3 ms of a step" in finding.summary
    run = profiled_run([found], built_in())
    assert run.time.host_wait == pytest.approx(ratio, abs=0.01)
    assert run.step_seconds == pytest.approx(length)


def test_a_loader_gives_no_more_than_its_own_time() -> None:
    """Of steps of 8 ms with 4 in the loader and 0.44 elsewhere: 4 ms, also in the first step."""
    found = _stepped(CAUSES[0], 4000.0, 440.0, 3500.0)
    finding = host_bound.RULE.judge([found])
    ratio, step = _given(finding)

    assert "4.0 ms of a step" in finding.summary
    assert step == pytest.approx(0.004)
    assert ratio == pytest.approx(4.0 / 8.0, abs=0.001)


@given(st.sampled_from(CAUSES), LENGTHS, LENGTHS, st.floats(100.0, 8000.0))
def test_no_cause_gives_more_than_its_own_time_and_the_idle_time_it_explains(
    cause: str, spent: float, more: float, busy: float
) -> None:
    """Of the span and of a step, for every rule with a finding."""
    found = _stepped(cause, spent, more, busy)
    (device,) = found.devices
    time = device.judged_time
    assert time is not None
    kinds = {host_bound.RULE.name: SpanKind.LOADER, storage_bound.RULE.name: SpanKind.CHECKPOINT}
    for rule in PROFILE_RULES:
        finding = rule.judge([found])
        if not finding.is_actionable:
            continue
        ratio, step = _given(finding)
        idle = [each.time.host_wait_seconds + each.time.other_idle_seconds for each in device.steps]
        assert ratio * time.span_seconds <= time.idle_seconds + 1e-4 * time.span_seconds
        assert step <= sum(idle) / len(idle) + ROUNDING
        if finding.action != "none" and rule.name in kinds:
            own = sum(e.seconds for e in found.host_spans if e.kind is kinds[rule.name])
            assert ratio * time.span_seconds <= own + 1e-4 * time.span_seconds
            assert step <= own / STEPS + ROUNDING


def test_launches_do_not_give_what_the_loader_explains() -> None:
    """The wait beside the loader, in gaps of up to 150 us."""
    found = _stepped(CAUSES[0], 100.0, 150.0, 100.0)
    ratio, step = _given(launch_bound.RULE.judge([found]))
    (device,) = found.devices
    time = device.judged_time
    assert time is not None

    rest = time.host_wait_seconds - time.loader_wait_seconds
    assert ratio == pytest.approx(rest / time.span_seconds, abs=1e-4)
    assert 0.00015 <= step <= 0.00025


def test_a_projection_scales_what_is_sent_not_what_waits() -> None:
    """Of two ranks, one waits 40% of the time in collectives for the other, which spends 10%."""
    time = replace(time_use(kernel=0.9, host=0.1), collective_seconds=0.5)
    ranks = [
        profile(device(time=replace(time, exposed_collective_seconds=spent)), rank=rank)
        for rank, spent in enumerate((0.4, 0.1))
    ]
    found = profiled_run(ranks, built_in()).time
    assert found.collective == pytest.approx(0.1)
    assert found.tensor + found.plain + found.unknown == pytest.approx(0.65)
    assert found.gap == pytest.approx(0.15)
