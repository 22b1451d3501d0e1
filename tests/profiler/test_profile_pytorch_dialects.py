"""Traces of older releases and of other vendors' devices are read like current ones."""

from pathlib import Path

import pytest

from profile_traces import KinetoTrace
from rightsizer.model.profile import (
    CopyKind,
    CopyUse,
    HostMemory,
    LaunchUse,
    Profile,
    ProfiledDevice,
)
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.pytorch.reader import PYTORCH

H100 = {"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85018279936, "numSms": 132}
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def profile_of(trace: KinetoTrace, folder: Path, limits: ReadLimits | None = None) -> Profile:
    """The trace after writing and reading."""
    return PYTORCH.read(trace.write(folder, "rank0.pt.trace.json.gz"), limits or ReadLimits())


def test_categories_of_old_files_mean_the_same(tmp_path: Path) -> None:
    """Those of 2021 are capitalized, have streams as text, and steps among operators."""
    profile = profile_of(
        KinetoTrace()
        .complete("Operator", "ProfilerStep#1", 0, 100)
        .complete("Operator", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 30)
        .complete("Operator", "aten::mm", 40, 5)
        .complete("Runtime", "cudaLaunchKernel", 41, 2, correlation=1)
        .complete("Kernel", "volta_sgemm_64x64_nt", 50, 10, stream="stream 7", device=0,
                  correlation=1)
        .complete("Memcpy", "Memcpy DtoH (Device -> Pinned)", 70, 1, device=0)
        .complete("Memset", "Memset (Device)", 72, 1, device=0),
        tmp_path,
    )  # fmt: skip

    (device,) = profile.devices
    assert device.kernels[0].name == "volta_sgemm_64x64_nt"
    assert device.launches is not None
    assert device.steps[0].loader_seconds == pytest.approx(30e-6)
    assert [copy.memory for copy in device.copies] == [HostMemory.PINNED]
    assert device.frames[0].name == "aten::mm"
    assert not profile.unread


def test_copies_and_markers_among_kernels_of_rocm_are_none(tmp_path: Path) -> None:
    """Before ROCm 6 all that a device did had the category of kernels."""
    profile = profile_of(
        KinetoTrace(deviceProperties=[])
        .kernel("Cijk_Ailk_Bljk_SB_MT64x64", 0, 10, device=2)
        .kernel("memcpy32_post", 12, 5, device=2)
        .kernel("CopyHostToDevice", 20, 30, device=2)
        .kernel("FillBuffer", 60, 5, device=2)
        .kernel("Marker", 70, 90, device=2),
        tmp_path,
    )
    (device,) = profile.devices
    names = {kernel.name for kernel in device.kernels}
    assert names == {"Cijk_Ailk_Bljk_SB_MT64x64", "memcpy32_post"}
    assert [copy.kind for copy in device.copies] == [CopyKind.HOST_TO_DEVICE]
    assert profile.unread == {"Marker": 1}


@pytest.mark.parametrize("category", ["xpu_runtime", "xpu_driver", "privateuse1_runtime"])
def test_calls_of_any_kind_of_device_launch(tmp_path: Path, category: str) -> None:
    """Kineto's plug-ins name calls after the device; kernels and copies are like CUDA's."""
    profile = profile_of(
        KinetoTrace(deviceProperties=[])
        .complete(category, "urEnqueueKernelLaunch", 0, 5, correlation=7)
        .complete(category, "zeEventCreate", 6, 1)
        .kernel("gemm_kernel", 10, 10, correlation=7, **{"sycl queue": 64})
        .complete("mlu_memcpy", "Memcpy HtoD", 22, 1, device=0, bytes=8),
        tmp_path,
    )

    (device,) = profile.devices
    assert device.launches == LaunchUse(1, pytest.approx(5e-6), matched=1)
    assert [copy.bytes for copy in device.copies] == [8]
    assert profile.unread == {category: 1}


def test_copies_among_the_kernels_are_copies(tmp_path: Path) -> None:
    """ONNX Runtime has one category for both."""
    profile = profile_of(
        KinetoTrace()
        .kernel("gemm", 10, 10)
        .kernel("Memcpy HtoD (Pinned -> Device)", 22, 1, bytes=8),
        tmp_path,
    )

    (device,) = profile.devices
    assert [kernel.name for kernel in device.kernels] == ["gemm"]
    assert [copy.bytes for copy in device.copies] == [8]


def test_copies_of_unknown_size_are_said_to_be(tmp_path: Path) -> None:
    """ROCm omits some sizes."""
    trace = KinetoTrace().kernel("a", 0, 1).complete("gpu_memcpy", "Memcpy HtoD", 0, 1, device=0)

    profile = profile_of(trace, tmp_path)

    assert profile.notes == ("The sizes of 1 copies are not in it.",)
    assert [copy.bytes for copy in profile.devices[0].copies] == [None]

    trace.complete("gpu_memcpy", "Memcpy HtoD", 2, 1, device=0, bytes=8)
    assert [copy.bytes for copy in profile_of(trace, tmp_path).devices[0].copies] == [None]


def test_kernels_whose_times_were_lost_stretch_nothing(tmp_path: Path) -> None:
    """CUPTI leaves 0, which PyTorch 1.8 wrote beside times since 1970."""
    now = 1_615_207_264_505_000
    profile = profile_of(
        KinetoTrace()
        .kernel("volta_sgemm_64x64_nt", 0, 0, correlation=1)
        .kernel("volta_sgemm_64x64_nt", now, 10, correlation=2)
        .kernel("volta_sgemm_64x64_nt", now + 30, 10, correlation=3),
        tmp_path,
    )

    (device,) = profile.devices
    assert device.time is not None
    assert device.time.span_seconds == pytest.approx(40e-6)
    assert device.kernels[0].count == 2
    assert profile.unread == {"kernel without a time": 1}


def test_arrows_tie_kernels_that_have_no_number(tmp_path: Path) -> None:
    """Until 2024 ROCm's kernels had only a flow arrow; some have the number 0."""
    trace = KinetoTrace()
    for number, start in ((5, 10), (6, 50)):
        kernel = {"pid": 2, "tid": 0, "ts": start}
        trace.launch(number, start - 8, 3)
        trace.add(
            {
                **kernel,
                "ph": "X",
                "cat": "kernel",
                "name": "Cijk",
                "dur": 5,
                "args": {"External id": 900 + number},
            }
        )
        trace.add({**kernel, "ph": "f", "id": number, "cat": "ac2g", "name": "ac2g", "bp": "e"})
    trace.launch(0, 60, 1).kernel(NCCL, 90, 1, device=2, correlation=0)
    profile = profile_of(trace, tmp_path)

    (device,) = profile.devices
    assert device.device.key == "2"
    assert device.launches == LaunchUse(2, pytest.approx(6e-6), matched=2)
    assert device.time is not None
    assert device.time.host_wait_seconds == pytest.approx(35e-6)
    assert device.time.other_idle_seconds == pytest.approx(35e-6)
    assert profile.unread == {"ac2g": 2, "cuda_runtime": 1}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Memcpy M2D (MEMORY(Unknown) -> DEVICE)", CopyKind.HOST_TO_DEVICE),
        ("Memcpy D2M (DEVICE -> MEMORY(Unknown))", CopyKind.DEVICE_TO_HOST),
        ("Memcpy D2D (DEVICE -> DEVICE)", CopyKind.DEVICE_TO_DEVICE),
    ],
)
def test_copies_of_intel_tell_where_they_went(tmp_path: Path, name: str, kind: CopyKind) -> None:
    """Their host memory is M, of unknown kind."""
    trace = KinetoTrace().complete("gpu_memcpy", name, 5, 1, device=0, bytes=8)

    assert profile_of(trace, tmp_path).devices[0].copies == (
        CopyUse(kind, HostMemory.UNKNOWN, 1, 8, 1e-6),
    )


def test_the_list_of_gpus_had_other_names_at_first(tmp_path: Path) -> None:
    """Those of 2021 have CUDA's property names."""
    v100 = {
        "id": 0,
        "name": "Tesla V100-DGXS-32GB",
        "totalGlobalMem": 34084028416,
        "multiProcessorCount": 80,
    }
    profile = profile_of(KinetoTrace(computeProperties=[v100]).kernel("a", 0, 1), tmp_path)

    assert profile.devices[0].device == ProfiledDevice(
        "0", 0, "Tesla V100-DGXS-32GB", "", 34084028416, 80
    )


def test_rocm_numbers_its_devices_as_it_likes(tmp_path: Path) -> None:
    """Kernels on device 2, memory of device 0 and one listed entry are one GPU."""
    profile = profile_of(
        KinetoTrace(
            deviceProperties=[{"id": 0, "name": "AMD Instinct MI300X", "totalGlobalMem": 205}],
            hip_runtime_version=60443483,
        )
        .kernel("Cijk_Alik_Bljk_MI16x16x1", 0, 10, device=2, kind="Dispatch Kernel")
        .add({"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "ts": 1, "args": {
            "Device Id": 0, "Device Type": 6, "Total Allocated": 70, "Total Reserved": 90}})
        .add({"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "ts": 2, "args": {
            "Device Id": 0, "Device Type": 6, "Total Allocated": 60, "Total Reserved": 90}})
        .add({"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "ts": 2, "args": {
            "Device Id": -1, "Device Type": 0, "Total Allocated": 9999}}),
        tmp_path,
    )  # fmt: skip

    (device,) = profile.devices
    assert device.device == ProfiledDevice("2", 2, "AMD Instinct MI300X", "", 205)
    assert device.memory_peak_bytes == 70
    assert profile.version == "schema 1, HIP 6.4"
    assert profile.unread == {"[memory]": 1}


def test_a_device_that_no_entry_speaks_of_keeps_its_number_alone(tmp_path: Path) -> None:
    """Where the list has different GPUs, it could be any."""
    listed = [H100, {**H100, "id": 1, "name": "NVIDIA L4"}]

    profile = profile_of(KinetoTrace(deviceProperties=listed).kernel("a", 0, 1, device=5), tmp_path)

    assert profile.devices[0].device == ProfiledDevice("5", 5)


def test_annotations_that_differ_by_their_number_are_one_span(tmp_path: Path) -> None:
    """Serving turns, layers and instances are numbered so."""
    trace = KinetoTrace()
    for turn in range(60, 64):
        trace.annotation(f"forward_{turn}({turn})", turn * 10, 5)
        trace.kernel("gemm", turn * 10 + 1, 3)

    (found,) = profile_of(trace, tmp_path).host_spans
    assert (found.name, found.count) == ("forward", 4)
