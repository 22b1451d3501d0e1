"""What removing a cause would give is never more than the cause's own time."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profile_traces import KinetoTrace
from rightsizer.model.finding import Finding
from rightsizer.model.profile import Profile, SpanKind
from rightsizer.profiler.rules import PROFILE_RULES, host_bound, launch_bound, storage_bound
from rightsizer.telemetry.profiles.limits import ReadLimits
from rightsizer.telemetry.profiles.registry import open_profile

STEPS = 6
KERNELS = 12
LAUNCH = 5.0
LENGTHS = st.floats(0.0, 8000.0)
CAUSES = ("SingleProcessDataLoaderIter.__next__", "save_checkpoint")
ROUNDING = 2e-8


def _stepped(cause: str, spent: float, more: float, busy: float) -> Profile:
    """Steps that begin with a cause, then spend as long elsewhere, then launch; microseconds."""
    trace, at = KinetoTrace(), 1_000_000.0
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


def _given(finding: Finding) -> tuple[float, float]:
    """At most: of the span, and seconds of a step."""
    found = finding.evidence
    step, ratio = found["saved_seconds_per_step_high"], found["saved_ratio_high"]
    assert isinstance(ratio, float)
    assert isinstance(step, float)
    return ratio, step


def test_a_loader_gives_no_more_than_its_own_time() -> None:
    """Of steps of 8 ms, 4 in the loader and 0.44 elsewhere: 4 ms, of the first step too."""
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
    """Of the span and of a step, for every rule that complains."""
    found = _stepped(cause, spent, more, busy)
    (device,) = found.devices
    time = device.judged_time
    assert time is not None
    kinds = {host_bound.RULE.name: SpanKind.LOADER, storage_bound.RULE.name: SpanKind.CHECKPOINT}
    for rule in PROFILE_RULES:
        finding = rule.judge([found])
        if not finding.is_complaint:
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
    """Of short kernels, the wait beside the loader."""
    found = _stepped(CAUSES[0], 1000.0, 3000.0, 100.0)
    ratio, step = _given(launch_bound.RULE.judge([found]))
    (device,) = found.devices
    time = device.judged_time
    assert time is not None

    rest = time.host_wait_seconds - time.loader_wait_seconds
    assert ratio == pytest.approx(rest / time.span_seconds, abs=1e-4)
    assert 0.003 <= step <= 0.0031
