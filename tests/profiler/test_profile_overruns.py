"""Kernels that outlast what follows on their stream."""

from pathlib import Path

import pytest

from profile_traces import KinetoTrace
from rightsizer.model.profile import Profile
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.registry import open_profile


def _profile(folder: Path, *kernels: tuple[str, float, float, int]) -> Profile:
    """Read kernels by name, start, duration and correlation, all on one stream."""
    trace = KinetoTrace()
    for name, start, duration, correlation in kernels:
        trace.kernel(name, start, duration, correlation=correlation)
    return open_profile(trace.write(folder), ReadLimits())


def test_a_late_completion_ends_where_the_next_kernel_begins(tmp_path: Path) -> None:
    """Late stamps made a device busy all the time (AMD-AGI/TraceLens#669, shortened)."""
    late = [("fmha_bwd", at * 4000, 50_000, 2 * at + 1) for at in range(10)]
    others = [("gemm", at * 4000 + 200, 100, 2 * at + 2) for at in range(10)]
    profile = _profile(tmp_path, *late, *others)
    (device,) = profile.devices
    assert device.time is not None
    assert device.time.kernel_seconds == pytest.approx(10 * 300e-6)
    assert {kernel.name: kernel.seconds for kernel in device.kernels} == {
        "fmha_bwd": pytest.approx(10 * 200e-6),
        "gemm": pytest.approx(10 * 100e-6),
    }
    assert profile.notes[0].startswith("10 runs of fmha_bwd on device 0 ended after what follows")
    assert "498.0 ms less" in profile.notes[0]


def test_overlaps_that_real_streams_have_are_kept(tmp_path: Path) -> None:
    """Branches of a graph run side by side; a kernel may start before the last one has ended."""
    profile = _profile(
        tmp_path,
        ("branch_long", 0, 900, 1),
        ("branch_short", 100, 50, 1),
        ("primary", 1000, 100, 2),
        ("dependent", 1090, 100, 3),
    )
    (device,) = profile.devices
    assert device.time is not None
    assert device.time.kernel_seconds == pytest.approx(1090e-6)
    assert not profile.notes
