"""MLPerf training logs: their runs, of every round since the first."""

from pathlib import Path

import pytest

from profile_mlperf import training
from rightsizer.model.profile import BenchmarkResult, Profile, ProfileFormat
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.mlperf.load_generator import MLPERF_DETAIL, MLPERF_SUMMARY
from rightsizer.profiles.mlperf.training import MLPERF_TRAINING
from rightsizer.profiles.reader import Head, ProfileReader

READERS = (MLPERF_SUMMARY, MLPERF_DETAIL, MLPERF_TRAINING)


def read(folder: Path, text: str, reader: ProfileReader = MLPERF_SUMMARY) -> Profile:
    """The profile of a log."""
    path = folder / "log.txt"
    path.write_text(text, "utf-8")
    return reader.read(path, ReadLimits())


def result_of(profile: Profile) -> BenchmarkResult:
    """Benchmark result of a profile."""
    assert profile.benchmark is not None
    return profile.benchmark


def test_a_training_run(tmp_path: Path) -> None:
    """It has its time, the time by activity, and the samples a second of its middle block."""
    profile = read(tmp_path, training(), MLPERF_TRAINING)
    assert profile.format is ProfileFormat.MLPERF_TRAINING
    assert profile.start == 1_714_993_577_687_000_000
    result = result_of(profile)
    assert (result.benchmark, result.scenario, result.is_valid) == (
        "llama2_70b_lora",
        "Training",
        True,
    )
    assert result.figures == pytest.approx(
        {
            "global_batch_size": 8,
            "init_seconds": 79.999,
            "block_seconds": 300.0,
            "evaluation_seconds": 300.0,
            "eval_accuracy": 0.93,
            "samples_per_second": 2.5,
            "time_to_train_seconds": 600.0,
        }
    )


@pytest.mark.parametrize(
    ("status", "is_valid", "note"),
    [
        ("aborted", False, "The run was aborted, so that its time is no time to train."),
        ("", None, "The run did not stop: its log ends before."),
    ],
)
def test_a_training_run_that_did_not_end_well(
    tmp_path: Path, status: str, note: str, *, is_valid: bool | None
) -> None:
    """It has no time to train."""
    profile = read(tmp_path, training(status), MLPERF_TRAINING)
    assert result_of(profile).is_valid is is_valid
    assert "time_to_train_seconds" not in result_of(profile).figures
    assert profile.notes == (note,)


def test_lines_of_ranks_may_have_run_together(tmp_path: Path) -> None:
    """Programs that share a file do not wait for each other's line ends."""
    lines = training().splitlines()
    text = "\x1b[0m\n".join(["".join(lines[:4]), *lines[4:]])
    profile = read(tmp_path, text, MLPERF_TRAINING)
    assert (
        result_of(profile).figures == result_of(read(tmp_path, training(), MLPERF_TRAINING)).figures
    )
    assert profile.events == len(lines)
    assert not profile.unread


FORMER_RUNS = {
    "0.6": """\
Beginning trial 1 of 1
:::MLL 1571444841.158 submission_benchmark: {"value": "minigo", "metadata": {"lineno": 9}}
:::MLL 1571444936.960 init_start: {"value": null, "metadata": {}}
:::MLL 1571445085.385 init_stop: {"value": null, "metadata": {}}
:::MLL 1571445085.385 run_start: {"value": null, "metadata": {}}
:::MLL 1571445185.385 eval_accuracy: {"value": 0.5, "metadata": {"epoch_num": 1}}
:::MLL 1571445285.385 run_stop: {"value": null, "metadata": {"status": "success"}}
""",
    "0.5": """\
I0122 12:00:04 log.py:136] NCF_RAW_:::MLPv0.5.0 minigo 1571445085.385000000 (a.py:1) run_start
NCF_RAW_:::MLPv0.5.0 minigo 1571445085.385000000 (a.py:1) run_start
:::MLPv0.5.0 minigo 1571445085.400000000 (a.py:2) eval_accuracy: 0.25
:::MLPv0.5.0 minigo 1571445285.300000000 (a.py:2) eval_accuracy: {"epoch": 13, "value": 0.5}
:::MLPv0.5.0 minigo 1571445285.385000000 (a.py:3) run_stop: {"success": true}
:::MLPv0.5.0 minigo 1571445285.385000000 (a.py:4) run_final
""",
}


@pytest.mark.parametrize("version", FORMER_RUNS)
def test_training_runs_of_the_first_rounds(tmp_path: Path, version: str) -> None:
    """Time and key precede the object, and lines may be printed twice."""
    text = FORMER_RUNS[version]
    assert MLPERF_TRAINING.recognizes(Head("result_0.txt", text.encode()))
    profile = read(tmp_path, text, MLPERF_TRAINING)
    result = result_of(profile)
    assert (result.benchmark, result.is_valid) == ("minigo", True)
    assert result.figures["time_to_train_seconds"] == pytest.approx(200.0)
    assert result.figures["eval_accuracy"] == 0.5
    assert profile.start == 1_571_445_085_385_000_000
    assert not profile.notes

    failed = text.replace('success": true', 'success": false').replace('success"}', 'aborted"}')
    profile = read(tmp_path, failed, MLPERF_TRAINING)
    assert result_of(profile).is_valid is False
    assert "time_to_train_seconds" not in result_of(profile).figures


def test_a_run_whose_end_says_nothing_is_not_called_aborted(tmp_path: Path) -> None:
    """It may have succeeded."""
    profile = read(tmp_path, training("success").replace("success", ""), MLPERF_TRAINING)
    assert result_of(profile).is_valid is None
    assert profile.notes == ("Its log does not say whether the run succeeded.",)


def test_several_runs_in_one_file(tmp_path: Path) -> None:
    """The last one counts, and a note reports it."""
    profile = read(tmp_path, training(took=100_000) + training(took=400_000), MLPERF_TRAINING)
    assert result_of(profile).figures["time_to_train_seconds"] == 400.0
    assert result_of(profile).figures["block_seconds"] == 200.0
    assert profile.notes == ("It holds 2 runs; this is the last.",)


def test_a_launcher_writes_before_and_between_the_lines(tmp_path: Path) -> None:
    """Its own lines are counted; a rank prefix is accepted."""
    text = "+ srun train.sh --token s3cret\n" + training().replace(":::", "0: :::")
    system = '{"accelerator_model_name": "H200", "accelerators_per_node": "8"'
    text += f':::SYSJSON {system}, "number_of_nodes": 2}}\n'
    text += ":::MLLOG {broken\n"
    profile = read(tmp_path, text, MLPERF_TRAINING)
    assert result_of(profile).figures["accelerators"] == 16
    assert result_of(profile).figures["time_to_train_seconds"] == 600.0
    assert profile.notes == ("Its accelerators, as the log names them: H200.",)
    assert profile.unread == {"other lines": 1, "broken lines": 1}
    assert "s3cret" not in repr(profile)
