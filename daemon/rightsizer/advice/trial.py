"""Advice that is tried out: the figures from before are kept, and compared with those after."""

from dataclasses import replace

from rightsizer.advice.ledger_settings import LedgerSettings
from rightsizer.advice.measurement import Measured
from rightsizer.advice.record import Record
from rightsizer.advice.track_record import TrackRecord
from rightsizer.advice.verification import Outcome, baseline_of, has_changed, verify
from rightsizer.domain.advice import AdviceEvent, AdviceEventKind, AdviceState
from rightsizer.domain.units import Nanoseconds, nanoseconds

__all__ = ["Trials"]


class Trials:
    """Begins and ends trials, and enters what came of them into the track record."""

    def __init__(self, settings: LedgerSettings, track_record: TrackRecord) -> None:
        self._settings, self._track = settings, track_record

    def with_baseline(
        self, record: Record, followed: frozenset[str], now: Nanoseconds, measured: Measured
    ) -> Record:
        """With the figures from before, new ones where it was claimed since the last.

        Args:
            record: Open advice whose trouble is not over.
            followed: Workloads that follow advice.
            now: Wall time.
            measured: What is measured now.
        """
        is_fresh = record.baseline_since >= (record.trial_since or 0)
        if record.baseline is not None and is_fresh:
            return record
        span = nanoseconds(record.trial_seconds)
        if not span:  # Of a former program, which looked at nothing before and after.
            return record
        found = baseline_of(record.key, measured(span), followed)
        if found is None:
            return record
        return replace(record, baseline=found, baseline_since=now)

    def may_try(self, record: Record, measured: Measured | None, *, was_claimed: bool) -> bool:
        """Whether what is over now is worth comparing: somebody did what was advised."""
        if record.baseline is None or measured is None:
            return False
        if was_claimed:
            return True
        now = measured(nanoseconds(record.trial_seconds)).get(record.key)
        return has_changed(record.advice.finding, record.baseline.workload, now)

    def concluded(
        self, record: Record, now: Nanoseconds, measured: Measured
    ) -> tuple[Record, list[AdviceEvent]]:
        """The verdict on a trial whose time is over, and what is told of it."""
        ended = replace(record, trial_since=None)
        outcome = None
        if record.baseline is not None:
            outcome = verify(
                record.advice.finding,
                record.baseline,
                measured(nanoseconds(record.trial_seconds)),
                record.key,
                is_quiet=not record.advice.is_open,
                settings=self._settings.verification,
            )
        if outcome is None:
            if not record.advice.is_open:
                self.ended(ended, was_right=None)
            return ended, []
        return self._judged(ended, outcome, now)

    def ended(self, record: Record, *, was_right: bool | None) -> None:
        """Count how advice ended, and whether it was right where that is known."""
        self._track.ended(record.advice)
        if was_right is not None:
            self._track.answered(record.advice, record.confidence, was_right=was_right)

    def _judged(
        self, record: Record, outcome: Outcome, now: Nanoseconds
    ) -> tuple[Record, list[AdviceEvent]]:
        was_open = record.advice.is_open
        hours = record.trial_seconds / 3600.0
        gpu_hours = max(0.0, outcome.saved_gpus) * hours if outcome.has_succeeded else 0.0
        advice = replace(
            record.advice,
            state=AdviceState.SUCCEEDED if outcome.has_succeeded else AdviceState.FAILED,
            updated=now,
            closed=now if was_open else record.advice.closed,
            # What still holds is not repeated at once to those who have just tried.
            expires=now + nanoseconds(self._settings.rested_seconds) if was_open else None,
            why=outcome.why,
            verified=now,
            realized_gpu_hours=gpu_hours,
        )
        record = replace(record, advice=advice, quiet_since=None)
        answer = True if outcome.has_succeeded else False if outcome.has_harmed else None
        self.ended(record, was_right=answer)
        if outcome.has_succeeded:
            watts = max(0.0, outcome.saved_watts or 0.0)
            self._track.saved(advice, gpu_hours, watts * record.trial_seconds)
        return record, _events(record, outcome, now, was_open=was_open)


def _events(
    record: Record, outcome: Outcome, now: Nanoseconds, *, was_open: bool
) -> list[AdviceEvent]:
    """A success is told as such; a failure closes, again where it was closed before."""
    advice = record.advice
    events = []
    if was_open or not outcome.has_succeeded:
        ended = now if advice.closed is None else advice.closed
        events.append(AdviceEvent(AdviceEventKind.CLOSED, advice, ended))
    if outcome.has_succeeded:
        events.append(AdviceEvent(AdviceEventKind.VERIFIED, advice, now))
    return events
