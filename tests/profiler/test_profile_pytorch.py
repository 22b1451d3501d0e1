"""PyTorch traces, old and new, of CUDA and ROCm, whole and broken."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from profile_traces import SECRETS, KinetoTrace
from rightsizer.model.errors import ProfileError
from rightsizer.model.profile import (
    CopyKind,
    CopyUse,
    HostMemory,
    LaunchUse,
    Profile,
    ProfiledDevice,
    ProfileFormat,
    SpanKind,
)
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.pytorch.reader import PYTORCH
from rightsizer.profiles.reader import Head

H100 = {"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85018279936, "numSms": 132}
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def profile_of(trace: KinetoTrace, folder: Path, limits: ReadLimits | None = None) -> Profile:
    """The trace after writing and reading."""
    return PYTORCH.read(trace.write(folder, "rank0.pt.trace.json.gz"), limits or ReadLimits())


def recognized(data: str) -> bool:
    """Whether a file that begins so is recognized as a trace."""
    return PYTORCH.recognizes(Head("file", data.encode()))


def test_a_step_of_training_is_read_as_it_was(tmp_path: Path) -> None:
    """Covers kernels, launches, copies, the loader and the device."""
    profile = profile_of(
        KinetoTrace(deviceProperties=[H100], cuda_runtime_version=12040)
        .annotation("ProfilerStep#3", 1000.0, 100.0)
        .annotation("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 1000.0, 40.0)
        .launch(1, 1040.0, 5.5)
        .kernel("sm90_xmma_gemm_warpgroupsize1x1x1", 1050.001, 10.002, correlation=1,
                **{"est. achieved occupancy %": 25})
        .launch(2, 1065.0, 5.0)
        .kernel("elementwise_kernel", 1080.0, 2.5, correlation=2)
        .complete("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 1045.0, 6.0,
                  device=0, stream=7, bytes=4096),
        tmp_path,
    )  # fmt: skip

    (device,) = profile.devices
    assert (profile.format, profile.version) == (ProfileFormat.PYTORCH, "schema 1, CUDA 12.4")
    assert profile.source == "rank0.pt.trace.json.gz"
    assert device.device == ProfiledDevice("0", 0, "NVIDIA H100 80GB HBM3", "", 85018279936, 132)
    assert device.time is not None
    assert device.time.span_seconds == pytest.approx(32.499e-6, abs=1e-15)
    assert device.time.kernel_seconds == pytest.approx(12.502e-6, abs=1e-15)
    assert device.time.host_wait_seconds == pytest.approx(19.997e-6, abs=1e-15)
    assert device.launches == LaunchUse(2, pytest.approx(10.5e-6), short_kernels=1, matched=2)
    assert device.copies == (CopyUse(CopyKind.HOST_TO_DEVICE, HostMemory.PAGEABLE, 1, 4096, 6e-6),)
    assert [(kernel.uses_tensor_cores, kernel.occupancy_ratio) for kernel in device.kernels] == [
        (True, 0.25),
        (False, None),
    ]
    (step,) = device.steps
    assert (step.name, step.loader_seconds) == ("ProfilerStep#3", pytest.approx(40e-6))


def test_collectives_are_recognized_by_their_arguments_as_well(tmp_path: Path) -> None:
    """Newer files state a kernel's collective."""
    profile = profile_of(
        KinetoTrace(distributedInfo={"rank": 3, "world_size": 8, "backend": "nccl"})
        .kernel("mine", 0, 10, **{"Collective name": "allreduce", "Group size": 8})
        .kernel("gemm", 5, 10, stream=20)
        .kernel(NCCL, 20, 5),
        tmp_path,
    )

    time = profile.devices[0].time
    assert time is not None
    assert (profile.rank, profile.world_size) == (3, 8)
    assert time.collective_seconds == pytest.approx(15e-6)
    assert time.exposed_collective_seconds == pytest.approx(10e-6)


def test_collectives_are_summed_by_their_sizes(tmp_path: Path) -> None:
    """Sizes are those sent by ranks; without a size or group they are unknown."""
    sizes = {"In msg nelems": 1_000_000, "Out msg nelems": 1_000_000, "dtype": "BFloat16"}
    sums = {"Collective name": "allreduce", "Group size": 4, **sizes}
    gathers = {**sums, "Collective name": "_allgather_base", "Out msg nelems": 4_000_000}
    device = profile_of(
        KinetoTrace()
        .kernel(NCCL, 0, 100, **sums)
        .kernel(NCCL, 200, 50, **sums)
        .kernel(NCCL, 300, 120, **gathers)
        .kernel(NCCL, 500, 10, **{**sums, "dtype": "Unknown"})
        .kernel(NCCL, 600, 10, **{**sums, "Group size": 1}),
        tmp_path,
    ).devices[0]

    reduced, gathered = device.collectives
    assert (reduced.kind, reduced.group_size, reduced.count, reduced.bytes) == (
        "all_reduce",
        4,
        2,
        2e6,
    )
    assert reduced.bus_bytes_per_second == pytest.approx(2 * 3e6 / 150e-6)
    assert reduced.best_bus_bytes_per_second == pytest.approx(3e6 / 50e-6)
    assert gathered.bus_bytes_per_second == pytest.approx(6e6 / 120e-6)


@pytest.mark.parametrize(
    ("top", "at", "start"),
    [
        ({"baseTimeNanoseconds": 1751410836000000000}, 5, 1751410836000000000),
        ({}, 1682725898236567, 0),
        ({}, 4203669604595.407, None),
    ],
)
def test_the_wall_time_is_told_where_it_is_known(
    tmp_path: Path, top: dict[str, Any], at: float, start: int | None
) -> None:
    """Old files count from 1970, newer ones from a stated base, some from neither."""
    assert profile_of(KinetoTrace(**top).kernel("a", at, 1), tmp_path).start == start


def test_steps_of_the_device_stand_in_where_the_host_has_none(tmp_path: Path) -> None:
    """The trace has only the device."""
    trace = (
        KinetoTrace()
        .kernel("a", 0, 10)
        .complete("gpu_user_annotation", "ProfilerStep#1", 0, 10, device=0)
    )
    assert [step.name for step in profile_of(trace, tmp_path).devices[0].steps] == [
        "ProfilerStep#1"
    ]

    trace.annotation("ProfilerStep#2", 0, 20)

    assert [step.name for step in profile_of(trace, tmp_path).devices[0].steps] == [
        "ProfilerStep#2"
    ]


@pytest.mark.parametrize(
    "names",
    [
        (
            "execute_{}_context_0(sq0sk0)_generation_{}(sq1sk9)",
            "execute_context_1({})_generation_3({})",
        ),
        ("execute_new_{}_cached_{}", "execute_new_0_cached_32"),
    ],
)
def test_turns_of_a_serving_engine_are_its_steps(tmp_path: Path, names: tuple[str, str]) -> None:
    """Each lasts until the next begins, the last is omitted; they are one row of the host."""
    trace = KinetoTrace()
    for turn, begin in enumerate((0, 100, 220, 300)):
        name = names[turn % 2].format(turn, turn + 7)
        trace.annotation(name, begin, 30).kernel("a", begin + 20, 60)
    profile = profile_of(trace, tmp_path)
    (device,) = profile.devices
    assert [(step.name, step.time.span_seconds) for step in device.steps] == [
        ("turn 1", pytest.approx(100e-6)),
        ("turn 2", pytest.approx(120e-6)),
        ("turn 3", pytest.approx(80e-6)),
    ]
    assert [(span.name, span.count) for span in profile.host_spans] == [("turn of the engine", 4)]

    trace.annotation("ProfilerStep#2", 0, 400)

    assert [step.name for step in profile_of(trace, tmp_path).devices[0].steps] == [
        "ProfilerStep#2"
    ]


def test_host_time_is_summed_by_kind(tmp_path: Path) -> None:
    """Covers waits for the device, writing checkpoints, and the program's ranges."""
    profile = profile_of(
        KinetoTrace()
        .complete("cuda_runtime", "cudaStreamSynchronize", 0, 7, correlation=1)
        .complete("python_function", "/home/me/torch/serialization.py(850): save", 10, 90)
        .complete("python_function", "train.py(1): step", 10, 90)
        .complete("python_function", "torch/nn/modules/module.py(1): _call_impl", 10, 90)
        .annotation("Optimizer.step#SGD.step", 200, 5),
        tmp_path,
    )

    assert {(span.kind, span.name): span.count for span in profile.host_spans} == {
        (SpanKind.SYNCHRONIZATION, "cudaStreamSynchronize"): 1,
        (SpanKind.CHECKPOINT, "torch.save"): 1,
        (SpanKind.ANNOTATION, "Optimizer.step#SGD.step"): 1,
    }
    assert profile.unread == {"python_function": 1}


@pytest.mark.parametrize(
    ("call", "memory", "waits"),
    [
        ("cudaMemcpyAsync", "Device -> Pageable", {"copy to pageable memory": 1}),
        ("cudaMemcpyAsync", "Device -> Pinned", {}),
        ("cudaMemcpy", "Device -> Pinned", {"cudaMemcpy": 1}),
        ("hipMemcpyWithStream", "Device -> Pinned", {"hipMemcpyWithStream": 1}),
        ("cudaFree", "Device -> Pinned", {"cudaFree": 1}),
        ("cudaMallocAsync", "Device -> Pinned", {}),
    ],
)
def test_calls_in_which_the_host_waits_are_recognized_by_what_they_do(
    call: str, memory: str, waits: dict[str, int], tmp_path: Path
) -> None:
    """A copy into pageable memory waits, whatever its call's name."""
    profile = profile_of(
        KinetoTrace()
        .kernel("gemm", 0, 5, correlation=1)
        .complete("cuda_runtime", call, 2, 9, correlation=7)
        .complete("gpu_memcpy", f"Memcpy DtoH ({memory})", 6, 2, device=0, bytes=4, correlation=7),
        tmp_path,
    )

    assert {span.name: span.count for span in profile.host_spans} == waits


def test_a_trace_without_kernels_says_so(tmp_path: Path) -> None:
    """A rank without a GPU is not a GPU at 0%."""
    profile = profile_of(KinetoTrace().complete("cpu_op", "aten::mm", 0, 5), tmp_path)

    assert profile.devices == ()
    assert profile.notes == (
        (
            "No kernel in it: it was recorded without a GPU, with host activities only, or on a "
            "device whose events are not read."
        ),
        (
            "No step is marked, by which the host's own time could be judged; give the profiler a "
            "schedule, without which it marks none, and call its step() after each."
        ),
    )


def test_hardware_counters_are_read_in_place_of_a_time_line(tmp_path: Path) -> None:
    """Values are means over the runs; times of ranges are no timeline."""
    name = "ampere_sgemm"
    missing = "__missing__"
    tensor = "smsp__inst_executed_pipe_tensor.sum"
    busy = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
    profile = profile_of(
        KinetoTrace(deviceProperties=[H100])
        .complete("cuda_profiler_range", name, 0, 10, **{tensor: 5, busy: 80.0})
        .complete("cuda_profiler_range", name, 10, 10, **{tensor: 0, busy: 60})
        .complete("cuda_profiler_range", missing, 20, 10, **{tensor: 0}),
        tmp_path,
    )

    (device,) = profile.devices
    assert (device.time, device.device.name) == (None, H100["name"])
    assert [
        (kernel.name, kernel.count, kernel.uses_tensor_cores, kernel.compute_ratio)
        for kernel in device.kernels
    ] == [(name, 2, True, 0.7), ("(unnamed)", 1, False, None)]
    assert profile.notes[0].startswith("Hardware counters of 3 kernel runs in place of a timeline")


def test_annotations_of_devices_and_marks_are_no_work(tmp_path: Path) -> None:
    """The profiler's own spans last as long as the profile."""
    profile = profile_of(
        KinetoTrace()
        .kernel("a", 100, 10)
        .complete("Trace", "PyTorch Profiler (0)", 0, 5000)
        .complete("gpu_user_annotation", "forward", 0, 5000, device=0)
        .complete("cuda_sync", "Stream Sync", 0, 5000, device=0)
        .add({"ph": "i", "name": "Iteration Start: PyTorch Profiler", "ts": 0})
        .add({"ph": "M", "name": "process_name", "args": {"name": "python"}})
        .add({"ph": "s", "cat": "ac2g", "name": "ac2g", "ts": 0})
        .add({}),
        tmp_path,
    )

    time = profile.devices[0].time
    assert time is not None
    assert time.span_seconds == pytest.approx(10e-6)
    assert profile.events == 8
    assert sum(profile.unread.values()) == 7


def test_impossible_event_is_counted_by_its_fault(tmp_path: Path) -> None:
    """The rest is read."""
    profile = profile_of(
        KinetoTrace()
        .kernel("a", 0, 10)
        .kernel("a", 20, -5)
        .complete("kernel", "a", "soon", 1)
        .add({"ph": "X", "cat": "kernel", "name": ["a"], "ts": 30, "dur": 1, "args": "none"})
        .add(7),
        tmp_path,
    )

    assert sum(kernel.count for kernel in profile.devices[0].kernels) == 1
    assert profile.unread == {
        "kernel of a negative duration": 1,
        "kernel without a time": 1,
        "event that is no object": 1,
    }


EVENT = st.fixed_dictionaries(
    {
        "ph": st.sampled_from(["X", "X", "i", "M", "s", 5]),
        "cat": st.sampled_from(["kernel", "gpu_memcpy", "cuda_runtime", "user_annotation", "", 3]),
        "name": st.sampled_from(["ProfilerStep#1", "[memory]", "a", None, {}]),
    },
    optional={
        "ts": st.none() | st.integers() | st.floats() | st.text(max_size=5),
        "dur": st.integers(-5, 50) | st.floats(),
        "args": st.none()
        | st.dictionaries(
            st.sampled_from(["device", "correlation", "bytes", "Device Type", "Total Allocated"]),
            st.integers() | st.text(max_size=3) | st.lists(st.none(), max_size=1),
        ),
    },
)


TOP = st.dictionaries(
    st.sampled_from(
        ["deviceProperties", "distributedInfo", "baseTimeNanoseconds", "cuda_runtime_version"]
    ),
    st.none() | st.integers() | st.lists(st.dictionaries(st.just("id"), st.integers())),
)


BEYOND_64_BITS = {"ph": "X", "cat": "user_annotation", "name": "a", "ts": 2.0**63 / 1e3, "dur": 9}
MEMORY = {"ph": "i", "name": "[memory]", "args": {"Device Type": 1, "Total Allocated": 2**63}}


@given(st.lists(EVENT, min_size=1, max_size=8), TOP)
@example([{**BEYOND_64_BITS, "cat": "kernel"}, BEYOND_64_BITS], {})
@example([{**MEMORY, "ts": 2.0**63 / 1e3}, {**MEMORY, "ts": 1}], {})
def test_values_of_wrong_types_never_end_in_a_traceback(
    tmp_path_factory: pytest.TempPathFactory, events: list[Any], top: dict[str, Any]
) -> None:
    """Every event is either used or counted."""
    trace = KinetoTrace(**top)
    trace.events = events

    profile = profile_of(trace, tmp_path_factory.mktemp("wrong"))

    assert profile.events == len(events)
    assert sum(profile.unread.values()) <= len(events)


def test_merged_traces_of_several_processes_are_refused(tmp_path: Path) -> None:
    """Their correlation numbers collide, and their steps are not shared."""
    trace = KinetoTrace().launch(1, 0, 5).kernel("a", 6, 10, correlation=1)
    merged = [
        {**event, "pid": f"[TP0{rank}] {event['pid']}"} for rank in (0, 1) for event in trace.events
    ]
    trace.events = merged

    with pytest.raises(ProfileError, match=r"several processes were merged .* files of the ranks"):
        profile_of(trace, tmp_path)


def test_a_trace_without_events_is_refused(tmp_path: Path) -> None:
    """It shows nothing about a GPU, not even that there was none."""
    with pytest.raises(ProfileError, match="a trace without events; record again"):
        profile_of(KinetoTrace(), tmp_path)


def test_a_torn_trace_shows_what_came_before(tmp_path: Path) -> None:
    """A note says where it was truncated."""
    path = KinetoTrace().kernel("a", 0, 10).kernel("b", 10, 10).write(tmp_path)
    path.write_bytes(path.read_bytes()[:-140])

    profile = PYTORCH.read(path, ReadLimits())

    assert [kernel.name for kernel in profile.devices[0].kernels] == ["a"]
    assert profile.notes[0].startswith("Not whole: the file ends at character")


def test_nothing_of_who_recorded_it_comes_out(tmp_path: Path) -> None:
    """Environment, host, user, command line and folders stay in the file."""
    trace = KinetoTrace(
        metadata={"environment": SECRETS, "argv": list(SECRETS.values())},
        host_name=SECRETS["HOSTNAME"],
        distributedInfo={"rank": 0, "world_size": 2, "master": SECRETS["HOSTNAME"]},
        deviceProperties=[{**H100, "owner": SECRETS["USER"]}],
    )
    trace.add({"ph": "M", "name": "process_name", "args": {"name": SECRETS["HF_TOKEN"]}})
    trace.add({"ph": "M", "name": "process_labels", "args": {"labels": SECRETS["HOME"]}})
    trace.complete("python_function", f"{SECRETS['HOME']}/train.py(3): main", 0, 5)
    trace.complete("python_function", f"{SECRETS['HOME']}/torch/serialization.py(1): save", 0, 5)
    trace.complete("cpu_op", "aten::mm", 0, 5, **SECRETS)
    trace.kernel("gemm", 0, 10, **SECRETS)
    trace.launch(1, 0, 5)

    shown = repr(profile_of(trace, tmp_path))

    assert "gemm" in shown
    assert [secret for secret in SECRETS.values() if secret in shown] == []


def test_an_error_quotes_nothing_of_the_file(tmp_path: Path) -> None:
    """The message has the position."""
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"env": SECRETS})[:-1] + SECRETS["HF_TOKEN"], "utf-8")

    with pytest.raises(ProfileError) as caught:
        PYTORCH.read(path, ReadLimits())

    assert not any(secret in str(caught.value) for secret in SECRETS.values())


@pytest.mark.parametrize(
    "data",
    [
        '{\n  "schemaVersion": 1,\n',
        '\ufeff{"traceEvents":[{"ph":"X","cat":"cpu_op","name":"aten::mm"',
        '{"traceEvents":[{"ph":"X","cat":"Operator"',
        '{"distributedInfo": {"rank": 0}',
    ],
)
def test_traces_are_recognized_by_what_kineto_alone_writes(data: str) -> None:
    """Their position in the head does not matter."""
    assert recognized(data)


@pytest.mark.parametrize(
    "data",
    [
        "",
        '{"displayTimeUnit":"ns","metadata":{"highres-ticks":true},"traceEvents":[{"ph":"M"',
        '{"benchmarks": []}',
        '"schemaVersion": 1',
        "SQLite format 3\x00",
    ],
)
def test_other_files_are_not_taken_for_traces(data: str) -> None:
    """XLA's traces have the same list of events, and nothing else in common."""
    assert not recognized(data)
