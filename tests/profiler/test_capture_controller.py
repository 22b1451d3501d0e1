"""Capture controller with real programs: timing, released counters, and cleanup."""

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from agent_process import eventually
from capture_node import LLAMA, CaptureNode, DurableRepository, capture_node, host_bound, recorder
from capture_repositories import record, repository_at
from cases import NOW
from readings import DAY, EPOCH, HOUR, workload
from rightsizer.advice.storage import Storage
from rightsizer.host.process_table import started_of
from rightsizer.model.advice import Advice, AdviceState
from rightsizer.model.workload import Holding
from rightsizer.profiler.capture.repository import CaptureOutcome, CaptureRepository, ReadFile
from rightsizer.profiler.capture.settings import CaptureStorageSettings
from rightsizer.telemetry.source import ReleasableResource

PAST_ITS_START = 14
"""Minutes."""


@pytest.fixture
def node(tmp_path: Path) -> Iterator[CaptureNode]:
    """A node with a working recorder."""
    with capture_node(tmp_path) as found:
        yield found


def test_a_starved_job_is_profiled_once_and_the_profile_read(node: CaptureNode) -> None:
    """The workload must have worked long enough; the profile is in the capture's own folder."""
    node.pass_minutes(5)
    assert len(node.captures) == 0
    assert node.waits is not None
    assert node.waits.startswith("it was seen at work for")
    node.pass_its_start()
    node.settle()
    (made,) = node.captures
    assert (made.outcome, made.workload, made.reason) == (
        CaptureOutcome.CALLED,
        LLAMA.key,
        "HostBound",
    )
    assert (made.devices, made.detail) == (("GPU-0",), "")
    node.run("profiles")
    node.run("profiles")
    node.pass_minutes(1)
    assert node.outcomes == [CaptureOutcome.LANDED]
    assert (node.taken, node.uuids) == (["trace_4201.pt.trace.json.gz"], {"GPU-0"})
    assert [file.path for file in node.state.files] == [f"{made.id}/trace_4201.pt.trace.json.gz"]
    node.pass_minutes(60)
    assert len(node.captures) == 1
    assert node.waits == "it was profiled 1 h 1 min ago, and rests for 1 d"
    assert node.service.metrics()['rightsizer_captures_total{outcome="landed"}'] == 1.0
    assert sum(node.service.metrics().values()) == 1.0


def test_the_counters_are_released_while_it_records(tmp_path: Path) -> None:
    """The release is bounded in time, and ends with the recording."""
    with capture_node(tmp_path, command=recorder("hangs")) as node:
        node.pass_its_start()
        release = eventually(lambda: node.released)
        assert release is not None
        assert release.until is not None
        assert release.until - release.since == pytest.approx(40.1e9)
        eventually((node.folder / ".started").exists)
        node.service.stop()
        assert node.released is None
        assert node.outcomes == [CaptureOutcome.INTERRUPTED]


@pytest.mark.parametrize(
    ("behavior", "outcome"),
    [
        ("well", CaptureOutcome.CALLED),
        ("fails", CaptureOutcome.FAILED),
        ("hangs", CaptureOutcome.TIMED_OUT),
        ("fills", CaptureOutcome.FAILED),
    ],
)
def test_the_counters_come_back_in_every_outcome(
    tmp_path: Path, behavior: str, outcome: CaptureOutcome
) -> None:
    """A release by an operator stays in force."""
    room = CaptureStorageSettings(quota_bytes=2**20)
    timeout = 1.0 if behavior == "hangs" else 30.0
    with capture_node(tmp_path, room=room, command=recorder(behavior), timeout=timeout) as node:
        mine = node.controls.release(ReleasableResource.COUNTERS)
        node.pass_minutes(PAST_ITS_START)
        node.settle()
        assert node.outcomes == [outcome]
        assert eventually(lambda: node.released is mine)
        assert node.controls.resume(ReleasableResource.COUNTERS)


def test_an_operator_takes_the_counters_back_from_a_capture_too(tmp_path: Path) -> None:
    """The operator's command takes precedence."""
    with capture_node(tmp_path, command=recorder("hangs")) as node:
        node.pass_its_start()
        eventually(lambda: node.released)
        assert node.controls.resume(ReleasableResource.COUNTERS)
        assert node.released is None


def test_one_is_made_at_a_time(tmp_path: Path) -> None:
    """This holds for any number of findings."""
    with capture_node(tmp_path, command=recorder("hangs")) as node:
        other = host_bound(id="bbbbbbbbbbbb", key="slurm/other")
        node.judgements = (host_bound(), other)
        node.pass_minutes(PAST_ITS_START + 5)
        assert node.outcomes == [CaptureOutcome.RUNNING]


def test_a_capture_that_fills_the_disk_is_ended_and_its_file_deleted(tmp_path: Path) -> None:
    """Files of others in the folder stay, whatever their size."""
    with capture_node(
        tmp_path, command=recorder("fills"), room=CaptureStorageSettings(quota_bytes=4 * 2**20)
    ) as node:
        theirs = node.folder / "theirs.json"
        theirs.write_bytes(bytes(8 * 2**20))
        node.pass_minutes(PAST_ITS_START)
        node.settle()
        (made,) = node.captures
        assert made.detail.startswith("wrote more than 4194304 bytes, and was ended")
        assert (node.folder / made.id / "huge").exists()
        node.pass_minutes(1)
        assert not (node.folder / made.id).exists()
        assert theirs.exists()


def test_no_capture_is_made_where_there_is_no_room(tmp_path: Path) -> None:
    """The quota would be exceeded, or the disk is nearly full."""
    with capture_node(tmp_path, room=CaptureStorageSettings(minimum_free_ratio=1.0)) as node:
        node.pass_minutes(PAST_ITS_START)
        assert node.waits is not None
        assert node.waits.startswith("the drop folder's file system is nearly full: ")
    repository = DurableRepository()
    repository.put(record(1, CaptureOutcome.CALLED, workload="slurm/other", started=EPOCH))
    with capture_node(tmp_path, repository, room=CaptureStorageSettings(quota_bytes=2**20)) as node:
        (node.folder / "capture-001").mkdir()
        (node.folder / "capture-001" / "unread").write_bytes(bytes(2**20))
        node.pass_minutes(PAST_ITS_START)
        reason = "captures take 1048576 bytes, and profiles.capture.room.quota allows no more"
        assert node.waits == reason
        assert (node.folder / "capture-001" / "unread").exists()


def test_old_captures_are_deleted_and_nothing_else(tmp_path: Path) -> None:
    """The oldest beyond the quota, all beyond their age; links and unknown files stay."""
    repository = DurableRepository()
    room = CaptureStorageSettings(quota_bytes=2**20, kept_for=6 * 3600.0)
    with capture_node(tmp_path, repository, room=room) as node:
        node.judgements = ()
        for number in range(5):
            folder = node.folder / f"capture-{number:03}"
            if number != 2:
                folder.mkdir()
                (folder / "trace.json").write_bytes(bytes(400 * 2**10))
            if number != 4:
                repository.put(record(number))
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        (elsewhere / "precious").write_text("x")
        (node.folder / "capture-002").symlink_to(elsewhere)
        node.pass_minutes(1)
        left = sorted(each.name for each in node.folder.iterdir())
        assert left == ["capture-001", "capture-002", "capture-003", "capture-004"]
        node.clock.pass_seconds(12 * 3600.0)
        node.pass_minutes(1)
        left = sorted(each.name for each in node.folder.iterdir())
        assert left == ["capture-002", "capture-004"]
        assert (elsewhere / "precious").exists()


def test_a_clock_that_is_set_deletes_nothing_and_repeats_nothing(node: CaptureNode) -> None:
    """For a year ahead or back, intervals use the monotonic clock."""
    node.pass_minutes(PAST_ITS_START)
    node.settle()
    (made,) = node.captures
    for ahead in (366 * DAY, -400 * DAY, 0):
        node.clock.ahead = EPOCH + ahead
        node.pass_minutes(2)
        assert len(node.captures) == 1
        assert (node.folder / made.id).exists()


def test_a_clock_that_was_wrong_before_the_start_is_not_rested_for(tmp_path: Path) -> None:
    """A capture dated next year does not delay today's; one dated an hour ahead may."""
    for ahead, count in ((400 * DAY, 2), (HOUR, 1)):
        repository = DurableRepository()
        repository.put(record(1, workload=LLAMA.key, started=EPOCH + ahead))
        with capture_node(tmp_path, repository) as node:
            node.pass_minutes(PAST_ITS_START)
            assert len(node.captures) == count


def test_after_a_kill_nothing_is_repeated_at_once(tmp_path: Path) -> None:
    """The running capture ends as interrupted, and its program is ended."""
    with (
        repository_at(tmp_path / "history.db") as repository,
        subprocess.Popen(["sleep", "600"], start_new_session=True) as left,
    ):
        running = record(0, CaptureOutcome.RUNNING, workload=LLAMA.key, started=EPOCH - HOUR // 2)
        repository.put(replace(running, process=left.pid, process_started=started_of(left.pid)))
        with capture_node(tmp_path, repository) as node:
            assert left.wait(10.0) == -signal.SIGKILL
            (made,) = node.captures
            assert made.outcome is CaptureOutcome.INTERRUPTED
            assert made.detail.endswith("what it had called was ended with the next start")
            assert node.released is None
            node.pass_minutes(PAST_ITS_START)
            assert node.waits == "it was profiled 44 min ago, and rests for 1 h"
            node.pass_minutes(20)
            assert len(node.captures) == 2


def test_a_capture_that_leaves_nothing_is_reported_and_tried_again_later(tmp_path: Path) -> None:
    """The next attempt is after an hour, not before."""
    with capture_node(tmp_path, command=("true",)) as node, capture_logs() as log:
        node.pass_minutes(PAST_ITS_START)
        node.settle()
        node.pass_minutes(17)
        assert node.outcomes == [CaptureOutcome.EMPTY]
        assert node.captures[0].detail == "no profile landed in its folder"
        assert [each["log_level"] for each in log if each["event"] == "capture_empty"] == [
            "warning"
        ]
        node.pass_minutes(30)
        assert len(node.captures) == 1
        node.pass_minutes(30)
        assert len(node.captures) == 2


def test_a_profile_that_lands_late_is_a_profile(tmp_path: Path) -> None:
    """The outcome is corrected from "no profile", and counted once."""
    with capture_node(tmp_path, command=("true",)) as node:
        node.pass_minutes(PAST_ITS_START)
        node.settle()
        node.pass_minutes(17)
        node.repository.put_files([ReadFile(f"{node.captures[0].id}/late.json", 1, 1)])
        node.pass_minutes(1)
        assert node.outcomes == [CaptureOutcome.LANDED]
        assert sum(node.service.metrics().values()) == 1.0


def test_nobody_is_called_for_processes_that_nobody_knows(node: CaptureNode) -> None:
    """The driver does not list them, or two workloads share the GPU."""
    node.pids = None
    node.pass_minutes(PAST_ITS_START)
    assert node.waits == "its processes are not known"
    node.pids = (4201,)
    node.holders = (Holding(LLAMA, 0.5), Holding(workload("other"), 0.5))
    node.pass_minutes(20)
    assert node.waits == "it shares its GPUs, and which processes are its own is unknown"
    assert node.captures == ()


@pytest.mark.parametrize("state", [AdviceState.DISMISSED, AdviceState.SNOOZED])
def test_dismissed_advice_is_not_captured(node: CaptureNode, state: AdviceState) -> None:
    """The finding stays, without a capture."""
    node.advice = (Advice(host_bound().finding, state, NOW, NOW),)
    node.pass_minutes(PAST_ITS_START)
    assert node.waits == "its advice was dismissed or snoozed"


def test_reason_for_no_capture_is_logged_when_it_changes(node: CaptureNode) -> None:
    """It is not logged every minute."""
    with capture_logs() as log:
        node.pass_minutes(9)
        node.judgements = (host_bound(confidence=0.3),)
        node.pass_minutes(5)
    reasons = [each["why"] for each in log if each["event"] == "capture_waits"]
    assert [" ".join(reason.split()[:3]) for reason in reasons] == [
        "no process is",
        "it was seen",
        "its confidence of",
    ]


def test_a_folder_that_cannot_be_written_is_reported_with_its_setting(tmp_path: Path) -> None:
    """The job fails, and no program is called."""
    with capture_node(tmp_path) as node:
        node.folder.rmdir()
        node.folder.write_text("in the way")
        with pytest.raises(Exception, match=r"profiles\.drop_folder\.path: no folder can be made"):
            node.pass_minutes(PAST_ITS_START)
        assert node.captures == ()


def test_without_a_history_nobody_is_called(tmp_path: Path) -> None:
    """A restart would lose the count of captures; the reason names the setting."""
    with capture_node(tmp_path, CaptureRepository(Storage("").database)) as node:
        node.pass_minutes(PAST_ITS_START)
        assert node.captures == ()
        assert str(node.waits).startswith("no history is kept")
        assert str(node.waits).endswith("set history.path")


def test_read_only_query_writes_nothing(tmp_path: Path) -> None:
    """Captures missing in the history are listed, and written by the next run."""
    with capture_node(tmp_path) as node:
        node.pass_its_start()
        node.settle()
        (made,) = node.captures
        node.repository.forget([made.id])
        assert node.captures == (made,)
        assert list(node.repository.records()) == []
        node.pass_minutes(1)
        assert [each.id for each in node.repository.records()] == [made.id]


def test_a_history_that_breaks_makes_no_capture_be_repeated(tmp_path: Path) -> None:
    """The agent keeps them in memory, and writes them again later."""
    repository = DurableRepository()
    with capture_node(tmp_path, repository) as node:
        node.pass_its_start()
        node.settle()
        (made,) = node.captures
        repository.forget([made.id])
        node.pass_minutes(20)
        assert [capture.id for capture in node.captures] == [made.id]
        assert [each.id for each in repository.records()] == [made.id]


def test_output_of_a_capture_program_is_only_logged(tmp_path: Path) -> None:
    """The API is readable on the network, and a program may print anything."""
    with capture_logs() as log, capture_node(tmp_path) as node:
        node.pass_its_start()
        node.settle()
        assert node.captures[0].detail == ""
    assert [each["said"] for each in log if each["event"] == "capture_said"] == [
        "records process 4201"
    ]
