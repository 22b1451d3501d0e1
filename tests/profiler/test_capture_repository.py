"""Repositories of captures and files, in memory and over a restart."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from capture_repositories import record, repository_at
from rightsizer.advice.storage import Storage
from rightsizer.profiler.capture.repository import CaptureOutcome, CaptureRepository, ReadFile


@pytest.fixture(params=["memory", "disk"])
def repository(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[CaptureRepository]:
    """Each kind of repository."""
    if request.param == "memory":
        yield CaptureRepository(Storage("").database)
        return
    with repository_at(tmp_path / "history.db") as found:
        yield found


def test_captures_are_kept_oldest_first_and_changed_in_place(repository: CaptureRepository) -> None:
    """The order is by start, whatever their outcome."""
    repository.put(record(2))
    repository.put(record(1, CaptureOutcome.RUNNING))
    repository.put(record(1, CaptureOutcome.FAILED, detail="no", process=7, process_started=8))
    found = repository.records()
    assert found == [
        record(1, CaptureOutcome.FAILED, detail="no", process=7, process_started=8),
        record(2),
    ]
    repository.forget(["capture-001", "nobody"])
    assert repository.records() == [record(2)]


def test_files_are_kept_by_their_path(repository: CaptureRepository) -> None:
    """The latest result of each is kept."""
    repository.put_files([ReadFile("a", 1, 2), ReadFile("b/c", 3, 4, "torn")])
    repository.put_files([ReadFile("a", 5, 6)])
    repository.put_files([])
    assert repository.files() == {"a": ReadFile("a", 5, 6), "b/c": ReadFile("b/c", 3, 4, "torn")}
    repository.forget_files(["a", "z"])
    assert set(repository.files()) == {"b/c"}


def test_all_is_there_after_a_restart(tmp_path: Path) -> None:
    """Rows of other versions are skipped."""
    path = tmp_path / "history.db"
    with repository_at(path) as repository:
        repository.put(record(1))
        repository.put_files([ReadFile("a", 1, 2)])
    with sqlite3.connect(path) as other:
        other.execute("INSERT INTO capture VALUES ('odd', 1, '{\"outcome\": \"glorious\"}')")
        other.execute("INSERT INTO capture VALUES ('torn', 2, '{')")
    other.close()
    with repository_at(path) as repository:
        assert repository.records() == [record(1)]
        assert set(repository.files()) == {"a"}
