"""Grafana annotations: regions and points, within a daily quota."""

from collections.abc import Sequence
from functools import partial
from typing import ClassVar, Final

from rightsizer.io.clock import Clock
from rightsizer.io.codec import decode, stored
from rightsizer.io.database import Database
from rightsizer.io.http import HttpClient
from rightsizer.io.http_result import Failure, FailureKind
from rightsizer.model.values import DAY, AdviceEvent, AdviceEventKind, AdviceState, nanoseconds
from rightsizer.notify.delivery import Delivery, DeliveryContext, Outbox, OutboxEntry, OutboxTable
from rightsizer.notify.grafana.annotation import AnnotationBody, body_of, roll_up
from rightsizer.notify.grafana.client import GrafanaClient, http_client
from rightsizer.notify.grafana.settings import GrafanaSettings


def _understood(text: str) -> AnnotationBody | None:
    try:
        return decode(text, AnnotationBody)
    except ValueError:
        return None


class AnnotationOutbox(Outbox[AnnotationBody]):
    """Annotations and regions in the tables of `grafana.sql`."""

    def __init__(self, database: Database) -> None:
        table = OutboxTable("grafana_outbox", "note", encode=stored, decode=_understood)
        super().__init__(database, table)

    def remember(self, advice_id: str, annotation_id: int | None) -> None:
        """Store the region of advice; delete it for `None`."""
        if annotation_id is None:
            self._run("DELETE FROM grafana_regions WHERE advice_id = ?", [(advice_id,)])
        else:
            row = (advice_id, annotation_id)
            self._run("INSERT OR REPLACE INTO grafana_regions VALUES (?, ?)", [row])

    def annotation_id(self, advice_id: str) -> int | None:
        """Return the region of a piece of advice, or `None`."""
        query = "SELECT annotation_id FROM grafana_regions WHERE advice_id = ?"
        return next((int(id_) for (id_,) in self._database.rows(query, (advice_id,))), None)


class AnnotationQuota:
    """Token bucket that starts full and is refilled on the steady clock."""

    def __init__(self, clock: Clock, capacity: int, per_day: int) -> None:
        # One more than a run's single annotations, for the summary of the rest.
        self._clock = clock
        self._capacity = capacity + 1
        self._per_day = per_day
        self._level = float(self._capacity)
        self._filled = clock.time()

    @property
    def left(self) -> int:
        """Number of annotations allowed now."""
        now = self._clock.time()
        grown = self._level + (now - self._filled) * self._per_day / DAY
        self._level = min(float(self._capacity), grown)
        self._filled = now
        return int(self._level)

    def take(self) -> None:
        """Count one annotation."""
        self._level = max(0.0, self._level - 1.0)


_REMEDIES: Final = {
    401: "the token is wrong or has expired; make a new one for the service account",
    403: "the token lacks rights; give its service account the role Editor, or "
    "annotations:read, :create and :write on annotations:type:organization",
    404: "there is no such API here; check grafana.url, its sub-path included",
}


class GrafanaAnnotations(Delivery[AnnotationBody]):
    """Marks changes of advice in Grafana."""

    _outbox: AnnotationOutbox
    _trouble = "grafana_trouble"
    _message = "an annotation for what it says"
    _counters: ClassVar = {
        "rightsizer_annotations_total": "tried",
        "rightsizer_annotation_failures_total": "failed",
    }
    _gauges = (
        "rightsizer_annotations_pending",
        "rightsizer_annotation_last_success_timestamp_seconds",
    )

    def __init__(
        self,
        settings: GrafanaSettings,
        outbox: AnnotationOutbox,
        context: DeliveryContext,
        http: HttpClient | None = None,
    ) -> None:
        """Create the delivery; `http` replaces the client of the settings."""
        super().__init__("Grafana", outbox, context, settings=settings)
        self._settings = settings
        self._body = partial(body_of, node=context.node, cluster=settings.cluster)
        self._asked = self._clock.time()
        self._api = GrafanaClient(http or http_client(settings, sleep=context.sleep))
        a_run = settings.annotations_per_run
        a_day = settings.annotations_per_day
        self._quota = AnnotationQuota(self._clock, a_run, a_day)

    def offer(self, events: Sequence[AdviceEvent]) -> None:
        """Put annotations of events into the outbox."""
        self._outbox.put(list(map(self._body, events)))

    def _send(self) -> Failure | None:
        failure = self._restore() or self._send_entries(self._entries_of_run())
        if failure is not None:
            self._count(failed=self.report.failed + 1)
        return failure

    def _restore(self) -> Failure | None:
        """Post open regions again if none is left; a single missing one was deleted by a user."""
        if self._clock.time() - self._asked < nanoseconds(self._settings.restore_seconds):
            return None
        waiting = {entry.body.advice_id for entry in self._pending()}
        lost: list[AnnotationBody] = []
        for advice in self._context.advice():
            annotation_id = self._outbox.annotation_id(advice.id)
            if not advice.is_open or annotation_id is None or advice.id in waiting:
                continue
            is_new = advice.state is AdviceState.ACTIVE
            kind = AdviceEventKind.OPENED if is_new else AdviceEventKind.DECIDED
            body = self._body(AdviceEvent(kind, advice, advice.updated))
            region = self._region(body)
            if isinstance(region, Failure):
                return region
            if region is not None:
                lost = []
                break
            lost.append(body)
        self._outbox.put(lost)
        self._asked = self._clock.time()
        return None

    def _entries_of_run(self) -> Sequence[OutboxEntry[AnnotationBody]]:
        """Return the first entries, those that change regions, and a summary of the rest."""
        entries = self._due()
        left = self._quota.left
        if not left:
            # Changing or closing a region creates no annotation.
            return [entry for entry in entries if entry.body.changes_region]
        limit = min(self._settings.annotations_per_run, left)
        if len(entries) > limit:
            limit = min(limit, left - 1)  # Leaves one for the summary of the rest.
        rest = [entry for entry in entries[limit:] if not entry.body.changes_region]
        if len(rest) > 1:
            # Summary first: a crash in between repeats changes instead of losing them.
            summed = roll_up([entry.body for entry in rest])
            self._outbox.put([summed])
            self._outbox.done(entry.number for entry in rest)
            rest = [entry for entry in self._outbox.pending() if entry.body == summed]
        return [*entries[:limit], *rest]

    def _post(self, bodies: Sequence[AnnotationBody]) -> Failure | None:
        (body,) = bodies
        failure = self._change_region(body) if body.changes_region else self._create(body)
        if failure is None:
            if not body.changes_region:
                self._quota.take()
            self._count(sent=self.report.sent + 1)
        return failure

    def _create(self, body: AnnotationBody) -> Failure | None:
        # An earlier attempt may have succeeded although its answer was lost.
        existing = self._api.find(body)
        made = self._api.create(body) if existing is None else existing
        if isinstance(made, Failure):
            return made
        if body.event == AdviceEventKind.OPENED:
            self._outbox.remember(body.advice_id, made)
        return None

    def _change_region(self, body: AnnotationBody) -> Failure | None:
        region = self._region(body)
        if isinstance(region, Failure):
            return region
        # A region that is gone is created again, complete.
        done = self._api.create(body) if region is None else self._api.change(region, body)
        if isinstance(done, Failure):
            return done
        if body.closes_region or done is not None:
            self._outbox.remember(body.advice_id, None if body.closes_region else done)
        return None

    def _region(self, body: AnnotationBody) -> int | Failure | None:
        """Return the opened region by its tags and time, or by its id if it was moved."""
        existing = self._api.find(body)
        annotation_id = self._outbox.annotation_id(body.advice_id)
        if existing is not None or annotation_id is None:
            return existing
        is_own = self._api.is_of(annotation_id, body)
        return is_own if isinstance(is_own, Failure) else annotation_id if is_own else None

    def _hang_up(self) -> None:
        self._api.hang_up()

    def _explain(self, failure: Failure) -> str:
        if failure.kind is FailureKind.CREDENTIAL:
            return f"Grafana's token cannot be read: {failure.message}; see grafana.token_file"
        remedy = _REMEDIES.get(failure.status or 0, "changes of advice are kept and sent later")
        return f"Grafana: {failure.message}; {remedy}"
