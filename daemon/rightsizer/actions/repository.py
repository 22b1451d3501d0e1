"""Repository of the audit log: entries and their results."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.io.database import Database
from rightsizer.io.record_table import RecordTable
from rightsizer.model.values import Advice, AdviceState, Nanoseconds


class ActionOutcome(StrEnum):
    """Outcome of an action."""

    STARTED = "started"
    """Running, or the agent was killed before the end."""
    DONE = "done"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    INTERRUPTED = "interrupted"
    UNKNOWN = "unknown"
    """The agent was killed meanwhile, or the answer was lost; not repeated."""
    DRY_RUN = "dry_run"
    REFUSED = "refused"
    WITHDRAWN = "withdrawn"
    """The approval was withdrawn before execution."""

    @property
    def is_execution(self) -> bool:
        """Whether execution was started."""
        return self not in _UNDONE

    @property
    def has_worked(self) -> bool | None:
        """Whether execution succeeded; `None` if unknown or still running."""
        if self in (ActionOutcome.STARTED, ActionOutcome.UNKNOWN, ActionOutcome.INTERRUPTED):
            return None
        return self is ActionOutcome.DONE


_UNDONE: Final = frozenset({ActionOutcome.DRY_RUN, ActionOutcome.REFUSED, ActionOutcome.WITHDRAWN})


class ActionVerdict(StrEnum):
    """Whether an action is executed, and the kind of reason if not."""

    DUE = "due"
    DRY_RUN = "dry_run"
    """Only the mode prevents it."""
    NOT_OPTED_IN = "not_opted_in"
    """No action matches the reason or workload."""
    SUSPENDED = "suspended"
    SNOOZED = "snoozed"
    CLAIMED = "claimed"
    CONFIDENCE = "confidence"
    RISK = "risk"
    ABSENT = "absent"
    UNPROVEN = "unproven"
    """The owner of the workload may be a pretended one."""
    CHANGED = "changed"
    """The holders of its devices are others than those that were judged."""
    UNFIT = "unfit"
    """Placeholders of the action cannot be filled in."""
    DONE_BEFORE = "done_before"
    UNVERIFIED = "unverified"
    COOL_DOWN = "cool_down"
    WORKLOAD_LIMIT = "workload_limit"
    DAY_LIMIT = "day_limit"
    SHARE_LIMIT = "share_limit"
    RATE = "rate"
    NOT_KEPT = "not_kept"
    NOT_APPROVED = "not_approved"


class ActionEntry(Struct, frozen=True):
    """Audit entry as others may see it."""

    id: str
    action: str
    way: str
    """`command` or `webhook`."""
    advice: str
    """Advice id."""
    at: Nanoseconds
    """Wall time of the start, or of the decision against it."""
    outcome: ActionOutcome
    verdict: ActionVerdict
    actor: str
    """Who decided: the user who claimed the advice, or the agent itself."""
    workload: str | None = None
    """Workload key."""
    devices: tuple[str, ...] = ()
    reason: str = ""
    summary: str = ""
    confidence: float = 0.0
    risk: str = ""
    evidence: Mapping[str, object] = {}
    why: str = ""
    """Reason against it, or error."""
    ended: Nanoseconds | None = None
    status: int | None = None
    """Exit status of a program, negative for the signal that ended it, or HTTP status."""
    said: str = ""
    """Beginning of a program's output."""
    result: AdviceState | None = None
    """Outcome of the advice since."""
    result_why: str = ""
    result_at: Nanoseconds | None = None


class ActionRecord(ActionEntry, frozen=True, kw_only=True):
    """Audit entry, with clocks and processes."""

    opened: Nanoseconds
    """Opening time of that advice."""
    steady: Nanoseconds = 0
    """Steady clock at the start."""
    boot: str = ""
    """Boot id of that clock."""
    process: int | None = None
    process_started: int | None = None
    """In kernel ticks since boot; identifies a process together with its id."""
    approved: Nanoseconds | None = None
    """Wall time of the approving claim, for entries proposed for approval."""
    approver: str = ""
    """Approver, with the identity known to the kernel or server."""

    @property
    def key(self) -> tuple[str, str, Nanoseconds]:
        """Action, advice id and opening time."""
        return self.action, self.advice, self.opened


def result_of(record: ActionRecord, advice: Advice | None, now: Nanoseconds) -> ActionRecord | None:
    """Entry updated with the state of its advice, or `None` if unchanged.

    `advice` is `None` if the ledger has dropped it. `now` is wall time.
    """
    if not record.outcome.is_execution or record.outcome is ActionOutcome.STARTED:
        return None
    has_regressed = advice is not None and advice.state is AdviceState.REGRESSED
    if record.result is AdviceState.SUCCEEDED:
        if advice is None or advice.opened <= record.opened or not has_regressed:
            return None
        state = AdviceState.REGRESSED
        why = "it came back"
    elif record.result is not None:
        return None
    elif advice is None:
        state = AdviceState.EXPIRED
        why = "its advice is kept no more"
    elif advice.opened == record.opened:
        if advice.is_open:
            return None
        state = advice.state
        why = advice.why
    else:
        # Closed and reopened between two passes, so its final state was overwritten.
        state = AdviceState.REGRESSED if has_regressed else AdviceState.EXPIRED
        why = "it was opened again"
    return replace(record, result=state, result_why=why, result_at=now)


class ActionRepository(RecordTable[ActionRecord]):
    """Entries in the table of `actions.sql`."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, "action", "at", ActionRecord)
