"""Repository of the audit log: its entries, and what became of them."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from rightsizer.io.database import Database
from rightsizer.io.record_table import RecordTable
from rightsizer.model.advice import Advice, AdviceState
from rightsizer.model.frozen import dataclass, field, replace
from rightsizer.model.units import Nanoseconds


class ActionOutcome(StrEnum):
    """What became of an action."""

    STARTED = "started"
    """It is under way, or the agent was killed before it knew."""
    DONE = "done"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    INTERRUPTED = "interrupted"
    UNKNOWN = "unknown"
    """The agent was killed meanwhile, or the answer was lost; it is not repeated."""
    DRY_RUN = "dry_run"
    REFUSED = "refused"
    WITHDRAWN = "withdrawn"
    """Its approval was taken back before it was done."""

    @property
    def is_deed(self) -> bool:
        """Whether something was begun."""
        return self not in _UNDONE

    @property
    def has_worked(self) -> bool | None:
        """Whether what was begun did what it was to do, `None` where that is unknown (yet)."""
        if self in (ActionOutcome.STARTED, ActionOutcome.UNKNOWN, ActionOutcome.INTERRUPTED):
            return None
        return self is ActionOutcome.DONE


_UNDONE: Final = frozenset({ActionOutcome.DRY_RUN, ActionOutcome.REFUSED, ActionOutcome.WITHDRAWN})


class ActionVerdict(StrEnum):
    """Whether an action is done, and the kind of reason why not."""

    DUE = "due"
    DRY_RUN = "dry_run"
    """All but its mode speaks for it."""
    NOT_OPTED_IN = "not_opted_in"
    """No action is for the reason, or for the workload."""
    SUSPENDED = "suspended"
    SNOOZED = "snoozed"
    CLAIMED = "claimed"
    CONFIDENCE = "confidence"
    RISK = "risk"
    ABSENT = "absent"
    UNFIT = "unfit"
    """The words of the action cannot be filled in."""
    DONE_BEFORE = "done_before"
    UNVERIFIED = "unverified"
    COOL_DOWN = "cool_down"
    WORKLOAD_LIMIT = "workload_limit"
    DAY_LIMIT = "day_limit"
    SHARE_LIMIT = "share_limit"
    RATE = "rate"
    NOT_KEPT = "not_kept"
    NOT_APPROVED = "not_approved"


@dataclass(frozen=True, slots=True)
class ActionRecord:
    """One entry."""

    id: str
    action: str
    way: str
    """`command` or `webhook`."""
    advice: str
    """The id."""
    opened: Nanoseconds
    """When that advice was opened."""
    at: Nanoseconds
    """Wall time when it was begun, or was not."""
    outcome: ActionOutcome
    verdict: ActionVerdict
    actor: str
    """Who decided it: the one who claimed the advice, or the agent itself."""
    workload: str | None = None
    """Its key."""
    devices: tuple[str, ...] = ()
    reason: str = ""
    summary: str = ""
    confidence: float = 0.0
    risk: str = ""
    evidence: Mapping[str, object] = field(default_factory=dict, hash=False)
    why: str = ""
    """Why it was not done, or what went wrong."""
    steady: Nanoseconds = 0
    """The steady clock when it was begun."""
    boot: str = ""
    """Which run of the machine that clock counts from."""
    ended: Nanoseconds | None = None
    status: int | None = None
    """The exit status of a program, below 0 the signal that ended it, or that of HTTP."""
    said: str = ""
    """The beginning of what a program said."""
    process: int | None = None
    process_started: int | None = None
    """In the kernel's ticks since it booted; with the number it names one process."""
    result: AdviceState | None = None
    """What became of the advice since."""
    result_why: str = ""
    result_at: Nanoseconds | None = None
    approved: Nanoseconds | None = None
    """Of what was put up for approval: wall time of the claim that approved it."""
    approver: str = ""
    """Who that was, with what the kernel or the server knows of them."""

    @property
    def key(self) -> tuple[str, str, Nanoseconds]:
        """The action, the recommendation's id, and when that was opened."""
        return self.action, self.advice, self.opened


def result_of(record: ActionRecord, advice: Advice | None, now: Nanoseconds) -> ActionRecord | None:
    """An entry with what the ledger says now, `None` where that is nothing new.

    `advice` is what it was about; `None` where the ledger has forgotten it. `now` is wall time.
    """
    if not record.outcome.is_deed or record.outcome is ActionOutcome.STARTED:
        return None
    has_regressed = advice is not None and advice.state is AdviceState.REGRESSED
    if record.result is AdviceState.SUCCEEDED:
        if advice is None or advice.opened <= record.opened or not has_regressed:
            return None
        state, why = AdviceState.REGRESSED, "it came back"
    elif record.result is not None:
        return None
    elif advice is None:
        state, why = AdviceState.EXPIRED, "its advice is kept no more"
    elif advice.opened == record.opened:
        if advice.is_open:
            return None
        state, why = advice.state, advice.why
    else:
        # It was closed and opened again between two looks, and how it closed is written over.
        state = AdviceState.REGRESSED if has_regressed else AdviceState.EXPIRED
        why = "it was opened again"
    return replace(record, result=state, result_why=why, result_at=now)


class ActionRepository(RecordTable[ActionRecord]):
    """Entries in the table of `actions.sql`."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, "action", "at", ActionRecord)
