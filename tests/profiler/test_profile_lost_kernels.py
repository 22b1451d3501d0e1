"""Traces of PyTorch whose profiler dropped kernels."""

from collections.abc import Callable
from pathlib import Path

import pytest

from profile_traces import KinetoTrace
from rightsizer.model.profile import Profile
from rightsizer.profiler.workload import judged_workloads
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.registry import open_profile

_LAUNCHES = 200


def _read(folder: Path, is_kept: Callable[[int], bool], *calls: str) -> Profile:
    """A kernel of 90 µs each 100 µs, if kept, after its launch; other calls first."""
    trace = KinetoTrace()
    for name in calls:
        trace.complete("cuda_runtime", name, 1, 1, correlation=9999)
    for number in range(1, _LAUNCHES + 1):
        trace.launch(number, number * 100, 5)
        if is_kept(number):
            trace.kernel("sm90_gemm", number * 100 + 8, 90, correlation=number)
    return open_profile(trace.write(folder), ReadLimits())


def test_kernels_dropped_between_others_are_no_waits_for_the_host(tmp_path: Path) -> None:
    """Gaps of lost kernels looked like the host's; no rule judges them."""
    profile = _read(tmp_path, lambda number: number % 40 < 20)
    assert profile.notes[0].startswith("Not whole: 100 of 200 launched kernels are not in it")
    assert not profile.is_whole
    (workload,) = judged_workloads([profile])
    assert all(finding.abstained is not None for finding in workload.findings)


def test_recording_that_ends_before_its_host_is_named_and_judged(tmp_path: Path) -> None:
    """Shares are of the time up to the last kernel, which is whole."""
    profile = _read(tmp_path, lambda number: number <= 150)
    assert profile.notes == ("The last 50 launched kernels are not in it: recording ended early.",)
    assert profile.is_whole


@pytest.mark.parametrize(
    ("is_kept", "calls"),
    [
        (lambda _: True, ()),
        (lambda number: number != 100, ()),
        (lambda number: number % 2 == 0, ("cudaStreamBeginCapture",)),
    ],
)
def test_few_missing_kernels_or_captured_ones_are_no_loss(
    tmp_path: Path, is_kept: Callable[[int], bool], calls: tuple[str, ...]
) -> None:
    """Kernels launched into a graph that is captured do not run then."""
    profile = _read(tmp_path, is_kept, *calls)
    assert profile.is_whole
    assert not profile.notes


def test_launches_without_any_kernel_name_what_may_hold_them(tmp_path: Path) -> None:
    """ProfilerActivity.CUDA was on, since its calls were recorded."""
    profile = _read(tmp_path, lambda _: False)
    assert "200 launches of kernels were recorded, but no run" in profile.notes[1]
    assert "ProfilerActivity" not in " ".join(profile.notes)


def test_correlations_out_of_range_are_not_matched(tmp_path: Path) -> None:
    """Hostile numbers are refused by the recorder, and lose nothing here."""
    trace = KinetoTrace().launch(2**80, 0, 5).kernel("gemm", 10, 5, correlation=2**80)
    trace.launch(1, 20, 5).kernel("gemm", 30, 5, correlation=1)
    assert open_profile(trace.write(tmp_path), ReadLimits()).is_whole


def test_launch_at_a_time_beyond_64_bits_is_not_matched(tmp_path: Path) -> None:
    """It ended in a traceback, where its correlation was in range."""
    trace = KinetoTrace().launch(2, 2**63 / 1e3, 5).launch(1, 20, 5)
    trace.kernel("gemm", 30, 5, correlation=1)
    assert open_profile(trace.write(tmp_path), ReadLimits()).is_whole
