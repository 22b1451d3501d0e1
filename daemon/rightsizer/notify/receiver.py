"""Receivers of changes: what they have in common, whether over HTTP or by mail."""

import hashlib
import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, ClassVar, Final

from rightsizer.io.codec import encode
from rightsizer.io.http_result import Failure
from rightsizer.model.values import AdviceEvent, AdviceEventKind, Severity, seconds
from rightsizer.notify.delivery import (
    Delivery,
    DeliveryContext,
    Outbox,
    OutboxEntry,
    OutboxTable,
)
from rightsizer.notify.routing import RoutedReceiver
from rightsizer.report.advice_document import advice_document

RECEIVER_OUTBOX: Final[OutboxTable[str]] = OutboxTable(
    "webhook_outbox", "body", encode=str, decode=str, destination="destination"
)
CHANGE_VERSION: Final = 1
"""Rises when a key changes its meaning or is removed; new keys do not change it."""


def change_of(event: AdviceEvent, node: str) -> str:
    """Encode a change: what happened, when, to which advice, on which node.

    `delivery` is the same in all attempts, so that a receiver can detect duplicates.
    """
    return encode(
        {
            "version": CHANGE_VERSION,
            "event": event.kind,
            "delivery": f"{event.advice.id}-{event.kind}-{event.time}",
            "time": seconds(event.time),
            "node": node,
            "advice": advice_document(event.advice),
        }
    ).decode()


def destination_of(*parts: str) -> str:
    """Return a key in the outbox: stable across restarts, and not secret."""
    return hashlib.sha256("|".join(parts).encode()).hexdigest()[:16]


class Receiver(Delivery[str]):
    """Keeps the changes that are routed to it in the outbox, as JSON, until they are sent."""

    _trouble = "webhook_trouble"
    _counters: ClassVar = {
        "rightsizer_webhook_requests_total": "tried",
        "rightsizer_webhook_failures_total": "failed",
        "rightsizer_webhook_dropped_total": "dropped",
    }
    _gauges = ("rightsizer_webhooks_pending", "rightsizer_webhook_last_success_timestamp_seconds")

    def __init__(
        self,
        name: str,
        routed: RoutedReceiver,
        destination: str,
        outbox: Outbox[str],
        context: DeliveryContext,
    ) -> None:
        """Create the receiver with the settings' outbox limit."""
        super().__init__(name, outbox, context, settings=routed.settings, destination=destination)
        self._routed = routed

    def offer(self, events: Sequence[AdviceEvent]) -> None:
        """Put the changes that are routed here into the outbox."""
        unwanted = {AdviceEventKind.DECIDED}
        if not self._routed.settings.send_resolved:
            unwanted.add(AdviceEventKind.CLOSED)
        wanted = [
            change_of(event, self._context.node)
            for event in events
            if event.kind not in unwanted and self._routed.wants(event.advice)
        ]
        # After a crash the same events may be offered again.
        waiting = {entry.body for entry in self._pending()}
        self._outbox.put([body for body in wanted if body not in waiting], self.destination)

    @property
    def _labels(self) -> dict[str, str]:
        return {"webhook": self.report.name}

    def _counted(self, failure: Failure | None) -> Failure | None:
        """Count an attempt."""
        report = self.report
        has_failed = failure is not None
        self._count(sent=report.sent + (not has_failed), failed=report.failed + has_failed)
        return failure

    def _explain(self, failure: Failure) -> str:
        return f"{self.report.name}: {failure.message}"

    def _due(self) -> Sequence[OutboxEntry[str]]:
        """Return what may be sent now: in quiet hours only what is critical."""
        entries = super()._due()
        now = datetime.fromtimestamp(seconds(self._clock.wall_time())).astimezone()
        if not self._routed.settings.is_quiet(now):
            return entries
        return [entry for entry in entries if _is_critical(json.loads(entry.body))]


def _is_critical(change: dict[str, Any]) -> bool:
    """Whether it is urgent; messages that are no changes of advice are."""
    advice = change.get("advice")
    return advice is None or advice["severity"] == Severity.CRITICAL
