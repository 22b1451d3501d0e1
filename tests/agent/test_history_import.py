"""Import of a recording into a history: completely, beside existing data, or not at all."""

import contextlib
import resource
from pathlib import Path

import pytest

from cases import NOW, window
from readings import MINUTE, gpu
from rightsizer.accounting.device_record import DeviceRecord
from rightsizer.accounting.history import HistoryRepository
from rightsizer.advice.storage import Storage
from rightsizer.agent.replay import filled_history
from rightsizer.model.errors import HistoryError
from rightsizer.model.state import State
from rightsizer.model.window import Window


def windows(count: int, first: int = 0) -> list[Window]:
    """Consecutive five-minute windows."""
    return [
        window(
            {State.PRODUCTIVE: 1 / 12},
            start=NOW + at * 5 * MINUTE,
            end=NOW + (at + 1) * 5 * MINUTE,
        )
        for at in range(first, first + count)
    ]


def stored_windows(path: Path) -> list[Window]:
    """The windows stored in a history."""
    storage = Storage(str(path), read_only=True)
    assert storage.history is not None
    found = list(storage.history.load())
    storage.close()
    return found


def history_of(storage: Storage) -> HistoryRepository:
    """The path of an imported history."""
    assert storage.history is not None
    return storage.history


def names(folder: Path) -> set[str]:
    """The files of a folder without locks."""
    return {file.name for file in folder.iterdir() if file.suffix != ".lock"}


def fill(path: Path, *parts: list[Window]) -> None:
    """Fill a history in a few steps."""
    with filled_history(path) as filling:
        for part in parts:
            history_of(filling).save(part, [DeviceRecord(gpu())])


def test_a_new_history_appears_when_it_is_whole(tmp_path: Path) -> None:
    """Until then the path does not exist."""
    path = tmp_path / "history.db"
    with filled_history(path) as filling:
        history_of(filling).save(windows(3), [DeviceRecord(gpu())])
        assert not path.exists()

    assert {file.name for file in tmp_path.iterdir()} == {"history.db"}
    assert stored_windows(path) == windows(3)


def test_a_history_that_exists_keeps_what_it_has(tmp_path: Path) -> None:
    """An agent may continue with it afterwards."""
    path = tmp_path / "history.db"
    fill(path, windows(2))
    fill(path, windows(600, first=2), windows(3, first=602))

    assert names(tmp_path) == {"history.db"}
    assert stored_windows(path) == windows(605)
    Storage(str(path)).close()


def test_recording_replayed_again_is_counted_once(tmp_path: Path) -> None:
    """An hour that its recording lived twice stays double, however often it is replayed."""
    path = tmp_path / "history.db"
    twice = [*windows(12), *windows(12)]
    for _ in range(3):
        fill(path, windows(1, first=20), twice)

    assert sum(window.accounted for window in stored_windows(path)) == 25 * 5 * MINUTE


def test_a_recording_without_devices_leaves_nothing(tmp_path: Path) -> None:
    """There is nothing to keep."""
    with filled_history(tmp_path / "history.db"):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("is_there", [False, True], ids=["new", "existing"])
def test_failed_replay_changes_nothing(tmp_path: Path, is_there: bool) -> None:  # noqa: FBT001
    """A truncated recording leaves no partial data."""
    path = tmp_path / "history.db"
    if is_there:
        fill(path, windows(2))

    def break_off() -> None:
        with filled_history(path) as filling:
            history_of(filling).save(windows(3, first=2))
            raise ValueError("the recording is torn")

    with pytest.raises(ValueError, match="torn"):
        break_off()
    assert names(tmp_path) == ({"history.db"} if is_there else set())
    assert not is_there or stored_windows(path) == windows(2)


def test_the_history_of_a_running_agent_is_left_alone(tmp_path: Path) -> None:
    """It is refused immediately, not after an hour of replay."""
    path = tmp_path / "history.db"
    agent = Storage(str(path))
    agent.save_windows(windows(1), [], [])
    with pytest.raises(HistoryError, match=r"being written by process \d+"):
        filled_history(path).__enter__()
    agent.close()

    assert names(tmp_path) == {"history.db"}


def test_no_agent_begins_a_history_that_would_be_replaced(tmp_path: Path) -> None:
    """It may once the recording is in place."""
    path = tmp_path / "history.db"
    with filled_history(path) as filling:
        history_of(filling).save(windows(3))
        with pytest.raises(HistoryError, match="is being written by process"):
            Storage(str(path))
    with contextlib.closing(Storage(str(path))) as agent:
        assert agent.history is not None
        agent.history.save(windows(2, first=3))
    assert stored_windows(path) == windows(5)


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """A file in place of a folder cannot hold a history."""
    (tmp_path / "file").write_text("")
    with pytest.raises(HistoryError, match="cannot be read: Not a directory; name another"):
        filled_history(tmp_path / "file" / "history.db").__enter__()


@pytest.mark.parametrize("is_there", [False, True], ids=["new", "existing"])
def test_a_database_that_cannot_be_opened_leaves_nothing(tmp_path: Path, is_there: bool) -> None:  # noqa: FBT001
    """On a full disk, the error names the requested path, and the lock is released."""
    path = tmp_path / "history.db"
    if is_there:
        fill(path, windows(2))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, hard))  # Room for a lock and no more.
    try:
        with pytest.raises(HistoryError, match=rf"history '{path}' cannot be written") as raised:
            filled_history(path).__enter__()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert ".partial" not in str(raised.value)
    if is_there:
        Storage(str(path)).close()
    assert {file.name for file in tmp_path.iterdir()} == (
        {"history.db", "history.db.lock"} if is_there else set()
    )


def test_a_name_that_is_too_long_is_reported(tmp_path: Path) -> None:
    """The temporary name beside it is longer still."""
    with pytest.raises(HistoryError, match="file name too long"):
        filled_history(tmp_path / ("h" * 250)).__enter__()
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_something_else_stays_what_it_is(tmp_path: Path) -> None:
    """An agent sets a damaged history aside; here the path is more likely to be wrong."""
    path = tmp_path / "notes.txt"
    path.write_text("not a history")
    with pytest.raises(HistoryError, match="is there and is no history; name another file"):
        filled_history(path).__enter__()

    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]
    assert path.read_text() == "not a history"
