"""Storage of history and ledger: one database with all tables, or memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, TypeVar

from rightsizer.accounting.device_record import DeviceRecord
from rightsizer.accounting.history import HistoryRepository, PackedWindow
from rightsizer.accounting.served_history import ServedRepository
from rightsizer.accounting.settings import MAXIMUM_BYTES
from rightsizer.advice.ledger import Ledger
from rightsizer.advice.ledger_repository import LEDGER_SCHEMA, TRACK_SCHEMA, LedgerRepository
from rightsizer.advice.settings import LedgerSettings
from rightsizer.advice.track_record import OutcomeCounts
from rightsizer.io.database import Database
from rightsizer.io.files import HISTORY, Called
from rightsizer.model.values import Advice, AdviceEvent, HistoryError, Window

_SCRIPTS: Final = Path(__file__).with_name("schemas")


def _script(name: str) -> str:
    return _SCRIPTS.joinpath(f"{name}.sql").read_text(encoding="utf-8")


MIGRATIONS: Final = (
    f"{_script('history')}; {LEDGER_SCHEMA}; {_script('grafana')}",
    _script("lived"),
    TRACK_SCHEMA,
    *map(_script, ("webhooks", "profiles", "captures", "actions", "served")),
)
"""Script n migrates schema n-1 to n; released scripts never change."""

_PENDING_WINDOWS: Final = 10_000
"""Windows kept while the disk is full: about two days of eight GPUs with jobs, or 3 MB."""
_Answer = TypeVar("_Answer")


class Storage:
    """Persistent state of the agent. With an empty path nothing outlives the process."""

    def __init__(  # noqa: PLR0913 - how a file may be opened.
        self,
        path: str,
        *,
        read_only: bool = False,
        is_durable: bool = True,
        waits_for_disk: bool = False,
        maximum_bytes: int | None = MAXIMUM_BYTES,
        called: Called = HISTORY,
    ) -> None:
        """Open the database; beyond `maximum_bytes` the oldest windows are deleted.

        A read-only instance may coexist with the writer. Without durability, a power loss may
        revert the last changes. With `waits_for_disk`, a history on a full or failing disk is only
        read until it can be written. `called` names the database in messages.

        Raises:
            HistoryError: locked by another process, of a newer version, or inaccessible.
        """
        file = Path(path) if path else None
        self.database = Database(
            file,
            MIGRATIONS,
            read_only=read_only,
            is_durable=is_durable,
            waits_for_disk=waits_for_disk,
            called=called,
        )
        self._ledger = LedgerRepository(self.database) if path else None
        self._pending: list[PackedWindow] = []
        self._advice: tuple[Advice, ...] = ()
        self._tallies: tuple[OutcomeCounts, ...] = ()
        self.pending_events: tuple[AdviceEvent, ...] = ()
        """Saved events that may not have been delivered before the last exit."""
        self._profiles: Mapping[str, str] = {}
        self._reported_breaks = self.database.breaks
        self.history = HistoryRepository(self.database, maximum_bytes) if path else None
        self.served = ServedRepository(self.database)

    @property
    def kept_history(self) -> HistoryRepository:
        """The history; raises `HistoryError` if none is kept."""
        if self.history is None:
            raise HistoryError("no history is kept; set history.path or give --history.path")
        return self.history

    def ledger(self, settings: LedgerSettings) -> Ledger:
        """Load the stored ledger."""
        if (store := self._ledger) is None:
            return Ledger((), settings)
        self._advice = tuple(self._despite_a_break(store.load))
        self._tallies = tuple(self._despite_a_break(store.load_tallies))
        self.pending_events = tuple(self._despite_a_break(store.load_pending))
        return Ledger(self._advice, settings, self._tallies)

    def save_ledger(self, ledger: Ledger, pending: Iterable[AdviceEvent] = ()) -> None:
        """Save the ledger with its pending events; raises `HistoryError` on failure."""
        self._advice = ledger.advice()
        self._tallies = ledger.track_record.tallies
        self.pending_events = tuple(pending)
        self._despite_a_break(self._save_advice)

    def encode_ledger(self, ledger: Ledger, pending: Iterable[AdviceEvent]) -> None:
        """Do the slow part of the next `save_ledger`; thread-safe beside another save."""
        if self._ledger:
            self._ledger.encode((*ledger.advice(), *pending))

    def clear_pending(self) -> None:
        """Delete the pending events after delivery to all sinks.

        Raises:
            HistoryError: the change failed; the events are delivered again after a restart.
        """
        if self._ledger and self.pending_events:
            self.pending_events = ()
            self._despite_a_break(self._ledger.clear_pending)

    def save_windows(
        self, closed: Iterable[Window], running: Iterable[Window], devices: Iterable[DeviceRecord]
    ) -> bool:
        """Save windows; failed ones are retried on the next call.

        Returns:
            Whether there is a history to save to.

        Raises:
            HistoryError: the transaction failed.
        """
        if (history := self.history) is None:
            return False
        self._pending = [*self._pending, *map(PackedWindow.of, closed)][-_PENDING_WINDOWS:]
        running = tuple(running)
        devices = tuple(devices)
        self._despite_a_break(lambda: history.save(self._pending, devices, running=running))
        self._pending = []
        if self._reported_breaks != self.database.breaks:
            # Advice opened before must not open again after a restart.
            self._save_advice()
            self.save_profiles(self._profiles)
            self._reported_breaks = self.database.breaks
        return True

    def rewrite_windows(
        self, closed: Iterable[Window], running: Iterable[Window], devices: Iterable[DeviceRecord]
    ) -> None:
        """Replace all saved windows, as after a broken database.

        Raises:
            HistoryError: the transaction failed; nothing was written.
        """
        if self.history is not None:
            self.history.save(closed, devices, running=running, replaces_all=True)

    def profiles(self) -> dict[str, str]:
        """Load stored profiles by id; raises `HistoryError` if unreadable."""
        query = "SELECT id, form FROM profile ORDER BY id"
        self._profiles = profiles = self._despite_a_break(
            lambda: dict(self.database.rows(query)) if self._ledger else {}
        )
        return dict(profiles)

    def save_profiles(self, forms: Mapping[str, str]) -> None:
        """Replace the stored profiles.

        Raises:
            HistoryError: the transaction failed; the old rows remain.
        """

        def save() -> None:
            with self.database.transaction() as connection:
                connection.execute("DELETE FROM profile")
                connection.executemany("INSERT INTO profile VALUES (?, ?)", list(forms.items()))

        self._profiles = dict(forms)
        if self._ledger:
            self._despite_a_break(save)

    def close(self) -> None:
        """Close the database."""
        self.database.close()

    def _save_advice(self) -> None:
        if self._ledger:
            self._ledger.save(self._advice, self._tallies, self.pending_events)

    def _despite_a_break(self, act: Callable[[], _Answer]) -> _Answer:
        """Retry once if the database broke, since a new one was created."""
        breaks = self.database.breaks
        try:
            return act()
        except HistoryError:
            if self.database.breaks == breaks:
                raise
            return act()
