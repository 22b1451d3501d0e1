"""Broker feature of an agent; loads its machinery only where settings turn it on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rightsizer.broker.place_api import closed_routes
from rightsizer.broker.settings import BrokerFeatureSettings
from rightsizer.io.clock import Clock
from rightsizer.model.report import Report
from rightsizer.report.freshness import FreshnessSettings
from rightsizer.web.router import Route

if TYPE_CHECKING:
    from rightsizer.broker.placement import LeasedSlots
    from rightsizer.broker.service import BrokerService


class BrokerFeature:
    """What an agent lends: nothing, unless its settings turn the broker on."""

    def __init__(
        self,
        settings: BrokerFeatureSettings,
        latest: Callable[[], Report | None],
        freshness: FreshnessSettings,
        clock: Clock,
        notify: Callable[[str], None],
    ) -> None:
        """Nothing is lent yet.

        Args:
            settings: As they are when the agent starts.
            latest: Gives the last report, `None` before the first.
            freshness: When a reading is stale.
            clock: The agent's.
            notify: Sends JSON to webhooks.

        Raises:
            HistoryError: the broker's file cannot be opened.
        """
        self._lending: BrokerService | None = None
        if settings.broker.enabled:
            from rightsizer.broker import service as lending  # noqa: PLC0415 - as said above.

            self._lending = lending.BrokerService(settings, latest, freshness, clock, notify)

    @property
    def routes(self) -> tuple[Route, ...]:
        """Where the broker is asked, or says that it is off."""
        return self._lending.routes if self._lending else closed_routes()

    def given(self) -> LeasedSlots | None:
        """What is lent now, `None` where nothing ever is."""
        return self._lending.given() if self._lending else None

    def follow(self, settings: BrokerFeatureSettings) -> None:
        """Lend as other settings say."""
        if self._lending:
            self._lending.follow(settings)

    def start(self) -> None:
        """Take up what the last agent left."""
        if self._lending:
            self._lending.start()

    def stop(self) -> None:
        """End; leases stand."""
        if self._lending:
            self._lending.stop()

    def counters(self) -> dict[str, float]:
        """What was lent and was not, by the names of metrics."""
        return self._lending.counters() if self._lending else {}

    def gauges(self) -> dict[str, float]:
        """Who waits and what is lent, by the names of metrics."""
        return self._lending.gauges() if self._lending else {}
