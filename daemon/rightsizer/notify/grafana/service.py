"""Delivery of advice as Grafana annotations: regions and points, within a daily quota."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from rightsizer.io.clock import Clock, SystemClock
from rightsizer.io.http import HttpClient
from rightsizer.io.http_result import Failure, FailureKind
from rightsizer.model.advice import AdviceEvent, AdviceEventKind
from rightsizer.model.units import DAY_SECONDS, Nanoseconds, nanoseconds, seconds
from rightsizer.notify.grafana.annotation_body import AnnotationBody, body_of, roll_up
from rightsizer.notify.grafana.client import GrafanaClient
from rightsizer.notify.grafana.outbox import AnnotationOutbox
from rightsizer.notify.grafana.settings import GrafanaSettings, read_token
from rightsizer.notify.outbox import OutboxEntry

_DAY: Final[Nanoseconds] = nanoseconds(DAY_SECONDS)


class AnnotationQuota:
    """Begins full, and is refilled on the steady clock."""

    def __init__(self, clock: Clock, capacity: int, per_day: int) -> None:
        # One more than a run tells one by one: there is a sum of the rest beside them.
        self._clock, self._capacity, self._per_day = clock, capacity + 1, per_day
        self._level = float(self._capacity)
        self._filled = clock.time()

    @property
    def left(self) -> int:
        """How many there may be now."""
        now = self._clock.time()
        grown = self._level + (now - self._filled) * self._per_day / _DAY
        self._level, self._filled = min(float(self._capacity), grown), now
        return int(self._level)

    def take(self) -> None:
        """One was made."""
        self._level = max(0.0, self._level - 1.0)


_REMEDIES: Final = {
    401: "the token is wrong or has expired; make a new one for the service account",
    403: "the token lacks rights; give its service account the role Editor, or "
    "annotations:read, :create and :write on annotations:type:organization",
    404: "there is no such API here; check grafana.url, its sub-path included",
}
# The note itself is at fault: sending it again would stop all that come after it.
_UNACCEPTABLE: Final = frozenset({400, 413, 422})


@dataclass(frozen=True, slots=True)
class AnnotationReport:
    """Counters since the start, and how things stand."""

    posted: int = 0
    """Annotations made, and regions changed or closed."""
    failed: int = 0
    """Attempts that Grafana did not take."""
    dropped: int = 0
    """Notes given up: refused for what they say, or crowded out of the outbox."""
    pending: int = 0
    last_success: Nanoseconds | None = None
    """Wall time of the last run that left nothing waiting for want of Grafana."""
    trouble: str | None = None
    """What stands in the way, and its remedy; `None` where nothing does."""

    @property
    def tried(self) -> int:
        """Attempts to write, successful or not."""
        return self.posted + self.failed


class AnnotationSink(Protocol):
    """Somewhere that changes of advice are marked in time."""

    def offer(self, events: Sequence[AdviceEvent]) -> None:
        """Take note of events; quick, and never talks to anybody."""

    def deliver(self) -> AnnotationReport:
        """Send what waits; may take seconds, and never raises for a peer that is away."""


def _warn(message: str) -> None:
    logging.getLogger("rightsizer.grafana").warning(message)


class GrafanaAnnotations:
    """An annotation sink that is a Grafana.

    Args:
        http: A client for Grafana's address.
        settings: Limits, and how patient to be.
        outbox: Keeps what was not delivered yet.
        clock: For the pause after failures.
        tell: Is told of each trouble once.
    """

    def __init__(
        self,
        http: HttpClient,
        settings: GrafanaSettings,
        outbox: AnnotationOutbox,
        clock: Clock | None = None,
        tell: Callable[[str], None] = _warn,
    ) -> None:
        self._api = GrafanaClient(http)
        self._settings = settings
        self._outbox = outbox
        self._clock = clock or SystemClock()
        self._tell = tell
        self._allowance = AnnotationQuota(
            self._clock, settings.annotations_per_run, settings.annotations_per_day
        )
        self._failed_runs = 0
        self._paused_until: Nanoseconds | None = None
        self._told: tuple[FailureKind, int | None] | None = None
        self.report = AnnotationReport(pending=len(outbox.pending()))

    def offer(self, events: Sequence[AdviceEvent]) -> None:
        """Put notes of the events into the outbox; the oldest give way where it is full."""
        self._outbox.put([body_of(event) for event in events])

    def deliver(self) -> AnnotationReport:
        """Send what waits, in order, until all is sent or Grafana fails."""
        if self._paused_until is not None and self._clock.time() < self._paused_until:
            return self._account(pending=len(self._outbox.pending()))
        failure = self._send(self._due())
        self._api.hang_up()
        if failure is None:
            self._recover()
        else:
            self._back_off(failure)
        return self._account(pending=len(self._outbox.pending()))

    def notify(self, body: str) -> None:
        """Take no note: only advice is annotated."""

    def counters(self) -> dict[str, float]:
        """What was sent and what was not, by the names of metrics."""
        return {
            "rightsizer_annotations_total": self.report.tried,
            "rightsizer_annotation_failures_total": self.report.failed,
        }

    def gauges(self) -> dict[str, float]:
        """What waits, by the names of metrics."""
        found: dict[str, float] = {"rightsizer_annotations_pending": self.report.pending}
        if self.report.last_success is not None:
            name = "rightsizer_annotation_last_success_timestamp_seconds"
            found[name] = seconds(self.report.last_success)
        return found

    def _due(self) -> list[OutboxEntry[AnnotationBody]]:
        """The letters of this run: the first few, what changes regions, and a sum of the rest."""
        letters = self._outbox.pending()
        if (excess := len(letters) - self._settings.outbox_maximum) > 0:
            self._drop(letters[:excess])
            letters = letters[excess:]
        limit = self._limit(letters)
        rest = [letter for letter in letters[limit:] if not letter.body.changes_region]
        if not self._allowance.left:
            # Regions change and end all the same: that makes no new annotation.
            return [letter for letter in letters if letter.body.changes_region]
        if len(rest) > 1:
            # The sum is kept before its parts go, so that a crash tells twice rather than never.
            summed = roll_up([letter.body for letter in rest])
            self._outbox.put([summed])
            self._outbox.done(letter.number for letter in rest)
            rest = [letter for letter in self._outbox.pending() if letter.body == summed]
        return [*letters[:limit], *rest]

    def _limit(self, letters: Sequence[OutboxEntry[AnnotationBody]]) -> int:
        """How many letters are told one by one, so that there is room for a sum of the rest."""
        limit = min(self._settings.annotations_per_run, self._allowance.left)
        return limit if len(letters) <= limit else max(0, min(limit, self._allowance.left - 1))

    def _send(self, letters: Sequence[OutboxEntry[AnnotationBody]]) -> Failure | None:
        for letter in letters:
            failure = self._send_one(letter.body)
            if failure is None:
                self._outbox.done([letter.number])
                if not letter.body.changes_region:
                    self._allowance.take()
                self._account(posted=self.report.posted + 1)
            elif failure.status in _UNACCEPTABLE:
                self._drop([letter])
                self._tell(f"Grafana refused an annotation for what it says: {failure.message}")
            else:
                return failure
        return None

    def _send_one(self, note: AnnotationBody) -> Failure | None:
        if note.changes_region:
            return self._change_region(note)
        # An earlier attempt may have been carried out although its answer was lost.
        found = self._api.find(note)
        made = self._api.create(note) if found is None else found
        if isinstance(made, Failure):
            return made
        if note.event == AdviceEventKind.OPENED:
            self._outbox.remember(note.advice_id, made)
        return None

    def _change_region(self, note: AnnotationBody) -> Failure | None:
        region = self._region(note)
        if isinstance(region, Failure):
            return region
        # A region that is gone is made anew, whole.
        done = self._api.create(note) if region is None else self._api.change(region, note)
        if isinstance(done, Failure):
            return done
        if note.closes_region:
            self._outbox.remember(note.advice_id, None)
        elif done is not None:
            self._outbox.remember(note.advice_id, done)
        return None

    def _region(self, note: AnnotationBody) -> int | Failure | None:
        """The region that was opened, by its tags and time, or by its id if it was moved."""
        found = self._api.find(note)
        known = self._outbox.annotation_id(note.advice_id)
        if found is not None or known is None:
            return found
        is_own = self._api.is_of(known, note)
        if isinstance(is_own, Failure):
            return is_own
        return known if is_own else None

    def _drop(self, letters: Sequence[OutboxEntry[AnnotationBody]]) -> None:
        self._outbox.done(letter.number for letter in letters)
        self._account(dropped=self.report.dropped + len(letters))

    def _recover(self) -> None:
        self._failed_runs = 0
        self._paused_until = None
        self._told = None
        self._account(last_success=self._clock.wall_time(), trouble=None)

    def _back_off(self, failure: Failure) -> None:
        self._failed_runs += 1
        pause_seconds = failure.retry_after_seconds or 0.0
        if self._failed_runs >= self._settings.failures_before_pause:
            pause_seconds = max(pause_seconds, self._settings.pause_seconds)
        self._paused_until = self._clock.time() + nanoseconds(pause_seconds)
        trouble = _explain(failure)
        # By its kind, since the words may hold a trace id that is new each time.
        if self._told != (failure.kind, failure.status):
            self._told = (failure.kind, failure.status)
            self._tell(trouble)
        self._account(failed=self.report.failed + 1, trouble=trouble)

    def _account(self, **changes: object) -> AnnotationReport:
        self.report = replace(self.report, **changes)  # type: ignore[arg-type]
        return self.report


def grafana_annotations(
    settings: GrafanaSettings,
    outbox: AnnotationOutbox,
    clock: Clock | None = None,
    tell: Callable[[str], None] = _warn,
    sleep: Callable[[float], object] = time.sleep,
) -> GrafanaAnnotations:
    """The sink that the settings describe; `sleep` waits between tries, see `HttpClient`."""
    http = HttpClient(settings.url, settings.http, token=lambda: read_token(settings), sleep=sleep)
    return GrafanaAnnotations(http, settings, outbox, clock, tell)


def _explain(failure: Failure) -> str:
    if failure.kind is FailureKind.CREDENTIAL:
        return f"Grafana's token cannot be read: {failure.message}; see grafana.token_file"
    remedy = _REMEDIES.get(failure.status or 0)
    kept = "changes of advice are kept and sent later"
    return f"Grafana: {failure.message}; {remedy or kept}"
