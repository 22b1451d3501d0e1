"""Webhooks: what waits is posted in order, with back-off for each receiver."""

import hashlib
import logging
import platform
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import urlsplit

from rightsizer.io.clock import Clock, SystemClock
from rightsizer.io.http_result import Failure, FailureKind
from rightsizer.model.advice import Advice, AdviceEvent, AdviceEventKind
from rightsizer.model.metric_family import series_key
from rightsizer.model.units import Nanoseconds, seconds
from rightsizer.notify.outbox import Outbox, OutboxTable
from rightsizer.notify.webhook.client import Receiver, ReceiverBackOff
from rightsizer.notify.webhook.encoder import alert_of, change_of, is_firing, needs_delivery
from rightsizer.notify.webhook.settings import WebhookFormat, WebhookSettings
from rightsizer.report.json_encoder import Form

WEBHOOK_OUTBOX: Final[OutboxTable[str]] = OutboxTable(
    "webhook_outbox", "body", encode=str, decode=str, destination="destination"
)
"""The table that `WEBHOOK_OUTBOX_SCHEMA` makes."""


@dataclass(frozen=True, slots=True)
class WebhookReport:
    """Counters of one webhook since the start, and how things stand."""

    name: str
    sent: int = 0
    """Requests that the receiver took."""
    failed: int = 0
    """Requests that it did not take."""
    dropped: int = 0
    """Changes given up: refused for what they say, or crowded out."""
    pending: int = 0
    """Changes that wait."""
    last_success: Nanoseconds | None = None
    """Wall time of the last run that left nothing to send."""
    trouble: str | None = None
    """What stands in the way; `None` where nothing does."""

    @property
    def tried(self) -> int:
        """Requests, taken or not."""
        return self.sent + self.failed


_ALERTS_A_REQUEST: Final = 64
"""As many as Prometheus sends at once."""
_UNACCEPTABLE: Final = frozenset({400, 413, 422})
"""The message itself is at fault: sending it again would stop all that come after it."""


class Webhook:
    """Sends changes from the outbox as JSON, or what is open now as alerts.

    Alerts need no outbox: as Prometheus does, each run tells of all that fires and of what ended
    lately, so that whoever lost something, agent or Alertmanager, has all of it a run later.

    Args:
        name: What the log and the metrics call it.
        settings: Where to, and what of it.
        outbox: Keeps changes that were not delivered yet.
        advice: Gives all advice, closed too.
        node: The machine's name.
        clock: For pauses on the steady clock, and the time of alerts on the wall clock.
        tell: Is told of each trouble once.
        sleep: Waits between tries of one request; see `HttpClient`.
    """

    def __init__(  # noqa: PLR0913 - the outside world comes in as arguments.
        self,
        name: str,
        settings: WebhookSettings,
        *,
        outbox: Outbox[str],
        advice: Callable[[], Sequence[Advice]],
        node: str,
        clock: Clock,
        tell: Callable[[str], None],
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._settings, self._outbox, self._advice = settings, outbox, advice
        self._node, self._clock, self._tell = node, clock, tell
        self._key = key_of(settings)
        self._receiver = Receiver(settings, sleep)
        self._back_off = ReceiverBackOff(clock, settings.pause_seconds)
        self._told: tuple[FailureKind, int | None] | None = None
        self.report = WebhookReport(name, pending=len(outbox.pending(self._key)))

    def offer(self, events: Sequence[AdviceEvent]) -> None:
        """Take note of events; asks nobody. Alerts are made of what is open when they are sent."""
        if self._settings.format is WebhookFormat.JSON:
            wanted = [change_of(event, self._node) for event in events if self._wants(event)]
            # After a crash the same may be told again.
            waiting = {message.body for message in self._outbox.pending(self._key)}
            self._outbox.put([body for body in wanted if body not in waiting], self._key)

    def notify(self, body: str) -> None:
        """Take note of something else to be told, as JSON; an Alertmanager takes none of it."""
        if self._settings.format is WebhookFormat.JSON:
            self._outbox.put([body], self._key)

    def deliver(self) -> WebhookReport:
        """Send what there is to send, unless the receiver is to be left alone."""
        if self._back_off.is_over:
            is_json = self._settings.format is WebhookFormat.JSON
            failure = self._send_changes() if is_json else self._send_alerts()
            self._receiver.hang_up()
            self._take_in(failure)
        self.report = replace(self.report, pending=len(self._outbox.pending(self._key)))
        return self.report

    def _wants(self, event: AdviceEvent) -> bool:
        if event.kind is AdviceEventKind.DECIDED:
            return False
        is_end = event.kind is AdviceEventKind.CLOSED
        return self._settings.wants(event.advice) and (self._settings.send_resolved or not is_end)

    def _send_changes(self) -> Failure | None:
        messages = self._outbox.pending(self._key)
        if (excess := len(messages) - self._settings.outbox_maximum) > 0:
            self._outbox.done(message.number for message in messages[:excess])
            self.report = replace(self.report, dropped=self.report.dropped + excess)
            messages = messages[excess:]
        for message in messages:
            failure = self._post(message.body)
            if failure is not None and failure.status not in _UNACCEPTABLE:
                return failure
            self._outbox.done([message.number])
            if failure is not None:
                self.report = replace(self.report, dropped=self.report.dropped + 1)
                self._tell(f"{self.report.name} refused a change of advice: {failure.message}")
        return None

    def _send_alerts(self) -> Failure | None:
        alerts = self._alerts()
        for first in range(0, len(alerts), _ALERTS_A_REQUEST):
            failure = self._post(alerts[first : first + _ALERTS_A_REQUEST])
            if failure is not None:
                return failure
        return None

    def _alerts(self) -> list[Form]:
        now, settings = self._clock.wall_time(), self._settings
        return [
            alert_of(
                advice,
                now,
                node=self._node,
                external_url=settings.external_url,
                resend_seconds=settings.resend_seconds,
            )
            for advice in self._advice()
            if settings.wants(advice)
            and needs_delivery(advice, now)
            and (settings.send_resolved or is_firing(advice))
        ]

    def _post(self, body: str | list[Form]) -> Failure | None:
        failure = self._receiver.post(body)
        report = self.report
        self.report = (
            replace(report, sent=report.sent + 1)
            if failure is None
            else replace(report, failed=report.failed + 1)
        )
        return failure

    def _take_in(self, failure: Failure | None) -> None:
        if failure is None:
            self._back_off.succeeded()
            self._told = None
            now = self._clock.wall_time()
            self.report = replace(self.report, last_success=now, trouble=None)
            return
        self._back_off.failed(failure.retry_after_seconds)
        trouble = f"{self.report.name}: {failure.message}"
        # By its kind, since the words may hold a trace id that is new each time.
        if self._told != (failure.kind, failure.status):
            self._told = (failure.kind, failure.status)
            self._tell(trouble)
        self.report = replace(self.report, trouble=trouble)


def key_of(settings: WebhookSettings) -> str:
    """What the outbox calls it: the same after a restart, and no secret."""
    told = f"{settings.format}|{settings.name}|{settings.url}|{settings.url_file}"
    return hashlib.sha256(told.encode()).hexdigest()[:16]


def name_of(settings: WebhookSettings) -> str:
    """What people call it; never its path, which may be a secret."""
    name = settings.name or urlsplit(settings.url).netloc or settings.url_file.rpartition("/")[2]
    return name.replace('"', "'")  # What a series' key has around its labels.


def _warn(message: str) -> None:
    logging.getLogger("rightsizer.webhook").warning(message)


class WebhookService:
    """Sends advice to every webhook; one that is away holds no other up for longer than a run."""

    def __init__(  # noqa: PLR0913 - the outside world comes in as arguments.
        self,
        settings: Sequence[WebhookSettings],
        outbox: Outbox[str],
        advice: Callable[[], Sequence[Advice]],
        *,
        clock: Clock | None = None,
        node: str = "",
        tell: Callable[[str], None] = _warn,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        """Webhooks that have sent nothing yet.

        Args:
            settings: One for each.
            outbox: Keeps what was not delivered; what waits for other webhooks is dropped.
            advice: Gives all advice as the ledger has it, closed too.
            clock: The clocks to live by; the system's unless told otherwise.
            node: What the machine is called; its host name unless told otherwise.
            tell: Is told of each trouble once.
            sleep: Waits between tries; where it returns true there are no more.
        """
        outbox.keep_only(map(key_of, settings))
        self._webhooks = tuple(
            Webhook(
                name,
                each,
                outbox=outbox,
                advice=advice,
                node=node or platform.node(),
                clock=clock or SystemClock(),
                tell=tell,
                sleep=sleep,
            )
            for name, each in zip(_names(settings), settings, strict=True)
        )

    @property
    def reports(self) -> tuple[WebhookReport, ...]:
        """How each of them goes."""
        return tuple(webhook.report for webhook in self._webhooks)

    def offer(self, events: Sequence[AdviceEvent]) -> None:
        """Take note of events; quick, and asks nobody."""
        for webhook in self._webhooks:
            webhook.offer(events)

    def notify(self, body: str) -> None:
        """Take note of something that is no advice; quick, and asks nobody."""
        for webhook in self._webhooks:
            webhook.notify(body)

    def deliver(self) -> tuple[WebhookReport, ...]:
        """Send what there is to send; may take seconds, never raises for a receiver's fault."""
        return tuple(webhook.deliver() for webhook in self._webhooks)

    def counters(self) -> dict[str, float]:
        """What the agent's report says of them, by metric and label."""
        return {
            series_key(f"rightsizer_webhook_{name}_total", webhook=report.name): float(value)
            for report in self.reports
            for name, value in (
                ("requests", report.tried),
                ("failures", report.failed),
                ("dropped", report.dropped),
            )
        }

    def gauges(self) -> dict[str, float]:
        """The same for what goes up and down."""
        found = {
            series_key("rightsizer_webhooks_pending", webhook=report.name): float(report.pending)
            for report in self.reports
        }
        for report in self.reports:
            if report.last_success is not None:
                name = "rightsizer_webhook_last_success_timestamp_seconds"
                found[series_key(name, webhook=report.name)] = seconds(report.last_success)
        return found


def _names(settings: Sequence[WebhookSettings]) -> list[str]:
    """A name each, with a number where two would be called the same."""
    names = list(map(name_of, settings))
    count: Counter[str] = Counter()
    found = []
    for name in names:
        count[name] += 1
        found.append(name if count[name] == 1 else f"{name} {count[name]}")
    return found
