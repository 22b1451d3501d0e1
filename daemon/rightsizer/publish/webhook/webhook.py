"""One webhook: what it is sent in a run, and what becomes of it."""

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final
from urllib.parse import urlsplit

from rightsizer.domain.advice import Advice, AdviceEvent, AdviceEventKind
from rightsizer.edge.clock import Clock
from rightsizer.edge.http import Failure, FailureKind
from rightsizer.publish.json_form import Form
from rightsizer.publish.webhook.alert import alert_of, fires, is_worth_telling
from rightsizer.publish.webhook.back_off import BackOff
from rightsizer.publish.webhook.change import change_of
from rightsizer.publish.webhook.outbox import WebhookOutbox
from rightsizer.publish.webhook.receiver import Receiver
from rightsizer.publish.webhook.report import WebhookReport
from rightsizer.publish.webhook.settings import WebhookFormat, WebhookSettings

__all__ = ["Webhook", "key_of", "name_of"]

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
        outbox: WebhookOutbox,
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
        self._back_off = BackOff(clock, settings.pause_seconds)
        self._told: tuple[FailureKind, int | None] | None = None
        self.report = WebhookReport(name, pending=len(outbox.pending(self._key)))

    def offer(self, events: Sequence[AdviceEvent]) -> None:
        """Take note of events; asks nobody. Alerts are made of what is open when they are sent."""
        if self._settings.format is WebhookFormat.JSON:
            wanted = [change_of(event, self._node) for event in events if self._wants(event)]
            # After a crash the same may be told again.
            waiting = {message.body for message in self._outbox.pending(self._key)}
            self._outbox.put(self._key, [body for body in wanted if body not in waiting])

    def notify(self, body: str) -> None:
        """Take note of something else to be told, as JSON; an Alertmanager takes none of it."""
        if self._settings.format is WebhookFormat.JSON:
            self._outbox.put(self._key, [body])

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
            and is_worth_telling(advice, now)
            and (settings.send_resolved or fires(advice))
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
