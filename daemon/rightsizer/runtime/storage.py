"""What lasts over a restart: history, ledger and outbox in one database, or nowhere."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from rightsizer.accounting.history import HISTORY_SCHEMA, History
from rightsizer.accounting.known import KnownDevice
from rightsizer.advice.ledger import Ledger, LedgerSettings
from rightsizer.advice.ledger_store import LEDGER_SCHEMA, LedgerStore
from rightsizer.domain.window import Window
from rightsizer.edge.database import Database
from rightsizer.publish.grafana.outbox import (
    OUTBOX_SCHEMA,
    MemoryOutbox,
    Outbox,
    SqliteOutbox,
)

__all__ = ["MIGRATIONS", "Storage"]

MIGRATIONS: Final = (f"{HISTORY_SCHEMA}; {LEDGER_SCHEMA}; {OUTBOX_SCHEMA}",)
"""The n-th script leads from schema n-1 to n; what was released is never changed."""

_PENDING_WINDOWS: Final = 10_000
"""Windows kept for a disk that is full: about four days of eight GPUs."""


class Storage:
    """The agent's memory on disk. With an empty path everything ends with the process."""

    def __init__(self, path: str, *, read_only: bool = False) -> None:
        """Open the database.

        Raises:
            HistoryError: it is held by another process, of a newer program, or out of reach.
        """
        self._database = Database(Path(path), MIGRATIONS, read_only=read_only) if path else None
        self._ledger = LedgerStore(self._database) if self._database else None
        self._pending: list[Window] = []
        self.history = History(self._database) if self._database else None
        self.outbox: Outbox = SqliteOutbox(self._database) if self._database else MemoryOutbox()

    @property
    def set_aside(self) -> Path | None:
        """Where a broken database was moved to, `None` where there was none."""
        return self._database.set_aside if self._database else None

    def ledger(self, settings: LedgerSettings) -> Ledger:
        """The ledger as it was left."""
        return Ledger(self._ledger.load() if self._ledger else (), settings)

    def save_ledger(self, ledger: Ledger) -> None:
        """Keep the ledger as it is.

        Raises:
            HistoryError: it could not be written.
        """
        if self._ledger:
            self._ledger.save(ledger.records)

    def save_windows(
        self, closed: Iterable[Window], running: Iterable[Window], devices: Iterable[KnownDevice]
    ) -> bool:
        """Keep windows; those that cannot be written now are tried again next time.

        Returns:
            Whether there is a place to keep them in.

        Raises:
            HistoryError: they could not be written.
        """
        if self.history is None:
            return False
        self._pending = [*self._pending, *closed][-_PENDING_WINDOWS:]
        self.history.save([*self._pending, *running], devices)
        self._pending = []
        return True

    def close(self) -> None:
        """Give the database back."""
        if self._database:
            self._database.close()
