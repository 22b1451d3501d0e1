"""Timeline of a device: use of each moment."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profile_traces import KinetoTrace
from rightsizer.model.profile import ProfileTimeline, TimelineLane
from rightsizer.profiles.limits import ReadLimits, TimeSettings
from rightsizer.profiles.registry import open_profile
from rightsizer.profiles.timeline import MemoryCurve

_LIMITS = ReadLimits(time=TimeSettings(timeline_moments=200))
_TEN = ReadLimits(time=TimeSettings(timeline_moments=10))


def timeline_of(trace: KinetoTrace, folder: Path, limits: ReadLimits = _LIMITS) -> ProfileTimeline:
    """Timeline of its only device."""
    (device,) = open_profile(trace.write(folder), limits).devices
    assert device.timeline is not None
    return device.timeline


def test_each_moment_says_where_it_went(tmp_path: Path) -> None:
    """A step of 10 ms has 8 ms of waiting for the host, then kernels with a concurrent copy."""
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
    """This covers kernels and collectives with any overlap."""
    trace = KinetoTrace()
    for start, length, is_collective in runs:
        trace.kernel("ncclKernel_AllReduce" if is_collective else "gemm", start, length)
    path = trace.write(tmp_path_factory.mktemp("trace"))
    (device,) = open_profile(path, ReadLimits()).devices
    assert device.time is not None
    assert device.timeline is not None
    found = device.timeline
    time = device.time
    compute = sum(found.lanes.get(TimelineLane.COMPUTE, ())) * found.moment_seconds
    exposed = time.kernel_seconds - time.exposed_collective_seconds
    assert compute == pytest.approx(exposed, abs=0.001 * time.span_seconds + 1e-9)
    collective = sum(found.lanes.get(TimelineLane.COLLECTIVE, ())) * found.moment_seconds
    assert collective == pytest.approx(
        time.collective_seconds, abs=0.001 * time.span_seconds + 1e-9
    )
    assert all(0.0 <= share <= 1.0 for lane in found.lanes.values() for share in lane)


def test_streams_have_a_lane_each(tmp_path: Path) -> None:
    """There are several; overlaps on one count once."""
    trace = KinetoTrace().kernel("gemm", 0, 100, stream=7)
    assert timeline_of(trace, tmp_path, _TEN).streams == {}
    trace.kernel("gemm", 50, 20, stream=7).kernel("other", 40, 20, stream=13)
    streams = timeline_of(trace, tmp_path, _TEN).streams
    assert streams == {"stream 7": (1.0,) * 10, "stream 13": (*[0.0] * 4, 1, 1, *[0.0] * 4)}


def test_host_threads_have_a_lane_each(tmp_path: Path) -> None:
    """Threads with launches have operators, launches and waits."""
    trace = KinetoTrace()
    trace.complete("cpu_op", "aten::mm", 0, 20, stream=1)
    trace.complete("cuda_runtime", "cudaLaunchKernel", 5, 5, correlation=1, stream=1)
    trace.complete("cuda_runtime", "cudaDeviceSynchronize", 50, 20, stream=1)
    trace.complete("cpu_op", "aten::nothing", 0, 90, stream=2)
    trace.kernel("gemm", 0, 100, correlation=1)
    assert timeline_of(trace, tmp_path, _TEN).threads == {
        "thread 1": (1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0)
    }


def test_memory_is_carried_from_one_event_to_the_next(tmp_path: Path) -> None:
    """Each moment has the maximum; before the first event it is unknown."""
    trace = KinetoTrace().kernel("gemm", 0, 100)
    for at, total in ((25, 5), (27, 3), (61, 9)):
        arguments = {"Device Type": 1, "Device Id": 0, "Total Allocated": total}
        trace.add({"ph": "i", "name": "[memory]", "ts": at, "args": arguments})
    assert timeline_of(trace, tmp_path, _TEN).memory_bytes == (
        None,
        None,
        5,
        3,
        3,
        3,
        9,
        9,
        9,
        9,
    )


@given(
    points=st.lists(st.tuples(st.integers(-50, 150), st.integers(0, 9)), max_size=60),
    times=st.integers(1, 400),
)
def test_a_memory_curve_is_bounded_and_keeps_its_peak(
    points: list[tuple[int, int]], times: int
) -> None:
    """This holds for any number of moments in any order."""
    curve = MemoryCurve()
    for _ in range(times):
        for at, used in points:
            curve.add(at, used)
    assert len(list(curve.points())) < 2 * 4096 + 1
    assert max((used for _, used in curve.points()), default=None) == curve.peak
    assert curve.peak == max((used for _, used in points), default=None)
    found = curve.between(range(0, 110, 10))
    within = [used for at, used in points if at < 100]
    assert all(each is None or each in within for each in found)
    if times == 1:
        for place, most in enumerate(found):
            inside = [used for at, used in points if 10 * place <= at < 10 * place + 10]
            assert not inside or (most is not None and most >= max(inside))
