"""A database opens and accepts changes, whatever the bytes of its file."""

from contextlib import closing
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightsizer.io.database import Database
from rightsizer.model.errors import HistoryError

MIGRATIONS: Final = ("CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT NOT NULL)",)
SECTOR: Final = 512
PAGE: Final = 4096


@cache
def whole() -> bytes:
    """A valid file with some pages."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "whole.db"
        with closing(Database(path, MIGRATIONS)) as database, database.transaction() as connection:
            connection.executemany("INSERT INTO note (text) VALUES (?)", [("x" * 300,)] * 100)
        return path.read_bytes()


def overwritten(kind: str, random: Random) -> bytes:
    """The file with bytes, sectors or the rest overwritten, or truncated.

    Single bytes only beyond its first page, where they could change a word of a table's definition.
    """
    content = bytearray(whole())
    if kind == "cut":
        return bytes(content[: random.randrange(len(content))])
    if kind == "rest":
        start = random.randrange(PAGE)
        content[start:] = random.randbytes(len(content) - start)
    for _ in range(random.randrange(1, 20)):
        size, first = (1, PAGE) if kind == "bytes" else (SECTOR, 0)
        start = random.randrange(first, len(content) - size)
        content[start : start + size] = random.randbytes(size)
    return bytes(content)


@given(st.sampled_from(["bytes", "sectors", "rest", "cut"]), st.integers(0, 2**32))
def test_a_file_of_any_bytes_costs_what_was_in_it_and_no_more(kind: str, seed: int) -> None:
    """It is used or set aside, and a change succeeds by the second attempt at the latest."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "history.db"
        path.write_bytes(overwritten(kind, Random(seed)))
        try:
            database = Database(path, MIGRATIONS)
        except HistoryError as error:  # Its number of a schema was hit: another program's file.
            assert "upgrade rightsizer" in str(error)  # noqa: PT017 - most files raise nothing.
            return
        with closing(database):
            for _ in range(2):
                try:
                    with database.transaction() as connection:
                        connection.execute("INSERT INTO note (text) VALUES ('goes on')")
                        texts = [each for (each,) in connection.execute("SELECT text FROM note")]
                except HistoryError as error:
                    assert "a new one begun" in str(error)  # noqa: PT017 - as above.
                else:
                    assert "goes on" in texts
                    return
        pytest.fail("no change was made")
