"""The ledger: which advice is open, since when, and what became of it.

Pure: judgements and the time come in, events go out. `ledger_store` keeps it over restarts.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from rightsizer.advice.recommender import Judgement
from rightsizer.domain.advice import Advice, AdviceEvent, AdviceEventKind, AdviceState
from rightsizer.domain.errors import UsageError
from rightsizer.domain.finding import Action
from rightsizer.domain.settings import setting
from rightsizer.domain.units import Nanoseconds, nanoseconds

__all__ = ["Ledger", "LedgerSettings", "Record"]


@dataclass(frozen=True, slots=True)
class LedgerSettings:
    """How long the ledger remembers."""

    gone_after_seconds: float = setting(
        3600.0,
        help="How long a workload may be away before its advice expires.",
        unit="seconds",
        minimum=0,
        source="a restart or a reschedule is no end",
    )
    dismissed_seconds: float = setting(
        30 * 86400.0,
        help="How long a dismissal lasts.",
        unit="seconds",
        minimum=0,
        source="docs/definitions.md, conduct",
    )
    snoozed_seconds: float = setting(
        7 * 86400.0,
        help="How long advice stays snoozed.",
        unit="seconds",
        minimum=0,
        source="a week's planning",
    )
    closed_kept_seconds: float = setting(
        30 * 86400.0,
        help="How long closed advice is remembered.",
        unit="seconds",
        minimum=0,
        source="as long as the history",
    )


@dataclass(frozen=True, slots=True)
class Record:
    """A piece of advice with what the ledger knows of it beside."""

    advice: Advice
    key: str
    quiet_since: Nanoseconds | None = None
    """Since when nothing recent supports it."""
    seen: Nanoseconds = 0
    """When its workload was last judged."""


class Ledger:
    """All advice by id. Not safe for threads: whoever shares it brings a lock."""

    def __init__(
        self, records: Iterable[Record] = (), settings: LedgerSettings | None = None
    ) -> None:
        self._settings = settings or LedgerSettings()
        self._records = {record.advice.id: record for record in records}

    @property
    def records(self) -> tuple[Record, ...]:
        """Everything, in no order."""
        return tuple(self._records.values())

    def open_now(self) -> frozenset[tuple[str, str]]:
        """Workload key and rule of all open advice."""
        return frozenset(
            (record.key, record.advice.finding.rule)
            for record in self._records.values()
            if record.advice.is_open
        )

    def advice(self) -> tuple[Advice, ...]:
        """Open advice first, the oldest of it first; then what was closed, the latest first."""
        found = [record.advice for record in self._records.values()]
        is_open = sorted((a for a in found if a.is_open), key=lambda a: (a.opened, a.id))
        closed = sorted((a for a in found if not a.is_open), key=lambda a: (-a.updated, a.id))
        return (*is_open, *closed)

    def update(self, judgements: Sequence[Judgement], now: Nanoseconds) -> list[AdviceEvent]:
        """Open, refresh and close advice by one run's judgements; what changed.

        A finding opens once, stays open while recent time supports it, and closes only after
        it has been quiet for a while: it neither nags nor flaps.
        """
        events: list[AdviceEvent] = []
        for judgement in judgements:
            events.extend(self._close_quiet(judgement, now))
            events.extend(self._open(judgement, now))
        events.extend(self._expire_gone(now))
        self._forget(now)
        return events

    def act(
        self, advice_id: str, state: AdviceState, actor: str, now: Nanoseconds
    ) -> AdviceEvent | None:
        """Claim, snooze or dismiss advice by hand; the event that this is, if any.

        Raises:
            UsageError: there is no such open advice.
        """
        record = self._records.get(advice_id)
        if record is None or not record.advice.is_open:
            known = ", ".join(a.id for a in self.advice() if a.is_open) or "none"
            raise UsageError(f"no open advice '{advice_id}'; open advice: {known}")
        is_dismissed = state is AdviceState.DISMISSED
        lasting_seconds = {
            AdviceState.DISMISSED: self._settings.dismissed_seconds,
            AdviceState.SNOOZED: self._settings.snoozed_seconds,
        }.get(state)
        advice = replace(
            record.advice,
            state=state,
            actor=actor,
            updated=now,
            closed=now if is_dismissed else None,
            expires=None if lasting_seconds is None else now + nanoseconds(lasting_seconds),
        )
        self._records[advice_id] = replace(record, advice=advice)
        return AdviceEvent(AdviceEventKind.CLOSED, advice, now) if is_dismissed else None

    def _close_quiet(self, judgement: Judgement, now: Nanoseconds) -> list[AdviceEvent]:
        """Refresh or close the open advice that a rule has given on a workload before."""
        events = []
        for record in self._open_of(judgement):
            same = judgement.finding.id == record.advice.id
            replaced = judgement.may_open and not same
            is_quiet = replaced or judgement.still_holds is False
            quiet_since = _since(record, now) if is_quiet else None
            patience = nanoseconds(judgement.conduct.close_after_seconds)
            if quiet_since is not None and now - quiet_since >= patience:
                has_succeeded = record.advice.state is AdviceState.CLAIMED and not replaced
                events.append(self._close(record, has_succeeded=has_succeeded, now=now))
                continue
            finding = judgement.finding if same else record.advice.finding
            advice = replace(_awake(record.advice, now), finding=finding, updated=now)
            self._records[advice.id] = Record(advice, record.key, quiet_since, now)
        return events

    def _open_of(self, judgement: Judgement) -> list[Record]:
        rule = judgement.finding.rule
        return [
            record
            for record in self._records.values()
            if record.key == judgement.key
            and record.advice.finding.rule == rule
            and record.advice.is_open
        ]

    def _open(self, judgement: Judgement, now: Nanoseconds) -> list[AdviceEvent]:
        finding = judgement.finding
        before = self._records.get(finding.id)
        if not judgement.may_open or (before is not None and _is_settled(before.advice, now)):
            return []
        if self._open_of(judgement):
            return []  # A rule says one thing of a workload at a time.
        has_regressed = before is not None and before.advice.state is AdviceState.SUCCEEDED
        advice = Advice(
            finding=finding,
            state=AdviceState.REGRESSED if has_regressed else AdviceState.ACTIVE,
            opened=now,
            updated=now,
        )
        self._records[advice.id] = Record(advice, judgement.key, None, now)
        opened = AdviceEvent(AdviceEventKind.OPENED, advice, now)
        if has_regressed:
            return [opened, AdviceEvent(AdviceEventKind.REGRESSED, advice, now)]
        return [opened]

    def _close(self, record: Record, *, has_succeeded: bool, now: Nanoseconds) -> AdviceEvent:
        advice = replace(
            record.advice,
            state=AdviceState.SUCCEEDED if has_succeeded else AdviceState.EXPIRED,
            updated=now,
            closed=now,
            expires=None,
        )
        self._records[advice.id] = replace(record, advice=advice, quiet_since=None)
        return AdviceEvent(AdviceEventKind.CLOSED, advice, now)

    def _expire_gone(self, now: Nanoseconds) -> list[AdviceEvent]:
        limit = now - nanoseconds(self._settings.gone_after_seconds)
        gone = [r for r in self._records.values() if r.advice.is_open and r.seen < limit]
        return [
            self._close(record, has_succeeded=_is_released(record.advice), now=now)
            for record in gone
        ]

    def _forget(self, now: Nanoseconds) -> None:
        limit = now - nanoseconds(self._settings.closed_kept_seconds)
        for advice in self.advice():
            if advice.closed is not None and advice.closed < limit and not _is_settled(advice, now):
                del self._records[advice.id]


def _since(record: Record, now: Nanoseconds) -> Nanoseconds:
    return now if record.quiet_since is None else record.quiet_since


def _awake(advice: Advice, now: Nanoseconds) -> Advice:
    """The advice, active again where its snooze is over."""
    if advice.state is AdviceState.SNOOZED and advice.expires is not None and now >= advice.expires:
        return replace(advice, state=AdviceState.ACTIVE, expires=None)
    return advice


def _is_released(advice: Advice) -> bool:
    """Whether a workload that went away did what somebody had claimed to do."""
    has_left = advice.finding.action in (Action.RELEASE, Action.SCALE_TO_ZERO)
    return has_left and advice.state is AdviceState.CLAIMED


def _is_settled(advice: Advice, now: Nanoseconds) -> bool:
    """Whether advice is open already, or was dismissed and is to stay so for now."""
    if advice.is_open:
        return True
    return (
        advice.state is AdviceState.DISMISSED
        and advice.expires is not None
        and now < advice.expires
    )
