"""The audit log in both its places: what happened goes into the history, the file, and the log."""

import secrets
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import structlog

from rightsizer.advice.action import Deed
from rightsizer.domain.errors import RightsizerError
from rightsizer.domain.units import Nanoseconds
from rightsizer.edge.clock import Clock
from rightsizer.runtime.actions.book import ActionBook, ActionOutcome, ActionRecord
from rightsizer.runtime.actions.entry import Entry
from rightsizer.runtime.actions.form import record_form
from rightsizer.runtime.actions.journal import Journal
from rightsizer.runtime.actions.memory import ActionMemory

__all__ = ["AuditLog"]

_KEPT_SECONDS: Final = 366 * 86400.0
_MOST_UNDONE: Final = 2000
"""Entries of what was not done; those of deeds count against limits, and none crowds them out."""


class AuditLog:
    """Writes down what happens, and counts it; safe for threads."""

    def __init__(self, book: ActionBook, journal: Journal, clock: Clock, boot: str) -> None:
        """A log that has written nothing yet.

        Args:
            book: Keeps entries over a restart.
            journal: Gains a line for each thing that happened.
            clock: The agent's.
            boot: Names this run of the machine, from which the steady clock counts.
        """
        self._memory, self._journal = ActionMemory(book, clock, boot), journal
        self._clock, self._boot = clock, boot
        self._counting = threading.Lock()
        self._counts: Counter[tuple[str, str]] = Counter()
        self._log = structlog.get_logger(component="actions")

    @property
    def is_kept(self) -> bool:
        """Whether an entry outlasts a kill."""
        return self._memory.is_kept

    @property
    def counts(self) -> Mapping[tuple[str, str], int]:
        """How often each action had each outcome since the agent started."""
        with self._counting:
            return dict(self._counts)

    def records(self) -> Sequence[ActionRecord]:
        """All entries, oldest first, for whoever asks; nothing is written.

        Raises:
            HistoryError: they cannot be read.
        """
        return self._memory.records()

    def mended(self) -> Sequence[ActionRecord]:
        """All entries, oldest first; those that the book has lost are written anew.

        Raises:
            HistoryError: they cannot be read or written.
        """
        return self._memory.mended()

    def deeds(self, records: Sequence[ActionRecord]) -> list[Deed]:
        """Those entries that were begun, with their ages."""
        return self._memory.deeds(records)

    def intend(self, entry: Entry) -> ActionRecord:
        """Write down what is to be done; on the disk when this returns.

        Raises:
            RightsizerError: it cannot be written down, and must not be done.
        """
        record = self._recorded(entry)
        self._memory.begin(record)
        try:
            self._journal.write(record_form(record))
        except RightsizerError:
            self._memory.forget([record.id])
            raise
        self._tell("action_started", record)
        return record

    def note_process(self, record: ActionRecord) -> None:
        """Keep which process it is, for the next agent, should this one be killed."""
        self._keep(record)

    def ended(self, record: ActionRecord) -> None:
        """Write down how something ended; what cannot be written now is, with the next look."""
        self._keep(record)
        self._write(record)
        self._count(record)

    def refuse(self, entry: Entry) -> None:
        """Write down what is not done.

        Raises:
            HistoryError: it cannot be written; nobody is told.
        """
        record = self._recorded(entry)
        self._memory.begin(record)
        self._write(record)
        self._count(record)

    def link(self, record: ActionRecord) -> None:
        """Write down what became of the advice of an entry.

        Raises:
            HistoryError: it cannot be written; it is, with the next look.
        """
        self._memory.keep(record)
        self._write(record)
        self._log.info(
            "action_result",
            id=record.id,
            action=record.action,
            advice=record.advice,
            result=str(record.result),
            why=record.result_why,
        )

    def approve(self, record: ActionRecord) -> None:
        """Keep who approved what was put up, for the next agent; what it leads to is written then.

        Raises:
            HistoryError: it cannot be written; it is, with the next look.
        """
        self._memory.keep(record)

    def tidied(self, records: Sequence[ActionRecord]) -> Sequence[ActionRecord]:
        """The entries without those that nobody asks for any more, which are dropped.

        Raises:
            HistoryError: they cannot be dropped.
        """
        undone = [each.id for each in records if not each.outcome.is_deed]
        beyond = set(undone[: max(0, len(undone) - _MOST_UNDONE)])
        beyond |= {
            each.id
            for each in records
            if each.outcome.is_deed and self._memory.ago_seconds(each) > _KEPT_SECONDS
        }
        self._memory.forget(beyond)
        return [each for each in records if each.id not in beyond]

    def _recorded(self, entry: Entry) -> ActionRecord:
        now: Nanoseconds = self._clock.wall_time()
        return entry.record(
            f"{now // 10**9:x}-{secrets.token_hex(4)}",
            at=now,
            steady=self._clock.time(),
            boot=self._boot,
        )

    def _keep(self, record: ActionRecord) -> None:
        try:
            self._memory.keep(record)
        except RightsizerError as error:
            self._log.error("action_not_kept", id=record.id, error=str(error))

    def _write(self, record: ActionRecord) -> None:
        try:
            self._journal.write(record_form(record))
        except RightsizerError as error:
            self._log.error("action_not_written", id=record.id, error=str(error))

    def _count(self, record: ActionRecord) -> None:
        with self._counting:
            self._counts[record.action, str(record.outcome)] += 1
        self._tell(f"action_{record.outcome}", record)

    def _tell(self, event: str, record: ActionRecord) -> None:
        is_bad = record.outcome.is_deed and record.outcome.has_worked is not True
        is_over = record.outcome is not ActionOutcome.STARTED
        tell = self._log.warning if is_bad and is_over else self._log.info
        tell(
            event,
            id=record.id,
            action=record.action,
            advice=record.advice,
            workload=record.workload or "",
            actor=record.actor,
            why=record.why,
            status=record.status,
            said=record.said,
        )
