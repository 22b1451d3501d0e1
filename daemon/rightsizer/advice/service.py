"""Advice service: run, ledger, decisions, delivery; saved first, then delivered."""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Protocol

import structlog

from rightsizer.advice.judgement import Judgement
from rightsizer.advice.ledger import Ledger
from rightsizer.advice.recommender import RecommenderResult
from rightsizer.advice.record import Restoration
from rightsizer.advice.settings import LedgerSettings
from rightsizer.io.clock import Clock
from rightsizer.model.advice import Advice, AdviceEvent, AdviceEventKind, AdviceState
from rightsizer.model.units import Nanoseconds


class EventSink(Protocol):
    """Somewhere that wants to know of changes of advice, an `AnnotationSink` for one."""

    def offer(self, events: Sequence[AdviceEvent]) -> None:
        """Take note of events; quick, and never talks to anybody."""

    def deliver(self) -> object:
        """Send what waits; may take seconds, and never raises for a peer that is away."""


class LedgerStore(Protocol):
    """Place of the ledger and of events that were not delivered yet."""

    @property
    def pending_events(self) -> Sequence[AdviceEvent]:
        """Events that were saved and may not have been offered before the program ended."""

    def save_ledger(self, ledger: Ledger, pending: Iterable[AdviceEvent]) -> None:
        """Keep the ledger as it is, with the events that are still to be offered."""

    def told(self) -> None:
        """Forget the events: every sink has them."""


class RuleFailures:
    """Logs and counts rules that raise; as many counters as rules."""

    def __init__(self) -> None:
        self._log = structlog.get_logger(component="recommender")
        self.counts: Counter[str] = Counter()
        """By rule, since the start."""

    def note(self, rule: str, workload: str, error: Exception) -> None:
        """Log one with its trace, and count it."""
        self.counts[rule] += 1
        self._log.error("rule_failed", rule=rule, workload=workload, exc_info=error)


class Judge(Protocol):
    """Whoever runs the rules: over a node's accounts, or over an estate's store."""

    def run(
        self, open_now: AbstractSet[tuple[str, str]], advice: Sequence[Advice]
    ) -> RecommenderResult:
        """What every rule says now.

        Args:
            open_now: Workload key and rule of the advice that is open.
            advice: All that the ledger has.
        """


class AdviceService:
    """Keeps the ledger under a lock of its own; saves first, then tells."""

    def __init__(  # noqa: PLR0913 - the outside world comes in as arguments.
        self,
        judge: Judge,
        ledger: Ledger,
        store: LedgerStore,
        sinks: Sequence[EventSink],
        clock: Clock,
        *,
        restore: Callable[[], Restoration] | None = None,
    ) -> None:
        """A service over the ledger as it was left.

        Args:
            judge: Says what there is to say.
            ledger: Of all advice.
            store: Keeps it.
            sinks: Who is told.
            clock: Of decisions.
            restore: What others know of a ledger that was lost; asked after a run while the
                ledger is empty.
        """
        self._restore = restore
        self._judge, self._ledger, self._store = judge, ledger, store
        self._sinks, self._clock = tuple(sinks), clock
        self._deciding = threading.Lock()
        self._log = structlog.get_logger(component="recommender")
        self.advice: tuple[Advice, ...] = ledger.advice()
        """After the last run, and after what was decided since."""
        # What the last program saved and may not have come to tell.
        self._pending: list[AdviceEvent] = list(store.pending_events)
        self._put_up_track_record()

    def change_settings(self, settings: LedgerSettings) -> None:
        """Keep advice by other settings from now on; what is kept stays."""
        with self._deciding:
            self._ledger = self._ledger.under(settings)

    def recommend(self) -> None:
        """Let the judge judge, and enter what follows into the ledger.

        Raises:
            HistoryError: the ledger could not be saved; its events are told after a run that can.
        """
        with self._deciding:
            open_now, is_empty = self._ledger.open_now(), not self._ledger.records
        found = self._judge.run(open_now, self.advice)
        restoration = self._restore() if is_empty and self._restore is not None else None
        with self._deciding:
            if restoration is not None:
                self._ledger.remember(restoration)
            events = self._ledger.update(found.judgements, found.time, found.measured)
            self._note(events)
            self._log_run(found.judgements, events)
            self._save_and_tell()

    def act(
        self,
        advice_id: str,
        state: AdviceState,
        actor: str,
        why: str = "",
        for_seconds: float | None = None,
    ) -> Advice:
        """Claim, snooze or dismiss advice, or take that back; from any thread.

        Args:
            advice_id: Which.
            state: Claimed, snoozed, dismissed, or active to take it back.
            actor: Who.
            why: In a few words.
            for_seconds: How long a snooze or a dismissal lasts; as the settings say without.

        Returns:
            The advice as it then stands.

        Raises:
            UsageError: there is no such open advice, or it cannot be put into that state.
            HistoryError: it holds, but could not be saved yet.
        """
        with self._deciding:
            event = self._ledger.act(
                advice_id,
                state,
                actor,
                self._clock.wall_time(),
                why=why,
                for_seconds=for_seconds,
            )
            self._log.info(f"advice_{state}", id=advice_id, actor=actor, why=why)
            self._note([event])
            self._save_and_tell()
            return next(advice for advice in self.advice if advice.id == advice_id)

    def deliver(self) -> None:
        """Deliver what waits for Grafana, and for whoever else wants to know of advice.

        One that fails keeps no other waiting; the first failure is raised once all had their turn.
        """
        faults = []
        for sink in self._sinks:
            try:
                sink.deliver()
            except Exception as fault:  # noqa: BLE001 - its own, whatever it is.
                faults.append(fault)
        if faults:
            raise faults[0]

    def _note(self, events: Sequence[AdviceEvent]) -> None:
        """Put up what the ledger says now."""
        self.advice = self._ledger.advice()
        self._put_up_track_record()
        self._pending.extend(events)
        for event in events:
            if event.kind is not AdviceEventKind.DECIDED:
                self._log_event(event)

    def _save_and_tell(self) -> None:
        # Saved first, and with what is still to be told: a crash in between loses nothing.
        self._store.save_ledger(self._ledger, self._pending)
        for sink in self._sinks:
            sink.offer(self._pending)
        self._pending = []
        self._store.told()

    def _put_up_track_record(self) -> None:
        # New mappings each time, for sampling reads them meanwhile.
        self.claims: Mapping[str, Nanoseconds] = self._ledger.claims
        """Since when advice is claimed, by its id."""
        record = self._ledger.track_record
        self.outcomes: Mapping[tuple[str, str], int] = record.outcomes
        """How much advice has ended, by its reason and by how it ended."""
        self.confidence_floors: Mapping[tuple[str, str], float] = record.floors
        """Confidence that is asked for by rule and reason, for it was wrong too often."""
        self.realized_gpu_hours: Mapping[str, float] = record.realized_gpu_hours
        """GPU-hours that were seen to be saved, by rule."""
        self.brier: Mapping[str, float] = record.brier
        """The mean squared error of the confidence by rule, where there were answers."""

    def _log_run(self, judgements: Sequence[Judgement], events: Sequence[AdviceEvent]) -> None:
        self._log.info(
            "recommender_ran",
            judgements=len(judgements),
            complaints=sum(each.finding.is_complaint for each in judgements),
            opened=sum(event.kind is AdviceEventKind.OPENED for event in events),
            closed=sum(event.kind is AdviceEventKind.CLOSED for event in events),
        )

    def _log_event(self, event: AdviceEvent) -> None:
        finding = event.advice.finding
        self._log.info(
            f"advice_{event.kind}",
            id=finding.id,
            finding=str(finding.kind),
            reasons=",".join(finding.reasons),
            action=str(finding.action),
            confidence=finding.confidence,
            severity=str(finding.severity),
            workload=finding.workload or "",
            summary=finding.summary,
        )
