"""The jobs: recommend, flush, prune, annotate. Each stands alone, and none blocks sampling."""

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import structlog

from rightsizer.advice.ledger import Ledger
from rightsizer.advice.recommender import Judgement, judge_all
from rightsizer.advice.rules.rule import Rule
from rightsizer.domain.advice import Advice, AdviceEvent, AdviceEventKind
from rightsizer.domain.errors import HistoryError
from rightsizer.domain.units import Nanoseconds, nanoseconds
from rightsizer.edge.clock import Clock
from rightsizer.publish.grafana.annotations import AnnotationSink
from rightsizer.runtime.accountant import Accountant
from rightsizer.runtime.history_settings import HistorySettings
from rightsizer.runtime.storage import Storage

__all__ = ["Chores"]

_DEFAULTS: Final = HistorySettings()
_LEAP: Final[Nanoseconds] = nanoseconds(3600.0)
"""By which a clock that is set may be wrong."""


class Chores:
    """What the scheduler runs, and what the last run of the rules said."""

    def __init__(  # noqa: PLR0913 - the parts that the jobs bring together.
        self,
        *,
        accountant: Accountant,
        storage: Storage,
        ledger: Ledger,
        rules: Sequence[Rule[Any]],
        sink: AnnotationSink | None,
        clock: Clock,
        retention_seconds: float,
        fine_seconds: float = _DEFAULTS.fine_retention,
    ) -> None:
        self._accountant, self._storage, self._clock = accountant, storage, clock
        self._ledger, self._rules, self._sink = ledger, rules, sink
        self._retention: Nanoseconds = nanoseconds(retention_seconds)
        self._fine: Nanoseconds = nanoseconds(fine_seconds)
        self._ahead = self._wall_ahead()
        self._flushing = threading.Lock()
        self._log = structlog.get_logger(component="recommender")
        self._judgements: tuple[Judgement, ...] = ()
        self.counts: Counter[str] = Counter(
            {
                "history_writes": 0,
                "history_write_failures": 0,
                "history_breaks": storage.breaks,
                "history_windows_forgotten": 0,
            }
        )
        self._advice: tuple[Advice, ...] = ledger.advice()
        self._untold: list[AdviceEvent] = []
        self._outcomes: Mapping[tuple[str, str], int] = {}

    @property
    def advice(self) -> tuple[Advice, ...]:
        """The ledger's advice after the last run."""
        return self._advice

    @property
    def judgements(self) -> tuple[Judgement, ...]:
        """What the rules said in the last run."""
        return self._judgements

    @property
    def outcomes(self) -> Mapping[tuple[str, str], int]:
        """How much advice was closed, by its reason and by how it ended."""
        return self._outcomes

    def recommend(self) -> None:
        """Let every rule judge every workload, and enter what follows into the ledger.

        Raises:
            HistoryError: the ledger could not be saved; its events are told after a run that can.
        """
        now = self._clock.wall_time()
        # The ledger needs no lock: the scheduler never runs this job twice at once, and others
        # read only what is put up here whole.
        judgements = judge_all(
            lambda span: self._accountant.cases(span, now), self._rules, self._ledger.open_now()
        )
        events = self._ledger.update(judgements, now)
        self._advice = self._ledger.advice()
        self._judgements = judgements
        self._untold.extend(events)
        for event in events:
            self._count_outcome(event)
            self._log_event(event)
        self._log.info(
            "recommender_ran",
            judgements=len(judgements),
            complaints=sum(judgement.finding.is_complaint for judgement in judgements),
            opened=sum(event.kind is AdviceEventKind.OPENED for event in events),
            closed=sum(event.kind is AdviceEventKind.CLOSED for event in events),
        )
        # Saved first: after a crash in between, a region is missing rather than there twice.
        self._storage.save_ledger(self._ledger)
        self._tell()

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
        """Deliver what waits for Grafana."""
        if self._sink is not None:
            self._sink.deliver()

    def _wall_ahead(self) -> Nanoseconds:
        """How far the wall clock is ahead of the steady one, which changes as it is set."""
        return self._clock.wall_time() - self._clock.time()

    def _tell(self) -> None:
        if self._sink is not None:
            self._sink.offer(self._untold)
        self._untold = []

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

    def _count_outcome(self, event: AdviceEvent) -> None:
        if event.kind is AdviceEventKind.CLOSED:
            reasons = event.advice.finding.reasons
            ended = (reasons[0] if reasons else "", event.advice.state)
            # A new mapping each time, for sampling reads it meanwhile.
            self._outcomes = {**self._outcomes, ended: self._outcomes.get(ended, 0) + 1}

    def _log_event(self, event: AdviceEvent) -> None:
        finding = event.advice.finding
        self._log.info(
            f"advice_{event.kind}",
            id=finding.id,
            finding=str(finding.finding),
            reasons=",".join(finding.reasons),
            action=str(finding.action),
            confidence=finding.confidence,
            summary=finding.summary,
        )
