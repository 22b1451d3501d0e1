"""Published MLPerf logs against their published results."""

import os
from pathlib import Path

import pytest

from rightsizer.model.profile import BenchmarkResult, Profile
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.registry import read_all

SERVER = "v4.1_8xH200_llama2-70b_server"
TRAINING = "train_v4.0_8xH200_llama2_70b_lora"


def read(name: str) -> Profile:
    """A file or folder in the folder named by RIGHTSIZER_TRUTH."""
    folder = os.environ.get("RIGHTSIZER_TRUTH", "")
    path = Path(folder) / "profiles" / "mlperf" / name
    if not folder or not path.exists():
        pytest.skip(f"RIGHTSIZER_TRUTH does not name a folder with profiles/mlperf/{name}")
    return read_all([path], ReadLimits())[0]


def result_of(name: str) -> BenchmarkResult:
    """Benchmark result of a profile."""
    result = read(name).benchmark
    assert result is not None
    return result


@pytest.mark.parametrize(
    ("run", "scenario", "is_valid", "figures"),
    [
        ("v0.7_1xT4_resnet50_multistream", "MultiStream", True, {"samples_per_query": 272}),
        (
            "v0.7_1xT4_resnet50_singlestream",
            "SingleStream",
            True,
            {"latency_p90_seconds": 1086217e-9},
        ),
        ("v3.0_1xA100_bert_offline", "Offline", True, {"samples_per_second": 3590.46}),
        (
            "v3.0_1xA100_bert_singlestream",
            "SingleStream",
            True,
            {"latency_p90_seconds": 1602692e-9},
        ),
        (
            "v3.0_1xH100_resnet50_server",
            "Server",
            True,
            {
                "scheduled_samples_per_second": 76001.89,
                "completed_samples_per_second": 76000.99,
            },
        ),
        ("v3.0_A100_3dunet_TEST04A_invalid", "Offline", False, {"samples_per_second": 3.01474}),
        (
            "v4.1_1xL4_retinanet_multistream",
            "MultiStream",
            True,
            {"latency_p99_seconds": 41984475e-9},
        ),
        ("v4.1_1xL4_retinanet_offline", "Offline", True, {"samples_per_second": 222.619}),
        (
            "v4.1_1xL4_retinanet_singlestream",
            "SingleStream",
            True,
            {"latency_p90_seconds": 4829757e-9},
        ),
        (
            "v4.1_8xH200_llama2-70b_offline",
            "Offline",
            True,
            {"samples_per_second": 107.477, "tokens_per_second": 31302.7},
        ),
        (
            SERVER,
            "Server",
            True,
            {
                "completed_samples_per_second": 100.35,
                "completed_tokens_per_second": 29228.22,
                "scheduled_samples_per_second": 101.25,
                "tokens_per_second": 29228.22,
                "ttft_p99_seconds": 452744202e-9,
                "tpot_p99_seconds": 146040006e-9,
            },
        ),
    ],
)
def test_mlperf_summary_has_its_scenario_validity_and_figure(
    run: str, scenario: str, figures: dict[str, float], *, is_valid: bool
) -> None:
    """They equal the published ones."""
    result = result_of(f"{run}/mlperf_log_summary.txt")
    assert (result.scenario, result.is_valid) == (scenario, is_valid)
    assert {name: result.figures[name] for name in figures} == pytest.approx(figures)


def test_an_accuracy_run_has_no_result() -> None:
    """The result says that it is an accuracy run."""
    profile = read("v4.1_8xH200_llama2-70b_accuracy/mlperf_log_summary.txt")
    assert profile.benchmark == BenchmarkResult("", "", None, {})
    assert any("no result" in note for note in profile.notes)


def test_a_detail_log_agrees_with_its_summary() -> None:
    """They agree to their printed digits, and combine into one result without a note."""
    ours = result_of(f"{SERVER}/mlperf_log_summary.txt")
    theirs = result_of(f"{SERVER}/mlperf_log_detail.txt")
    for name in set(ours.figures) & set(theirs.figures):
        assert theirs.figures[name] == pytest.approx(ours.figures[name], rel=1e-4), name
    assert {name for name in ours.figures if name.startswith(("ttft", "tpot", "latency"))} <= set(
        theirs.figures
    )
    both = read(SERVER)
    assert both.notes == ()
    assert both.version == "4.1 @ c60103b05a"
    assert both.benchmark is not None
    assert both.benchmark.figures["completed_samples_per_second"] == 100.35


def test_a_detail_log_of_round_seven() -> None:
    """Its results are only in the summary; combined they are complete."""
    detail = read("v0.7_1xT4_resnet50_singlestream/mlperf_log_detail.txt")
    assert detail.benchmark is not None
    assert detail.benchmark.scenario == "SingleStream"
    both = read("v0.7_1xT4_resnet50_singlestream")
    assert both.benchmark is not None
    assert both.benchmark.is_valid is True
    assert both.benchmark.figures["latency_p90_seconds"] == pytest.approx(1086217e-9)
    assert both.start == 1_600_251_943_000_000_000


def test_a_training_run() -> None:
    """Time to train runs from start to stop, by the round's rules."""
    profile = read(f"{TRAINING}/result_0.txt")
    result = profile.benchmark
    assert result is not None
    assert (result.benchmark, result.is_valid) == ("llama2_70b_lora", True)
    took = (1714994988899 - 1714993577687) / 1e3
    assert result.figures["time_to_train_seconds"] == pytest.approx(took)
    assert result.figures["accelerators"] == 8
    assert result.figures["global_batch_size"] == 8
    assert result.figures["samples_per_second"] == pytest.approx(2.476, abs=0.002)
    assert profile.start == 1_714_993_577_687_000_000
    assert "Its accelerators, as the log names them: NVIDIA H200-SXM5-141GB." in profile.notes
