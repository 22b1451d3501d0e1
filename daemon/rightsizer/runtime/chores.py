"""The jobs: recommend, flush, prune, deliver. Each stands alone, and none blocks sampling."""

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import structlog

from rightsizer.advice.ledger import Ledger
from rightsizer.advice.ledger_settings import LedgerSettings
from rightsizer.advice.recommender import Judgement
from rightsizer.advice.rules.rule import Rule
from rightsizer.domain.advice import Advice, AdviceEvent, AdviceEventKind, AdviceState
from rightsizer.domain.errors import HistoryError
from rightsizer.domain.units import Nanoseconds, nanoseconds
from rightsizer.edge.clock import Clock
from rightsizer.runtime.accountant import Accountant
from rightsizer.runtime.history_settings import HistorySettings
from rightsizer.runtime.policy import Guidance, Policy
from rightsizer.runtime.recommender_run import Recommender, Run
from rightsizer.runtime.storage import Storage

__all__ = ["Chores", "EventSink"]

_DEFAULTS: Final = HistorySettings()
_LEAP: Final[Nanoseconds] = nanoseconds(3600.0)
"""By which a clock that is set may be wrong."""


class EventSink(Protocol):
    """Somewhere that wants to know of changes of advice, an `AnnotationSink` for one."""

    def offer(self, events: Sequence[AdviceEvent]) -> None:
        """Take note of events; quick, and never talks to anybody."""

    def deliver(self) -> object:
        """Send what waits; may take seconds, and never raises for a peer that is away."""


class Chores:
    """What the scheduler runs, and what the last run of the rules said."""

    def __init__(  # noqa: PLR0913 - the parts that the jobs bring together.
        self,
        *,
        accountant: Accountant,
        storage: Storage,
        ledger: Ledger,
        rules: Sequence[Rule[Any]],
        sinks: Sequence[EventSink] = (),
        clock: Clock,
        retention_seconds: float,
        fine_seconds: float = _DEFAULTS.fine_retention,
        policies: Sequence[Policy] = (),
    ) -> None:
        self._storage, self._clock = storage, clock
        self._recommender = Recommender(accountant, rules, Guidance(policies), clock)
        self._accountant = accountant
        self._ledger, self._sinks = ledger, tuple(sinks)
        self._retention: Nanoseconds = nanoseconds(retention_seconds)
        self._fine: Nanoseconds = nanoseconds(fine_seconds)
        self._ahead = self._wall_ahead()
        self._flushing, self._deciding = threading.Lock(), threading.Lock()
        self._log = structlog.get_logger(component="recommender")
        self.counts: Counter[str] = Counter(
            {
                "recommender_rule_failures": 0,
                "history_writes": 0,
                "history_write_failures": 0,
                "history_breaks": storage.breaks,
                "history_windows_forgotten": 0,
            }
        )
        self._advice: tuple[Advice, ...] = ledger.advice()
        # What the last program saved and may not have come to tell.
        self._untold: list[AdviceEvent] = list(storage.untold)
        self._put_up_track_record()

    @property
    def advice(self) -> tuple[Advice, ...]:
        """The ledger's advice after the last run, and after what was decided since."""
        return self._advice

    @property
    def judgements(self) -> tuple[Judgement, ...]:
        """What the rules said in the last run."""
        return self._recommender.judgements

    @property
    def last_run(self) -> Run | None:
        """How the last run went, `None` before there was one."""
        return self._recommender.last_run

    @property
    def outcomes(self) -> Mapping[tuple[str, str], int]:
        """How much advice has ended, by its reason and by how it ended."""
        return self._outcomes

    @property
    def realized_gpu_hours(self) -> Mapping[str, float]:
        """GPU-hours that were seen to be saved, by rule."""
        return self._realized_gpu_hours

    @property
    def brier(self) -> Mapping[str, float]:
        """The mean squared error of the confidence by rule, where there were answers."""
        return self._brier

    @property
    def confidence_floors(self) -> Mapping[tuple[str, str], float]:
        """Confidence that is asked for by rule and reason, for it was wrong too often."""
        return self._floors

    def change(
        self, rules: Sequence[Rule[Any]], policies: Sequence[Policy], ledger: LedgerSettings
    ) -> None:
        """Judge and keep advice by other settings from the next run on; what is kept stays."""
        self._recommender.change(rules, Guidance(policies))
        with self._deciding:
            self._ledger = self._ledger.under(ledger)

    def keep(self, retention_seconds: float, fine_seconds: float) -> None:
        """Keep windows for as long from now on."""
        self._retention, self._fine = nanoseconds(retention_seconds), nanoseconds(fine_seconds)

    def recommend(self) -> None:
        """Let every rule judge every workload, and enter what follows into the ledger.

        Raises:
            HistoryError: the ledger could not be saved; its events are told after a run that can.
        """
        with self._deciding:
            open_now = self._ledger.open_now()
        found = self._recommender.run(open_now)
        self.counts["recommender_rule_failures"] = self._recommender.faults.counts.total()
        with self._deciding:
            events = self._ledger.update(found.judgements, found.time, found.measured)
            self._note(events)
            self._log.info(
                "recommender_ran",
                judgements=len(found.judgements),
                complaints=sum(each.finding.is_complaint for each in found.judgements),
                opened=sum(event.kind is AdviceEventKind.OPENED for event in events),
                closed=sum(event.kind is AdviceEventKind.CLOSED for event in events),
            )
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
            self._note([] if event is None else [event])
            self._save_and_tell()
            return next(advice for advice in self._advice if advice.id == advice_id)

    def flush(self) -> None:
        """Write what was accounted for since the last flush, and what is still running."""
        with self._flushing:
            closed, running, devices = self._accountant.take_windows()
            try:
                if self._storage.save_windows(closed, running, devices):
                    self.counts["history_writes"] += 1
            except HistoryError:
                self.counts["history_write_failures"] += 1
                raise
            finally:
                self._tell_history()

    def prune(self) -> None:
        """Roll old windows up into hours, and forget those beyond the retention.

        Not at once where the clock has leapt ahead: should it be wrong, all would be gone.
        """
        history, now = self._storage.history, self._clock.wall_time()
        before, self._ahead = self._ahead, self._wall_ahead()
        if history is not None and self._ahead - before <= _LEAP:
            history.roll_up(now - self._fine)
            history.prune(now - self._retention)

    def annotate(self) -> None:
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

    def _wall_ahead(self) -> Nanoseconds:
        """How far the wall clock is ahead of the steady one, which changes as it is set."""
        return self._clock.wall_time() - self._clock.time()

    def _note(self, events: Sequence[AdviceEvent]) -> None:
        """Put up what the ledger says now."""
        self._advice = self._ledger.advice()
        self._put_up_track_record()
        self._untold.extend(events)
        for event in events:
            self._log_event(event)

    def _save_and_tell(self) -> None:
        # Saved first, and with what is still to be told: a crash in between loses nothing.
        self._storage.save_ledger(self._ledger, self._untold)
        for sink in self._sinks:
            sink.offer(self._untold)
        self._untold = []
        self._storage.told()

    def _put_up_track_record(self) -> None:
        # New mappings each time, for sampling reads them meanwhile.
        record = self._ledger.track_record
        self._outcomes, self._floors = record.outcomes, record.floors
        self._realized_gpu_hours, self._brier = record.realized_gpu_hours, record.brier

    def _tell_history(self) -> None:
        """Say of each broken file where it went, and once that there is no room for the past."""
        if self._storage.breaks > self.counts["history_breaks"]:
            self.counts["history_breaks"] = self._storage.breaks
            self._log.error(
                "history_set_aside", moved_to=str(self._storage.set_aside), remedy="inspect it"
            )
        history = self._storage.history
        if history is not None and history.forgotten:
            if not self.counts["history_windows_forgotten"]:
                self._log.warning(
                    "history_full",
                    size_bytes=history.size_bytes,
                    remedy="raise history.maximum_size, or lower history.retention",
                )
            self.counts["history_windows_forgotten"] = history.forgotten

    def _log_event(self, event: AdviceEvent) -> None:
        finding = event.advice.finding
        self._log.info(
            f"advice_{event.kind}",
            id=finding.id,
            finding=str(finding.finding),
            reasons=",".join(finding.reasons),
            action=str(finding.action),
            confidence=finding.confidence,
            severity=str(finding.severity),
            workload=finding.workload or "",
            summary=finding.summary,
        )
