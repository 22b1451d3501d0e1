"""The outbox in memory and in SQLite: one contract; the latter is durable."""

import json
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from msgspec import to_builtins

from advice_events import event
from rightsizer.advice.storage import MIGRATIONS, Storage
from rightsizer.io.database import Database
from rightsizer.model.advice import AdviceEventKind
from rightsizer.notify.grafana.annotation import AnnotationBody, body_of
from rightsizer.notify.grafana.service import AnnotationOutbox


def note(id_: str) -> AnnotationBody:
    """A note about the opening of a recommendation."""
    return body_of(event(AdviceEventKind.OPENED, id=id_))


@pytest.fixture(params=["memory", "sqlite"])
def outbox(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AnnotationOutbox]:
    """Each kind of outbox."""
    if request.param == "memory":
        yield AnnotationOutbox(Storage("").database)
        return
    with closing(Database(tmp_path / "history.db", MIGRATIONS)) as database:
        yield AnnotationOutbox(database)


def test_order_is_kept(outbox: AnnotationOutbox) -> None:
    """Notes are returned in order, and removed only when done."""
    outbox.put([note("a"), note("b")])
    outbox.put([note("c")])
    first, second, third = outbox.pending()
    assert [letter.body for letter in (first, second, third)] == [note("a"), note("b"), note("c")]
    outbox.done([second.number])
    assert list(outbox.pending()) == [first, third]


def test_numbers_are_never_given_twice(outbox: AnnotationOutbox) -> None:
    """A late 'done' for a delivered entry cannot remove a newer one."""
    outbox.put([note("a")])
    (old,) = outbox.pending()
    outbox.done([old.number])
    outbox.put([note("b")])
    outbox.done([old.number])
    assert [letter.body for letter in outbox.pending()] == [note("b")]


def test_regions_are_remembered_and_forgotten(outbox: AnnotationOutbox) -> None:
    """The last region of a recommendation is current."""
    assert outbox.annotation_id("a") is None
    outbox.remember("a", 7)
    outbox.remember("a", 8)
    assert outbox.annotation_id("a") == 8
    outbox.remember("a", None)
    assert outbox.annotation_id("a") is None


def test_sqlite_survives_a_restart(tmp_path: Path) -> None:
    """Queue and regions are available to the next process."""
    path = tmp_path / "history.db"
    with closing(Database(path, MIGRATIONS)) as database:
        outbox = AnnotationOutbox(database)
        outbox.put([note("a"), body_of(event(AdviceEventKind.DECIDED, id="b"))])
        outbox.remember("a", 7)
        left = outbox.pending()
    with closing(Database(path, MIGRATIONS)) as database:
        again = AnnotationOutbox(database)
        assert again.pending() == left
        assert again.annotation_id("a") == 7


@pytest.mark.parametrize("text", ["", "{}", '{"tags": 1}', '{"tags": [], "unheard_of": 1}'])
def test_a_row_that_cannot_be_understood_is_passed_over(tmp_path: Path, text: str) -> None:
    """A row of another version stops neither the agent nor other rows."""
    with closing(Database(tmp_path / "history.db", MIGRATIONS)) as database:
        with database.transaction() as connection:
            connection.execute("INSERT INTO grafana_outbox (note) VALUES (?)", (text,))
        outbox = AnnotationOutbox(database)
        outbox.put([note("a")])
        assert [letter.body for letter in outbox.pending()] == [note("a")]


def test_entries_of_an_older_program_are_delivered(tmp_path: Path) -> None:
    """Its notes had no data."""
    with closing(Database(tmp_path / "history.db", MIGRATIONS)) as database:
        document = to_builtins(note("a"))
        del document["data"]
        with database.transaction() as connection:
            connection.execute(
                "INSERT INTO grafana_outbox (note) VALUES (?)", (json.dumps(document),)
            )
        assert [letter.body for letter in AnnotationOutbox(database).pending()] == [note("a")]


def test_threads_share_an_outbox(outbox: AnnotationOutbox) -> None:
    """Concurrent writers lose nothing."""

    def write(name: str) -> None:
        for index in range(20):
            outbox.put([note(f"{name}{index}")])

    threads = [threading.Thread(target=write, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({letter.body.advice_id for letter in outbox.pending()}) == 60
