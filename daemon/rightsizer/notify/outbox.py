"""What waits for delivery, oldest first, in a table of the history's database."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from rightsizer.io.database import Database

_Body = TypeVar("_Body")


@dataclass(frozen=True, slots=True)
class OutboxEntry(Generic[_Body]):
    """What waits, under a number that grows with every one put in and never comes again."""

    number: int
    body: _Body


@dataclass(frozen=True, slots=True)
class OutboxTable(Generic[_Body]):
    """A table with the columns `number` and `body`, as a program of any version reads it."""

    name: str
    body: str
    """The column of the body."""
    encode: Callable[[_Body], str]
    decode: Callable[[str], _Body | None]
    """`None` for a text that cannot be understood."""
    destination: str = "''"
    """The column of the destination; of a table without it, the only destination, quoted."""


class Outbox(Generic[_Body]):
    """Bodies by destination, in their order, until they are delivered; safe for threads."""

    def __init__(self, database: Database, table: OutboxTable[_Body]) -> None:
        self._database, self._table = database, table

    def pending(self, destination: str = "") -> Sequence[OutboxEntry[_Body]]:
        """All that waits for a destination, oldest first; an unreadable row is passed over."""
        table = self._table
        query = (
            f"SELECT number, {table.body} FROM {table.name} "  # noqa: S608 - names of our own.
            f"WHERE {table.destination} = ? ORDER BY number"
        )
        with self._database.transaction() as connection:
            rows = connection.execute(query, (destination,)).fetchall()
        found = ((number, table.decode(text)) for number, text in rows)
        return [OutboxEntry(number, body) for number, body in found if body is not None]

    def put(self, bodies: Iterable[_Body], destination: str = "") -> None:
        """Add bodies, in this order."""
        table = self._table
        rows: list[tuple[str, ...]] = [(table.encode(body),) for body in bodies]
        columns, places = table.body, "?"
        if not table.destination.startswith("'"):
            rows = [(*row, destination) for row in rows]
            columns, places = f"{table.body}, {table.destination}", "?, ?"
        self._run(f"INSERT INTO {table.name} ({columns}) VALUES ({places})", rows)  # noqa: S608

    def done(self, numbers: Iterable[int]) -> None:
        """Drop what was delivered, or never can be; an unknown number does no harm."""
        rows = [(number,) for number in numbers]
        self._run(f"DELETE FROM {self._table.name} WHERE number = ?", rows)  # noqa: S608

    def keep_only(self, destinations: Iterable[str]) -> None:
        """Drop what waits for other destinations."""
        table, kept = self._table, frozenset(destinations)
        query = f"SELECT DISTINCT {table.destination} FROM {table.name}"  # noqa: S608
        with self._database.transaction() as connection:
            gone = [(name,) for (name,) in connection.execute(query) if name not in kept]
        self._run(f"DELETE FROM {table.name} WHERE {table.destination} = ?", gone)  # noqa: S608

    def _run(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        if rows:
            with self._database.transaction() as connection:
                connection.executemany(statement, rows)
