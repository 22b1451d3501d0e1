"""Who asks the store and Grafana what a fleet's ledger knew that was lost."""

import time
from collections.abc import Callable, Iterable
from typing import Final

from rightsizer.advice.restoration import Restoration, restored
from rightsizer.domain.advice import AdviceState
from rightsizer.domain.advice_trace import Region, Scraped
from rightsizer.domain.units import Nanoseconds, nanoseconds
from rightsizer.edge.http import Failure, HttpClient
from rightsizer.fleet.reading.remembered import scraped_last
from rightsizer.publish.grafana.api import GrafanaApi
from rightsizer.publish.grafana.settings import read_token
from rightsizer.runtime.fleet.judge import FleetJudge
from rightsizer.runtime.fleet.scene import store_of
from rightsizer.runtime.fleet.settings import WholeSettings

__all__ = ["Restorer"]

_SPAN: Final[Nanoseconds] = nanoseconds(365 * 86400.0)
"""Decisions that last for longer are rare."""
_MOST_REGIONS: Final = 2000
"""As many pieces of advice as a ledger keeps; some 3 MB of an answer."""


class Restorer:
    """Asks when it is told to: after a look, while the ledger is empty."""

    def __init__(
        self,
        judge: FleetJudge,
        settings: WholeSettings,
        tell: Callable[[str], object],
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        """Nobody is asked yet.

        Args:
            judge: Has looked at the estate, and knows the store.
            settings: Where Grafana is, and how long decisions last.
            tell: Is told why Grafana could not say, which costs nothing else.
            sleep: Waits between tries; where it returns true there are no more.
        """
        self._judge, self._settings = judge, settings
        self._tell, self._sleep = tell, sleep

    def restoration(self) -> Restoration:
        """What the store and Grafana know together.

        Raises:
            StoreError: the store does not answer.
        """
        now = self._judge.answer.time
        return restored(
            self._scraped(now),
            self._regions(now),
            self._judge.devices,
            now,
            self._settings.recommender.ledger,
        )

    def _scraped(self, now: Nanoseconds) -> Iterable[Scraped]:
        """What the fleet itself exported, and what the nodes' own agents do."""
        found = {}
        for each in self._judge.answer.node_advice:
            if each.opened_seconds:
                opened = nanoseconds(each.opened_seconds)
                found[each.id] = Scraped(each.id, opened, AdviceState.ACTIVE, seen=opened)
        fleet = self._settings.fleet
        store = store_of(fleet)
        try:
            found |= scraped_last(store, now, nanoseconds(fleet.lookback_seconds))
        finally:
            store.close()
        return found.values()

    def _regions(self, now: Nanoseconds) -> list[Region]:
        grafana = self._settings.grafana
        if not grafana.url:
            return []
        http = HttpClient(
            grafana.url, grafana.http, token=lambda: read_token(grafana), sleep=self._sleep
        )
        api = GrafanaApi(http)
        found = api.regions(now - _SPAN, now, _MOST_REGIONS)
        api.hang_up()
        if isinstance(found, Failure):
            self._tell(
                "The fleet's ledger is empty, and Grafana could not say what was claimed, snoozed "
                f"or dismissed before: {found.message}"
            )
            return []
        if len(found) >= _MOST_REGIONS:
            self._tell(
                "The fleet's ledger is empty, and of what Grafana knows of advice only the latest "
                f"{_MOST_REGIONS} annotations were read; older decisions may be missing."
            )
        return found
