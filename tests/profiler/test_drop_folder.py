"""The drop folder: which files are opened and when, and which messages are logged once."""

import os
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from agent_process import eventually
from capture_recorder import trace_of
from capture_repositories import repository_at
from rightsizer.advice.storage import Storage
from rightsizer.model.errors import HistoryError, ProfileError
from rightsizer.model.profile import Profile, ProfileFormat
from rightsizer.profiler.capture.drop_folder import DropFolderWatcher, open_dropped, scan_folder
from rightsizer.profiler.capture.repository import CaptureRepository
from rightsizer.profiler.capture.settings import DropFolderSettings
from rightsizer.profiles.limits import ReadLimits


@dataclass
class RecordingConsumer:
    """Consumer that records or raises."""

    taken: list[list[str]] = field(default_factory=list)
    faults: list[Exception] = field(default_factory=list)

    def take(self, profiles: Sequence[Profile]) -> None:
        """Record the names."""
        if self.faults:
            raise self.faults.pop(0)
        self.taken.append([profile.source for profile in profiles])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Folder where profiles arrive."""
    path = tmp_path / "drop"
    path.mkdir(mode=0o755)
    return path


def read_here(descriptor: int, name: str, *_: object) -> Profile:
    """The file read in this process; some contents make it invalid."""
    if os.read(descriptor, 100).startswith(b"broken"):
        raise ProfileError(f"{name}: is broken")
    return Profile(ProfileFormat.PYTORCH, name)


def intake(
    folder: Path,
    controller: RecordingConsumer,
    repository: CaptureRepository | None = None,
    read: Callable[..., Profile] | None = read_here,
    files_maximum: int = 1000,
) -> DropFolderWatcher:
    """Watcher that scans on demand."""
    settings = DropFolderSettings(str(folder), files_maximum=files_maximum)
    return DropFolderWatcher(
        settings,
        ReadLimits,
        repository or CaptureRepository(Storage("").database),
        controller.take,
        read=read,
    )


def refusals(folder: Path) -> dict[str, str]:
    """Why files are not opened, by their paths."""
    return {each.path: each.refusal for each in scan_folder(folder, 1000)[0] if each.refusal}


def test_a_file_is_read_once_it_no_longer_changes(folder: Path) -> None:
    """Two scans must agree; a third reads nothing again."""
    controller = RecordingConsumer()
    place = intake(folder, controller)
    path = folder / "a.json"
    path.write_text("half")
    place.poll()
    path.write_text("half and more")
    place.poll()
    assert controller.taken == []
    place.poll()
    place.poll()
    assert controller.taken == [["a.json"]]


def test_a_file_that_was_read_and_changes_is_read_again(folder: Path) -> None:
    """It is another profile of the same name."""
    controller = RecordingConsumer()
    place = intake(folder, controller)
    for text in ("one", "another"):
        (folder / "a.json").write_text(text)
        place.poll()
        place.poll()
    assert controller.taken == [["a.json"], ["a.json"]]


def test_ranks_beside_each_other_are_taken_together(folder: Path) -> None:
    """Ranks of one folder are grouped, apart from those of another."""
    controller = RecordingConsumer()
    for name in ("run/r1.json", "run/r0.json", "other/r0.json", "alone.json", ".hidden/r2.json"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("x")
    (folder / ".partial.json").write_text("x")
    place = intake(folder, controller)
    place.poll()
    place.poll()
    assert sorted(controller.taken) == [["alone.json"], ["r0.json"], ["r0.json", "r1.json"]]


def test_processed_file_is_not_read_after_a_restart(folder: Path, tmp_path: Path) -> None:
    """An invalid file is not reported again either."""
    controller = RecordingConsumer()
    (folder / "a.json").write_text("good")
    (folder / "b.json").write_text("broken")
    reasons = []
    for _ in range(2):
        with repository_at(tmp_path / "history.db") as repository, capture_logs() as log:
            place = intake(folder, controller, repository)
            place.poll()
            place.poll()
            known = {file.path: file.fault for file in repository.files().values()}
        reasons.append([each["reason"] for each in log if each["event"] == "profile_not_read"])
        assert known == {"a.json": "", "b.json": "b.json: is broken"}
    assert reasons == [["b.json: is broken"], []]
    assert controller.taken == [["a.json"]]
    assert sorted(each.name for each in folder.iterdir()) == ["a.json", "b.json"]


def test_files_that_went_away_are_forgotten(folder: Path) -> None:
    """Memory is bounded by the folder's size."""
    repository = CaptureRepository(Storage("").database)
    path = folder / "a.json"
    place = intake(folder, RecordingConsumer(), repository)
    path.write_text("x")
    place.poll()
    place.poll()
    assert set(repository.files()) == {"a.json"}
    path.unlink()
    place.poll()
    assert repository.files() == {}


def test_only_files_themselves_are_opened(folder: Path, tmp_path: Path) -> None:
    """Links, pipes and sockets could lead elsewhere or block forever."""
    secret = tmp_path / "secret"
    secret.write_text("s3cret")
    (folder / "link.json").symlink_to(secret)
    (folder / "folder").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe.json")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "socket.json"))
        found = refusals(folder)
    assert found == {
        "link.json": "is a symbolic link; put the file itself there",
        "pipe.json": "is a pipe; put the file itself there",
        "socket.json": "is a socket; put the file itself there",
    } | {path: why for path, why in found.items() if path == "folder"}
    controller = RecordingConsumer()
    place = intake(folder, controller)
    with capture_logs() as log:
        for _ in range(3):
            place.poll()
    files = [each["file"] for each in log if each["event"] == "profile_not_read"]
    assert controller.taken == []
    assert sorted(files) == ["link.json", "pipe.json", "socket.json"]


def test_files_of_others_are_opened_where_only_a_group_may_write(folder: Path) -> None:
    """In a world-writable folder the origin of a file is unknown."""
    if os.geteuid() != 0:
        pytest.skip("only root makes files of others")
    path = folder / "a.json"
    path.write_text("x")
    os.chown(path, 12345, 12345)
    folder.chmod(0o2775)
    assert refusals(folder) == {}
    folder.chmod(0o1777)
    assert "belongs to another user, in a folder that all" in refusals(folder)["a.json"]
    os.chown(path, 0, 0)
    assert refusals(folder) == {}
    os.link(path, folder.parent / "second-name")
    assert "belongs to another user" in refusals(folder)["a.json"]


@pytest.mark.parametrize(
    ("folder_mode", "file_mode", "opened"),
    [
        (0o2775, 0o640, False),
        (0o2775, 0o600, False),
        (0o2775, 0o604, True),
        (0o755, 0o600, True),
        (0o1777, 0o644, False),
    ],
)
def test_a_hard_link_is_opened_where_all_who_may_have_made_it_could_read_it(
    folder: Path,
    tmp_path: Path,
    folder_mode: int,
    file_mode: int,
    opened: bool,  # noqa: FBT001
) -> None:
    """The agent may read more than they: a second name must not expose another user's file."""
    secret = tmp_path / "secret"
    secret.write_text("s3cret")
    secret.chmod(file_mode)
    folder.chmod(folder_mode)
    (folder / "a.json").hardlink_to(secret)
    controller = RecordingConsumer()
    place = intake(folder, controller)
    for _ in range(2):
        place.poll()
    assert bool(controller.taken) is opened
    assert ("a.json" not in refusals(folder)) is opened
    secret.unlink()
    assert refusals(folder) == {}


def test_a_hard_link_to_a_file_of_another_in_a_folder_of_ones_own_is_refused(
    folder: Path, tmp_path: Path
) -> None:
    """The folder's owner may lack read permission; only root may read all files."""
    if os.geteuid() != 0:
        pytest.skip("only root makes files of others")
    secret = tmp_path / "secret"
    secret.write_text("s3cret")
    secret.chmod(0o600)
    (folder / "a.json").hardlink_to(secret)
    folder.chmod(0o755)
    os.chown(folder, 12345, 12345)
    assert refusals(folder) == {
        "a.json": "is a hard link, and not everybody who may write into its folder could read "
        "it; put a copy there"
    }
    os.chown(secret, 12345, 12345)
    assert refusals(folder) == {}


def test_a_name_that_is_no_text_is_refused(folder: Path) -> None:
    """It could control a terminal, or cannot be stored."""
    (folder / "a\x1b[31m.json").write_text("x")
    (folder / os.fsdecode(b"\xff.json")).write_text("x")
    assert set(refusals(folder).values()) == {"its name has characters that are no text; rename it"}


def test_a_file_that_was_swapped_is_not_opened(folder: Path) -> None:
    """This covers a swap between scan and opening."""
    (folder / "a.json").write_text("x")
    ((landed,), _) = scan_folder(folder, 10)
    (folder / "b.json").write_text("y")
    (folder / "b.json").replace(folder / "a.json")
    with pytest.raises(ProfileError, match=r"a\.json: became another file meanwhile"):
        open_dropped(folder, landed)
    (folder / "a.json").unlink()
    (folder / "a.json").symlink_to("/etc/passwd")
    with pytest.raises(ProfileError, match=r"a\.json: cannot be opened"):
        open_dropped(folder, landed)


def test_of_too_many_the_newest_are_looked_at(folder: Path) -> None:
    """One message says that there are more."""
    controller = RecordingConsumer()
    place = intake(folder, controller, files_maximum=2)
    for number in range(4):
        path = folder / f"{number}.json"
        path.write_text("x")
        os.utime(path, (number, number))
    with capture_logs() as log:
        for _ in range(3):
            place.poll()
    assert controller.taken == [["2.json", "3.json"]]
    assert [each["left_out"] for each in log if each["event"] == "drop_folder_crowded"] == [2]


def test_a_folder_that_is_not_there_is_said_once(folder: Path) -> None:
    """It is read once it exists."""
    controller = RecordingConsumer()
    place = intake(folder / "later", controller)
    with capture_logs() as log:
        place.poll()
        place.poll()
    assert [each["error"] for each in log] == ["no such file or directory"]
    (folder / "later").mkdir()
    (folder / "later" / "a.json").write_text("x")
    place.poll()
    place.poll()
    assert controller.taken == [["a.json"]]


def test_a_profile_that_breaks_its_judge_is_not_read_for_ever(folder: Path) -> None:
    """After a full disk, on the other hand, it is tried again."""
    controller = RecordingConsumer(faults=[HistoryError("full"), ZeroDivisionError("odd")])
    repository = CaptureRepository(Storage("").database)
    place = intake(folder, controller, repository)
    (folder / "a.json").write_text("x")
    place.poll()
    with pytest.raises(HistoryError):
        place.poll()
    assert repository.files() == {}
    with capture_logs():
        place.poll()
    assert "odd" in repository.files()["a.json"].fault
    place.poll()
    assert controller.taken == []


def test_stopped_watcher_reads_no_more_files(folder: Path) -> None:
    """Unread files are read after the next start."""
    controller = RecordingConsumer()
    repository = CaptureRepository(Storage("").database)
    place = intake(folder, controller, repository)
    (folder / "a.json").write_text("x")
    place.poll()
    place.stop()
    place.poll()
    assert (controller.taken, repository.files()) == ([], {})


def test_a_real_profile_is_read_in_a_process_of_its_own(folder: Path) -> None:
    """Covers the way from the folder to the controller; a pipe in the folder blocks nothing."""
    controller = RecordingConsumer()
    place = intake(folder, controller, read=None)
    trace_of().write(folder)
    os.mkfifo(folder / "pipe")
    before = threading.active_count()
    place.poll()
    place.poll()
    assert controller.taken == [["rank0.pt.trace.json"]]
    eventually(lambda: threading.active_count() <= before)
