"""All webhooks of the configuration, each for itself."""

import logging
import platform
import time
from collections import Counter
from collections.abc import Callable, Sequence

from rightsizer.domain.advice import Advice, AdviceEvent
from rightsizer.domain.metric_family import series_key
from rightsizer.domain.units import seconds
from rightsizer.edge.clock import Clock, SystemClock
from rightsizer.publish.webhook.outbox import WebhookOutbox
from rightsizer.publish.webhook.report import WebhookReport
from rightsizer.publish.webhook.settings import WebhookSettings
from rightsizer.publish.webhook.webhook import Webhook, key_of, name_of

__all__ = ["Webhooks"]


def _warn(message: str) -> None:
    logging.getLogger("rightsizer.webhook").warning(message)


class Webhooks:
    """Sends advice to every webhook; one that is away holds no other up for longer than a run."""

    def __init__(  # noqa: PLR0913 - the outside world comes in as arguments.
        self,
        settings: Sequence[WebhookSettings],
        outbox: WebhookOutbox,
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
