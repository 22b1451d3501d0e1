"""Notification service: Grafana and webhooks, each loaded where it is configured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from rightsizer.advice.service import EventSink
from rightsizer.io.clock import Clock
from rightsizer.model.advice import Advice, AdviceEvent
from rightsizer.model.units import seconds
from rightsizer.notify.grafana.settings import GrafanaSettings
from rightsizer.notify.webhook.settings import WebhookSettings

if TYPE_CHECKING:
    from rightsizer.notify.grafana.outbox import AnnotationOutbox
    from rightsizer.notify.grafana.service import GrafanaAnnotations
    from rightsizer.notify.webhook.outbox import WebhookOutbox
    from rightsizer.notify.webhook.service import WebhookService


Tell = Callable[[str, str], None]
"""Takes the name of an event of the log, and what is to be said."""


class NotificationSettings(Protocol):
    """Sections that name who is told of advice."""

    @property
    def grafana(self) -> GrafanaSettings:
        """Where annotations go."""

    @property
    def webhooks(self) -> tuple[WebhookSettings, ...]:
        """Who else is told."""


class NotificationStore(Protocol):
    """Outboxes, each made when it is asked for first."""

    @property
    def outbox(self) -> AnnotationOutbox:
        """What Grafana was not told yet."""

    @property
    def webhook_outbox(self) -> WebhookOutbox:
        """What webhooks were not told yet."""


@dataclass(frozen=True, slots=True)
class NotificationSinks:
    """Those that there are, and what they have to tell of themselves."""

    grafana: GrafanaAnnotations | None = None
    webhooks: WebhookService | None = None

    @property
    def all(self) -> tuple[EventSink, ...]:
        """Every one of them."""
        return tuple(sink for sink in (self.grafana, self.webhooks) if sink is not None)

    def counters(self) -> dict[str, float]:
        """What was sent and what was not, by the names of metrics."""
        found: dict[str, float] = {}
        if self.grafana is not None:
            found["rightsizer_annotations_total"] = self.grafana.report.tried
            found["rightsizer_annotation_failures_total"] = self.grafana.report.failed
        if self.webhooks is not None:
            found |= self.webhooks.counters()
        return found

    def gauges(self) -> dict[str, float]:
        """What waits, by the names of metrics."""
        found: dict[str, float] = {}
        if self.grafana is not None:
            report = self.grafana.report
            found["rightsizer_annotations_pending"] = report.pending
            if report.last_success is not None:
                found["rightsizer_annotation_last_success_timestamp_seconds"] = seconds(
                    report.last_success
                )
        if self.webhooks is not None:
            found |= self.webhooks.gauges()
        return found


class NotificationService:
    """The sinks that are configured now; one sink for whoever has something to tell."""

    def __init__(
        self,
        settings: NotificationSettings,
        make: Callable[[NotificationSettings], NotificationSinks],
    ) -> None:
        """The sinks of the first settings.

        Args:
            settings: What is configured when the agent starts.
            make: Makes the sinks of any settings.
        """
        self._settings, self._make = settings, make
        self._sinks = make(settings)

    def change(self, settings: NotificationSettings) -> None:
        """Make anew what is configured otherwise; what waits for it stays in its outbox.

        Raises:
            RightsizerError: what waits cannot be read; all stays as it was.
        """
        before, sinks = self._settings, self._sinks
        if (before.grafana, before.webhooks) == (settings.grafana, settings.webhooks):
            return
        made = self._make(settings)
        if before.grafana == settings.grafana:
            made = replace(made, grafana=sinks.grafana)
        if before.webhooks == settings.webhooks:
            made = replace(made, webhooks=sinks.webhooks)
        self._settings, self._sinks = settings, made

    def offer(self, events: Sequence[AdviceEvent]) -> None:
        """Tell every sink of events; quick, and talks to nobody."""
        for sink in self._sinks.all:
            sink.offer(events)

    def notify(self, body: str) -> None:
        """Have webhooks told of something that is no advice, as JSON; quick."""
        if self._sinks.webhooks is not None:
            self._sinks.webhooks.notify(body)

    def deliver(self) -> None:
        """Let every sink send what waits."""
        for sink in self._sinks.all:
            sink.deliver()

    def counters(self) -> dict[str, float]:
        """What was sent and what was not, by the names of metrics."""
        return self._sinks.counters()

    def gauges(self) -> dict[str, float]:
        """What waits, by the names of metrics."""
        return self._sinks.gauges()


def configured_sinks(  # noqa: PLR0913 - what they are made of, each its own part of the outside world.
    settings: NotificationSettings,
    store: NotificationStore,
    advice: Callable[[], Sequence[Advice]],
    *,
    clock: Clock,
    tell: Tell,
    sleep: Callable[[float], object],
) -> NotificationSinks:
    """The sinks that are configured.

    Args:
        settings: Addresses, limits, credentials' places.
        store: Keeps what could not be delivered.
        advice: Gives all advice as the ledger has it.
        clock: The agent's.
        tell: Is told of each trouble once.
        sleep: Waits between tries; where it returns true there are no more.
    """
    grafana = None
    if settings.grafana.url:
        from rightsizer.notify.grafana.service import grafana_annotations  # noqa: PLC0415

        grafana = grafana_annotations(
            settings.grafana,
            store.outbox,
            clock,
            lambda message: tell("grafana_trouble", message),
            sleep,
        )
    webhooks = None
    if settings.webhooks:
        from rightsizer.notify.webhook.service import WebhookService  # noqa: PLC0415

        webhooks = WebhookService(
            settings.webhooks,
            store.webhook_outbox,
            advice,
            clock=clock,
            tell=lambda message: tell("webhook_trouble", message),
            sleep=sleep,
        )
    return NotificationSinks(grafana, webhooks)
