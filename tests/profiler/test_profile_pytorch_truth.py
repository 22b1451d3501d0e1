"""PyTorch's reader on real traces, against values computed from their raw events."""

import gzip
import json
import os
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from rightsizer.model.profile import DeviceProfile, Profile, TimeUse
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.pytorch.reader import PYTORCH
from rightsizer.profiles.reader import Head


class TraceTotals(Struct, frozen=True):
    """Expected values of a trace; milliseconds with the digits that they were noted with."""

    kernels: int
    busy: str = ""
    span: str = ""
    collectives: int = 0
    collective_percent: int = 0
    steps: int = 0
    device: str = ""


TRUTH = {
    "hta_alexnet": TraceTotals(79, "10.63", "12840", device="NVIDIA A100-PG509-200"),
    "hta_mi250_minitoy": TraceTotals(14, "0.11", "8.59", steps=2, device="AMD Radeon Graphics"),
    "hta_multirank/rank-0": TraceTotals(1154, "547.3", "1222.8", 10, 65, steps=2),
    "hta_multirank/rank-1": TraceTotals(1104, "575.5", "1231.2", 10, 58, steps=2),
    "hta_nccl_data": TraceTotals(
        2700, "155.2", "660.6", 21, 29, steps=3, device="NVIDIA A100-PG509-200"
    ),
    "hta_triton_example": TraceTotals(1, steps=1, device="NVIDIA A100-PG509-200"),
    "kineto_resnet50_workers0": TraceTotals(
        8772, "591.5", "994.1", steps=6, device="Tesla V100-DGXS-32GB"
    ),
    "kineto_resnet50_workers4": TraceTotals(
        8868, "594.9", "797.3", steps=6, device="Tesla V100-DGXS-32GB"
    ),
    "tracelens_h100_qwen05b": TraceTotals(
        1465, "45.43", "49.65", steps=1, device="NVIDIA H100 80GB HBM3"
    ),
    "tracelens_h100_vit_nsfw": TraceTotals(
        154, "1.22", "7.55", steps=1, device="NVIDIA H100 80GB HBM3"
    ),
    "tracelens_mi300_qwen05b": TraceTotals(
        1516, "43.06", "47.09", steps=1, device="AMD Instinct MI300X VF"
    ),
    "tracelens_mi300_vit_nsfw": TraceTotals(
        155, "1.72", "6.87", steps=1, device="AMD Instinct MI300X VF"
    ),
    "tracelens_vllm_decode_graph": TraceTotals(425, "10.67", "10.70"),
}
WITHOUT_KERNELS = ("hta_cupti_counters", "hta_no_distributed_info")


def trace_path(name: str) -> Path:
    """A trace in the folder named by RIGHTSIZER_TRUTH."""
    folder = os.environ.get("RIGHTSIZER_TRUTH", "")
    path = Path(folder) / "profiles" / "pytorch" / f"{name}.json.gz"
    if not folder or not path.is_file():
        pytest.skip(f"RIGHTSIZER_TRUTH does not name a folder with profiles/pytorch/{name}")
    return path


@cache
def read(name: str) -> Profile:
    """The trace, read once."""
    return PYTORCH.read(trace_path(name), ReadLimits())


@cache
def raw_events(name: str) -> list[dict[str, Any]]:
    """Its events as the standard library reads them."""
    with gzip.open(trace_path(name)) as file:
        events: list[dict[str, Any]] = json.load(file)["traceEvents"]
    return events


def timed(name: str) -> tuple[DeviceProfile, TimeUse]:
    """The one active device."""
    (device,) = read(name).devices
    assert device.time is not None
    return device, device.time


def milliseconds(seconds: float, like: str) -> str:
    """Milliseconds with as many places as the expected value."""
    return f"{seconds * 1e3:.{len(like.partition('.')[2])}f}"


@pytest.mark.parametrize("name", TRUTH)
def test_figures_are_those_computed_from_the_raw_events(name: str) -> None:
    """Covers kernels, busy time, span, collectives, steps and the GPU."""
    figures = TRUTH[name]
    device, time = timed(name)
    collectives = [kernel for kernel in device.kernels if kernel.is_collective]
    kernel_seconds = sum(kernel.seconds for kernel in device.kernels)

    assert sum(kernel.count for kernel in device.kernels) == figures.kernels
    if figures.busy:
        assert milliseconds(time.kernel_seconds, figures.busy) == figures.busy
        assert milliseconds(time.span_seconds, figures.span) == figures.span
    assert sum(collective.count for collective in collectives) == figures.collectives
    share = sum(collective.seconds for collective in collectives) / kernel_seconds
    assert round(100 * share) == figures.collective_percent
    assert len(device.steps) == figures.steps
    assert device.device.name == figures.device


@pytest.mark.parametrize("name", TRUTH)
def test_kernels_and_idle_causes_sum_to_the_span(name: str) -> None:
    """This holds for the whole and for each step."""
    device, whole = timed(name)

    for time in (whole, *(step.time for step in device.steps)):
        assert time.kernel_seconds + time.idle_seconds == pytest.approx(
            time.span_seconds, rel=1e-12
        )


@pytest.mark.parametrize("name", [*TRUTH, *WITHOUT_KERNELS])
def test_no_event_is_dropped_unsaid(name: str) -> None:
    """Events that are not used are counted by category."""
    profile = read(name)
    raw = raw_events(name)
    categories = Counter(each.get("cat", f"phase {each.get('ph')}") for each in raw)

    assert profile.events == len(raw)
    assert all(
        count <= categories[what] or what == "[memory]" for what, count in profile.unread.items()
    )
    assert {"kernel", "Kernel", "gpu_memcpy", "Memcpy", "gpu_memset"}.isdisjoint(profile.unread)


@pytest.mark.parametrize("name", [*TRUTH, *WITHOUT_KERNELS])
def test_traces_are_recognized_by_their_beginning(name: str) -> None:
    """The first 64 KiB, unpacked, decide."""
    with gzip.open(trace_path(name)) as file:
        assert PYTORCH.recognizes(Head("any", file.read(2**16)))


def test_a_loader_that_holds_up_its_steps_is_seen() -> None:
    """Without workers it takes 63 to 73 ms of each step of 164 to 181 ms."""
    device, _ = timed("kineto_resnet50_workers0")

    assert [
        62.5 <= step.loader_seconds * 1e3 <= 73.5 and 164 <= (step.end - step.start) / 1e6 <= 181.5
        for step in device.steps
    ] == [True] * 6


def test_a_loader_with_workers_holds_up_little() -> None:
    """It takes 0.1 to 4.3 ms of each step of 116 to 182 ms."""
    device, _ = timed("kineto_resnet50_workers4")

    assert [
        0.05 <= step.loader_seconds * 1e3 <= 4.35 and 116 <= (step.end - step.start) / 1e6 <= 182
        for step in device.steps
    ] == [True] * 6


def test_ranks_are_reported() -> None:
    """Covers two ranks of 128, and one of two."""
    assert [
        (read(name).rank, read(name).world_size)
        for name in ("hta_multirank/rank-0", "hta_multirank/rank-1", "hta_nccl_data")
    ] == [(0, 128), (1, 128), (0, 2)]


def test_kernels_of_the_two_collectives_are_counted_apart() -> None:
    """Fifteen all-reduces and six broadcasts are found."""
    device, _ = timed("hta_nccl_data")
    counts = {
        kernel.name.split("(")[0]: kernel.count for kernel in device.kernels if kernel.is_collective
    }

    assert sum(count for name, count in counts.items() if "AllReduce" in name) == 15
    assert sum(count for name, count in counts.items() if "Broadcast" in name) == 6


def test_launch_bound_and_busy_inference_differ() -> None:
    """On the same GPU one mostly waits for its host, the other hardly does."""
    (_, small), (_, large) = timed("tracelens_h100_vit_nsfw"), timed("tracelens_h100_qwen05b")

    assert small.host_wait_seconds > 0.8 * small.span_seconds
    assert large.host_wait_seconds < 0.05 * large.span_seconds


def test_a_graph_is_one_launch_of_many_kernels() -> None:
    """Each kernel is shorter than the call, and none waited for the host."""
    device, time = timed("tracelens_vllm_decode_graph")

    assert device.launches is not None
    assert device.launches.matched == 425
    assert device.launches.count < 10
    assert time.idle_seconds < 0.005 * time.span_seconds


def test_counters_without_a_time_line_are_kernels_without_one() -> None:
    """There are 77 ranges, each of one run."""
    (device,) = read("hta_cupti_counters").devices

    assert device.time is None
    assert sum(kernel.count for kernel in device.kernels) == 77


def test_a_trace_of_the_host_alone_says_so() -> None:
    """It has no device at 0%."""
    profile = read("hta_no_distributed_info")

    assert profile.devices == ()
    assert profile.rank is None
    assert profile.notes[0].startswith("No kernel in it")
