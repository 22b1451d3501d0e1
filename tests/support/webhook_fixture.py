"""Receivers with what is around them, for tests of what they send."""

import threading
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from advice_events import NOW, SECOND
from rightsizer.advice.storage import Storage
from rightsizer.io.clock import FastClock
from rightsizer.io.http_settings import HttpSettings
from rightsizer.model.advice import Advice, AdviceEvent
from rightsizer.model.finding import Severity
from rightsizer.notify.delivery import DeliveryContext, Outbox
from rightsizer.notify.mail.settings import MailSettings
from rightsizer.notify.receiver import RECEIVER_OUTBOX
from rightsizer.notify.receivers import receivers_of
from rightsizer.notify.webhook.settings import WebhookFormat, WebhookSettings

__all__ = ["MINUTE", "QUICK", "WebhookFixture", "alerts_to", "severe", "to"]

MINUTE = 60 * SECOND
QUICK = HttpSettings(timeout_seconds=0.5, tries=1)


class WebhookFixture:
    """Webhooks with their outbox, their clock and the given recommendations."""

    def __init__(
        self,
        *settings: WebhookSettings | MailSettings,
        outbox: Outbox[str] | None = None,
        start: int = NOW,
        titles: Mapping[str, str] | None = None,
    ) -> None:
        self.clock = FastClock(start)
        self.advice: list[Advice] = []
        self.errors: list[str] = []
        self.outbox = outbox or Outbox(Storage("").database, RECEIVER_OUTBOX)
        self.webhooks = receivers_of(
            [setting for setting in settings if isinstance(setting, WebhookSettings)],
            [setting for setting in settings if isinstance(setting, MailSettings)],
            self.outbox,
            DeliveryContext(
                lambda: self.advice,
                self.clock,
                lambda _, message: self.errors.append(message),
                sleep=lambda _: None,
                titles=lambda: titles or {},
                node="node-1",
            ),
        )

    def send(self, *events: AdviceEvent) -> Any:
        """Offer events, deliver, and give the first webhook's report."""
        self.offer(*events)
        first, *_ = [webhook.deliver() for webhook in self.webhooks]
        return first

    def offer(self, *events: AdviceEvent) -> None:
        """Offer events to each webhook."""
        for webhook in self.webhooks:
            webhook.offer(events)

    def wait(self, seconds: float) -> None:
        """Advance the time."""
        self.clock.wait_until(self.clock.time() + int(seconds * SECOND), threading.Event())


def to(url: str, **facts: Any) -> WebhookSettings:
    """Settings of a webhook that does not wait long."""
    return WebhookSettings(url=url, **{"http": QUICK, **facts})


def alerts_to(url: str, **facts: Any) -> WebhookSettings:
    """Settings of an Alertmanager under a sub-path."""
    return to(f"{url}/am/", format=WebhookFormat.ALERTMANAGER, **facts)


def severe(of: AdviceEvent, severity: Severity) -> AdviceEvent:
    """The same event with a recommendation of the given severity."""
    finding = replace(of.advice.finding, severity=severity)
    return replace(of, advice=replace(of.advice, finding=finding))
