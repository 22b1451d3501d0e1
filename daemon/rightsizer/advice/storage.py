"""Storage of history and ledger: one database with the tables of all that is kept, or memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, TypeVar

from rightsizer.accounting.device_account import DeviceRecord
from rightsizer.accounting.history import HistoryRepository, PackedWindow
from rightsizer.accounting.settings import MAXIMUM_BYTES
from rightsizer.advice.ledger import Ledger
from rightsizer.advice.ledger_repository import LEDGER_SCHEMA, TRACK_SCHEMA, LedgerRepository
from rightsizer.advice.settings import LedgerSettings
from rightsizer.advice.track_record import OutcomeCounts
from rightsizer.advice.verification import AdviceRecord
from rightsizer.io.database import Database
from rightsizer.io.files import HISTORY, Called
from rightsizer.model.advice import AdviceEvent
from rightsizer.model.errors import HistoryError
from rightsizer.model.window import Window

_SCRIPTS: Final = Path(__file__).with_name("schemas")


def _script(name: str) -> str:
    return _SCRIPTS.joinpath(f"{name}.sql").read_text(encoding="utf-8")


MIGRATIONS: Final = (
    f"{_script('history')}; {LEDGER_SCHEMA}; {_script('grafana')}",
    _script("lived"),
    TRACK_SCHEMA,
    *map(_script, ("webhooks", "profiles", "captures", "actions")),
)
"""The n-th script leads from schema n-1 to n; what was released is never changed."""

_PENDING_WINDOWS: Final = 10_000
"""Windows kept for a disk that is full: about two days of eight GPUs with their jobs, and 3 MB."""
_Answer = TypeVar("_Answer")


class Storage:
    """The agent's memory on disk. With an empty path everything ends with the process."""

    def __init__(
        self,
        path: str,
        *,
        read_only: bool = False,
        is_durable: bool = True,
        maximum_bytes: int | None = MAXIMUM_BYTES,
        called: Called = HISTORY,
    ) -> None:
        """Open the database; beyond `maximum_bytes` the oldest windows of the history go.

        Read only it is opened beside its writer. Unless it is durable a power loss may undo what
        was saved last. Messages call it as `called` says.

        Raises:
            HistoryError: it is held by another process, of a newer program, or out of reach.
        """
        file = Path(path) if path else None
        self.database = Database(
            file, MIGRATIONS, read_only=read_only, is_durable=is_durable, called=called
        )
        self._ledger = LedgerRepository(self.database) if path else None
        self._pending: list[PackedWindow] = []
        self._records: tuple[AdviceRecord, ...] = ()
        self._tallies: tuple[OutcomeCounts, ...] = ()
        self.pending_events: tuple[AdviceEvent, ...] = ()
        """Events that were saved and may not have been delivered before the program ended."""
        self._profiles: Mapping[str, str] = {}
        self._reported_breaks = self.database.breaks
        self.history = HistoryRepository(self.database, maximum_bytes) if path else None

    def ledger(self, settings: LedgerSettings) -> Ledger:
        """The ledger as it was left."""
        if (store := self._ledger) is None:
            return Ledger((), settings)
        self._records = tuple(self._despite_a_break(store.load))
        self._tallies = tuple(self._despite_a_break(store.load_tallies))
        self.pending_events = tuple(self._despite_a_break(store.load_pending))
        return Ledger(self._records, settings, self._tallies)

    def save_ledger(self, ledger: Ledger, pending: Iterable[AdviceEvent] = ()) -> None:
        """Keep the ledger as it is, with its pending events; `HistoryError` where it cannot."""
        self._records = ledger.records
        self._tallies = ledger.track_record.tallies
        self.pending_events = tuple(pending)
        self._despite_a_break(self._save_records)

    def encode_ledger(self, ledger: Ledger, pending: Iterable[AdviceEvent]) -> None:
        """Do what takes long of the next `save_ledger`; from any thread, beside another save."""
        if self._ledger:
            self._ledger.encode((*ledger.records, *pending))

    def clear_pending(self) -> None:
        """Delete the events, which every sink has.

        Raises:
            HistoryError: it could not be written; they are delivered again after a restart.
        """
        if self._ledger and self.pending_events:
            self.pending_events = ()
            self._despite_a_break(self._ledger.clear_pending)

    def save_windows(
        self, closed: Iterable[Window], running: Iterable[Window], devices: Iterable[DeviceRecord]
    ) -> bool:
        """Keep windows; those that cannot be written now are tried again next time.

        Returns:
            Whether there is a place to keep them in.

        Raises:
            HistoryError: they could not be written.
        """
        if (history := self.history) is None:
            return False
        self._pending = [*self._pending, *map(PackedWindow.of, closed)][-_PENDING_WINDOWS:]
        running, devices = tuple(running), tuple(devices)
        self._despite_a_break(lambda: history.save(self._pending, devices, running=running))
        self._pending = []
        if self._reported_breaks != self.database.breaks:
            # What was opened must not be opened again after a restart.
            self._save_records()
            self.save_profiles(self._profiles)
            self._reported_breaks = self.database.breaks
        return True

    def rewrite_windows(
        self, closed: Iterable[Window], running: Iterable[Window], devices: Iterable[DeviceRecord]
    ) -> None:
        """Keep windows in place of all that are kept, as after a break.

        Raises:
            HistoryError: they could not be written; nothing was.
        """
        if self.history is not None:
            self.history.save(closed, devices, running=running, replaces_all=True)

    def profiles(self) -> dict[str, str]:
        """What was kept of profiles, by its id; raises `HistoryError` where that is unreadable."""
        query = "SELECT id, form FROM profile ORDER BY id"
        self._profiles = found = self._despite_a_break(
            lambda: dict(self.database.rows(query)) if self._ledger else {}
        )
        return dict(found)

    def save_profiles(self, forms: Mapping[str, str]) -> None:
        """Keep what is known of profiles, in place of what was kept.

        Raises:
            HistoryError: it could not be written; what was there stays.
        """

        def save() -> None:
            with self.database.transaction() as connection:
                connection.execute("DELETE FROM profile")
                connection.executemany("INSERT INTO profile VALUES (?, ?)", list(forms.items()))

        self._profiles = dict(forms)
        if self._ledger:
            self._despite_a_break(save)

    def close(self) -> None:
        """Give the database back."""
        self.database.close()

    def _save_records(self) -> None:
        if self._ledger:
            self._ledger.save(self._records, self._tallies, self.pending_events)

    def _despite_a_break(self, act: Callable[[], _Answer]) -> _Answer:
        """Try once more where the database broke under it, for a new one was begun."""
        breaks = self.database.breaks
        try:
            return act()
        except HistoryError:
            if self.database.breaks == breaks:
                raise
            return act()
