"""Audit log of actions: repository, append-only JSON lines, log and metrics."""

import json
import os
import secrets
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import structlog

from rightsizer.actions.encoder import record_form
from rightsizer.actions.proposals import ActionVerdict, PastAction
from rightsizer.actions.repository import ActionCache, ActionOutcome, ActionRecord, ActionRepository
from rightsizer.actions.settings import ActionSettings
from rightsizer.io.clock import Clock
from rightsizer.model.advice import Advice
from rightsizer.model.errors import RightsizerError
from rightsizer.model.frozen import dataclass
from rightsizer.model.units import Nanoseconds
from rightsizer.report.json_encoder import Form


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """What was decided of one action on one piece of advice."""

    settings: ActionSettings
    advice: Advice
    outcome: ActionOutcome
    verdict: ActionVerdict
    actor: str
    why: str = ""

    def record(
        self, entry_id: str, *, at: Nanoseconds, steady: Nanoseconds, boot: str
    ) -> ActionRecord:
        """The entry to keep.

        Args:
            entry_id: Of the entry.
            at: Wall time.
            steady: The steady clock then.
            boot: What that counts from.
        """
        finding = self.advice.finding
        return ActionRecord(
            id=entry_id,
            action=self.settings.name,
            way=self.settings.way,
            advice=self.advice.id,
            opened=self.advice.opened,
            at=at,
            outcome=self.outcome,
            verdict=self.verdict,
            actor=self.actor,
            workload=finding.workload,
            devices=finding.devices,
            reason=str(finding.reasons[0]),
            summary=finding.summary,
            confidence=finding.confidence,
            risk=str(finding.risk),
            evidence=finding.evidence,
            why=self.why,
            steady=steady,
            boot=boot,
        )


_FLAGS: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_MODE: Final = 0o640


class AuditFile:
    """Appends whole lines; on the disk when `write` returns. Opened each time: it may rotate."""

    def __init__(self, path: Path | None) -> None:
        """A file that need not be there yet, or none."""
        self._path = path

    def write(self, form: Form) -> None:
        """Add a line.

        Raises:
            RightsizerError: it cannot be written.
        """
        if self._path is None:
            return
        line = json.dumps(form, separators=(",", ":"), default=str).encode() + b"\n"
        try:
            file = os.open(self._path, _FLAGS, _MODE)
            try:
                if os.write(file, line) < len(line):
                    os.write(file, b"\n")  # What follows begins a line of its own.
                    raise OSError(0, "there is no room for a whole line")
                os.fsync(file)
            finally:
                os.close(file)
        except OSError as error:
            raise RightsizerError(
                f"acting.audit_file '{self._path}' cannot be written: {error.strerror or error}; "
                "let the agent's user write it, and make room"
            ) from None


_KEPT_SECONDS: Final = 366 * 86400.0
_MOST_UNDONE: Final = 2000
"""Entries of what was not done; those of deeds count against limits, and none crowds them out."""


class AuditLog:
    """Writes down what happens, and counts it; safe for threads."""

    def __init__(
        self, repository: ActionRepository, file: AuditFile, clock: Clock, boot: str
    ) -> None:
        """A log that has written nothing yet.

        Args:
            repository: Keeps entries over a restart.
            file: Gains a line for each thing that happened.
            clock: The agent's.
            boot: Names this run of the machine, from which the steady clock counts.
        """
        self._cache, self._file = ActionCache(repository, clock, boot), file
        self._clock, self._boot = clock, boot
        self._counting = threading.Lock()
        self._counts: Counter[tuple[str, str]] = Counter()
        self._log = structlog.get_logger(component="actions")

    @property
    def is_kept(self) -> bool:
        """Whether an entry outlasts a kill."""
        return self._cache.is_kept

    @property
    def counts(self) -> Mapping[tuple[str, str], int]:
        """How often each action had each outcome since the agent started."""
        with self._counting:
            return dict(self._counts)

    def records(self) -> Sequence[ActionRecord]:
        """All entries, oldest first; nothing is written.

        Raises:
            HistoryError: they cannot be read.
        """
        return self._cache.records()

    def mended(self) -> Sequence[ActionRecord]:
        """All entries, oldest first; those that the repository has lost are written again.

        Raises:
            HistoryError: they cannot be read or written.
        """
        return self._cache.mended()

    def deeds(self, records: Sequence[ActionRecord]) -> list[PastAction]:
        """Those entries that were begun, with their ages."""
        return self._cache.deeds(records)

    def intend(self, entry: AuditEntry) -> ActionRecord:
        """Write down what is to be done; on the disk when this returns.

        Raises:
            RightsizerError: it cannot be written down, and must not be done.
        """
        record = self._recorded(entry)
        self._cache.begin(record)
        try:
            self._file.write(record_form(record))
        except RightsizerError:
            self._cache.forget([record.id])
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

    def refuse(self, entry: AuditEntry) -> None:
        """Write down what is not done.

        Raises:
            HistoryError: it cannot be written; nobody is told.
        """
        record = self._recorded(entry)
        self._cache.begin(record)
        self._write(record)
        self._count(record)

    def link(self, record: ActionRecord) -> None:
        """Write down what became of the advice of an entry.

        Raises:
            HistoryError: it cannot be written; it is, with the next look.
        """
        self._cache.keep(record)
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
        self._cache.keep(record)

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
            if each.outcome.is_deed and self._cache.ago_seconds(each) > _KEPT_SECONDS
        }
        self._cache.forget(beyond)
        return [each for each in records if each.id not in beyond]

    def _recorded(self, entry: AuditEntry) -> ActionRecord:
        now: Nanoseconds = self._clock.wall_time()
        return entry.record(
            f"{now // 10**9:x}-{secrets.token_hex(4)}",
            at=now,
            steady=self._clock.time(),
            boot=self._boot,
        )

    def _keep(self, record: ActionRecord) -> None:
        try:
            self._cache.keep(record)
        except RightsizerError as error:
            self._log.error("action_not_kept", id=record.id, error=str(error))

    def _write(self, record: ActionRecord) -> None:
        try:
            self._file.write(record_form(record))
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
