"""Jobs of logs that do not say who holds their GPUs."""

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from readings import gpu
from recordings import START
from rightsizer.catalogue.catalogue import built_in
from rightsizer.cli.main import main
from rightsizer.model.errors import UsageError
from rightsizer.model.signal import Signal
from rightsizer.model.units import NANOSECONDS_PER_SECOND
from rightsizer.recordings.inferred_jobs import inferred_jobs
from rightsizer.recordings.jobs import RecordedJob, gpu_list, stated_jobs
from rightsizer.recordings.row import RecordingRow
from rightsizer.recordings.source import open_recording
from rightsizer.recordings.survey import LoadSeriesBuilder

Moment = tuple[float, float, float]
"""Busy share, watts, memory in use as a ratio."""
EMPTY: Moment = (0.0, 70.0, 0.0)
SPINNING: Moment = (1.0, 125.0, 0.7)
AT_WORK: Moment = (0.9, 620.0, 0.7)


def inferred(
    course: Callable[[int, int], Moment], gpus: int = 8, seconds: int = 600, interval: int = 1
) -> list[RecordedJob]:
    """The jobs of GPUs whose load is told by their index and the second."""
    loads = LoadSeriesBuilder()
    devices = [gpu(index, power_limit_watts=700.0) for index in range(gpus)]
    for at in range(0, seconds, interval):
        for device in devices:
            busy, watts, memory = course(device.index, at)
            values = {
                Signal.GPU_BUSY: busy,
                Signal.POWER_WATTS: watts,
                Signal.MEMORY_USED: memory,
            }
            loads.add(RecordingRow((START + at) * NANOSECONDS_PER_SECOND, device.uuid, values))
    return inferred_jobs(loads.series(interval * NANOSECONDS_PER_SECOND), devices)


def named(jobs: Sequence[RecordedJob]) -> list[str]:
    """Their GPUs, as `--job` takes them."""
    return [gpu_list(job.devices) for job in jobs]


def test_seven_that_spin_wait_for_the_eighth() -> None:
    """Nothing spins without a peer, and one other GPU alone is at work."""
    (job,) = inferred(lambda index, _: AT_WORK if index == 3 else SPINNING)
    assert gpu_list(job.devices) == "0-7"
    assert "they spin at the same time" in job.why
    assert 0.6 < job.workload.confidence_ratio < 0.9


def test_resting_rank_is_recognized_by_its_memory() -> None:
    """Its process is busy elsewhere, or hangs; an empty GPU is no rank."""
    resting = (0.0, 90.0, 0.7)
    assert named(inferred(lambda index, _: resting if index == 5 else SPINNING)) == ["0-7"]
    assert named(inferred(lambda index, _: EMPTY if index == 5 else SPINNING)) == ["0-4,6-7"]


def test_of_two_that_work_while_others_spin_none_is_named() -> None:
    """Which of them is waited for cannot be told."""
    found = inferred(lambda index, _: AT_WORK if index in {2, 6} else SPINNING)
    assert named(found) == ["0-1,3-5,7"]


def test_an_index_that_two_gpus_have_is_of_several_nodes() -> None:
    """No list of indexes would say which of them are of a job."""
    loads = LoadSeriesBuilder()
    devices = [replace(gpu(index % 2), uuid=f"GPU-{index}") for index in range(4)]
    for second in range(600):
        values = {Signal.GPU_BUSY: float(second % 9 < 4), Signal.POWER_WATTS: 300.0}
        for device in devices:
            loads.add(RecordingRow(second * NANOSECONDS_PER_SECOND, device.uuid, values))
    assert inferred_jobs(loads.series(NANOSECONDS_PER_SECOND), devices) == []
    assert named(inferred_jobs(loads.series(NANOSECONDS_PER_SECOND), devices[:2])) == ["0-1"]


def test_gpus_with_a_process_in_common_are_of_one_job(tmp_path: Path) -> None:
    """As `nvidia-smi` has them; a graphics server, or a pid that was given away, joins none."""
    gpus = range(6)
    seconds = range(40)
    log = tmp_path / "gpus.csv"
    log.write_text(
        "timestamp, index, uuid, utilization.gpu [%]\n"
        + "".join(f"{START + at}, {index}, GPU-{index}, 90\n" for at in seconds for index in gpus)
    )
    apps = tmp_path / "apps.csv"
    apps.write_text(
        "timestamp, gpu_uuid, pid, process_name, used_gpu_memory [MiB]\n"
        + "".join(
            f"{START + at}, GPU-{index}, {pid}, {name}, 500 MiB\n"
            for at in seconds
            for index in gpus
            for pid, name, is_there in (
                (80, "/usr/lib/xorg/Xorg", True),
                (7, "python", index in {0, 1} or (index == 2 and at < 1)),
                (8, "python", index in {2, 3}),
                (9, "python", (index == 4 and at < 20) or (index == 5 and at >= 20)),
            )
            if is_there
        )
    )
    played = open_recording([log, apps], catalogue=built_in())
    (warning,) = (each for each in played.warnings if "one job" in each)
    assert "0-3 are read as one job, since a process is on several of them" in warning


def test_devices_that_are_identified_by_names_of_pods_are_of_no_node(tmp_path: Path) -> None:
    """What is recorded of a fleet's pods in one file is not one machine's."""
    chance = random.Random(4)
    steps = [round(chance.random()) for _ in range(600)]
    paths = []
    for names in (("GPU-a", "GPU-b", "GPU-c"), ("chat-1", "chat-2", "chat-3")):
        rows = (f"{START + at},{name},{steps[at]}" for at in range(600) for name in names)
        paths.append(tmp_path / f"{names[0]}.csv")
        paths[-1].write_text("timestamp,device,gpu_busy\n" + "\n".join(rows) + "\n")
    named_gpus, named_pods = (open_recording([path], catalogue=built_in()) for path in paths)
    assert any("are read as one job" in warning for warning in named_gpus.warnings)
    assert named_pods.warnings == ()


def test_jobs_are_stated_by_indexes_and_names() -> None:
    """`none` states that there are none."""
    devices = [gpu(index) for index in range(8)]
    assert named(stated_jobs(["0-2,5", "GPU-7"], devices)) == ["0-2,5", "7"]
    assert stated_jobs(["none"], devices) == []


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        (["0-8"], "'0-8' is not in the recording; its GPUs are 0, 1, 2"),
        (["a"], "'a' is not in the recording"),
        (["0-1", "1"], "GPU 1 is named in --job 0-1 too"),
    ],
)
def test_a_job_that_cannot_be_is_refused(stated: list[str], message: str) -> None:
    """With what is there."""
    with pytest.raises(UsageError, match=message):
        stated_jobs(stated, [gpu(index) for index in range(8)])


def write_log(path: Path) -> None:
    """Eight GPUs of nvidia-smi's log, of which one works and seven spin."""
    chance = random.Random(7)
    head = "timestamp, index, name, utilization.gpu [%], memory.used [MiB], power.draw [W]\n"
    rows = (
        f"2026/01/01 00:{at // 60:02}:{at % 60:02}.{3 * index:03}, {index}, NVIDIA H100 80GB HBM3, "
        f"{80 if index == 3 else 100} %, {61000 + index} MiB, "
        f"{chance.randint(400, 600) if index == 3 else chance.randint(118, 132)}.00 W\n"
        for at in range(700)
        for index in range(8)
    )
    path.write_text(head + "".join(rows))


def test_eight_gpus_of_which_one_works_are_one_story(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The culprit is named once, and that the job is inferred; stated, it is surer."""
    log = tmp_path / "smi.csv"
    write_log(log)
    assert main(["replay", str(log)]) == 0
    captured = capsys.readouterr()
    text = " ".join(captured.out.split())
    assert text.count("[Find the rank that the others wait") == 1
    assert "of inferred job 0-7" in text
    assert "they wait for GPU 3" in text
    assert "GPUs: 0-7 are read as one job" in captured.err
    assert "--job none" in captured.err

    def stall(*flags: str) -> dict[str, object]:
        assert main(["replay", str(log), "--json", *flags]) == 0
        findings = json.loads(capsys.readouterr().out)["findings"]
        found = [finding for finding in findings if finding["rule"] == "hidden_stall"]
        assert len(found) == (8 if "none" in flags else 1)
        return dict(found[0])

    inferred = stall()
    stated = stall("--job", "0-7")
    apart = stall("--job", "none")
    assert inferred["culprits"] == stated["culprits"] == ["index:3"]
    assert float(str(inferred["confidence"])) < float(str(stated["confidence"]))
    assert "no peer" not in json.dumps(apart)


def test_commands_agree_on_an_inferred_job(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Replay, advise and report have the same findings, as sure as each other."""
    log = tmp_path / "smi.csv"
    history = str(tmp_path / "history.db")
    write_log(log)

    def figures_of(*arguments: str) -> set[tuple[str, str, float]]:
        assert main(list(arguments)) == 0
        findings = json.loads(capsys.readouterr().out)["findings"]
        return {
            (finding["id"], finding["summary"], finding["confidence"])
            for finding in findings
            if finding["finding"] not in {"optimized", "unknown"}
            and "held_back" not in finding.get("evidence", {})
        }

    replayed = figures_of("replay", str(log), "--into", history, "--json")
    assert replayed
    assert figures_of("advise", "--history.path", history, "--json") == replayed
    assert figures_of("report", "--history.path", history, "--format", "json") == replayed
