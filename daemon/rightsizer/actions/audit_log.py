"""Audit log of actions: repository, append-only JSON lines, log and metrics."""

import json
import os
import secrets
import threading
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from rightsizer.actions.encoder import record_document
from rightsizer.actions.repository import (
    ActionOutcome,
    ActionRecord,
    ActionRepository,
    ActionVerdict,
)
from rightsizer.actions.settings import ActionSettings
from rightsizer.io.clock import Clock
from rightsizer.io.codec import plain
from rightsizer.io.log import logger
from rightsizer.io.record_table import RecordCache
from rightsizer.model.values import Advice, Nanoseconds, RightsizerError, seconds

_FLAGS: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_MODE: Final = 0o640
_KEPT_SECONDS: Final = 366 * 86400.0
_MOST_UNDONE: Final = 2000
"""Limit for entries without execution; executed ones count against limits and are kept apart."""


def append_line(path: str, document: Mapping[str, object]) -> None:
    """Append a line to a file, reopened in case of rotation; synchronized to disk on return.

    Raises:
        RightsizerError: the line cannot be written.
    """
    line = json.dumps(plain(document), separators=(",", ":")).encode() + b"\n"
    try:
        file = os.open(path, _FLAGS, _MODE)
        try:
            if os.write(file, line) < len(line):
                os.write(file, b"\n")  # The next entry starts on a new line.
                raise OSError(0, "there is no room for a whole line")
            os.fsync(file)
        finally:
            os.close(file)
    except OSError as error:
        raise RightsizerError(
            f"acting.audit_file '{path}' cannot be written: {error.strerror or error}; "
            "let the agent's user write it, and make room"
        ) from None


class AuditLog(RecordCache[ActionRecord]):
    """Records and counts actions; thread-safe.

    Started actions are never forgotten, even if the table fails. Ages use the steady clock if it
    has not restarted since. Otherwise they use the wall clock as of the first time this
    process saw the entry; setting the clock makes nothing older.
    """

    def __init__(self, repository: ActionRepository, file: str, clock: Clock, boot: str) -> None:
        """Open a log that survives restarts; each entry is also appended to `file` unless empty."""
        super().__init__(repository, outlives=lambda record: record.outcome.is_execution)
        self._file = file
        self._clock = clock
        self._boot = boot
        self._seen: dict[str, tuple[Nanoseconds, Nanoseconds]] = {}
        """Entries from before the steady clock restarted: age when first seen, and time of that."""
        self._counting = threading.Lock()
        self._counts: Counter[tuple[str, str]] = Counter()
        self._log = logger("actions")

    @property
    def counts(self) -> Mapping[tuple[str, str], int]:
        """Number of outcomes since the agent started, by action and outcome."""
        with self._counting:
            return dict(self._counts)

    def entry(self, settings: ActionSettings, advice: Advice, actor: str) -> ActionRecord:
        """Create the entry of an action that starts now, not written yet."""
        now = self._clock.wall_time()
        finding = advice.finding
        return ActionRecord(
            id=f"{now // 10**9:x}-{secrets.token_hex(4)}",
            action=settings.name,
            way=settings.way,
            advice=advice.id,
            opened=advice.opened,
            at=now,
            outcome=ActionOutcome.STARTED,
            verdict=ActionVerdict.DUE,
            actor=actor,
            workload=finding.workload,
            devices=finding.devices,
            reason=str(finding.reasons[0]),
            summary=finding.summary,
            confidence=finding.confidence,
            risk=str(finding.risk),
            evidence=finding.evidence,
            steady=self._clock.time(),
            boot=self._boot,
        )

    def intend(self, record: ActionRecord) -> None:
        """Record an action before it is executed; if that fails, it must not be executed."""
        self.begin(record)
        try:
            self._append(record)
        except RightsizerError:
            self.forget([record.id])
            raise
        self._log_record("action_started", record)

    def ended(self, record: ActionRecord) -> None:
        """Record the end of an action; if that fails, it is retried in the next pass."""
        try:
            self.keep(record)
        except RightsizerError as error:
            self._log.error("action_not_kept", id=record.id, error=str(error))
        self._write(record)
        self._count(record)

    def refuse(self, record: ActionRecord) -> None:
        """Record an action that is not executed."""
        self.begin(record)
        self._write(record)
        self._count(record)

    def link(self, record: ActionRecord) -> None:
        """Record the outcome of an entry's advice, now or in the next pass."""
        self.keep(record)
        self._write(record)
        self._log.info(
            "action_result",
            id=record.id,
            action=record.action,
            advice=record.advice,
            result=str(record.result),
            why=record.result_why,
        )

    def pruned(self, records: Sequence[ActionRecord]) -> Sequence[ActionRecord]:
        """Drop entries beyond the limits and return the others."""
        undone = [record.id for record in records if not record.outcome.is_execution]
        past_actions = [record for record in records if record.outcome.is_execution]
        beyond = {action.id for action in past_actions if self.ago_seconds(action) > _KEPT_SECONDS}
        beyond.update(undone[:-_MOST_UNDONE])
        self.forget(beyond)
        return [record for record in records if record.id not in beyond]

    def forget(self, ids: Collection[str]) -> None:
        """Drop entries."""
        super().forget(ids)
        with self._lock:
            for identifier in ids:
                self._seen.pop(identifier, None)

    def ago_seconds(self, record: ActionRecord) -> float:
        """Age of an entry."""
        now = self._clock.time()
        if record.boot == self._boot and now >= record.steady:
            return seconds(now - record.steady)
        by_wall = abs(self._clock.wall_time() - record.at)
        with self._lock:
            age, seen = self._seen.setdefault(record.id, (by_wall, now))
        return seconds(min(by_wall, age + now - seen))

    def _append(self, record: ActionRecord) -> None:
        if self._file:
            append_line(self._file, record_document(record))

    def _write(self, record: ActionRecord) -> None:
        try:
            self._append(record)
        except RightsizerError as error:
            self._log.error("action_not_written", id=record.id, error=str(error))

    def _count(self, record: ActionRecord) -> None:
        with self._counting:
            self._counts[record.action, str(record.outcome)] += 1
        self._log_record(f"action_{record.outcome}", record)

    def _log_record(self, event: str, record: ActionRecord) -> None:
        is_bad = record.outcome.is_execution and record.outcome.has_worked is not True
        is_over = record.outcome is not ActionOutcome.STARTED
        log = self._log.warning if is_bad and is_over else self._log.info
        log(
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
