"""Rules over profiles against real profiles with known troubles."""

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from rightsizer.model.finding import Action, Finding
from rightsizer.profiler.workload import judged_workloads
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.registry import read_all

QUIET = (
    "nsys/flameox_2025.5.2.sqlite",
    "pytorch/hta_alexnet.json.gz",
    "pytorch/hta_cupti_counters.json.gz",
    "pytorch/hta_mi250_minitoy.json.gz",
    "pytorch/hta_no_distributed_info.json.gz",
    "pytorch/hta_triton_example.json.gz",
    "pytorch/tracelens_vllm_decode_graph.json.gz",
    "xla/tracelens_jax_te_fused_attn.xplane.pb",
    "ncu/rtx5070_gemm_tiled.csv",
    "ncu/rtx5070_saxpy.csv",
    "mlperf/v4.1_8xH200_llama2-70b_offline",
)
"""Profiles without findings: busy, too short, a start-up, or without a timeline."""


def _folder() -> Path:
    named = os.environ.get("RIGHTSIZER_TRUTH", "")
    folder = Path(named) / "profiles"
    if not named or not folder.is_dir():
        pytest.skip("RIGHTSIZER_TRUTH does not name a folder with `profiles`")
    return folder


@cache
def _findings(path: Path) -> Mapping[str, Finding]:
    (workload,) = judged_workloads(read_all([path], ReadLimits()))
    return {finding.rule.removeprefix("profile_"): finding for finding in workload.findings}


def test_a_loader_in_the_training_process_is_found() -> None:
    """About 69 ms of each step in the loader; with four workers, almost none."""
    alone = _findings(_folder() / "pytorch/kineto_resnet50_workers0.json.gz")["host_bound"]
    four = _findings(_folder() / "pytorch/kineto_resnet50_workers4.json.gz")["host_bound"]

    assert alone.action is Action.FIX_INPUT_PIPELINE
    assert "_SingleProcessDataLoaderIter" in alone.summary
    assert not four.is_actionable
    assert four.abstained is None


def test_measured_gain_of_four_workers_lies_within_the_estimate() -> None:
    """A step took 174.8 ms before and 139.7 ms after: 0.80 of the time."""
    finding = _findings(_folder() / "pytorch/kineto_resnet50_workers0.json.gz")["host_bound"]
    (option,) = finding.options

    assert option.time_ratio_low is not None
    assert option.time_ratio_high is not None
    assert option.time_ratio_low <= 139.7 / 174.8 <= option.time_ratio_high


@pytest.mark.parametrize("gpu", ["h100", "mi300"])
def test_a_small_model_in_eager_mode_is_launch_bound(gpu: str) -> None:
    """154 kernels of 8 µs in 7.6 ms; the remedy is graphs or fusion."""
    found = _findings(_folder() / f"pytorch/tracelens_{gpu}_vit_nsfw.json.gz")

    assert [name for name, each in found.items() if each.is_actionable] == ["launch_bound"]
    assert found["launch_bound"].action is Action.ENABLE_CUDA_GRAPHS


def test_a_start_up_is_called_one() -> None:
    """AlexNet's first pass: 12.8 s in which kernels are loaded."""
    found = _findings(_folder() / "pytorch/hta_alexnet.json.gz")

    assert "a start-up" in str(found["launch_bound"].abstained)
    assert "a start-up" in str(found["host_bound"].abstained)


@pytest.mark.parametrize(
    "name",
    [
        "pytorch/tracelens_h100_qwen05b.json.gz",
        "pytorch/tracelens_mi300_qwen05b.json.gz",
        "nsys/nsysai_mfu_2gpu_before.sqlite",
        "xla/tfprofiler_gpu_multi_worker.xplane.pb",
    ],
)
def test_eager_networks_that_mostly_move_memory_are_found(name: str) -> None:
    """An uncompiled language model spends half its time outside products and attention."""
    (found,) = _complaints(name)

    assert found.action is Action.FUSE_KERNELS


def test_waiting_for_the_device_in_each_step_is_found() -> None:
    """A power iteration copies its residual back, and then writes it while the GPU is idle."""
    (found,) = _complaints("nsys/nsightful_power_iteration.sqlite")

    assert found.rule == "profile_host_bound"
    assert "waits for the host 36.6% of the time" in found.summary
    assert "in long waits the host is in IO" in found.summary


def test_collectives_that_nothing_hides_are_found() -> None:
    """Send and receive kernels are 65% of the kernels' time, and half of all time."""
    found = _findings(_folder() / "pytorch/hta_multirank")

    assert [name for name, each in found.items() if each.is_actionable] == ["communication_bound"]


def test_uncoalesced_access_is_found_and_its_cost_is_nvidias() -> None:
    """Nsight Compute's own rule reports 75% of the sectors, and at most 74.14% of the time."""
    (found,) = _complaints("ncu/nsightful_copy_blocked.csv")

    assert "uncoalesced" in found.summary
    assert found.options[0].time_ratio_low == pytest.approx(1 - 0.7414, abs=0.02)


def test_a_product_in_too_few_blocks_is_found() -> None:
    """288 blocks on 152 multiprocessors, at 24% of either peak: NVIDIA's rule reports 50%."""
    (found,) = _complaints("ncu/superbench_cublaslt_sm100.log")

    assert "1.9 waves" in found.summary
    assert found.options[0].time_ratio_low == pytest.approx(0.5)


def _complaints(name: str) -> list[Finding]:
    return [finding for finding in _findings(_folder() / name).values() if finding.is_actionable]


@pytest.mark.parametrize("name", QUIET)
def test_nothing_is_found_where_nothing_is_wrong(name: str) -> None:
    """Each rule reports a healthy verdict, or why it abstains."""
    found = _findings(_folder() / name)

    assert [rule for rule, each in found.items() if each.is_actionable] == []


def test_ranks_that_join_every_collective_last_are_named() -> None:
    """Ranks 4 and 5, never 3, which only began to record later (param_dlrm_ranks)."""
    found = _findings(_folder() / "pytorch/param_dlrm_ranks")

    assert found["rank_imbalance"].culprits == ("rank 5, GPU 5", "rank 4, GPU 4")


def test_dispatch_is_told_by_its_gaps_whatever_the_kernels_are() -> None:
    """Gaps of 84 us between kernels of 42 us on average; what lies beside kernels is no cause."""
    found = _findings(_folder() / "pytorch/param_linear.json.gz")
    launches = found["launch_bound"]
    assert launches.is_actionable
    assert not found["host_bound"].is_actionable
    assert not any("cudaFree" in instruction.text for instruction in launches.instructions)


def test_recording_graphs_is_no_work() -> None:
    """25 graphs of a serving engine."""
    found = _findings(_folder() / "pytorch/tracelens_vllm_piecewise_capture.json.gz")
    assert not any(each.is_actionable for each in found.values())
    assert "graphs are recorded in 99%" in (found["launch_bound"].abstained or "")


def test_attention_by_three_kernels_is_found_beside_a_slow_loader() -> None:
    """89% of the kernels' time is a softmax between two batched products."""
    found = _findings(_folder() / "pytorch/tracelens_h100_owlv2.json.gz")
    assert {name for name, each in found.items() if each.is_actionable} == {
        "host_bound",
        "attention_unfused",
    }
    assert "40.9% of the time" in found["attention_unfused"].summary
