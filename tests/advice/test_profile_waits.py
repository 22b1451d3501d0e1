"""Single waits, graphs, exposed collectives and truncated files."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from profile_traces import KinetoTrace
from profiles_built import copies, device, kernel, profile, span, time_use
from rightsizer.io.codec import plain
from rightsizer.model.finding import Action, Finding, FindingKind, Reason
from rightsizer.model.profile import CollectiveUse, HostMemory, LaunchUse, Profile, SpanKind
from rightsizer.profiler.figures import lost_text, older_text
from rightsizer.profiler.profile_encoder import profile_document
from rightsizer.profiler.rules import (
    communication_bound,
    dependency_bound,
    host_bound,
    launch_bound,
    pcie_bound,
)
from rightsizer.profiler.rules.registry import PROFILE_RULES
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.registry import open_profile

SHORT = kernel("tiny", 1000, 0.01)
WAITING = time_use(kernel=0.4, host=0.6)
LAUNCHING = replace(WAITING, dispatch_wait_seconds=0.6)


def judged(rule: object, *profiles: Profile) -> Finding:
    """The verdict of a rule."""
    finding: Finding = rule.RULE.judge(profiles)  # type: ignore[attr-defined]
    return finding


def test_short_kernels_with_a_launch_each_are_bound_by_launches() -> None:
    """The baseline of the cases below."""
    found = judged(launch_bound, profile(device(kernels=(SHORT,), time=LAUNCHING)))
    assert found.reasons == (Reason.LAUNCH_BOUND,)


def test_kernels_that_come_by_graphs_are_not_to_be_captured_again() -> None:
    """Twelve launches start a thousand kernels: their waiting is not due to launches."""
    launches = LaunchUse(count=12, host_seconds=6e-5, matched=1000)
    graphs = device(kernels=(SHORT,), time=LAUNCHING, launches=launches)
    found = judged(launch_bound, profile(graphs))
    assert found.kind is FindingKind.OPTIMIZED
    assert "each of 83 kernels (graphs)" in found.summary


def test_waits_between_graphs_are_the_hosts() -> None:
    """However short the kernels are, launches do not take the time."""
    launches = LaunchUse(count=12, host_seconds=6e-5, matched=1000)
    graphs = profile(device(kernels=(SHORT,), time=LAUNCHING, launches=launches))
    assert judged(host_bound, graphs).reasons == (Reason.HOST_BOUND,)
    alone = profile(device(kernels=(SHORT,), time=LAUNCHING))
    assert judged(host_bound, alone).kind is FindingKind.OPTIMIZED


def test_a_host_that_waits_for_the_device_is_told_so() -> None:
    """Launches are not slow: the host had launched nothing ahead."""
    time = replace(WAITING, synchronization_wait_seconds=0.55)
    waits = span(SpanKind.SYNCHRONIZATION, "cudaStreamSynchronize", 0.55)
    elsewhere = span(SpanKind.SYNCHRONIZATION, "cudaFree", 1.2)
    waiting = profile(
        device(kernels=(SHORT,), time=time, host_calls=(waits,)), host_spans=(waits, elsewhere)
    )
    found = judged(host_bound, waiting)
    assert found.reasons == (Reason.HOST_BOUND,)
    assert "idle 55.0% of the time as the host waits for it" in found.summary
    assert "cudaStreamSynchronize" in found.summary
    assert "cudaFree" not in found.summary
    assert "non_blocking" in found.instructions[0].text
    assert found.evidence["saved_ratio_high"] == 0.4
    assert judged(launch_bound, waiting).kind is FindingKind.OPTIMIZED


def test_waits_for_memory_are_told_so() -> None:
    """Memory that is kept is neither freed nor waited for."""
    time = replace(WAITING, synchronization_wait_seconds=0.55)
    frees = span(SpanKind.SYNCHRONIZATION, "cudaFree in aten::empty", 0.55)
    found = judged(host_bound, profile(device(time=time, host_calls=(frees,))))
    assert found.options[0].description == "Keep the GPU's memory between steps."
    assert "empty_cache" in found.instructions[0].text
    assert found.evidence["saved_ratio_high"] == 0.55
    assert len(found.instructions) == 2


@pytest.mark.parametrize("rule", [launch_bound, host_bound])
def test_one_long_wait_is_named_and_is_no_rate(rule: object) -> None:
    """Of 0.6 s of waiting, 0.595 are one gap: faster launches save nothing of it."""
    long = kernel("gemm", 1000, 0.4) if rule is host_bound else SHORT
    waits = device(kernels=(long,), time=WAITING, longest_host_wait_seconds=0.595)
    found = judged(rule, profile(waits))
    assert found.kind is FindingKind.OPTIMIZED
    assert "99% of the wait is one of 595.0 ms, which is no rate" in found.summary


def test_waits_beside_a_long_one_still_count() -> None:
    """Half of the waiting is one gap; the remaining kernels wait for a third of their time."""
    waits = replace(WAITING, kernel_seconds=0.3, host_wait_seconds=0.7, dispatch_wait_seconds=0.2)
    found = judged(
        launch_bound,
        profile(device(kernels=(SHORT,), time=waits, longest_host_wait_seconds=0.5)),
    )
    assert found.reasons == (Reason.LAUNCH_BOUND,)


def test_idle_time_with_kernels_launched_is_found() -> None:
    """Copies and fills excluded; a kernel of unknown launch time may have been launched late."""
    idle = replace(time_use(kernel=0.4, host=0.0), other_idle_seconds=0.6, span_seconds=1.0)
    found = judged(dependency_bound, profile(device(time=idle)))
    assert found.reasons == (Reason.DEPENDENCY_BOUND,)
    assert "idle 60.0% of the time with its next kernel launched already" in found.summary
    assert found.evidence["saved_ratio_high"] == 0.6

    copied = replace(idle, copy_seconds=0.4, exposed_copy_seconds=0.4)
    found = judged(dependency_bound, profile(device(time=copied)))
    assert found.kind is FindingKind.OPTIMIZED
    few = LaunchUse(count=90, host_seconds=1e-4, matched=90)
    unknown = judged(dependency_bound, profile(device(time=idle, launches=few)))
    assert unknown.abstained is not None


def test_collectives_that_nothing_hides_are_reported() -> None:
    """With their share of the span, the hidden share, the collectives and the maximum gain."""
    time = time_use(kernel=0.95, host=0.02)
    exposed = replace(time, collective_seconds=0.5, exposed_collective_seconds=0.4)
    reduce = kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 100, 0.5, is_collective=True)
    found = judged(communication_bound, profile(device(kernels=(kernel(), reduce), time=exposed)))
    assert (found.reasons, found.action) == (
        (Reason.COMMUNICATION_BOUND,),
        Action.OVERLAP_COMMUNICATION,
    )
    assert "40.0% of the time; 20% of their time is hidden" in found.summary
    assert found.evidence["saved_ratio_high"] == 0.4
    assert list(found.evidence["collectives"]) == [reduce.name]  # type: ignore[call-overload]


def test_communication_gains_no_more_than_the_rank_with_least_of_it() -> None:
    """What other ranks spend more waits for a late one, which no overlap ends."""
    time = replace(time_use(kernel=0.95, host=0.02), collective_seconds=0.5)
    waiting = replace(time, exposed_collective_seconds=0.4)
    late = replace(time, exposed_collective_seconds=0.06)
    ranks = [profile(device(time=each), rank=at) for at, each in enumerate((waiting, late))]
    found = judged(communication_bound, *ranks)
    assert found.reasons == (Reason.COMMUNICATION_BOUND,)
    assert "40.0% of the time, rank 1, GPU 0 6.0%: the difference waits" in found.summary
    assert found.evidence["saved_ratio_high"] == 0.06


@pytest.mark.parametrize("rule", [launch_bound, host_bound])
def test_wait_beside_a_copy_is_not_the_hosts(rule: object) -> None:
    """The copy holds the host: pinned memory ends it, nothing else."""
    work = kernel("gemm", 1000, 0.4) if rule is host_bound else SHORT
    copied = replace(WAITING, copy_seconds=0.55, exposed_copy_seconds=0.55, copy_wait_seconds=0.55)
    moved = (copies(seconds=0.55),)
    waiting = profile(device(kernels=(work,), time=copied, copies=moved))
    found = judged(rule, waiting)
    assert found.kind is FindingKind.OPTIMIZED
    assert "waits for the host 5.0% of the time" in found.summary
    assert judged(pcie_bound, waiting).reasons == (Reason.PCIE_BOUND,)


def test_bandwidth_of_collectives_is_reported_beside_the_link() -> None:
    """NVLink of an H100 SXM carries 450 GB/s one way."""
    exposed = replace(time_use(), collective_seconds=0.5, exposed_collective_seconds=0.4)
    sums = CollectiveUse("all_reduce", 8, 10, 2.5e8, 0.05, 8.75e9, 4.5e10)
    found = judged(communication_bound, profile(device(time=exposed, collectives=(sums,))))
    assert (
        "all_reduce of 250 MB among 8 reaches 45 GB/s on the bus at best of the 450 GB/s"
        in found.summary
    )
    assert found.evidence["best_bus_bytes_per_second"] == {
        "all_reduce of 250 MB among 8": 45_000_000_000
    }


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("sm75_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize128x128x64", "100% for turing; the board"),
        ("ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn", "100% for ampere"),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1", ""),
        ("nvjet_tst_256x128_64x4_1x2_h_bz_coopA_TNT", ""),
    ],
)
def test_kernels_of_an_older_architecture_are_reported(name: str, says: str) -> None:
    """On an H100, by the kernels' own names."""
    (document,) = plain(profile_document(profile(device(kernels=(kernel(name),)))))["devices"]
    assert says in older_text(document)
    assert bool(says) is bool(older_text(document))


def test_collectives_beside_kernels_cost_nothing() -> None:
    """However long they are."""
    hidden = replace(time_use(), collective_seconds=0.8, exposed_collective_seconds=0.02)
    assert judged(communication_bound, profile(device(time=hidden))).kind is FindingKind.OPTIMIZED


def test_of_a_file_that_breaks_off_nothing_is_judged() -> None:
    """The missing part may fill the time; each rule says so, with the remedy."""
    torn = replace(profile(device(kernels=(SHORT,), time=WAITING)), is_whole=False)
    for rule in PROFILE_RULES:
        found = rule.judge([profile(device()), torn])
        assert found.kind is FindingKind.UNKNOWN
        assert "trace.json is not whole" in (found.abstained or "")


def test_pinned_memory_is_not_to_be_pinned() -> None:
    """The rate is reported for comparison with the link; pinning is advised for pageable memory."""
    time = replace(time_use(kernel=0.6), exposed_copy_seconds=0.2, copy_seconds=0.2)
    pinned, pageable = (
        judged(pcie_bound, profile(device(time=time, copies=(copies(memory),))))
        for memory in (HostMemory.PINNED, HostMemory.PAGEABLE)
    )
    assert "at 0.6 GB/s" in pinned.summary
    assert "pin_memory" not in pinned.instructions[0].text
    assert "pin_memory=True" in pageable.instructions[0].text


def test_wait_before_the_first_kernel_of_a_step_counts(tmp_path: Path) -> None:
    """A step of 10 ms with kernels in its last 2: rows, shares and verdict agree."""
    trace = KinetoTrace()
    trace.annotation("ProfilerStep#1", 0.0, 10_000.0)
    for number in range(100):
        at = 8_000.0 + 20.0 * number
        trace.launch(number + 1, at - 2.0, 1.0)
        trace.kernel("tiny", at, 19.5, correlation=number + 1)
    (found,) = (read := open_profile(trace.write(tmp_path), ReadLimits())).devices
    assert found.time is not None
    assert found.steps_time is not None
    assert found.time.span_seconds == pytest.approx(0.002, abs=1e-5)
    assert found.steps_time.span_seconds == pytest.approx(0.01, abs=1e-5)
    assert found.steps_time.host_wait_seconds == pytest.approx(0.008, abs=1e-4)
    assert found.longest_host_wait_seconds == pytest.approx(0.008, abs=1e-4)
    lost = lost_text({"profiles": [plain(profile_document(read))]})
    assert lost.startswith("The GPU computes 20% of the time; waiting for the host 80%")


def test_memory_that_is_set_is_not_idle(tmp_path: Path) -> None:
    """A fill is neither kernel nor copy: shown beside copies, and not an idle cause."""
    trace = KinetoTrace()
    trace.launch(1, 0.0, 1.0)
    trace.kernel("gemm", 1.0, 99.0, correlation=1)
    trace.fill(100.0, 50.0)
    trace.launch(2, 160.0, 1.0)
    trace.kernel("gemm", 200.0, 100.0, correlation=2)
    (found,) = open_profile(trace.write(tmp_path), ReadLimits()).devices
    assert found.time is not None
    assert found.time.exposed_fill_seconds == pytest.approx(50e-6)
    assert found.time.kernel_seconds == pytest.approx(199e-6)


def test_a_gpu_that_computes_nearly_all_the_time_has_no_headline() -> None:
    """Otherwise the headline names the largest remaining parts first."""
    busy = plain(profile_document(profile(device(time=time_use(kernel=0.97, host=0.03)))))
    lost = plain(profile_document(profile(device(time=time_use(kernel=0.61, host=0.2)))))
    assert not lost_text({"profiles": [busy]})
    assert lost_text({"profiles": [lost]}) == (
        "The GPU computes 61% of the time; waiting for the host 20%, idle for other causes 19%"
    )
