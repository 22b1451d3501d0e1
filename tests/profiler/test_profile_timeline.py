"""The time line of a device: where each moment of it went."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profile_traces import KinetoTrace
from rightsizer.model.profile import ProfileTimeline, TimelineLane
from rightsizer.telemetry.profiles.limits import ReadLimits
from rightsizer.telemetry.profiles.registry import open_profile


def timeline_of(trace: KinetoTrace, folder: Path) -> ProfileTimeline:
    """Of its only device."""
    (device,) = open_profile(trace.write(folder), ReadLimits()).devices
    assert device.timeline is not None
    return device.timeline


def test_each_moment_says_where_it_went(tmp_path: Path) -> None:
    """A step of 10 ms: 8 of waiting for the host, then kernels, of which a copy runs beside one."""
    trace = KinetoTrace()
    trace.annotation("ProfilerStep#1", 0.0, 10_000.0)
    trace.launch(1, 7_990.0, 5.0)
    trace.kernel("gemm", 8_000.0, 2_000.0, correlation=1)
    found = timeline_of(trace, tmp_path)
    assert found.moment_seconds == pytest.approx(50e-6)
    assert found.lanes.keys() == {TimelineLane.COMPUTE, TimelineLane.HOST_WAIT}
    assert found.lanes[TimelineLane.COMPUTE] == (0.0,) * 160 + (1.0,) * 40
    waits = found.lanes[TimelineLane.HOST_WAIT]
    assert waits[:159] == (1.0,) * 159
    assert waits[160:] == (0.0,) * 40


@given(
    runs=st.lists(
        st.tuples(st.integers(0, 5000), st.integers(1, 900), st.booleans()), min_size=1, max_size=30
    )
)
def test_moments_sum_to_the_whole(
    tmp_path_factory: pytest.TempPathFactory, runs: list[tuple[int, int, bool]]
) -> None:
    """Kernels and collectives, however they overlap."""
    trace = KinetoTrace()
    for start, length, is_collective in runs:
        trace.kernel("ncclKernel_AllReduce" if is_collective else "gemm", start, length)
    path = trace.write(tmp_path_factory.mktemp("trace"))
    (device,) = open_profile(path, ReadLimits()).devices
    assert device.time is not None
    assert device.timeline is not None
    found, time = device.timeline, device.time
    compute = sum(found.lanes.get(TimelineLane.COMPUTE, ())) * found.moment_seconds
    exposed = time.kernel_seconds - time.exposed_collective_seconds
    assert compute == pytest.approx(exposed, abs=0.001 * time.span_seconds + 1e-9)
    collective = sum(found.lanes.get(TimelineLane.COLLECTIVE, ())) * found.moment_seconds
    assert collective == pytest.approx(
        time.collective_seconds, abs=0.001 * time.span_seconds + 1e-9
    )
    assert all(0.0 <= share <= 1.0 for lane in found.lanes.values() for share in lane)
