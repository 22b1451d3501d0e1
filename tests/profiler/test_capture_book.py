"""What is remembered of captures and of files, in memory and over a restart."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from capture_books import book_at, record
from rightsizer.profiler.capture.repository import (
    CaptureRepository,
    InMemoryCaptureRepository,
    ReadFile,
)
from rightsizer.profiler.capture.request import CaptureOutcome


@pytest.fixture(params=["memory", "disk"])
def book(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[CaptureRepository]:
    """One of either kind."""
    if request.param == "memory":
        yield InMemoryCaptureRepository()
        return
    with book_at(tmp_path / "history.db") as found:
        yield found


def test_captures_are_kept_oldest_first_and_changed_in_place(book: CaptureRepository) -> None:
    """As they began, whatever came of them later."""
    book.put(record(2))
    book.put(record(1, CaptureOutcome.RUNNING))
    book.put(record(1, CaptureOutcome.FAILED, detail="no", process=7, process_started=8))
    found = book.captures()
    assert found == [
        record(1, CaptureOutcome.FAILED, detail="no", process=7, process_started=8),
        record(2),
    ]
    book.forget(["capture-001", "nobody"])
    assert book.captures() == [record(2)]


def test_files_are_kept_by_their_path(book: CaptureRepository) -> None:
    """The latest that is known of each."""
    book.put_files([ReadFile("a", 1, 2), ReadFile("b/c", 3, 4, "torn")])
    book.put_files([ReadFile("a", 5, 6)])
    book.put_files([])
    assert book.files() == {"a": ReadFile("a", 5, 6), "b/c": ReadFile("b/c", 3, 4, "torn")}
    book.forget_files(["a", "z"])
    assert set(book.files()) == {"b/c"}


def test_all_is_there_after_a_restart(tmp_path: Path) -> None:
    """And what a row of another program says is passed over."""
    path = tmp_path / "history.db"
    with book_at(path) as book:
        book.put(record(1))
        book.put_files([ReadFile("a", 1, 2)])
    with sqlite3.connect(path) as other:
        other.execute("INSERT INTO capture VALUES ('odd', 1, '{\"outcome\": \"glorious\"}')")
        other.execute("INSERT INTO capture VALUES ('torn', 2, '{')")
    other.close()
    with book_at(path) as book:
        assert book.captures() == [record(1)]
        assert set(book.files()) == {"a"}
