"""Device time by origin: operators, modules, ranges and scopes."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profile_traces import KinetoTrace
from rightsizer.model.profile import DeviceProfile, FrameUse
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.recorder import Recorder
from rightsizer.profiles.registry import open_profile
from rightsizer.profiles.xplane.recorded_events import (
    STREAM_STATS,
    record_stream_events,
    stream_meaning,
)


def read(trace: KinetoTrace, folder: Path, limits: ReadLimits | None = None) -> DeviceProfile:
    """The only device of a trace."""
    (device,) = open_profile(trace.write(folder), limits or ReadLimits()).devices
    return device


def paths(frames: tuple[FrameUse, ...]) -> dict[str, tuple[float, float, int, int | None]]:
    """Time of each frame in microseconds, by the names from the outermost to it."""
    named: list[str] = []
    for frame in frames:
        around = "" if frame.parent is None else f"{named[frame.parent]}/"
        named.append(f"{around}{frame.name}")
    return {
        name: (round(each.seconds * 1e6), round(each.self_seconds * 1e6), each.kernels, each.calls)
        for name, each in zip(named, frames, strict=True)
    }


def _two_layers() -> KinetoTrace:
    trace = KinetoTrace()
    for layer, start in enumerate((0, 100)):
        trace.complete("python_function", f"nn.Module: Layer_{layer}", start, 90)
        trace.complete("python_function", "torch/nn/modules/module.py(9): _call", start, 90)
        trace.complete("python_function", "/home/me/net.py(3): forward", start, 80)
        trace.complete("cpu_op", "aten::linear", start + 10, 30)
        trace.complete("cpu_op", "aten::addmm", start + 12, 20)
        trace.launch(2 * layer + 1, start + 14, 5)
        trace.launch(2 * layer + 2, start + 60, 5)
        trace.kernel("gemm", start + 20, 40, correlation=2 * layer + 1)
        trace.kernel("gelu", start + 65, 10, correlation=2 * layer + 2)
    return trace


def test_frames_hold_the_kernels_that_they_launched(tmp_path: Path) -> None:
    """Layers of one kind are merged, libraries left out, and the longest come first."""
    module = "Layer"
    line = "Layer/net.py(3): forward"
    linear = "aten::linear"
    assert paths(read(_two_layers(), tmp_path).frames) == {
        module: (100, 0, 4, 2),
        line: (100, 20, 4, 2),
        f"{line}/{linear}": (80, 0, 2, 2),
        f"{line}/{linear}/aten::addmm": (80, 80, 2, 2),
    }


def test_kernels_without_a_frame_stand_apart(tmp_path: Path) -> None:
    """They were launched by another thread, or before the recording."""
    trace = _two_layers().kernel("late", 400, 25, correlation=99)
    assert paths(read(trace, tmp_path).frames)["(in no frame)"] == (25, 25, 1, None)


def test_a_trace_without_frames_has_none(tmp_path: Path) -> None:
    """It has no frame that holds everything."""
    trace = KinetoTrace().launch(1, 0, 5).kernel("gemm", 10, 5, correlation=1)
    assert read(trace, tmp_path).frames == ()


@pytest.mark.parametrize("most", [0, 1, 2, 3])
def test_time_beyond_the_bound_counts_for_the_frame_around(tmp_path: Path, most: int) -> None:
    """Frames are bounded, and no time is lost."""
    device = read(_two_layers(), tmp_path, ReadLimits(frames_maximum=most))
    assert len(device.frames) == most
    assert sum(frame.self_seconds for frame in device.frames) == pytest.approx(100e-6 * (most > 0))


_CALL = st.tuples(
    st.integers(0, 60), st.integers(0, 40), st.sampled_from("abc"), st.sampled_from([1, 2])
)


@given(calls=st.lists(_CALL, max_size=25), launches=st.lists(_CALL, min_size=1, max_size=10))
def test_times_of_frames_add_up(
    tmp_path_factory: pytest.TempPathFactory,
    calls: list[tuple[int, int, str, int]],
    launches: list[tuple[int, int, str, int]],
) -> None:
    """For any overlap, frames sum to their parts, and all to the whole."""
    trace = KinetoTrace()
    for start, length, name, thread in calls:
        trace.complete("cpu_op", name, start, length, stream=thread)
    for number, (start, length, _, thread) in enumerate(launches, 1):
        trace.complete(
            "cuda_runtime", "cudaLaunchKernel", start, 2, correlation=number, stream=thread
        )
        trace.kernel("kernel", start + 5, length, correlation=number, stream=number)
    frames = read(trace, tmp_path_factory.mktemp("trace")).frames
    for place, frame in enumerate(frames):
        inner = [each for each in frames if each.parent == place]
        assert frame.parent is None or frame.parent < place
        assert frame.seconds == pytest.approx(
            frame.self_seconds + sum(each.seconds for each in inner)
        )
    if frames:
        whole = sum(length for _, length, _, _ in launches) * 1e-6
        assert sum(each.self_seconds for each in frames) == pytest.approx(whole)
        assert sum(each.kernels for each in frames if each.parent is None) == len(launches)


@pytest.mark.parametrize(
    ("stats", "path"),
    [
        ({"name": "jit(f)/jvp()/dot_general", "hlo_op": "dot.3"}, "jit(f)/jvp()/dot_general"),
        ({"level 0": "bert/layer_5/dense_1/MatMul:MatMul"}, "bert/layer/dense/MatMul"),
        ({"tf_op": "XlaModule:", "hlo_op": "fusion.3", "hlo_module": "jit_f"}, "fusion"),
    ],
)
def test_scopes_of_xla_are_frames(stats: dict[str, object], path: str) -> None:
    """Scopes are JAX's, TensorFlow's, or the compiler's own names; numbered layers are merged."""
    recorder = Recorder(ReadLimits())
    meaning = stream_meaning("kernel", tuple(map(stats.get, STREAM_STATS)))
    columns = np.array([0]), np.array([5000]), [None], [meaning]
    record_stream_events(recorder, "gpu", "", *columns)
    (device,) = recorder.devices()
    assert list(paths(device.frames))[-1] == path
    assert device.frames[0].seconds == pytest.approx(5e-6)
