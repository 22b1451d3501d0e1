"""`rightsizer plan --measured` with output of profilers and MLPerf's load generator."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from plan_answers import SHAPE, answer
from profile_examples import launch_bound_trace, loader_bound_trace
from profile_mlperf import summary, training
from profile_nsight import details_page
from rightsizer.cli.main import main

Captured = pytest.CaptureFixture[str]
SERVES: Final = {"model": SHAPE, "load": {"input_tokens": 1000, "output_tokens": 200}}
H100: Final = {"gpus": ["H100-SXM5-80GB"], "parallel": {"tensor": 1}}
TRAINS: Final = {
    "model": {"kind": "cnn", "parameters": 25.6e6, "forward_flops": 8.2e9},
    "task": "training",
    "training": {"micro_batch": 32},
    "gpus": ["A100-SXM4-40GB"],
}
BOARD: Final = ("--board", "A100-SXM4-40GB")
SERVER: Final = (
    "Completed samples per second    : 4.0",
    "Completed tokens per second: 800.0",
    "Mean latency (ns) : 3000000000",
    "99.00 percentile latency (ns)   : 9000000000",
    "50.00 percentile first token latency (ns)   : 40000000",
    "99.00 percentile first token latency (ns)   : 90000000000",
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The file with the requirement."""
    return tmp_path / "plan.yaml"


def compared(file: Path, asked: Any, capsys: Captured, *more: object) -> tuple[Any, Any]:
    """The measured candidate, and each comparison by its value."""
    plan = answer(file, json.dumps(asked), capsys, "--measured", *map(str, more))
    found = {each["what"]: each for each in plan["measured"]["comparisons"]}
    return plan["measured"]["candidate"], found


def refused(file: Path, asked: Any, capsys: Captured, *more: object, code: int = 1) -> str:
    """The reason of the refusal."""
    file.write_text(json.dumps(asked), encoding="utf-8")
    assert main(["plan", str(file), "--measured", *map(str, more)]) == code
    return capsys.readouterr().err


def log(folder: Path, text: str) -> Path:
    """A benchmark's log."""
    path = folder / "mlperf_log.txt"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_server_run_is_held_against_its_requests_in_flight(file: Path, capsys: Captured) -> None:
    """By Little's law: 4 a second that take 3 seconds are 12 at a time."""
    run = log(file.parent, summary("", scenario="Server", additional=SERVER))
    candidate, found = compared(file, {**SERVES, **H100}, capsys, run)

    assert candidate["concurrency"] == pytest.approx(12)
    assert found["tokens_per_second"]["measured"] == 800.0
    assert found["ttft_p50_ms"]["measured"] == 40.0


def test_a_quantile_above_the_mean_is_not_called_off(file: Path, capsys: Captured) -> None:
    """The prediction is of the mean; values below it are judged as usual."""
    run = log(file.parent, summary("", scenario="Server", additional=SERVER))
    _, found = compared(file, {**SERVES, **H100}, capsys, run)

    tail = found["ttft_p99_ms"]
    assert tail["measured"] > tail["predicted_high"]
    assert tail["as_predicted"] is None
    assert "quantile" in tail["remark"]


def test_samples_count_the_tokens_of_the_plan(file: Path, capsys: Captured) -> None:
    """If the log counts only samples, and says so."""
    run = log(file.parent, summary("Samples per second: 10"))
    _, found = compared(file, {**SERVES, **H100}, capsys, run)

    assert found["tokens_per_second"]["measured"] == 2000.0
    assert "200 tokens each" in found["tokens_per_second"]["remark"]


def test_a_single_stream_is_one_request_at_a_time(file: Path, capsys: Captured) -> None:
    """Whatever the plan has in flight."""
    stream = summary(
        "90th percentile latency (ns) : 20000000",
        scenario="Single Stream",
        additional=("Mean latency (ns) : 15000000",),
    )
    candidate, _ = compared(file, {**SERVES, **H100}, capsys, log(file.parent, stream))

    assert candidate["concurrency"] == 1


def test_training_runs_give_throughput_mfu_and_hours(file: Path, capsys: Captured) -> None:
    """Over as many GPUs as the log counts."""
    asked = {**TRAINS, "gpus": ["A100-SXM4-40GB"], "parallel": {"data": 1}}
    candidate, found = compared(file, asked, capsys, log(file.parent, training()))

    assert candidate["gpu"] == "A100-SXM4-40GB"
    assert found["training_hours"]["measured"] == pytest.approx(600 / 3600)
    measured = {what: each["ratio"] for what, each in found.items() if each["ratio"] is not None}
    assert measured.get("mfu_ratio") == pytest.approx(measured.get("samples_per_second"))


def test_a_trace_of_training_gives_step_time_and_shares(file: Path, capsys: Captured) -> None:
    """Steps of 6 ms, half of them in the loader: the remark says what to fix first."""
    trace = loader_bound_trace(file.parent)
    _, found = compared(file, TRAINS, capsys, trace, *BOARD)

    assert found["step_seconds"]["measured"] == pytest.approx(0.006)
    assert found["samples_per_second"]["measured"] == pytest.approx(32 / 0.006)
    assert found["mfu_ratio"]["ratio"] == pytest.approx(found["samples_per_second"]["ratio"])
    assert 0.3 < found["host_wait_time"]["measured"] < 0.7
    assert found["host_wait_time"]["predicted"] is None
    assert "waits for its host" in found["kernel_time"]["remark"]


def test_a_trace_of_serving_gives_shares_alone(file: Path, capsys: Captured) -> None:
    """A step of it may be any part of a response."""
    trace = launch_bound_trace(file.parent)
    _, found = compared(file, {**SERVES, **H100}, capsys, trace, *BOARD)

    assert "kernel_time" in found
    assert "step_seconds" not in found


def test_a_recording_and_a_trace_of_one_run_go_together(file: Path, capsys: Captured) -> None:
    """Each adds what the other lacks."""
    run = file.with_name("run.csv")
    run.write_text("timestamp,device,gpu_busy\n1,GPU-0,0.5\n2,GPU-0,0.5\n", encoding="utf-8")
    _, found = compared(file, TRAINS, capsys, run, loader_bound_trace(file.parent), *BOARD)

    assert {"gpu_busy", "step_seconds"} <= set(found)


@pytest.mark.parametrize(
    ("asked", "text", "message"),
    [
        (SERVES, summary("Samples per second: 10", validity="INVALID"), "the run is invalid"),
        (SERVES, summary("", mode="AccuracyOnly", validity=""), "holds no result"),
        (SERVES, training(), "a result of training, and the plan is of serving"),
        (TRAINS, summary("Samples per second: 10"), "a result of serving, and the plan"),
        (SERVES, details_page([("S", "Duration", "ns", "2,000")]), "no timeline"),
    ],
)
def test_incomparable_profile_is_refused(
    file: Path, capsys: Captured, asked: Any, text: str, message: str
) -> None:
    """With the file, the reason and the remedy."""
    said = refused(file, asked, capsys, log(file.parent, text))

    assert "mlperf_log.txt: " in said
    assert message in said


def test_a_gpu_that_nobody_knows_is_refused_until_it_is_named(file: Path, capsys: Captured) -> None:
    """`NVIDIA A100` in a trace may mean several boards."""
    trace = loader_bound_trace(file.parent)

    assert "with --board" in refused(file, TRAINS, capsys, trace)


def test_a_board_is_never_taken_from_a_list_of_candidates(file: Path, capsys: Captured) -> None:
    """A trace without a board belongs to the plan's only one, or to the named one."""
    run = log(file.parent, training())
    asked = {**TRAINS, "parallel": {"data": 1}, "gpus": ["H100-SXM5-80GB", "L40S"]}

    assert "mlperf_log.txt: does not name its GPU" in refused(file, asked, capsys, run)
    candidate, _ = compared(file, asked, capsys, run, "--board", "L40S")
    assert candidate["gpu"] == "L40S"


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("parallel", "does not count its GPUs; state `parallel` as it ran"),
        ("training", "counts samples; state training.sequence"),
    ],
)
def test_missing_facts_of_a_training_log_are_requested(
    file: Path, capsys: Captured, missing: str, message: str
) -> None:
    """GPUs and tokens of a sample: two wrong assumptions could cancel each other."""
    asked = {"task": "finetune-lora", "model": SHAPE, **H100, "training": {"sequence": 8192}}
    run = log(file.parent, training())
    compared(file, asked, capsys, run)

    asked.pop(missing)
    assert message in refused(file, asked, capsys, run)


def test_replicas_of_the_plan_must_make_the_gpus_of_the_trace(file: Path, capsys: Captured) -> None:
    """One GPU is no part of a replica over two."""
    trace = loader_bound_trace(file.parent)
    asked = {**TRAINS, "parallel": {"tensor": 2}}

    assert "1 GPUs are no multiple of the 2" in refused(file, asked, capsys, trace, *BOARD)


def test_two_results_are_of_two_runs(file: Path, capsys: Captured) -> None:
    """Which of them the plan is about would be ambiguous."""
    runs = [file.with_name(name) for name in ("a.txt", "b.txt")]
    for each in runs:
        each.write_text(summary(), encoding="utf-8")

    assert "2 results of benchmarks" in refused(file, SERVES, capsys, *runs, code=2)
