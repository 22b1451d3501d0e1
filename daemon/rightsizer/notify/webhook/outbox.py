"""Messages that wait for their receivers, in the history's database or in memory."""

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from rightsizer.io.database import Database


@dataclass(frozen=True, slots=True)
class WebhookMessage:
    """A body that waits, under a number that grows with every one put in."""

    number: int
    body: str


class WebhookOutbox(Protocol):
    """Keeps bodies by destination, in their order, until they are delivered; safe for threads."""

    def pending(self, destination: str) -> Sequence[WebhookMessage]:
        """All that waits for a destination, oldest first."""

    def put(self, destination: str, bodies: Iterable[str]) -> None:
        """Add bodies, in this order."""

    def done(self, numbers: Iterable[int]) -> None:
        """Drop messages that were delivered, or never can be."""

    def keep_only(self, destinations: Iterable[str]) -> None:
        """Drop what waits for destinations that are none any more."""


class MemoryWebhookOutbox:
    """An outbox that lasts as long as its process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._messages: dict[int, tuple[str, str]] = {}
        self._number = 0

    def pending(self, destination: str) -> Sequence[WebhookMessage]:
        """All that waits for a destination, oldest first."""
        with self._lock:
            items = self._messages.items()
            return [
                WebhookMessage(number, body) for number, (to, body) in items if to == destination
            ]

    def put(self, destination: str, bodies: Iterable[str]) -> None:
        """Add bodies, in this order."""
        with self._lock:
            for body in bodies:
                self._number += 1
                self._messages[self._number] = (destination, body)

    def done(self, numbers: Iterable[int]) -> None:
        """Drop messages; an unknown number does no harm."""
        with self._lock:
            for number in numbers:
                self._messages.pop(number, None)

    def keep_only(self, destinations: Iterable[str]) -> None:
        """Drop what waits for other destinations."""
        kept = frozenset(destinations)
        with self._lock:
            self._messages = {n: found for n, found in self._messages.items() if found[0] in kept}


class SqliteWebhookOutbox:
    """An outbox that survives a restart, in the table that `WEBHOOK_OUTBOX_SCHEMA` makes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def pending(self, destination: str) -> Sequence[WebhookMessage]:
        """All that waits for a destination, oldest first."""
        with self._database.transaction() as connection:
            rows = connection.execute(
                "SELECT number, body FROM webhook_outbox WHERE destination = ? ORDER BY number",
                (destination,),
            ).fetchall()
        return [WebhookMessage(number, body) for number, body in rows]

    def put(self, destination: str, bodies: Iterable[str]) -> None:
        """Add bodies, in this order."""
        rows = [(destination, body) for body in bodies]
        if not rows:
            return
        with self._database.transaction() as connection:
            connection.executemany(
                "INSERT INTO webhook_outbox (destination, body) VALUES (?, ?)", rows
            )

    def done(self, numbers: Iterable[int]) -> None:
        """Drop messages; an unknown number does no harm."""
        rows = [(number,) for number in numbers]
        if not rows:
            return
        with self._database.transaction() as connection:
            connection.executemany("DELETE FROM webhook_outbox WHERE number = ?", rows)

    def keep_only(self, destinations: Iterable[str]) -> None:
        """Drop what waits for other destinations."""
        kept = frozenset(destinations)
        with self._database.transaction() as connection:
            found = connection.execute("SELECT DISTINCT destination FROM webhook_outbox").fetchall()
            gone = [(name,) for (name,) in found if name not in kept]
            connection.executemany("DELETE FROM webhook_outbox WHERE destination = ?", gone)
